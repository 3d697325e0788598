"""Groups of people among whom order is private: the base of all groupings.

A *grouping* is a family of sets of people that may overlap, with everybody in at least one. It
comes from public side information alone: coordinates, labels, a graph, or lists. Order privacy is
guaranteed for each group by itself, so that a family is known by its distinct sets; in which order
they are given, or how often, does not matter.

People are 0, …, n−1 and so are groups. Families can be far larger than memory: a hundred thousand
people with thousands of others near each. So members are read in blocks, and what algorithms on
orders need is a smaller *incidence*: *atoms* are people who are in exactly the same groups for an
evident reason, such as being at one place, and groups are sets of atoms.

Invariants: no group is empty, no two are equal as far as is known, everybody is in at least one,
and nothing here ever sees a value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd.errors import InvalidCrowd, InvalidParameter

if TYPE_CHECKING:
    from scipy import sparse

IntArray = NDArray[np.int64]

MOST_HELD = 2**27
"""The most members, over all groups, that are held at once: half a gigabyte."""


class Block(NamedTuple):
    """Consecutive groups: group ``first + g`` has ``members[indptr[g]:indptr[g + 1]]``."""

    first: int
    indptr: IntArray
    members: IntArray


@dataclass(frozen=True, eq=False)
class Incidence:
    """Membership in groups, by atoms: people who share all their groups."""

    people_indptr: IntArray
    people: IntArray
    """The people of each atom, atom after atom."""
    own: IntArray
    """The own group of each atom."""
    indptr: IntArray
    atoms: NDArray[np.int32]
    """The atoms of each group, group after group."""

    @property
    def weights(self) -> IntArray:
        """Number of people of each atom."""
        return np.diff(self.people_indptr)

    def spread(self, order: NDArray[Any]) -> IntArray:
        """An order of people from one of atoms: those of an atom one after another."""
        return np.asarray(runs(self.people_indptr, self.people, order))

    def matrix(self) -> sparse.csr_array[Any]:
        """Groups by atoms, with ones where an atom is in a group."""
        from scipy import sparse

        shape = (self.indptr.size - 1, self.own.size)
        return sparse.csr_array((np.ones(self.atoms.size, bool), self.atoms, self.indptr), shape)

    def star(self) -> sparse.csr_array[Any]:
        """Atoms joined with those of their own group, in both directions."""
        from scipy import sparse

        atoms = self.own.size
        pick = (np.ones(atoms, bool), self.own, np.arange(atoms + 1))
        named = sparse.csr_array(pick, (atoms, self.indptr.size - 1)) @ self.matrix()
        return sparse.csr_array(named + named.T)


class Grouping(ABC):
    """Family of groups that may overlap; makers of this package put everybody in one at least."""

    n: int
    """Number of people."""
    words: str
    """The groups in words, for readers: "everybody within 5 km"."""

    @property
    @abstractmethod
    def sizes(self) -> IntArray:
        """Number of people of each group."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A SHA-256 in hexadecimal: groupings with the same digest have the same groups."""

    @property
    @abstractmethod
    def own(self) -> IntArray:
        """The own group of each person, or else the largest that they are in (the first such)."""

    def blocks(self, entries: int = 2**24) -> Iterator[Block]:
        """All groups, about ``entries`` members at a time; those of a group in no order."""
        for first, end in spans(self.sizes, entries):
            yield self._members(first, end)

    def group_of(self, person: int) -> int:
        """The entry of :attr:`own` for a person."""
        if not 0 <= person < self.n:
            raise InvalidParameter(f"person {person} is not one of 0 to {self.n - 1}")
        return int(self.own[person])

    @abstractmethod
    def subset(self, people: ArrayLike) -> Grouping:
        """The groups as they are when only these people take part, renumbered in this order."""

    @abstractmethod
    def incidence(self) -> Incidence | None:
        """Membership by atoms, or None where that is too large to hold."""

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.sizes.size)

    @cached_property
    def largest(self) -> int:
        """The size of the largest group."""
        return int(self.sizes.max())

    def group(self, index: int) -> IntArray:
        """The members of one group, increasing."""
        if not 0 <= index < self.count:
            raise InvalidParameter(f"group {index} is not one of 0 to {self.count - 1}")
        return np.sort(self._members(index, index + 1).members)

    @abstractmethod
    def _members(self, first: int, end: int) -> Block:
        """The groups from ``first`` up to ``end``."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grouping):
            return NotImplemented
        return self.n == other.n and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.words!r}, n={self.n}, count={self.count}, "
            f"largest={self.largest})"
        )


def spans(sizes: IntArray, entries: int) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive groups with at most ``entries`` members, or of a single group."""
    ends = np.cumsum(sizes)
    first, taken = 0, 0
    while first < sizes.size:
        end = max(int(np.searchsorted(ends, taken + entries, side="right")), first + 1)
        yield first, end
        first, taken = end, int(ends[end - 1])


def runs(indptr: IntArray, values: NDArray[Any], picked: NDArray[Any]) -> Any:
    """The runs ``values[indptr[k]:indptr[k + 1]]`` of the picked k, none of them empty, in turn."""
    if values.size == indptr.size - 1:
        return values[picked]
    lengths = indptr[picked + 1] - indptr[picked]
    ends = np.cumsum(lengths)
    return values[np.repeat(indptr[picked] - ends + lengths, lengths) + np.arange(lengths.sum())]


def chosen(people: ArrayLike, n: int) -> IntArray:
    """Distinct people of 0, …, n−1, at least one."""
    picked = np.asarray(people)
    if picked.ndim != 1 or picked.size == 0:
        raise InvalidCrowd("name at least one person who takes part, in one list")
    if picked.dtype.kind not in "iu":
        raise InvalidParameter(f"people are whole numbers from 0 to {n - 1}, got {picked.dtype}")
    picked = picked.astype(np.int64)
    if picked.min() < 0 or picked.max() >= n:
        wrong = picked[(picked < 0) | (picked >= n)][0]
        raise InvalidParameter(f"person {wrong} is not one of 0 to {n - 1}")
    if np.unique(picked).size < picked.size:
        raise InvalidParameter("a person is named twice among those who take part")
    return picked


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, read-only."""
    array.flags.writeable = False
    return array
