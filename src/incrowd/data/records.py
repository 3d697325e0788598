"""Records: a table of texts with named columns, one person per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from incrowd.data.columns import check_columns
from incrowd.data.decimals import floats, with_points
from incrowd.data.people import require_distinct
from incrowd.data.problems import Problems

NULL_VALUES = ("",)
"""Texts that are no value unless others are stated."""


class Records:
    """Table of people: named columns of texts, from a file or a frame.

    Columns are converted when they are first asked for. Cells have no spaces around them; one that
    is a null value is the empty text, which tasks take for a missing answer.
    """

    def __init__(
        self,
        source: str,
        names: Sequence[str],
        n: int,
        cells: Callable[[int], Sequence[str]],
        *,
        null_values: Sequence[str] = NULL_VALUES,
        decimal: str | None = None,
        usual_decimal: str | None = None,
        notes: Sequence[str] = (),
        usual: bool = True,
    ) -> None:
        self.source = source
        """Name of the file, or of the kind of frame."""
        self.names = tuple(names)
        """Names of the columns, in order."""
        self.n = n
        """Number of people."""
        self.notes = tuple(notes)
        """Sentences about what was found in the source."""
        self.usual = usual
        """Whether nothing was found that its owner might not expect."""
        self._cells = cells
        self._null_values = frozenset(null_values)
        self._decimal = decimal
        self._usual_decimal = usual_decimal
        self._texts: dict[str, list[str]] = {}
        self._values: dict[str, Sequence[str]] = {}

    def __repr__(self) -> str:
        return f"Records({self.source}: {self.n:,} people, {len(self.names)} columns)"

    def __len__(self) -> int:
        return self.n

    def column(self, name: str) -> NDArray[np.str_]:
        """Cells of a column; numbers of any dialect are written with a decimal point."""
        return np.array(self._column(name), np.str_)

    def columns(self, names: Sequence[str]) -> list[list[str]]:
        """Rows of these columns."""
        self.require(names)
        found = [self._column(name) for name in names]
        return [list(row) for row in zip(*found, strict=True)] if found else [[]] * self.n

    def numeric(self, name: str) -> NDArray[np.float64]:
        """Numbers of a column; NaN for a cell that is missing or no number."""
        return floats(self._column(name))

    def people(self, person: str) -> NDArray[np.str_]:
        """Names of the people, as they are written in the identifying column.

        Raises:
            UnmatchedPeople: for a name that is empty, or that two people have.

        """
        self.require((person,))
        names = self._text(person)
        require_distinct(names, f"{self.source}: column {person!r}")
        return np.array(names, np.str_)

    def require(self, names: Sequence[str]) -> None:
        """Refuse names that are not those of exactly one column each."""
        problems = Problems(self.source)
        check_columns(problems, self.names, names)
        problems.require_none()

    def _column(self, name: str) -> Sequence[str]:
        if name not in self._values:
            self.require((name,))
            found = with_points(self._text(name), self._decimal, self._usual_decimal)
            self._values[name] = found
        return self._values[name]

    def _text(self, name: str) -> list[str]:
        """Cells as they are written."""
        if name not in self._texts:
            stripped = map(str.strip, self._cells(self.names.index(name)))
            nulls = self._null_values
            self._texts[name] = ["" if each in nulls else each for each in stripped]
        return self._texts[name]
