"""Topology of a scrambled query: addresses, assignments and deadlines.

All of it is public and follows from the parameters alone, so that every party finds the others by
itself and nothing about an address depends on anybody's tuple:

* person i is in group i mod groups of every grouping set that they answer;
* a *cluster* is one grouping set of one group; its scrambler has the number set · groups + group;
* the compute nodes of all sets are numbered through, those of one set next to each other;
* spares stand by for any cluster.

A *unit* counts as a whole or not at all: a group, or a person where there are no scramblers.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.runtime.actor import Address
from incrowd.protocols.runtime.context import Timing

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_DEVICE, _SCRAMBLER, _SPARE, _COMPUTE = "device/", "scrambler/", "spare/", "compute/"


class Deadlines(NamedTuple):
    """Seconds after the start for a timeout of one; none is reached where everybody is there."""

    people: float = 0.5
    """People without a scrambler stop waiting for silent compute nodes."""
    scramblers: float = 1.0
    """A scrambler stops waiting for its people, and a curator for people who have none."""
    replaced: float = 1.5
    """A group whose scrambler has not asked for its grant goes to a spare."""
    pause: float = 0.25
    """Time after that in which a spare must answer before the next one is asked."""
    spares: float = 2.5
    """A spare stops waiting for people."""
    compute: float = 3.0
    """A compute node stops waiting for scramblers."""
    counted: float = 3.25
    """The curator stops waiting for compute nodes to say which groups came."""
    result: float = 3.5
    """The end of all waiting."""


def deadlines(timing: Timing) -> Deadlines:
    """Scale the deadlines to the timeout of the collecting party."""
    return Deadlines(*(each * timing.timeout for each in Deadlines()))


def group_of(people: int, groups: int) -> NDArray[np.intp]:
    """The group of each person."""
    return np.arange(people, dtype=np.intp) % groups


def set_of(people: int, groups: int, sets: int) -> NDArray[np.intp]:
    """The one grouping set that each person answers, where everyone answers one."""
    return np.arange(people, dtype=np.intp) // max(1, groups) % sets


@dataclass(frozen=True)
class Places:
    """Addresses and assignments of one query."""

    people: int
    groups: int
    """Of each grouping set; none without scramblers."""
    targets: tuple[int, ...]
    spares: int
    one: bool
    """Whether everyone answers one grouping set only."""

    @classmethod
    def of(cls, protocol: ScrambledQuery) -> Places:
        """Those of this protocol."""
        people, groups, one = protocol.people, protocol.groups, protocol.sets_per_person == "one"
        return cls(people, groups, protocol.set_targets, protocol.standby_scramblers, one)

    @property
    def local(self) -> bool:
        """Whether people send to compute nodes themselves."""
        return self.groups == 0

    @property
    def clusters(self) -> int:
        """The number of scramblers."""
        return self.groups * len(self.targets)

    @property
    def units(self) -> int:
        """The number of groups of a set, or of people where there are no groups."""
        return self.groups or self.people

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The number of the first compute node of each set, and of all compute nodes."""
        return tuple(accumulate(self.targets, initial=0))

    # Addresses.

    def scrambler(self, cluster: int) -> Address:
        """The scrambler that a cluster has from the beginning."""
        return f"{_SCRAMBLER}{cluster}"

    def spare(self, index: int) -> Address:
        """A scrambler that stands by."""
        return f"{_SPARE}{index}"

    def compute(self, index: int, target: int) -> Address:
        """The compute node of one target of one grouping set."""
        return f"{_COMPUTE}{self.first[index] + target}"

    def cluster_of(self, address: Address) -> int | None:
        """The cluster that a scrambler has from the beginning."""
        return _number(address, _SCRAMBLER, self.clusters)

    def spare_of(self, address: Address) -> int | None:
        """The number of a spare."""
        return _number(address, _SPARE, self.spares)

    def node_of(self, address: Address) -> int | None:
        """The number of a compute node."""
        return _number(address, _COMPUTE, self.first[-1])

    def person_of(self, address: Address) -> int | None:
        """The owner of a device."""
        return _number(address, _DEVICE, self.people)

    def target_of(self, node: int) -> tuple[int, int]:
        """The grouping set of a compute node, and which of its targets it is."""
        index = bisect_right(self.first, node) - 1
        return index, node - self.first[index]

    def nodes(self, index: int) -> range:
        """The compute nodes of a grouping set."""
        return range(*self.first[index : index + 2])

    # People.

    def sets(self, person: int) -> tuple[int, ...]:
        """The grouping sets that a person answers."""
        if not self.one:
            return tuple(range(len(self.targets)))
        return (person // max(1, self.groups) % len(self.targets),)

    def cluster(self, index: int, person: int) -> int:
        """The cluster in which a person's messages for a grouping set are mixed."""
        return index * self.groups + person % self.groups

    def set_and_group(self, cluster: int) -> tuple[int, int]:
        """The grouping set and the group of a cluster."""
        return divmod(cluster, self.groups)

    def members(self, cluster: int) -> list[int]:
        """The people whose messages are mixed in a cluster."""
        index, group = self.set_and_group(cluster)
        everyone = range(group, self.people, self.groups)
        return [person for person in everyone if not self.one or index in self.sets(person)]

    def answering(self, index: int) -> list[int]:
        """The people who answer a grouping set."""
        return [each for each in range(self.people) if not self.one or index in self.sets(each)]


def _number(address: Address, family: str, count: int) -> int | None:
    digits = address.removeprefix(family)
    if digits == address or not (digits.isascii() and digits.isdigit()) or len(digits) > 10:
        return None
    number = int(digits)
    return number if number < count and str(number) == digits else None


def helpers(protocol: ScrambledQuery) -> tuple[Address, ...]:
    """Scramblers, those that stand by, and compute nodes."""
    places = Places.of(protocol)
    return (
        *map(places.scrambler, range(places.clusters)),
        *map(places.spare, range(places.spares)),
        *(f"{_COMPUTE}{node}" for node in range(places.first[-1])),
    )


def contacts(protocol: ScrambledQuery, person: int) -> tuple[Address, ...]:
    """Receivers of a person's messages: their scramblers and all spares, or compute nodes."""
    places = Places.of(protocol)
    sets = places.sets(person)
    if places.local:
        return tuple(f"{_COMPUTE}{node}" for index in sets for node in places.nodes(index))
    mixed = (places.scrambler(places.cluster(index, person)) for index in sets)
    return (*mixed, *map(places.spare, range(places.spares)))
