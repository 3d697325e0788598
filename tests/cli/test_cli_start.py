"""The root of the command line: it answers help and mistakes without loading what commands need."""

import inspect
import os
import subprocess
import sys

import pytest

HEAVY = (
    "numpy",
    "scipy",
    "msgspec",
    "incrowd.protocols.api",
    "incrowd.randomizers",
    "incrowd.tasks",
)
PROBE = f"""
import sys
from incrowd.cli import main
code = main(sys.argv[1:])
print([each for each in {HEAVY!r} if each in sys.modules], file=sys.stderr)
sys.exit(code)
"""


def probe(*words: str) -> tuple[int, str, str]:
    """The exit code, the first line of complaint or help, and the heavy modules loaded."""
    done = subprocess.run([sys.executable, "-c", PROBE, *words], capture_output=True, text=True)
    *said, loaded = done.stderr.strip().splitlines()
    return done.returncode, (said or done.stdout.strip().splitlines())[0], loaded


@pytest.mark.parametrize("words", [("--help",), ("--version",), ()], ids=" ".join)
def test_root_without_command_loads_nothing_heavy(words):
    code, said, loaded = probe(*words)
    assert (code, loaded) == (0 if words else 2, "[]")
    assert "incrowd" in said


def test_unknown_command_is_corrected_without_loading_commands():
    code, said, loaded = probe("acount", "trusted-shuffle")
    assert (code, loaded) == (2, "[]")
    assert said == "error: No such command 'acount'. Did you mean 'account'? (see 'incrowd --help')"


def test_command_loads_numpy():
    """The probe sees what is loaded."""
    assert "numpy" in probe("account", "trusted-shuffle", "--help")[2]


def test_completion_of_root_loads_nothing_heavy():
    words = {"_INCROWD_COMPLETE": "complete_bash", "COMP_WORDS": "incrowd ca", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "incrowd"],
        env=os.environ | words, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == ["calibrate"]
    assert "numpy" not in done.stderr


def test_root_lists_every_command_with_the_first_line_of_its_help():
    from incrowd.cli.app import build

    for name, listed in build().commands.items():
        full = inspect.cleandoc(listed.loaded.help)
        assert listed.help == " ".join(full.split("\n\n")[0].split()), name
        assert listed.loaded.name == name
