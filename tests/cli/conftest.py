"""One way to call the command line in the same process, and the look of a fixed terminal."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Call, Ended

# Read when typer is imported: help must look the same on a terminal, in a pipe and in CI.
os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"
os.environ["TERMINAL_WIDTH"] = "100"


@pytest.fixture
def incrowd(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:
    """``main`` in an empty directory, a hundred columns wide and without colours."""
    from incrowd.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*words: object) -> Ended:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        # A stage names itself where a machine is slow, whatever else a command says.
        said = captured.err.splitlines(keepends=True)
        messages = ("error: ", "note: ")
        err = "".join(x for x in said if x.startswith(messages) or not x.endswith(" …\n"))
        return Ended(code, captured.out, err)

    return call


@pytest.fixture
def survey(tmp_path: Path) -> Callable[..., Path]:
    """A small survey file with its data; keyword arguments replace whole tables."""

    def write(data: str | None = "mode\nbus\ncar\nbus\nbike\n", **tables: str) -> Path:
        parts = {
            "data": 'file = "people.csv"',
            "question": 'kind = "histogram"\ncolumn = "mode"\ncategories = ["bus", "bike", "car"]',
            "randomizer": "",
            "budget": "epsilon = 2.0\ndelta = 1e-6",
            "protocol": 'kind = "local"',
        } | tables
        if data is not None:
            (tmp_path / "people.csv").write_text(data)
        path = tmp_path / "survey.toml"
        heads = {"question": "[[question]]", "randomizer": "[question.randomizer]"}
        written = [
            f"{heads.get(name, f'[{name}]')}\n{body}" for name, body in parts.items() if body
        ]
        path.write_text("\n\n".join(["version = 2", *written]))
        return path

    return write
