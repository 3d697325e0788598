"""How many people hold each category, as frequencies that sum to one over the people who answered.

Raw values are compared with the categories as text, so that a column of integers matches the
categories ``("1", "2", "3")``. A value that is no category is refused with its row: putting it in
an "other" bin is a decision about the question, for whoever asks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter, UnknownCategory
from incrowd.randomizers.base import Domain, FloatArray, Randomizer
from incrowd.tasks.base import Task, check_rows

__all__ = ["Histogram"]

_SHOWN = 12


class Histogram(Task, frozen=True, kw_only=True, tag="histogram"):
    """The frequency of each of ``categories``; the code of a category is its position."""

    categories: tuple[str, ...]

    domain: ClassVar[Domain] = "category"

    def __post_init__(self) -> None:
        """Refuse categories that are not at least two different names."""
        # A text is iterable too: "ab" would silently become the categories a and b.
        if isinstance(self.categories, str | bytes) or not isinstance(self.categories, Iterable):
            raise InvalidParameter(
                f"categories must be a list of names, got {self.categories!r}: "
                'write categories=("yes", "no")'
            )
        names = tuple(str(name) for name in self.categories)
        if len(names) < 2 or len(set(names)) != len(names):
            raise InvalidParameter(
                f"categories must be at least two different names, got {_listed(names)}"
            )
        msgspec.structs.force_setattr(self, "categories", names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The categories."""
        return self.categories

    def require(self, randomizer: Randomizer) -> None:
        """Refuse a randomizer for another domain or another number of categories."""
        Task.require(self, randomizer)
        expected = getattr(randomizer, "categories", None)
        if expected is not None and expected != len(self.categories):
            raise InvalidParameter(
                f"the histogram has {len(self.categories)} categories but {randomizer.kind} has "
                f"{expected}: make both the same"
            )

    def encode(self, column: NDArray[Any]) -> NDArray[np.int64]:
        """The code of every value; :class:`UnknownCategory` names the first that has none."""
        array = check_rows(column, axes=1)
        code_of = {name: code for code, name in enumerate(self.categories)}
        if array.dtype.kind in "OV":
            codes = np.fromiter(
                (code_of.get(_name(value), -1) for value in array), np.int64, array.size
            )
        else:
            distinct, inverse = np.unique(array, return_inverse=True)
            table = [code_of.get(_name(value), -1) for value in distinct.tolist()]
            codes = np.asarray(table, np.int64)[inverse]
        unknown = np.flatnonzero(codes < 0)
        if unknown.size:
            row = int(unknown[0])
            written = _name(array[row])
            wrong = (
                f"{written!r} is not one of the categories {_listed(self.categories)}: add it or "
                "correct the data"
                if written
                else "no value: fill it in or remove the row"
            )
            raise UnknownCategory(f"row {row + 1}: {wrong}")
        return codes

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The frequencies in the raw values."""
        codes = self.encode(column)
        return np.bincount(codes, minlength=len(self.categories)) / codes.size


def _name(value: Any) -> str:
    """A raw value as the text of a category; whole floats lose their point."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown}, … ({len(names)} in all)" if len(names) > _SHOWN else shown
