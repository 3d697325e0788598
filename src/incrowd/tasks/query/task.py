"""An SQL aggregate over tuples that people keep, one each.

Compute nodes select, measure and fold tuples by this module, and the analyst estimates the rows
from the folded cells; a protocol carries the tuples.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.extras import needed_extra
from incrowd.randomizers.base import Domain, FloatArray, Randomizer
from incrowd.tasks.base import Collected, Task
from incrowd.tasks.query import answer, fold
from incrowd.tasks.query.answer import QueryAnswer
from incrowd.tasks.query.encode import encode, gaps
from incrowd.tasks.query.fold import Folded, Tabulated
from incrowd.tasks.query.plan import Aggregate, GroupingSet, Plan, names_in
from incrowd.tasks.query.schema import Column, Schema, check_table
from incrowd.tasks.raw import NO_ANSWER, Array, ColumnDomain, Gaps, IntArray, blank


class Query(Task, frozen=True, kw_only=True, dict=True, tag="query"):
    """The rows that ``sql`` asks for, about a table with these ``columns``."""

    sql: str
    table: str
    columns: tuple[Column, ...]

    domain: ClassVar[Domain] = "target"
    collected_type: ClassVar[type[Collected]] = Tabulated

    def __post_init__(self) -> None:
        check_table(self.table, self.columns)
        _ = self.plan

    @classmethod
    def of(cls, sql: str, schema: Schema) -> Self:
        """Make the query over the table of a schema."""
        checks.instance(schema, Schema, "schema", 'Schema.load("patients.toml")')
        return cls(sql=sql, table=schema.table, columns=schema.columns)

    @cached_property
    def plan(self) -> Plan:
        """The SQL, read."""
        with needed_extra("queries need"):
            from incrowd.tasks.query.sql import parse
        return parse(self.sql, self.table, self.columns)

    @property
    def sets(self) -> tuple[GroupingSet, ...]:
        """The grouping sets in the order of the SQL."""
        return self.plan.sets

    @property
    def aggregates(self) -> tuple[tuple[str, Aggregate], ...]:
        """Aggregates of each cell, with their names in the answer."""
        return self.plan.aggregates

    @cached_property
    def measures(self) -> tuple[Column, ...]:
        """The numeric columns that are aggregated, in the order of the schema."""
        wanted = {each.column for _, each in self.aggregates}
        return tuple(each for each in self.columns if each in wanted)

    @cached_property
    def measure_dtype(self) -> np.dtype[Any]:
        """Type of the measures of one tuple."""
        return np.dtype([(each.name, each.dtype) for each in self.measures])

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """The columns that matter to the query, in the order of the schema."""
        wanted = self._grouped | {each.name for each in self.measures} | names_in(self.plan.where)
        # A query that only counts people still needs a column to know how many there are.
        return tuple(each for each in self.columns if each.name in wanted) or self.columns[:1]

    @property
    def narrowed(self) -> bool:
        """Whether a condition speaks of columns that tuples are grouped by."""
        return not self._grouped.isdisjoint(names_in(self.plan.where))

    @property
    def _grouped(self) -> set[str]:
        return {name for each in self.sets for name in each.columns}

    def check_sums(self, people: int) -> None:
        """Refuse measures whose sum over this many people may be too large to be held.

        By the declared bounds: a refusal in view of the data would tell something about them.
        """
        for column in self.measures:
            bounds = [abs(each) for each in (column.low, column.high) if each is not None]
            most = 2.0**63 if column.type == "integer" else sys.float_info.max
            if bounds and max(bounds) * people >= most:
                total = f"the sum of {people:,} values of up to {max(bounds):g}"
                problem = "may be too large to be held: declare smaller bounds"
                raise InvalidParameter(f"column {column.name}: {total} {problem}")

    def default_question(self, column: str) -> str:
        del column
        return self.sql

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return answer.labels(self.plan)

    def asks(self, column: str = "") -> tuple[str, ...]:
        del column
        return tuple(each.name for each in self.used)

    def domains(self, column: str = "") -> Mapping[str, ColumnDomain]:
        del column
        return {each.name: each.declared for each in self.used}

    def rows(self, cells: Sequence[Sequence[str | None]]) -> Array:
        return np.array(blank(cells), dtype=np.str_).reshape(len(cells), len(self.used))

    def encode(self, column: Any) -> Array:
        """Encode a table of the used columns in this order, or anything with columns by name."""
        return encode(column, self.used)

    def gaps(self, column: Any) -> Gaps:
        return gaps(column, self.used)

    def effect(self, randomizer: Randomizer) -> str:
        del randomizer
        group = "no group"
        if any(not each.complete for group in self.sets for each in group.by):
            group = f"the group {NO_ANSWER!r} of a column that rows are grouped by"
        text = "A missing value, or one outside its domain, is in "
        text += f"{group}, and matches no condition."
        if self.measures:
            names = ", ".join(each.name for each in self.measures)
            text += f" People without a value of {names} are left out."
        return text

    def matches(self, values: Array) -> NDArray[np.bool_]:
        """Select tuples by WHERE that have each measure and each complete grouping column."""
        where = self.plan.where
        found = np.ones(len(values), np.bool_) if where is None else where.outcome(values).passed
        complete = {each for group in self.sets for each in group.by if each.complete}
        for each in complete.union(self.measures):
            found &= each.present(values[each.name])
        return found

    def measured(self, values: Array) -> Array:
        """Keep what compute nodes need of each tuple, besides its cell."""
        found = np.empty(len(values), self.measure_dtype)
        for each in self.measures:
            found[each.name] = values[each.name]
        return found

    def fold(self, cells: IntArray, measured: Array, first: int, last: int) -> Folded:
        """Fold the tuples of the cells ``first`` to ``last`` − 1."""
        return fold.fold(np.asarray(cells) - first, measured, self.measures, last - first)

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> QueryAnswer:
        self.require(randomizer)
        if not isinstance(collected, Tabulated):
            raise InvalidParameter("a query is answered from folded cells: choose mode scrambler")
        if not collected.people:
            raise ProtocolFailed("nobody took part, so there is nothing to estimate")
        told = self.effect(randomizer)
        return answer.answered(self.plan, self.measures, collected, confidence, told)

    def truth(self, column: Any) -> FloatArray:
        """The answer from every tuple, in the order of :attr:`labels`; NaN for an empty cell."""
        values = self.encode(column)
        among = values[self.matches(values)]
        measured, found = self.measured(among), []
        for each in self.sets:
            folded = self.fold(each.cell_of(among), measured, 0, each.cells)
            asked = (each for _, each in self.aggregates)
            numbers = [answer.computed(one, self.measures, folded, 1.0, ()).value for one in asked]
            found.append(np.column_stack(numbers).ravel())
        return np.concatenate(found)
