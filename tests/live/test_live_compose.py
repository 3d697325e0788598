"""Every command line that is written down, for containers and for people, is really taken."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from incrowd.cli.app import build

ROOT = Path(__file__).parents[2]
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+):-([^}]*)\}")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
GUIDES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "examples" / "README.md",
]
CURATOR = [
    ["open", "/surveys/spread/survey.toml"],
    ["watch", "a1b2", "--nats", "nats://nats:4222"],
    ["result", "a1b2"],
    ["close", "a1b2"],
]


def filled(value: Any) -> Any:
    """With the defaults of variables in place, and dollars as the program sees them."""
    if isinstance(value, dict):
        return {key: filled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each) for each in value]
    if isinstance(value, str):
        return VARIABLE.sub(lambda found: found[2], value).replace("$$", "$")
    return value


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return filled(yaml.safe_load((ROOT / "compose.yaml").read_text()))


def parse(words: list[str]) -> list[str]:
    """The commands that these words name, once the real program has taken them; none is run."""

    command: Any = build()
    path: list[str] = []
    with command.make_context("incrowd", list(words)) as context:
        while hasattr(command, "commands"):
            name, command, words = command.resolve_command(
                context, [*context._protected_args, *context.args]
            )
            path.append(name)
            context = command.make_context(name, list(words), parent=context)
    return path


def test_the_parser_refuses_what_the_program_refuses() -> None:
    import typer

    for words in (["hub", "--key", "x"], ["device", "run", "--hub", "x"], ["curator", "shut", "x"]):
        with pytest.raises(typer.TyperException):
            parse(words)


@pytest.mark.parametrize(
    ("service", "expected"), [("hub", ["hub"]), ("devices", ["device", "run"])]
)
def test_services_run_commands_that_exist(
    compose: dict[str, Any], service: str, expected: list[str]
) -> None:
    assert parse(compose["services"][service]["command"]) == expected


def test_keys_are_made_by_commands_that_exist(compose: dict[str, Any]) -> None:
    (script,) = compose["services"]["keys"]["command"]
    lines = [line for line in script.splitlines() if line.startswith("incrowd ")]
    assert [parse(shlex.split(line)[1:]) for line in lines] == [
        ["keys", "ca"],
        ["keys", "issue"],
        ["keys", "issue"],
        ["keys", "issue"],
    ]


@pytest.mark.parametrize("words", CURATOR, ids=lambda words: words[0])
def test_the_curator_takes_its_commands(compose: dict[str, Any], words: list[str]) -> None:
    script = compose["services"]["curator"]["entrypoint"][2]
    assert script.startswith("exec incrowd ")
    line = script.removeprefix("exec incrowd ").replace('"$@"', shlex.join(words))
    assert parse(shlex.split(line)) == ["curator", words[0]]


def written(guide: Path) -> list[list[str]]:
    """The commands in a guide's shell blocks, up to a pipe, but for those that leave out with …."""
    blocks = "".join(SHELL.findall(guide.read_text())).replace("\\\n", " ")
    lines = re.findall(r"^(?:\.venv/bin/)?incrowd .+?(?= [|>]|$)", blocks, re.M)
    return [shlex.split(line, comments=True)[1:] for line in lines if "…" not in line]


@pytest.mark.parametrize(
    "guide", [each for each in GUIDES if written(each)], ids=lambda each: each.name
)
def test_guides_show_commands_that_exist(guide: Path) -> None:
    for words in written(guide):
        assert parse(words)[0] == words[0]


def test_the_authority_is_in_one_container_only(compose: dict[str, Any]) -> None:
    holders = [
        name
        for name, service in compose["services"].items()
        if any(each.startswith("authority:") for each in service.get("volumes", []))
    ]
    assert holders == ["keys"]
    assert compose["services"]["keys"]["network_mode"] == "none"


def test_every_volume_and_dependency_is_declared(compose: dict[str, Any]) -> None:
    used = set()
    for service in compose["services"].values():
        for each in service.get("volumes", []):
            source = each.partition(":")[0]
            if source.startswith("."):
                assert (ROOT / source).exists()
            else:
                used.add(source)
        assert set(service.get("depends_on", {})) <= set(compose["services"])
    assert used == set(compose["volumes"])


def test_the_image_holds_what_is_mounted_and_copied(compose: dict[str, Any]) -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    made = re.search(r"for each in (.*?); do", dockerfile.replace("\\\n", " "))
    assert made is not None
    places = {f"/{each}" for each in made[1].split()}
    for name in ("keys", "hub", "devices", "curator"):
        for each in compose["services"][name]["volumes"]:
            source, target = each.split(":")[:2]
            assert source.startswith(".") or target in places
    for line in re.findall(r"^COPY (.+)$", dockerfile, re.M):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "live" in extras["optional-dependencies"]
