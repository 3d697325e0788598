"""Groups that are held as lists: given, or made of labels or of a graph.

Each group is a sorted run of people in one array. Equal groups are kept once, told apart by their
SHA-256, from which the digest of the family is made as well: it does not depend on the order in
which groups or their members are given. A person may have an *own* group (that of their place in a
graph); where nobody has, the largest that a person is in counts as theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import EmptyData, InvalidCrowd, InvalidParameter
from incrowd.graphs import Graph
from incrowd.protocols.order_shuffle.groupings import base
from incrowd.protocols.order_shuffle.groupings.base import MOST_HELD, Grouping, Incidence, IntArray

_AT_ONCE = 2**22
"""Members that are found at once, of groups in a graph."""
_MOST_PEOPLE = 2**31 - 1
_COMPARED = 8
"""Members by which groups are sorted; then their names decide."""


class ListedGroups(Grouping):
    """Groups as sorted lists of people, each once."""

    def __init__(
        self,
        n: int,
        groups: Iterable[NDArray[Any]],
        words: str,
        *,
        owners: bool = False,
        lined_up: bool = False,
    ) -> None:
        """Keep ``groups``, each sorted and not empty; with ``owners`` group i is that of person i.

        Everybody must be in one: the makers of groupings see to all of that. ``lined_up``: groups
        that are listed one after the other are near each other.
        """
        self.n, self.words, self._lined_up = n, words, lined_up
        known: dict[bytes, int] = {}
        kept: list[NDArray[np.int32]] = []
        index: list[int] = []
        total = 0
        for members in groups:
            group = np.ascontiguousarray(members, dtype="<i4")
            name = hashlib.sha256(group.tobytes()).digest()
            number = known.setdefault(name, len(kept))
            index.append(number)
            if number == len(kept):
                kept.append(group)
                total += group.size
                if total > MOST_HELD:
                    raise InvalidParameter(
                        f"{words}: these groups have more than {MOST_HELD:,} members in all, too"
                        " many to hold; make them smaller"
                    )
        self._indptr = np.cumsum([0, *(group.size for group in kept)], dtype=np.int64)
        self._flat: NDArray[np.int32] = np.concatenate(kept)
        self._names = list(known)
        self._owned = base.frozen(np.array(index, np.int64)) if owners else None

    @cached_property
    def sizes(self) -> IntArray:
        return base.frozen(np.diff(self._indptr))

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of people, groups and owners; the order counts only if groups are lined up."""
        found = hashlib.sha256(f"{'lines' if self._lined_up else 'lists'} {self.n} ".encode())
        found.update(b"".join(self._names if self._lined_up else sorted(self._names)))
        if self._owned is not None:
            found.update(b"".join(self._names[index] for index in self._owned))
        return found.hexdigest()

    @cached_property
    def own(self) -> IntArray:
        if self._owned is not None:
            return self._owned
        return base.frozen(_largest(self.n, self._indptr, self._flat))

    def _members(self, first: int, end: int) -> base.Block:
        indptr = self._indptr[first : end + 1]
        members = self._flat[indptr[0] : indptr[-1]].astype(np.int64)
        return base.Block(first, indptr - indptr[0], members)

    def subset(self, people: ArrayLike) -> ListedGroups:
        picked = base.chosen(people, self.n)
        number = np.full(self.n, -1, np.int64)
        number[picked] = np.arange(picked.size)
        renumbered = np.split(number[self._flat], self._indptr[1:-1])
        left = [np.sort(members[members >= 0]) for members in renumbered]
        if self._owned is None:
            groups = (group for group in left if group.size)
            return ListedGroups(picked.size, groups, self.words, lined_up=self._lined_up)
        own = self._owned[picked]
        absent = np.setdiff1d(np.arange(self.count), own)
        ordered = (left[index] for index in (*own, *absent) if left[index].size)
        found = ListedGroups(picked.size, ordered, self.words, owners=True)
        found._owned = found.own[: picked.size]
        return found

    def incidence(self) -> Incidence:
        """Membership by people; groups in the order of their members, unless lined up."""
        listed = range(self.count)
        order = np.array(listed if self._lined_up else sorted(listed, key=self._sorting), np.int64)
        place = np.empty(self.count, np.int64)
        place[order] = np.arange(self.count)
        indptr, everybody = np.append(0, np.cumsum(self.sizes[order])), np.arange(self.n + 1)
        flat = base.runs(self._indptr, self._flat, order)
        own = place[self._owned] if self._owned is not None else _largest(self.n, indptr, flat)
        return Incidence(everybody, everybody[:-1], own, indptr, flat)

    def _sorting(self, index: int) -> tuple[list[int], bytes]:
        begin, end = self._indptr[index : index + 2]
        return self._flat[begin:end][:_COMPARED].tolist(), self._names[index]


def _largest(n: int, indptr: IntArray, members: NDArray[np.int32]) -> IntArray:
    """The largest group that each person is in, the first of several."""
    sizes, own = np.diff(indptr), np.zeros(n, np.int64)
    for index in np.lexsort((-np.arange(sizes.size), sizes)):
        own[members[indptr[index] : indptr[index + 1]]] = index
    return own


def from_lists(
    groups: Sequence[Iterable[int]], n: int | None = None, *, where: str = "", words: str = ""
) -> ListedGroups:
    """Groups as lists of people 0, …, n−1, in any order; everybody must be in at least one.

    ``n`` is the largest person and one more unless given. ``where`` is put in front of errors, and
    ``words`` say what the groups are.
    """
    names = [f"group {index}" for index in range(len(groups))]
    found = _cleaned(groups, names, n, where)
    people = n if n is not None else max(int(group[-1]) for group in found) + 1
    seen = np.zeros(people, bool)
    for group in found:
        seen[group] = True
    if not seen.all():
        raise InvalidCrowd(
            f"{where}person {int(np.argmin(seen))} is in no group; put everybody from 0 to"
            f" {people - 1} in at least one, if only alone"
        )
    return ListedGroups(people, found, words or f"the groups of a list ({len(found):,})")


