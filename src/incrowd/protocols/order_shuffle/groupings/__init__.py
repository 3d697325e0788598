"""Groupings of people, made from public side information.

========================  ======================================================================
:func:`from_points`       everybody within a radius, Euclidean or on the earth
:func:`from_cells`        everybody in the same square of a grid, the same two ways
:func:`from_graph`        everybody within some steps in a graph
:func:`from_labels`       everybody who shares a label; one or several labels each
:func:`from_lists`        lists of people
:func:`from_owners`       the group of each person
:func:`load`              the last two, from a JSON file
========================  ======================================================================

None of them takes a value: groups are public.
"""

from __future__ import annotations

from incrowd.protocols.order_shuffle.groupings.balls import BallGroups, from_points
from incrowd.protocols.order_shuffle.groupings.base import Block, Grouping, Incidence
from incrowd.protocols.order_shuffle.groupings.files import load
from incrowd.protocols.order_shuffle.groupings.lists import (
    ListedGroups,
    from_graph,
    from_labels,
    from_lists,
    from_owners,
)
from incrowd.protocols.order_shuffle.groupings.squares import from_cells

__all__ = [
    "BallGroups",
    "Block",
    "Grouping",
    "Incidence",
    "ListedGroups",
    "from_cells",
    "from_graph",
    "from_labels",
    "from_lists",
    "from_owners",
    "from_points",
    "load",
]
