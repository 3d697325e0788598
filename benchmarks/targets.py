"""What most benchmarks share: numbers with targets, and how they are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Result", "show"]


@dataclass
class Result:
    """One number and the target that it must keep (none: only shown; no number: skipped)."""

    name: str
    value: float | None
    unit: str
    target: float | None
    side: Literal["at most", "at least"]
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; none without a number or a target."""
        if self.value is None or self.target is None:
            return None
        within = self.value <= self.target if self.side == "at most" else self.value >= self.target
        return within and not math.isnan(self.value)

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON shows it."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "target": self.target,
            "target_is": self.side,
            "holds": self.holds,
            "note": self.note,
        }


def show(
    results: Sequence[Result],
    setting: Mapping[str, int],
    format: str,
    times: str = "processor time",
) -> int:
    """Print the results with what they were measured at; the exit code says whether all hold."""
    missed = [each for each in results if each.holds is False]
    if format == "json":
        print(json.dumps({**setting, "results": [each.as_dict() for each in results]}, indent=2))
    else:
        print(", ".join(f"{count:,} {what}" for what, count in setting.items()), f"· {times}")
        print(_table(results))
        print("all targets hold" if not missed else f"{len(missed)} targets missed")
    return 1 if missed else 0


def _table(results: Sequence[Result]) -> str:
    lines = []
    for each in results:
        value = "skipped" if each.value is None else f"{each.value:.3g} {each.unit}"
        sign = "≤" if each.side == "at most" else "≥"
        aim = "" if each.target is None else f"{sign} {each.target:g}"
        verdict = {True: "holds", False: "MISSED", None: ""}[each.holds]
        lines.append(f"{each.name:38}{value:>12}{aim:>10}  {verdict:7} {each.note}".rstrip())
    return "\n".join(lines)
