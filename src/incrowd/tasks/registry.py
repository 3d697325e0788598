"""The tasks by name: those that are built in, and those of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from incrowd.plugins import Plugin, Registry

if TYPE_CHECKING:
    from incrowd.randomizers.base import Domain

QUERY: Final = "query"
"""The task that asks for several columns, by SQL over a schema."""


@dataclass(frozen=True, kw_only=True)
class TaskPlugin(Plugin):
    """A task by its name, for entry points of the group ``incrowd.tasks``."""

    domain: Domain
    """Domain of the values that a randomizer gets from it."""
    column: bool = True
    """Whether a survey file names one column of the data for it."""


_HERE = "incrowd.tasks"
_BUILT_IN = (
    TaskPlugin(kind="histogram", domain="category", target=f"{_HERE}.histogram:Histogram"),
    TaskPlugin(kind="mean", domain="interval", target=f"{_HERE}.mean:Mean"),
    TaskPlugin(kind="sum", domain="interval", target=f"{_HERE}.mean:Sum"),
    TaskPlugin(kind="quantiles", domain="category", target=f"{_HERE}.quantiles:Quantiles"),
    TaskPlugin(kind="vector", domain="vector", target=f"{_HERE}.mean:Vector", column=False),
    TaskPlugin(kind=QUERY, domain="target", target=f"{_HERE}.query:Query", column=False),
    TaskPlugin(kind="release", domain="category", target=f"{_HERE}.release:Release"),
)
TASKS: Final = Registry(_HERE, "task", TaskPlugin, _BUILT_IN)
"""Every task that can be described by name."""


def column_tasks() -> dict[str, TaskPlugin]:
    """Tasks whose answers are in one column of the data."""
    return {kind: each for kind, each in TASKS.plugins().items() if each.column}


def survey_tasks() -> tuple[str, ...]:
    """Kinds of tasks that a survey file can ask."""
    return (*column_tasks(), QUERY)
