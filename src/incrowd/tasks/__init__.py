"""Tasks: the questions of surveys, which encode raw values and turn reports into answers."""

from __future__ import annotations

from typing import Any, cast

from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import Randomizer
from incrowd.tasks.base import Answer, Collected, Dummies, Task
from incrowd.tasks.histogram import Histogram
from incrowd.tasks.mean import Mean, Sum, Vector
from incrowd.tasks.parts import PartCollected, parts_of
from incrowd.tasks.quantiles import Quantiles
from incrowd.tasks.query import Column, Query, Schema
from incrowd.tasks.raw import ColumnDomain, Gaps
from incrowd.tasks.registry import TASKS, TaskPlugin
from incrowd.tasks.release import Placed, Release, Released

__all__ = [
    "TASKS",
    "Answer",
    "Collected",
    "Column",
    "ColumnDomain",
    "Dummies",
    "Gaps",
    "Histogram",
    "Mean",
    "PartCollected",
    "Placed",
    "Quantiles",
    "Query",
    "Release",
    "Released",
    "Schema",
    "Sum",
    "Task",
    "TaskPlugin",
    "Vector",
    "natural_task",
    "parts_of",
]


def natural_task(randomizer: Randomizer) -> Task:
    """Return the task about a randomizer's own values: codes, numbers in [0, 1], unit vectors."""
    if randomizer.domain == "target":
        raise InvalidParameter("what goes to a target is for a query to say: pass a Query as task")
    if randomizer.domain == "several":
        raise InvalidParameter("each part has a question of its own: estimate them one by one")
    described = cast(Any, randomizer)
    try:
        if randomizer.domain == "category":
            return Histogram(categories=tuple(map(str, range(described.categories))), complete=True)
        if randomizer.domain == "vector":
            return Vector(dimension=described.dimension)
    except AttributeError as missing:
        problem = "does not say what its values are: pass a task"
        raise InvalidParameter(f"{randomizer.kind} {problem}") from missing
    return Mean(bounds=(0.0, 1.0), complete=not randomizer.reports_missing)
