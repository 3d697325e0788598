"""The package: what it says of itself, what pins it, and that it installs where nothing else is."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import incrowd

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
HASHED_GROUPS = ("test", "lint", "experiments")
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)(.*)$")


def pins(path: Path) -> dict[str, str]:
    """Versions by package, of a file of requirements."""
    lines = (PIN.match(line) for line in path.read_text().splitlines())
    return {canonicalize_name(each[1]): each[2] for each in lines if each}


def named(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


@pytest.mark.parametrize(
    ("file", "extras", "groups"),
    [("live", ("live",), ()), ("lock", ("live", "data", "sql", "plot"), HASHED_GROUPS)],
)
def test_lock_pins_what_it_is_for_to_the_versions_of_the_constraints(
    file: str, extras: tuple[str, ...], groups: tuple[str, ...]
) -> None:
    found, constrained = pins(ROOT / "requirements" / f"{file}.txt"), pins(CONSTRAINTS)
    wanted = named(PROJECT["project"]["dependencies"])
    wanted |= {name for each in extras for name in named(EXTRAS[each])}
    wanted |= {name for each in groups for name in named(PROJECT["dependency-groups"][each])}
    assert wanted <= set(found)
    assert "torch" not in found
    assert {name: found[name] for name in constrained if name in found} == {
        name: version for name, version in constrained.items() if name in found
    }


@pytest.mark.parametrize("file", ["live", "lock"])
def test_lock_has_a_hash_of_every_package(file: str) -> None:
    text = (ROOT / "requirements" / f"{file}.txt").read_text().replace("\\\n", "")
    pinned = [line for line in text.splitlines() if PIN.match(line)]
    assert pinned
    assert not [line for line in pinned if "--hash=sha256:" not in line]


def test_citation_names_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == incrowd.__version__
    assert cited["license"] == PROJECT["project"]["license"]


def test_hooks_before_a_commit_fetch_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [each["repo"] for each in hooks["repos"]] == ["local"]
    (local,) = hooks["repos"]
    assert all(each["language"] == "system" for each in local["hooks"])


def test_help_of_make_tells_every_target() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    (targets,) = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.M)
    assert set(listed) == set(targets.split())
    assert listed == sorted(listed)


class Environment:
    """A virtual environment outside of the repository, that knows nothing of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        unwanted = ("PYTHONPATH", "VIRTUAL_ENV")
        self.variables = {key: value for key, value in os.environ.items() if key not in unwanted}
        self._call(sys.executable, "-m", "venv", "environment")

    def call(self, program: str, *words: object) -> str:
        """Call a program of the environment."""
        return self._call(self.folder / "environment" / "bin" / program, *words)

    def install(self, requirement: str) -> None:
        """Install something with the pinned versions of all that it needs."""
        self.call("python", "-m", "pip", "install", "-qq", "-c", CONSTRAINTS, requirement)

    def _call(self, *words: object) -> str:
        done = subprocess.run(
            [str(each) for each in words],
            cwd=self.folder, env=self.variables, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository's files: an earlier build leaves others, which the next one adds."""
    words = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no repository")
    folder = tmp_path_factory.mktemp("package") / "tree"
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def source(tree: Path) -> Path:
    """The source distribution."""
    words = [sys.executable, "-m", "build", "--sdist", "--outdir", tree.parent, tree]
    subprocess.run(words, capture_output=True, check=True)
    (made,) = tree.parent.glob("*.tar.gz")
    return made


def contents(archive: Path) -> Iterator[str]:
    with tarfile.open(archive) as opened:
        for each in opened.getmembers():
            if each.isfile():
                yield each.name.partition("/")[2]


@pytest.mark.slow
def test_source_distribution_holds_every_file_of_the_repository(tree: Path, source: Path) -> None:
    files = {str(each.relative_to(tree)) for each in tree.rglob("*") if each.is_file()}
    files = {each for each in files if ".egg-info" not in each}
    assert "tests/test_package.py" in files
    assert not files - set(contents(source))


@pytest.mark.slow
def test_wheel_runs_surveys_where_nothing_else_is_installed(source: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", tmp_path, source]
    subprocess.run(words, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    (tmp_path / "people.csv").write_text("how\n" + "bus\nbike\ncar\n" * 100)
    alone = Environment(tmp_path)

    alone.install(str(wheel))
    where = alone.call("python", "-c", "import incrowd; print(incrowd.__file__)")
    assert Path(where.strip()).is_relative_to(tmp_path)
    assert "cryptography" not in alone.call("python", "-m", "pip", "list")
    alone.call("incrowd", "init", "people.csv")
    assert "bike" in alone.call("incrowd", "run", "survey.toml", "--seed", "1")

    alone.install(f"{wheel}[live]")
    live = ("--engine", "live", "--n", "12", "--min-crowd", "6", "--no-report")
    assert "bike" in alone.call("incrowd", "run", "survey.toml", *live)
