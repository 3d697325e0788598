"""A table of reports by place, for maps and trends.

Besides their answer people have a *place*, which is public: coordinates, the names of groups that
they belong to, or only their number. A release gives each place a report; a protocol says whose. On
the whole the reports are the ones that were sent, so the frequencies of the categories over all
people are estimated from them as ever, whatever was shuffled.

A missing or out-of-domain answer is the category ``no answer``, as in a histogram. A place that is
missing, or that is none, becomes a public default: the origin, or the group ``no answer``.

Invariants: an answer is a category, and so is its report, so that a row of the table reads like a
row of the data; places are never changed otherwise, and say nothing that was not public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from incrowd import checks
from incrowd.blocks import DataTable, Fact, Figure, Section, Text
from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.tasks.base import Answer, AnswerContext, Collected, PlaceKind, check_rows
from incrowd.tasks.histogram import Histogram
from incrowd.tasks.maps import explained, squares_over
from incrowd.tasks.raw import NO_ANSWER, Array, ColumnDomain, IntArray, blank, floats, texts

MOST_GROUP_TEXT = 200
"""Longest text of one person's groups, in characters."""
_MOST_AXES = 8
_EXACT = 2.0**53
"""Below it a whole double is that number and no other."""
_MOST_MAPS = 3
"""Number of answers that are mapped: the largest."""


def group_names(text: str) -> tuple[str, ...]:
    """Split the text of a cell into the groups that a person belongs to."""
    return tuple(name for each in text.split(";") if (name := each.strip()))


def names_group(text: str) -> bool:
    """Whether a text names at least one group, and is short enough to travel."""
    return len(text) <= MOST_GROUP_TEXT and bool(group_names(text))


@dataclass(frozen=True, kw_only=True)
class Placed(Collected):
    """Reports at the places of the people among whom they were shuffled.

    ``who`` numbers these people, and ``points`` or ``groups`` are their places, in the same order;
    both are None if a place is just a person. Report i of the only round stands at the place
    ``at[i]`` of that order; a place whose report could not be read has none.
    """

    who: IntArray
    at: IntArray
    points: FloatArray | None = None
    groups: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"Placed({self.received} of {self.sent} reports, places = {len(self.who)})"


@dataclass(frozen=True, repr=False)
class Released(Answer):
    """The frequencies over all people, and the table: a category for each place in ``who``."""

    who: IntArray
    codes: IntArray
    points: FloatArray | None = None
    groups: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    """Names of the parts of a place."""

    @property
    def rows(self) -> list[list[Any]]:
        """The table: each place and the category that stands there.

        Sorted by content: how people happened to be numbered is not for everyone.
        """
        names = np.array(self.labels)[self.codes].tolist()
        if self.points is not None:
            columns = [_tidy(axis) for axis in self.points.T.tolist()]
        else:
            columns = [self.who.tolist() if self.groups is None else list(self.groups)]
        return sorted(list(row) for row in zip(*columns, names, strict=True))

    def sections(self, context: AnswerContext) -> tuple[Section, ...]:
        table = DataTable("release", (*self.columns, context.column), self.rows, file=True)
        facts = Fact("places", list(self.columns)), Fact("rows", len(self.codes))
        about = Fact("tables", (Fact("release", facts),))
        released = Section("release", "", 200, (table, about))
        return (*Answer.sections(self, context), *self._maps(context), released)

    def _maps(self, context: AnswerContext) -> tuple[Section, ...]:
        """Maps of the released rows, beside those of the true answers where these are known."""
        if self.points is None or self.points.shape[1] != 2:
            return ()
        squares = squares_over(self.points, geographic=context.geographic)
        if squares is None:
            return ()
        # Only answers that can be told from none at all.
        largest = np.argsort(-self.value, kind="stable")[:_MOST_MAPS]
        drawn = largest[self.low[largest] > 0] if (self.low > 0).any() else largest[:1]
        after, errors = squares.estimates(self.codes, context.randomizer)
        maps = {self.labels[each]: {"after": after[:, each]} for each in drawn}
        if known := context.true_codes is not None:
            codes = context.true_codes[self.who]
            for each in drawn:
                maps[self.labels[each]]["before"] = squares.shares(codes, each)
        data = {
            "maps": maps,
            "squares": squares,
            "axes": self.columns[::-1] if context.geographic else self.columns,
            "geographic": context.geographic,
        }
        told = explained(squares, float(errors[:, drawn].max()), known=known)
        alt = "Maps of the share of each answer"
        caption = "The larger and stronger a square, the larger the share around it."
        if known:
            alt += ", before in the true answers and after in the released rows"
            caption += " Both maps of an answer have one scale and one frame."
            caption += " Those before are known in simulations alone."
        figure = Figure("map", data, alt=alt, caption=caption)
        return (Section("map", "Where it is", 20, (*map(Text, told), figure)),)


