"""The paper's worked example, step by step: eight people, one draw, and what each bound says."""

from __future__ import annotations

import numpy as np

from experiments.common import Table
from experiments.paper_order_shuffle import DRAWN, GROUPS, ORDER, RELEASED
from incrowd.protocols.order_shuffle.groupings import from_lists
from incrowd.protocols.order_shuffle.samplers.kendall import conjugated
from incrowd.protocols.order_shuffle.theorems.sensitivity import kendall, paper_sensitivity, widths

__all__ = ["groups_table", "released", "steps_table"]

PEOPLE = np.array(ORDER) - 1


def released() -> tuple[int, ...]:
    """Whose report each place gets in the example, person 1 first."""
    ranks = np.argsort(PEOPLE)
    drawn = ranks[np.array(DRAWN) - 1]
    return tuple(int(each) + 1 for each in conjugated(PEOPLE, drawn))


def steps_table() -> Table:
    """Who stands where, what is drawn, and what is released."""
    found = released()
    rows = [
        [
            str(rank + 1),
            str(ORDER[rank]),
            str(DRAWN[rank]),
            f"place {ORDER[rank]} gets the report of {DRAWN[rank]}",
        ]
        for rank in range(len(ORDER))
    ]
    agree = "as the paper prints" if found == RELEASED else "unlike what the paper prints"
    return Table(
        "The worked example",
        "Eight people, numbered from 1. σ0: the reference order. σ̂: the order that was drawn "
        "around it. Laid along σ0, shuffled and put back, the reports at places 1 to 8 are "
        f"{', '.join(f'y{each}' for each in found)}, {agree}.",
        ("rank", "σ0", "σ̂", "released"),
        rows,
    )


def groups_table() -> Table:
    """The sensitivity of each group that is known, by its width and exactly."""
    ranks = np.argsort(PEOPLE)
    rows = []
    for owner, group in GROUPS.items():
        members = [each - 1 for each in group]
        alone = [[each] for each in range(len(ORDER)) if each not in members]
        grouping = from_lists([members, *alone])
        width = int(widths(grouping, ranks).max())
        rows.append(
            [
                f"G{owner} = {{{', '.join(map(str, group))}}}",
                ", ".join(str(rank) for rank in sorted(int(ranks[each]) + 1 for each in members)),
                str(width),
                str(paper_sensitivity(width)),
                str(int(kendall(grouping, ranks).max())),
                str(int(kendall(grouping, ranks, 2).max())),
            ]
        )
    return Table(
        "Sensitivities of the worked example",
        "The three groups that the paper names. Width: the last rank less the first. By width: "
        "ω(ω + 1)/2, as in the paper. Exact: by how many inversions a change of order inside the "
        "group can matter; two values: where reports are yes or no. α is θ times the largest.",
        ("group", "ranks", "width", "by width", "exact", "two values"),
        rows,
    )
