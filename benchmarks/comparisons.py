"""What the benchmarks of accountants share: our time and ε beside those of another way."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Comparison", "show"]

_SIGNS = {"at most": "≤", "at least": "≥", "about": "≈"}


@dataclass(frozen=True)
class Comparison:
    """Our seconds, theirs, a ratio, and whether its target is met; nan for what is not measured."""

    name: str
    against: str
    seconds: float
    their_seconds: float
    epsilon: float
    their_epsilon: float
    ratio: float
    target: float
    target_is: Literal["at most", "at least", "about"]
    holds: bool


def show(found: Sequence[Comparison], setting: Mapping[str, float], format: str) -> int:
    """Print the comparisons with what they were made at; the exit code says whether all hold."""
    missed = [each for each in found if not each.holds]
    if format == "json":
        print(json.dumps({**setting, "results": [_measured(each) for each in found]}, indent=2))
    else:
        print(
            ", ".join(f"{what} = {value:g}" for what, value in setting.items()), "· processor time"
        )
        _print_table(found)
        print("all targets hold" if not missed else f"{len(missed)} targets missed")
    return 1 if missed else 0


def _measured(comparison: Comparison) -> dict[str, object]:
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in asdict(comparison).items()
    }


def _print_table(found: Sequence[Comparison]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "against"):
        table.add_column(name, no_wrap=True)
    for name in ("s", "theirs", "ε", "theirs", "ratio", "target"):
        table.add_column(name, justify="right")
    table.add_column("")
    for each in found:
        table.add_row(
            each.name,
            each.against,
            *(_number(value, ".3f") for value in (each.seconds, each.their_seconds)),
            *(_number(value, ".5g") for value in (each.epsilon, each.their_epsilon)),
            f"{each.ratio:.4g}×",
            f"{_SIGNS[each.target_is]} {each.target:g}×",
            "holds" if each.holds else "MISSED",
        )
    console = Console()
    console.width = max(console.width, 130)
    console.print(table)


def _number(value: float, shape: str) -> str:
    return "" if math.isnan(value) else format(value, shape)
