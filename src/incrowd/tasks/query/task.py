"""An SQL aggregate over tuples that people keep: what is asked, of which table.

Everybody has one tuple. What a compute node does with the tuples of its cells, and what follows
from the folded cells, is here; how tuples travel is a protocol's business.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.randomizers.base import Domain, FloatArray, Randomizer
from incrowd.tasks.base import Collected, Task
from incrowd.tasks.query import answer, fold
from incrowd.tasks.query.answer import QueryAnswer
from incrowd.tasks.query.collected import Folded, Tabulated
from incrowd.tasks.query.encode import encode
from incrowd.tasks.query.grouping import GroupingSet
from incrowd.tasks.query.parse import Aggregate, Parsed, parse
from incrowd.tasks.query.schema import Column, Schema, check_columns
from incrowd.tasks.query.where import names_in

__all__ = ["Query"]


class Query(Task, frozen=True, kw_only=True, dict=True, tag="query"):
    """The rows that ``sql`` asks for, about a table with these ``columns``."""

    sql: str
    table: str
    columns: tuple[Column, ...]

    domain: ClassVar[Domain] = "target"

    def __post_init__(self) -> None:
        """Refuse SQL outside the subset, and columns that are not there."""
        if not isinstance(self.table, str) or not self.table.strip():
            raise InvalidParameter(f"table must be the name of the data, got {self.table!r}")
        check_columns(self.columns)
        _ = self.plan

    @classmethod
    def of(cls, sql: str, schema: Schema) -> Self:
        """The query over the table of a schema."""
        checks.instance(schema, Schema, "schema", 'Schema.load("patients.toml")')
        return cls(sql=sql, table=schema.table, columns=schema.columns)

    # What is asked.

    @cached_property
    def plan(self) -> Parsed:
        """The SQL, read."""
        return parse(self.sql, self.table, self.columns)

    @property
    def sets(self) -> tuple[GroupingSet, ...]:
        """The grouping sets in the order of the SQL."""
        return self.plan.sets

    @property
    def aggregates(self) -> tuple[tuple[str, Aggregate], ...]:
        """What is computed of each cell, with the names in the answer."""
        return self.plan.aggregates

    @cached_property
    def measures(self) -> tuple[Column, ...]:
        """The numeric columns that are aggregated, in the order of the schema."""
        wanted = {each.column for _, each in self.aggregates}
        return tuple(each for each in self.columns if each in wanted)

    @cached_property
    def measure_dtype(self) -> np.dtype[Any]:
        """How the measures of one tuple are held."""
        return np.dtype([(each.name, each.dtype) for each in self.measures])

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """The columns that matter to the query, in the order of the schema."""
        wanted = {name for each in self.sets for name in each.columns}
        wanted |= {each.name for each in self.measures} | names_in(self.plan.where)
        # Who only counts people still needs a column to know how many there are.
        return tuple(each for each in self.columns if each.name in wanted) or self.columns[:1]

    @property
    def narrowed(self) -> bool:
        """Whether a condition speaks of columns that tuples are grouped by."""
        grouped = {name for each in self.sets for name in each.columns}
        return not grouped.isdisjoint(names_in(self.plan.where))

    def check_sums(self, people: int) -> None:
        """Refuse measures whose sum over so many people may not be held, whatever their data.

        By the declared bounds: a refusal in view of the data would tell something about them.
        """
        for column in self.measures:
            bounds = [abs(each) for each in (column.low, column.high) if each is not None]
            most = 2.0**63 if column.type == "integer" else sys.float_info.max
            if bounds and max(bounds) * people >= most:
                raise InvalidParameter(
                    f"column {column.name}: the sum of {people:,} values of up to {max(bounds):g} "
                    "may be too large to be held: declare smaller bounds"
                )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One name per aggregate of each cell of each grouping set, empty ones included."""
        return answer.labels(self.plan)

    # What people hold.

    def asks(self, column: str = "") -> tuple[str, ...]:
        """The columns of a person's data that the query uses."""
        del column
        return tuple(each.name for each in self.used)

    def rows(self, cells: Sequence[Sequence[str]]) -> NDArray[Any]:
        """A table of texts, a row per person."""
        return np.array(cells, dtype=np.str_).reshape(len(cells), len(self.used))

    def encode(self, column: Any) -> NDArray[Any]:
        """A row per person, with a field for each column that is used.

        Takes a table of these columns in this order, or anything with columns by name.
        """
        return encode(column, self.used)

    # What is done with encoded tuples.

    def matches(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which tuples the WHERE clause lets through."""
        where = self.plan.where
        return np.ones(len(values), np.bool_) if where is None else where.matches(values)

    def measured(self, values: NDArray[Any]) -> NDArray[Any]:
        """What compute nodes need of each tuple, besides its cell."""
        found = np.empty(len(values), self.measure_dtype)
        for each in self.measures:
            found[each.name] = values[each.name]
        return found

    def fold(
        self, cells: NDArray[np.int64], measured: NDArray[Any], first: int, last: int
    ) -> Folded:
        """The numbers of the cells ``first`` to ``last`` − 1, from the tuples in them."""
        return fold.fold(np.asarray(cells) - first, measured, self.measures, last - first)

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> QueryAnswer:
        """The rows that are asked for, about the people who were present."""
        self.require(randomizer)
        if not isinstance(collected, Tabulated):
            raise InvalidParameter("a query is answered from folded cells: choose mode scrambler")
        if not collected.people:
            raise ProtocolFailed("nobody took part, so there is nothing to estimate")
        return answer.answered(self.plan, self.measures, collected, confidence)

    def truth(self, column: Any) -> FloatArray:
        """What every tuple says, in the order of :attr:`labels`; NaN where a cell has no answer.

        An answer shows some of these, ``truth[answer.positions]``.
        """
        values = self.encode(column)
        among = values[self.matches(values)]
        measured, found = self.measured(among), []
        for each in self.sets:
            folded = self.fold(each.cell_of(among), measured, 0, each.cells)
            numbers = [
                answer.computed(aggregate, self.measures, folded, 1.0, ()).value
                for _, aggregate in self.aggregates
            ]
            found.append(np.column_stack(numbers).ravel())
        return np.concatenate(found)
