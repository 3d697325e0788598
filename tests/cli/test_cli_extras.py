"""Without extras the core works, and whatever needs one says in one line which to install."""

import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import EXAMPLES, ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from incrowd.cli.app import build
from incrowd.errors import MissingExtra
from incrowd.extras import EXTRAS

BLOCKED = """
import contextlib, io, json, sys
blocked, commands = json.loads(sys.stdin.read())
sys.modules |= dict.fromkeys(blocked)
import incrowd
from incrowd.cli import main
ended = []
for words in commands:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    said = [x for x in err.getvalue().splitlines() if not x.endswith(" …")]
    ended.append((code, out.getvalue(), said))
print(json.dumps(ended))
"""
"""Commands in a process that cannot import some modules."""

QUERY = "'SELECT COUNT(*) FROM patients' --data EX/patients.csv --schema EX/patients.toml"
CURATOR = "curator --hub https://hub --ca ca --keys k --state s"
COPIED = "copy --state s --keys k"

CORE = (
    "init EX/commute.csv",
    "check EX/commute.toml",
    "run EX/commute.toml --n 200 --seed 7 --no-report",
    "run EX/commute.toml --n 200 --seed 7 --engine actors --no-report",
    "release EX/town.csv --lat lat --lon lon --radius 0.2 --shape square --alpha 2 "
    "--column illness --seed 7",
    "graph stats EX/friends.npz",
    "account trusted-shuffle --local-epsilon 1 --n 1000 --delta 1e-6",
    "account local --local-epsilon 1 --n 1000 --delta 1e-6",
    "account network-shuffle --stationary --n 1000 --local-epsilon 1 --delta 1e-6",
    "account check-in --n 1000 --rate 0.1 --local-epsilon 1 --delta 1e-6",
    "account token-walk --contribution sum --n 100 --steps 1000 --sigma 4 --sensitivity 1 "
    "--path hidden --delta 1e-6",
    "account scrambled-query --targets 20 --redirect-probability 0.1 --sources 600 --dummies 300 "
    "--delta 1e-4",
    "account order-shuffle --groups EX/neighbours.json --alpha 1",
    "calibrate trusted-shuffle --n 1e4 --delta 1e-6 --epsilon 0.5",
    "device policy init EX/commute.toml",
    "device policy check EX/policy.toml",
    "device policy show EX/policy.toml",
)

NEEDING = {
    ("sql", "sqlglot"): (
        f"query {QUERY} --epsilon 1 --delta 1e-4",
        "check EX/insulin.toml",
        "run EX/insulin.toml --no-report",
        "device policy init EX/insulin.toml",
    ),
    ("data", "duckdb"): ("init people.parquet", "run parquet.toml --no-report"),
    ("data", "pyarrow"): ("init people.feather", "run feather.toml --no-report"),
    ("plot", "matplotlib"): (
        "run EX/commute.toml --n 200 --seed 7 --report report.html",
        f"{CURATOR} watch a1 --report report.html",
        f"{CURATOR} result a1 --report report.html",
    ),
    ("live", "cryptography"): (
        "run EX/live.toml --n 12 --min-crowd 6 --engine live --no-report",
        "hub --keys k --ca ca --store store",
        "ledger --state s",
        f"{CURATOR} open EX/live.toml",
        f"{CURATOR} watch a1 --no-report",
        f"{CURATOR} result a1 --no-report",
        f"{CURATOR} close a1",
        "device run --hub https://hub --ca ca --state s --keys k",
        "device consent --state s",
        "device pause --state .",
        "device resume --state .",
        "device withdraw a1 --state s",
        f"device backup {COPIED}",
        f"device move {COPIED}",
        f"device restore {COPIED}",
        "keys ca d",
        "keys issue d --ca ca --role hub --name n",
        "keys rotate d",
        "keys revoke n --ca ca",
        "keys show d",
    ),
    ("live", "starlette"): ("hub --keys k --ca ca --store store",),
    ("live", "uvicorn"): ("hub --keys k --ca ca --store store",),
    ("live", "httpx"): (f"{CURATOR} close a1", "device run --hub u --ca ca --state s --keys k"),
    ("live", "websockets"): ("run EX/live.toml --n 12 --min-crowd 6 --engine live --no-report",),
}
"""By extra and the module that is missing: commands that need it."""

IN_LIBRARY = {"torch", "nats", "psycopg"}
"""Modules without a command that needs them at once; tests beside their importers block them."""


@dataclass(frozen=True)
class Ended:
    """Exit code and output of a command, complaints by line."""

    code: int
    out: str
    err: list[str]


def run_without(modules: Sequence[str], commands: Sequence[str], folder: Path) -> list[Ended]:
    """Call commands in one process that has none of these modules."""
    words = [shlex.split(each.replace("EX/", f"{EXAMPLES}/")) for each in commands]
    told = json.dumps([list(modules), words])
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], cwd=folder, input=told, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [Ended(*each) for each in json.loads(done.stdout)]


def leaves(command: Any, *path: str) -> Iterator[str]:
    """Names of all commands below one."""
    below = getattr(command, "commands", {})
    if not below:
        yield " ".join(path)
    for name, each in below.items():
        yield from leaves(each, *path, name)


def test_core_commands_succeed_without_any_extra(tmp_path: Path) -> None:
    modules = [each for names in EXTRAS.values() for each in names]
    for command, each in zip(CORE, run_without(modules, CORE, tmp_path), strict=True):
        assert each.code == 0, (command, each.err)


@pytest.mark.parametrize(("extra", "module"), NEEDING, ids=["-".join(each) for each in NEEDING])
def test_command_without_its_extra_names_it_in_one_line(
    extra: str, module: str, tmp_path: Path
) -> None:
    for kind, begin in (("parquet", b"PAR1"), ("feather", b"ARROW1")):
        (tmp_path / f"people.{kind}").write_bytes(begin)
        asked = (EXAMPLES / "commute.toml").read_text()
        (tmp_path / f"{kind}.toml").write_text(asked.replace("commute.csv", f"people.{kind}"))
    commands = NEEDING[extra, module]
    for command, each in zip(commands, run_without([module], commands, tmp_path), strict=True):
        assert (each.code, each.out) == (MissingExtra.exit_code, ""), (command, each)
        (line,) = each.err
        assert line.startswith("error: "), command
        assert f"{module}, which is not installed: pip install 'incrowd[{extra}]'" in line, command


def test_every_command_is_tried_without_extras() -> None:
    tried = " | ".join([*CORE, *(each for some in NEEDING.values() for each in some)])
    tried = tried.replace(CURATOR, "curator")
    # One way into each protocol's calibration stands for all: they share their imports.
    names = {each for each in leaves(build()) if not each.startswith("calibrate")}
    assert not [each for each in names if each not in tried]


def test_modules_of_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = project["optional-dependencies"]
    assert set(stated) == {*EXTRAS, "all"}
    assert stated["all"] == [f"incrowd[{','.join(EXTRAS)}]"]
    installed = packages_distributions()
    for extra, modules in EXTRAS.items():
        names = {canonicalize_name(Requirement(each).name) for each in stated[extra]}
        assert len(names) == len(modules)
        for module in set(modules) & set(installed):
            assert names & set(map(canonicalize_name, installed[module])), module


def test_every_module_of_an_extra_is_blocked_in_a_test() -> None:
    blocked = {module for _, module in NEEDING} | IN_LIBRARY
    assert blocked == {each for names in EXTRAS.values() for each in names}
