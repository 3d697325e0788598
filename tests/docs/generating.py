"""A run of the generator of the documentation."""

import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).parents[2] / "docs" / "generate.py"


def generate(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, check=False
    )


def assert_fresh(*pages: Path) -> None:
    """All blocks of the pages that are executed succeed, and print what the pages show."""
    ended = generate(GENERATE, "--check", *map(str, pages))
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout + ended.stderr
