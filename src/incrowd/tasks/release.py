"""A table of everybody's reports, each at somebody's place: what a map or a trend is made from.

Besides their answer people have a *place*, which is public: coordinates, the names of groups that
they belong to, or only who they are. A release gives each place a report; a protocol says whose. On
the whole the reports are the ones that were sent, so the frequencies of the categories over all
people are estimated from them as ever, whatever was shuffled.

A missing or out-of-domain answer is the category ``no answer``, as in a histogram. A place that is
missing, or that is none, becomes a public default: the origin, or the group ``no answer``.

Invariants: an answer is a category, and so is its report, so that a row of the table reads like a
row of the data; places are never changed otherwise, and say nothing that was not public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.tasks.base import Answer, Collected, check_rows
from incrowd.tasks.histogram import Histogram
from incrowd.tasks.raw import NO_ANSWER, ColumnDomain, Gaps, blank, floats, texts

__all__ = [
    "MOST_GROUP_TEXT",
    "TELLING",
    "PlaceKind",
    "Placed",
    "Release",
    "Released",
    "group_names",
    "local_shares",
    "names_group",
    "settled_groups",
    "settled_points",
]

PlaceKind = Literal["points", "groups", "people"]
"""What is known of where people are: coordinates, names of groups, or only who they are."""

MOST_GROUP_TEXT = 200
"""How long the names of one person's groups may be together."""
_MOST_AXES = 8
_SEPARATOR = ";"
_EXACT = 2.0**53
"""Below it a double that is whole is that number and no other."""
TELLING = ("krr", "rr")
"""The randomizers whose report is a category."""


def group_names(text: str) -> tuple[str, ...]:
    """The groups that a person belongs to, from the text of their cell."""
    return tuple(name for each in text.split(_SEPARATOR) if (name := each.strip()))


def settled_groups(texts: Sequence[str]) -> list[str]:
    """The texts, with the group ``no answer`` for each that names no group or is too long."""
    return [text if names_group(text) else NO_ANSWER for text in texts]


def names_group(text: str) -> bool:
    """Whether a text names at least one group, and is short enough to travel."""
    return len(text) <= MOST_GROUP_TEXT and bool(group_names(text))


def settled_points(table: NDArray[Any]) -> FloatArray:
    """Coordinates, a row per person; the origin for a row that is not all finite numbers."""
    points = floats(table)
    return np.where(np.isfinite(points).all(axis=1, keepdims=True), points, 0.0)


@dataclass(frozen=True, kw_only=True)
class Placed(Collected):
    """Reports at the places of the people among whom they were shuffled.

    ``who`` numbers these people, and ``points`` or ``groups`` are their places, in the same order;
    both are none where a place is just a person. Report i of the only round stands at the place
    ``at[i]`` of that order; a place whose report could not be read has none.
    """

    who: NDArray[np.int64]
    at: NDArray[np.int64]
    points: FloatArray | None = None
    groups: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        """How much arrived, without the reports."""
        return f"Placed({self.received} of {self.sent} reports, places = {len(self.who)})"


@dataclass(frozen=True)
class Released(Answer):
    """The frequencies over all people, and the table: a category for each place in ``who``."""

    who: NDArray[np.int64]
    codes: NDArray[np.int64]
    points: FloatArray | None = None
    groups: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    """What the parts of a place are called."""

    @property
    def rows(self) -> list[list[Any]]:
        """The table: place by place, whose it is or where, and the category that stands there.

        Sorted by what it says: how people happened to be numbered is not for everyone.
        """
        names = np.array(self.labels)[self.codes].tolist()
        if self.points is not None:
            columns = [_tidy(axis) for axis in self.points.T.tolist()]
            places: list[list[Any]] = [list(each) for each in zip(*columns, strict=True)]
        elif self.groups is not None:
            places = [[each] for each in self.groups]
        else:
            places = [[person] for person in self.who.tolist()]
        return sorted([*place, name] for place, name in zip(places, names, strict=True))


def local_shares(
    released: Released, randomizer: Randomizer, points: FloatArray, nearest: int
) -> FloatArray:
    """At each of these points, the estimated shares of the categories among the people around it.

    They are estimated from the ``nearest`` rows of the table: the noise of the randomizer is
    removed, what the shuffle has mixed is not. Distances are those of the numbers as they are.
    """
    from scipy.spatial import cKDTree

    if released.points is None:
        raise InvalidParameter("there is no map of a release without coordinates")
    among = min(nearest, len(released.codes))
    rows = np.asarray(cKDTree(released.points).query(points, k=[*range(1, among + 1)])[1])
    return np.array([randomizer.estimate(released.codes[near]).value for near in rows])


