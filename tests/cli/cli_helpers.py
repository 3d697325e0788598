"""What the tests of the command line share."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from incrowd import errors

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Ended:
    """What a command did."""

    code: int
    out: str
    err: str


Call = Callable[..., Ended]


def stated(payload: dict[str, Any], notion: str = "dp") -> dict[str, Any]:
    """The first guarantee about answers in a JSON output, or about their order."""
    return next(each for each in payload["guarantees"] if each["notion"] == notion)


def assert_fails(ended: Ended, kind: type[errors.IncrowdError] | int, *said: str) -> None:
    """It ended with this error, in one line that says so, and printed nothing else."""
    code = kind if isinstance(kind, int) else kind.exit_code
    assert ended.code == code, ended
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
    for words in said:
        assert words in ended.err