def from_owners(
    mapping: Mapping[int, Iterable[int]], *, where: str = "", words: str = ""
) -> ListedGroups:
    """The group of each person, who must be in it; the keys are 0, …, n−1."""
    n = len(mapping)
    for key in mapping:
        if isinstance(key, bool) or not isinstance(key, int | np.integer) or key < 0:
            raise InvalidParameter(f"{where}{key!r} is not a person; people are whole numbers ≥ 0")
    missing = next((person for person in range(n) if person not in mapping), None)
    if missing is not None:
        raise InvalidCrowd(
            f"{where}person {missing} has no group; give one for everybody from 0 to {max(mapping)}"
        )
    names = [f"the group of {person}" for person in range(n)]
    found = _cleaned([mapping[person] for person in range(n)], names, n, where)
    for person, group in enumerate(found):
        if group[np.searchsorted(group, person) % group.size] != person:
            raise InvalidParameter(
                f"{where}the group of {person} does not contain {person}; add them, since order is"
                " private only among the members of a group"
            )
    return ListedGroups(n, found, words or "the group given for each person", owners=True)


def _cleaned(
    groups: Sequence[Iterable[int]], names: Sequence[str], n: int | None, where: str
) -> list[IntArray]:
    if len(groups) == 0:
        raise EmptyData(f"{where}there are no groups; at least one is needed")
    if n is not None:
        n = checks.crowd(n)
    found = []
    for name, group in zip(names, groups, strict=True):
        people = group if isinstance(group, np.ndarray) else np.array(_people(group, name, where))
        if people.size == 0:
            raise InvalidParameter(f"{where}{name} is empty; leave it out or name its members")
        if people.ndim != 1 or people.dtype.kind not in "iu":
            raise InvalidParameter(f"{where}{name} must be a list of whole numbers")
        members = np.sort(people.astype(np.int64))
        if members[0] < 0:
            raise InvalidParameter(f"{where}{name} has {members[0]}; people are numbered from 0")
        if members[-1] >= (n or _MOST_PEOPLE):
            raise InvalidParameter(
                f"{where}{name} has {members[-1]}; people are 0 to {(n or _MOST_PEOPLE) - 1}"
            )
        twice = np.flatnonzero(members[1:] == members[:-1])
        if twice.size:
            raise InvalidParameter(f"{where}{name} has {members[twice[0]]} twice; name them once")
        found.append(members)
    return found


def _people(group: Iterable[int], name: str, where: str) -> list[int]:
    if isinstance(group, str | bytes | Mapping) or not isinstance(group, Iterable):
        raise InvalidParameter(f"{where}{name} must be a list of people, got {_cut(group)}")
    found = list(group)
    for person in found:
        # Truth values are whole numbers to Python, and people are not.
        if isinstance(person, bool) or not isinstance(person, int | np.integer):
            said = f"{where}{name} has {_cut(person)}; people are whole numbers from 0"
            raise InvalidParameter(said)
        if abs(person) > 2**62:
            raise InvalidParameter(f"{where}{name} has {_cut(person)}, which is too large")
    return found


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def from_labels(labels: Sequence[str | Iterable[str]]) -> ListedGroups:
    """Everybody who shares a label; a person has one label or several.

    Labels are lined up by their names: those of neighbours may well begin alike.
    """
    if len(labels) == 0:
        raise InvalidCrowd("there are no labels: at least one person is needed")
    found: dict[str, list[int]] = {}
    several = False
    for person, given in enumerate(labels):
        one = isinstance(given, str) or not isinstance(given, Iterable)
        own: Collection[Any] = (given,) if one else set(given)
        several |= len(own) > 1
        for label in own:
            if not isinstance(label, str) or not label:
                raise InvalidParameter(
                    f"row {person + 1}: a label must be a text that is not empty, got {_cut(label)}"
                )
            found.setdefault(label, []).append(person)
        if not own:
            raise InvalidParameter(f"row {person + 1}: no label; everybody needs at least one")
    words = "everybody who shares a label" if several else "everybody with the same label"
    groups = (np.array(found[label]) for label in sorted(found))
    return ListedGroups(len(labels), groups, words, lined_up=True)


def from_graph(graph: Graph, radius: int) -> ListedGroups:
    """Everybody within ``radius`` steps in a graph: one group around each person."""
    steps = checks.integer(radius, "radius", 0)
    words = f"everybody within {steps} step{'s' * (steps > 1)}" if steps else "everybody alone"
    return ListedGroups(graph.n, _within(graph, steps), words, owners=True)


def _within(graph: Graph, steps: int) -> Iterator[NDArray[np.int32]]:
    from scipy import sparse

    everybody = sparse.eye_array(graph.n, dtype=bool, format="csr")
    step = (graph.adjacency().astype(bool) + everybody).tocsr()
    rows = max(1, _AT_ONCE // graph.n)
    for first in range(0, graph.n, rows):
        near = everybody[first : first + rows]
        for _ in range(steps):
            before, near = near.nnz, near @ step
            if near.nnz == before:
                break
        near.sort_indices()
        for row in range(near.shape[0]):
            yield near.indices[near.indptr[row] : near.indptr[row + 1]]
