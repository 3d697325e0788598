"""What the pieces of the errata share: a claim, the table of claims, numbers.

Printed formulas come from ``experiments/paper_*.py``, exact values from the enumerations that the
tests use or from the library, so that a page can show no number that no test knows.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pieces import DOCS, ROOT, table

from incrowd.report.format import count, plain

# Experiments and oracles are imported where a piece needs them: a copy of this directory alone, as
# the tests of the generator make, has neither.
sys.path += [str(ROOT), str(ROOT / "tests" / "oracles")]


@dataclass(frozen=True)
class Claim:
    """One statement as printed, as it is right, both on an example, and a test that shows it."""

    statement: str
    printed: str
    right: str
    example: str
    test: str


def summary(claims: Sequence[Claim]) -> str:
    """The claims of one page as a table."""
    return table(
        ["statement", "printed", "right", "on an example", "test"],
        [[c.statement, c.printed, c.right, c.example, f"`{c.test}`"] for c in claims],
    )


def number(value: float, digits: int = 4) -> str:
    """A number that is no bound, or the sign of infinity."""
    return "∞" if math.isinf(value) else plain(value, digits)


def times(value: float) -> str:
    """A factor, such as ``410 times``."""
    return f"{count(round(value))} times" if value >= 100 else f"{plain(value, 2)} times"


def table_of(experiment: str) -> list[dict[str, str]]:
    """The rows of a table that an experiment has written, by column."""
    text = (DOCS / "figures" / f"{experiment}.md").read_text(encoding="utf-8")
    head, _, *rows = (row.split(" | ") for row in re.findall(r"^\| (.+) \|$", text, re.M))
    return [dict(zip(head, row, strict=True)) for row in rows]
