"""Frequencies of categories, ``no answer`` among them, over all people who took part.

Raw values are compared with the categories as text, so that a column of integers matches the
categories ``("1", "2", "3")``. A missing value, and one that is no category, has the reserved last
category ``no answer``: frequencies are shares of everybody, and sum to one with that row. With
``outside = "other"``, an answer that is no category has a public category ``other`` of its own. A
``complete`` histogram has no outcome for a missing answer: a report without one is that of a
uniformly drawn category, which moves the frequency f of each of k categories by q·(1/k − f) where a
share q has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Literal

import msgspec
import numpy as np

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import ABSENT, Domain, FloatArray, Randomizer
from incrowd.tasks.base import Task, check_rows
from incrowd.tasks.raw import NO_ANSWER, Array, ColumnDomain, Gaps, IntArray, codes, missing

OTHER: Final = "other"
"""Label of the category of all answers that are no other category."""


class Histogram(Task, frozen=True, kw_only=True, tag="histogram"):
    """The frequency of each of ``categories``; the code of a category is its position.

    ``outside`` says what an answer that is none of them counts as.
    """

    categories: tuple[str, ...]
    complete: bool = False
    outside: Literal["no answer", "other"] = NO_ANSWER

    domain: ClassVar[Domain] = "category"

    def __post_init__(self) -> None:
        # A text is iterable too: "ab" would silently become the categories a and b.
        if isinstance(self.categories, str | bytes) or not isinstance(self.categories, Iterable):
            problem = f'a list of names, got {self.categories!r}: write categories=("yes", "no")'
            raise InvalidParameter(f"categories must be {problem}", field="categories")
        checks.instance(self.complete, bool, "complete", "True")
        names = tuple(map(str, self.categories))
        if len(names) < 2 or len(set(names)) != len(names):
            problem = f"at least two different names, got {_shown(names)}"
            raise InvalidParameter(f"categories must be {problem}", field="categories")
        if not all(each.strip() for each in names):
            problem = "must have a name each: an empty field is a missing answer; leave it out"
            raise InvalidParameter(f"categories {problem}", field="categories")
        if not self.complete and NO_ANSWER in names:
            problem = f"the category {NO_ANSWER!r} is added for people without an answer"
            raise InvalidParameter(f"{problem}: leave it out, or set complete = true")
        if self.outside not in (NO_ANSWER, OTHER):
            problem = f"outside must be {NO_ANSWER!r} or {OTHER!r}, got {self.outside!r}"
            raise InvalidParameter(problem, field="outside")
        if self.outside == OTHER and OTHER in names:
            problem = f"outside = {OTHER!r} adds the category {OTHER!r}: leave one of them out"
            raise InvalidParameter(problem, field="outside")
        msgspec.structs.force_setattr(self, "categories", names)

    @property
    def labels(self) -> tuple[str, ...]:
        return self._public if self.complete else (*self._public, NO_ANSWER)

    @property
    def _public(self) -> tuple[str, ...]:
        """Categories of those who have an answer."""
        return (*self.categories, OTHER) if self.outside == OTHER else self.categories

    def require(self, randomizer: Randomizer) -> None:
        Task.require(self, randomizer)
        expected = getattr(randomizer, "categories", None)
        if expected is not None and expected != len(self.labels):
            reserved = "" if self.complete else f", {NO_ANSWER!r} included,"
            remedy = "make both the same"
            if expected == len(self._public):
                remedy = "set complete = true if everyone has one of them, or use krr"
            raise InvalidParameter(
                f"the {self.kind} has {len(self.labels)} categories{reserved} but "
                f"{randomizer.kind} has {expected}: {remedy}"
            )

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        return {column: ColumnDomain("category", self.categories, complete=self.complete)}

    def encode(self, column: Array) -> IntArray:
        unknown = ABSENT if self.complete else len(self._public)
        answers = self._answers(column)
        found = codes(answers, self.categories, unknown)
        if self.outside == OTHER:
            found[(found == unknown) & ~missing(answers)] = len(self.categories)
        return found

    def gaps(self, column: Array) -> Gaps:
        answers = self._answers(column)
        usable = codes(answers, self.categories, ABSENT) != ABSENT
        absent = missing(answers)
        return Gaps.of(absent, usable | ~absent if self.outside == OTHER else usable)

    def truth(self, column: Array) -> FloatArray:
        """The frequencies in the raw values; of a complete histogram among usable answers."""
        encoded = Histogram.encode(self, column)
        counts = np.bincount(encoded[encoded != ABSENT], minlength=len(self.labels))
        return counts / counts.sum() if counts.any() else np.full(counts.size, np.nan)

    def effect(self, randomizer: Randomizer) -> str:
        del randomizer
        other = f"An answer that is no category counts as {OTHER!r}. "
        told = other if self.outside == OTHER else ""
        if not self.complete:
            none = "A missing answer" if told else "A missing answer, or one that is no category,"
            told += f"{none} counts as {NO_ANSWER!r}"
            return f"{told}: frequencies are shares of all people, those included."
        told += "A person without an answer reports a category at random: where a share q of the "
        told += "people has none, a frequency f is off by q·(1/k − f), with k = "
        return f"{told}{len(self._public)} categories."

    def _answers(self, column: Array) -> Array:
        return check_rows(column, axes=1)


def _shown(names: tuple[str, ...], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return f"{shown}, … ({len(names)} in all)" if len(names) > most else shown
