"""What the tests of the command line share."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Ended:
    """What a command did."""

    code: int
    out: str
    err: str


Call = Callable[..., Ended]
