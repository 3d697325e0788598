"""A table of everybody's reports, each at somebody's place: what a map or a trend is made from.

Besides their answer people have a *place*, which is public: coordinates, the names of groups that
they belong to, or only who they are. A release gives each place a report; a protocol says whose. On
the whole the reports are the ones that were sent, so the frequencies of the categories over all
people are estimated from them as ever, whatever was shuffled.

Invariants: an answer is a category, and so is its report, so that a row of the table reads like a
row of the data; places are never changed, and say nothing that was not public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.tasks.base import Answer, Collected, check_rows
from incrowd.tasks.histogram import Histogram

__all__ = [
    "MOST_GROUP_TEXT",
    "TELLING",
    "PlaceKind",
    "Placed",
    "Release",
    "Released",
    "check_group_names",
    "group_names",
    "local_shares",
    "points_of",
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


def check_group_names(texts: NDArray[Any], column: str) -> NDArray[Any]:
    """The texts, after refusing one that names no group, or too many, by its row."""
    for row, text in enumerate(map(str, texts.tolist()), 1):
        if not group_names(text):
            raise InvalidParameter(
                f"row {row}: {column} is empty: everybody must be in a group, if only in one of "
                "their own"
            )
        if len(text) > MOST_GROUP_TEXT:
            raise InvalidParameter(
                f"row {row}: {column} is longer than {MOST_GROUP_TEXT} characters: use shorter "
                "names"
            )
    return texts


def points_of(table: NDArray[Any], names: Sequence[str]) -> FloatArray:
    """Coordinates, a row per person, from texts or numbers; the first that is none is named."""
    try:
        points: FloatArray = table.astype(np.float64)
        if np.isfinite(points).all():
            return points
    except ValueError:
        pass
    for row, cells in enumerate(table.tolist(), 1):
        for name, cell in zip(names, cells, strict=True):
            if not _finite(cell):
                raise InvalidParameter(f"row {row}: {name} is no number: {cell!r}")
    raise InvalidParameter(f"{', '.join(names)} must be numbers")


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

    def rows(self, cells: Sequence[Sequence[str]]) -> NDArray[Any]:
        """A table of texts, a row per person; a single column without places."""
        table = np.array(cells, dtype=np.str_).reshape(len(cells), -1)
        return table[:, 0] if self.places == "people" else table

    def encode(self, column: NDArray[Any]) -> NDArray[Any]:
        """A row per person: the code of the answer, and the place; a wrong one is named."""
        if self.places == "people":
            return Histogram.encode(self, column)
        table = check_rows(column, axes=2)
        width = len(self.asks(""))
        if table.shape[1] != width:
            raise InvalidParameter(
                f"a row must have {width} columns (the answer, then {', '.join(self.asks('')[1:])})"
                f", got {table.shape[1]}"
            )
        encoded = np.empty(len(table), self.dtype)
        encoded["value"] = Histogram.encode(self, table[:, 0])
        if self.coordinates:
            encoded["point"] = points_of(table[:, 1:], self.coordinates)
        else:
            encoded["groups"] = check_group_names(table[:, 1], self.groups)
        return encoded

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The frequencies in the raw values."""
        table = np.asarray(column)
        answers = table if table.ndim == 1 else table[:, 0]
        return Histogram(categories=self.categories).truth(answers)

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


def _finite(cell: Any) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