class Release(Histogram, frozen=True, kw_only=True, tag="release"):
    """A report for each place; everybody's place is in the data, beside their answer.

    ``coordinates`` names the columns of numbers that say where people are. ``groups`` names the
    column with the groups that they belong to, separated by semicolons. Without either a place is a
    person, and the protocol knows who is near whom.
    """

    coordinates: tuple[str, ...] = ()
    groups: str = ""

    collected_type: ClassVar[type[Collected]] = Placed

    def __post_init__(self) -> None:
        Histogram.__post_init__(self)
        problem, given = None, self.coordinates
        if isinstance(given, str) or len(given) > _MOST_AXES:
            problem = f"must be a list of at most {_MOST_AXES} names of columns, got {given!r}"
        elif given and self.groups:
            problem = "and groups both say where people are: name only one of them"
        elif len(set(given)) != len(given):
            problem = "must be different columns"
        if problem is not None:
            raise InvalidParameter(f"coordinates {problem}", field="coordinates")

    @property
    def places(self) -> PlaceKind:
        return "points" if self.coordinates else "groups" if self.groups else "people"

    @property
    def axes(self) -> int:
        return len(self.coordinates)

    def default_question(self, column: str) -> str:
        return f"Which {column} is where?"

    @property
    def dtype(self) -> np.dtype[Any]:
        """An answer, beside a place where people have one."""
        fields: list[Any] = [("value", "<i8")]
        if self.coordinates:
            fields.append(("point", "<f8", (len(self.coordinates),)))
        elif self.groups:
            fields.append(("groups", f"<U{MOST_GROUP_TEXT}"))
        return np.dtype(fields)

    def require(self, randomizer: Randomizer) -> None:
        Histogram.require(self, randomizer)
        if randomizer.report_domain != "category":
            wanted = "reports that are categories, as those of krr are"
            problem = f"a release needs {wanted}: {randomizer.kind} sends something else"
            raise InvalidParameter(problem)

    def asks(self, column: str) -> tuple[str, ...]:
        place = (self.groups,) if self.groups else self.coordinates
        if column in place:
            problem = "is what people are asked, and cannot say where they are too"
            raise InvalidParameter(f"{column!r} {problem}: places are public")
        return (column, *place)

    def clear_columns(self, column: str) -> tuple[str, ...]:
        """The columns of the place, which travel and are released as they are."""
        return self.asks(column)[1:]

    def releases(self, column: str) -> tuple[str, ...]:
        return (*self._place, column)

    @property
    def _place(self) -> tuple[str, ...]:
        return self.asks("")[1:] or ("person",)

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        place = ColumnDomain("number" if self.coordinates else "text")
        return {**Histogram.domains(self, column), **dict.fromkeys(self.asks(column)[1:], place)}

    def rows(self, cells: Sequence[Sequence[str | None]]) -> Array:
        table = np.array(blank(cells), dtype=np.str_).reshape(len(cells), -1)
        return table[:, 0] if self.places == "people" else table

    def encode(self, column: Array) -> Array:
        codes = Histogram.encode(self, column)
        if self.places == "people":
            return codes
        table, encoded = self._table(column), np.empty(len(codes), self.dtype)
        encoded["value"] = codes
        if self.coordinates:
            points = floats(table[:, 1:])
            usable = np.isfinite(points).all(axis=1, keepdims=True)
            encoded["point"] = np.where(usable, points, 0.0)
        else:
            named = texts(table[:, 1])
            encoded["groups"] = [each if names_group(each) else NO_ANSWER for each in named]
        return encoded

    def true_codes(self, column: Array) -> IntArray:
        return Histogram.encode(self, column)

    def _answers(self, column: Array) -> Array:
        return check_rows(column, axes=1) if self.places == "people" else self._table(column)[:, 0]

    def _table(self, column: Array) -> Array:
        table, (_, *place) = check_rows(column, axes=2), self.asks("")
        if table.shape[1] != 1 + len(place):
            wanted = f"{1 + len(place)} columns (the answer, then {', '.join(place)})"
            raise InvalidParameter(f"a row must have {wanted}, got {table.shape[1]}")
        return table

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> Released:
        example = "that of an order shuffle"
        placed = checks.instance(collected, Placed, "what was collected", example)
        overall, kept = Histogram.estimate(self, collected, randomizer, confidence), placed.at
        return Released(
            **vars(overall),
            who=placed.who[kept],
            codes=placed.pooled().astype(np.int64),
            points=None if placed.points is None else placed.points[kept],
            groups=None if placed.groups is None else tuple(placed.groups[row] for row in kept),
            columns=self._place,
        )


def _tidy(axis: list[float]) -> list[Any]:
    # A column of whole numbers is written without points.
    whole = all(each.is_integer() and abs(each) < _EXACT for each in axis)
    return list(map(int, axis)) if whole else axis
