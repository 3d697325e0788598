"""Several questions of one survey, asked of the same people.

Raw values have a row per person and a column for each column of the data that is asked for; encoded
values have one number per question, which its own task reads. Everything else is that of the parts.
Everybody answers all questions (``JointTask``), or one that the device draws (``OneOfTask``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

import numpy as np

from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import Domain, FloatArray, Randomizer
from incrowd.randomizers.joint import JointRandomizer
from incrowd.randomizers.one_of import OneOf
from incrowd.tasks.base import Asked, Collected, Task, check_rows
from incrowd.tasks.raw import Array, ColumnDomain, blank


class JointTask(Task, frozen=True, kw_only=True, tag="joint"):
    """Several questions, each about one column."""

    asked: tuple[Asked, ...]

    domain: ClassVar[Domain] = "joint"

    def __post_init__(self) -> None:
        for each in self.asked:
            if not _goes_with_others(each):
                raise InvalidParameter(
                    f"a {each.task.kind} stands alone: ask the other questions in a survey of "
                    "their own",
                    field="kind",
                )
        self.domains("")

    @property
    def parts(self) -> tuple[Task, ...]:
        return tuple(each.task for each in self.asked)

    def questions(self, text: str, column: str) -> tuple[Asked, ...]:
        del text, column
        return self.asked

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data, each once."""
        return tuple(dict.fromkeys(each.column for each in self.asked))

    def default_question(self, column: str) -> str:
        del column
        return "; ".join(each.task.default_question(each.column) for each in self.asked)

    def asks(self, column: str) -> tuple[str, ...]:
        del column
        return self.columns

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        del column
        found: dict[str, ColumnDomain] = {}
        for each in self.asked:
            for name, domain in each.task.domains(each.column).items():
                if found.setdefault(name, domain) != domain:
                    raise InvalidParameter(
                        f"column {name!r} has other categories or bounds in two questions: give "
                        "both the same",
                        field="column",
                    )
        return found

    def rows(self, cells: Sequence[Sequence[str | None]]) -> Array:
        return np.array(blank(cells), np.str_)

    def answers(self, values: Array) -> list[Array]:
        table, place = check_rows(values, axes=2), self.columns.index
        return [table[:, place(each.column)] for each in self.asked]

    def encode(self, column: Array) -> FloatArray:
        answers = zip(self.parts, self.answers(column), strict=True)
        return np.column_stack([task.encode(each) for task, each in answers]).astype(float)

    def require(self, randomizer: Randomizer) -> None:
        Task.require(self, randomizer)
        parts = cast("JointRandomizer | OneOf", randomizer).parts
        if len(parts) != len(self.parts):
            several = f"{len(self.parts)} questions need a randomizer each, got {len(parts)}"
            raise InvalidParameter(several)
        for task, each in zip(self.parts, parts, strict=True):
            task.require(each)


class OneOfTask(JointTask, frozen=True, kw_only=True, tag="one-of"):
    """Several questions, of which each person answers one that the device draws."""

    domain: ClassVar[Domain] = "several"


def _goes_with_others(asked: Asked) -> bool:
    """Whether a question is about one number or category of a person, and about nothing else."""
    task = asked.task
    plain = task.domain in ("category", "interval") and task.collected_type is Collected
    return plain and task.asks(asked.column) == (asked.column,)
