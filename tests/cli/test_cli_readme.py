"""Every command that the README shows is executed, as it is written there.

Commands are read from the text: code spans and lines of blocks that begin with a program. A new one
is executed without being listed here, and fails here if nothing knows how.
"""

import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from cli_helpers import EXAMPLES, ROOT, Call

README = (ROOT / "README.md").read_text()
PROGRAMS = ("incrowd", "make", "pip", "python", "python3")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
SHOWN = re.compile(r"^(?:\$ |# Run it with: +)(.+)$", re.M)
FILELESS = {"incrowd run": "incrowd run survey.toml --seed 1"}
"""Commands that the text names without a file, and what is executed for them."""
LIVE = "incrowd run examples/live.toml --engine live"
FEWER = "--n 12 --min-crowd 6"
UNHURRIED = "--round-seconds 12"
"""Rounds are as long as the machine needs for all devices, unless other tests keep it busy."""
PEOPLE = "how\n" + "bus\nbike\ncar\n" * 100


def commands(page: str) -> list[str]:
    """Commands of a page, each once; Python blocks are executed by the tests of all pages."""
    found = []
    for kind, body in FENCED.findall(page):
        if kind in ("bash", "console", "sh", "shell"):
            found += [line.removeprefix("$ ") for line in body.splitlines() if line]
        elif kind != "python":
            found += SHOWN.findall(body)
    spans = SPAN.findall(FENCED.sub("", page))
    found += [each for each in spans if each.split()[0] in PROGRAMS]
    return list(dict.fromkeys(found))


def recipe(target: str) -> list[list[str]]:
    """Commands that make would run for a target, programs without their directory."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *target.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [shlex.split(line, comments=True) for line in done.stdout.splitlines()]
    return [[Path(words[0]).name, *words[1:]] for words in lines if words]


@pytest.fixture
def execute(incrowd: Call, tmp_path: Path) -> Call:
    """Execute a command among the examples, beside a table of one's own."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    (tmp_path / "people.csv").write_text(PEOPLE)

    def call(command: str) -> str:
        program, *words = shlex.split(command)
        assert program == "incrowd", f"nothing executes {command!r}"
        ended = incrowd(*words)
        assert ended.code == 0, ended.err
        return ended.out

    return call


OWN = [each for each in commands(README) if not each.startswith("make")]
TARGETS = [each.removeprefix("make ") for each in commands(README) if each.startswith("make ")]


@pytest.mark.parametrize("command", OWN)
def test_readme_command_succeeds(execute: Call, command: str) -> None:
    if command in FILELESS:
        execute("incrowd init people.csv")
    execute(FILELESS.get(command, command))


@pytest.mark.parametrize("target", TARGETS)
def test_readme_target_runs_programs_and_files_that_exist(target: str) -> None:
    for program, *words in recipe(target):
        if program.startswith("python") and words[0] == "-m":
            own = ROOT.joinpath(*words[1].split(".")).with_suffix(".py")
            assert own.is_file() or find_spec(words[1]), words
        elif program.startswith("python"):
            assert (ROOT / words[0]).is_file(), words
        else:
            assert program in ("incrowd", "mypy", "ruff", "touch"), f"nothing knows {program!r}"


def test_make_run_succeeds_with_fewer_live_devices(execute: Call) -> None:
    said = [execute(command) for command in made_by_run(FEWER)]
    assert "How do people get to work?" in said[0]
    assert "Should the canteen keep its meatless day?" in said[1]


@pytest.mark.slow
def test_make_run_succeeds_with_all_live_devices(execute: Call) -> None:
    for command in made_by_run(UNHURRIED):
        execute(command)


def made_by_run(live: str) -> list[str]:
    """Commands of ``make run`` after the installation, the live one with these options."""
    simulated, over_network = (shlex.join(x) for x in recipe("run") if x[0] == "incrowd")
    assert over_network == LIVE
    return [simulated, f"{over_network} {live}"]


def test_readme_shows_programs_that_are_executed() -> None:
    assert len(OWN) >= 4
    assert {"run", "test", "slow", "lint", "bench"} <= set(TARGETS)
    assert "python" in {kind for kind, _ in FENCED.findall(README)}


@pytest.mark.parametrize(
    "page",
    [
        "Use `incrowd fly` first.",
        "```bash\nincrowd run none.toml\n```",
        "```text\n$ incrowd fly\n```",
        "Install it: `pip install something`.",
        "```toml\n# Run it with:  incrowd run examples/none.toml\n```",
    ],
)
def test_command_that_does_not_work_is_found_and_fails(execute: Call, page: str) -> None:
    """The check can fail, wherever a page shows a command."""
    (command,) = commands(page)
    with pytest.raises(AssertionError):
        execute(command)