class Release(Histogram, frozen=True, kw_only=True, tag="release"):
    """A report for each place; everybody's place is in the data, beside their answer.

    ``coordinates`` names the columns of numbers that say where people are. ``groups`` names the
    column with the groups that they belong to, separated by semicolons. Without either a place is a
    person, and who is near whom is for the protocol to know.
    """

    coordinates: tuple[str, ...] = ()
    groups: str = ""

    collected_type: ClassVar[type[Collected]] = Placed

    def __post_init__(self) -> None:
        """Refuse places of two kinds."""
        Histogram.__post_init__(self)
        if isinstance(self.coordinates, str) or len(self.coordinates) > _MOST_AXES:
            raise InvalidParameter(
                f"coordinates must be a list of at most {_MOST_AXES} names of columns, got "
                f"{self.coordinates!r}"
            )
        if self.coordinates and self.groups:
            raise InvalidParameter(
                "coordinates and groups both say where people are: name only one of them"
            )
        if len(set(self.coordinates)) != len(self.coordinates):
            raise InvalidParameter("coordinates must be different columns")

    @property
    def places(self) -> PlaceKind:
        """What is known of where people are."""
        if self.coordinates:
            return "points"
        return "groups" if self.groups else "people"

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
        """Refuse a randomizer whose report is no category."""
        Histogram.require(self, randomizer)
        if randomizer.kind not in TELLING:
            raise InvalidParameter(
                f"a release needs reports that are categories, as those of {TELLING[0]} are: "
                f"{randomizer.kind} sends something else"
            )

    # What people hold.

    def asks(self, column: str) -> tuple[str, ...]:
        """The answer, and the columns of the place, which is released as it is."""
        place = (*self.coordinates, *((self.groups,) if self.groups else ()))
        if column in place:
            raise InvalidParameter(
                f"{column!r} is what people are asked, and cannot say where they are too: places "
                "are public"
            )
        return (column, *place)

    def clear_columns(self, column: str) -> tuple[str, ...]:
        """The columns of the place, which travel and are released as they are."""
        return self.asks(column)[1:]

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        """The categories of the answer; coordinates are any numbers, groups any text."""
        place = ColumnDomain("number" if self.coordinates else "text")
        return {**Histogram.domains(self, column), **dict.fromkeys(self.asks(column)[1:], place)}

    def rows(self, cells: Sequence[Sequence[str | None]]) -> NDArray[Any]:
        """A table of texts, a row per person; a single column without places."""
        table = np.array(blank(cells), dtype=np.str_).reshape(len(cells), -1)
        return table[:, 0] if self.places == "people" else table

    def encode(self, column: NDArray[Any]) -> NDArray[Any]:
        """A row per person: the code of the answer, and the place."""
        if self.places == "people":
            return Histogram.encode(self, column)
        table = self._table(column)
        encoded = np.empty(len(table), self.dtype)
        encoded["value"] = Histogram.encode(self, table[:, 0])
        if self.coordinates:
            encoded["point"] = settled_points(table[:, 1:])
        else:
            encoded["groups"] = settled_groups(texts(table[:, 1]))
        return encoded

    def gaps(self, column: NDArray[Any]) -> Gaps:
        """Rows without an answer, and rows whose answer is no category."""
        return Histogram.gaps(self, self._answers(column))

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The frequencies in the raw values."""
        asked = Histogram(categories=self.categories, complete=self.complete)
        return asked.truth(self._answers(column))

    def _answers(self, column: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(column) if self.places == "people" else self._table(column)[:, 0]

    def _table(self, column: NDArray[Any]) -> NDArray[Any]:
        table = check_rows(column, axes=2)
        width = len(self.asks(""))
        if table.shape[1] != width:
            raise InvalidParameter(
                f"a row must have {width} columns (the answer, then {', '.join(self.asks('')[1:])})"
                f", got {table.shape[1]}"
            )
        return table

    # What comes out.

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> Released:
        """The frequencies, and the table."""
        checks.instance(collected, Placed, "what was collected", "that of an order shuffle")
        placed: Any = collected
        overall = Histogram.estimate(self, collected, randomizer, confidence)
        kept = placed.at
        return Released(
            **{field.name: getattr(overall, field.name) for field in fields(Answer)},
            who=placed.who[kept],
            codes=placed.pooled().astype(np.int64),
            points=None if placed.points is None else placed.points[kept],
            groups=None if placed.groups is None else tuple(placed.groups[row] for row in kept),
            columns=self.asks("")[1:] or ("person",),
        )


def _tidy(axis: list[float]) -> list[Any]:
    """Numbers as they would be written: a column of whole ones without points."""
    whole = all(each.is_integer() and abs(each) < _EXACT for each in axis)
    return list(map(int, axis)) if whole else axis
