"""Who is where in a scrambled query, and until when everybody waits.

All of it is public and follows from the parameters alone, so that every party finds the others by
itself and nothing about an address depends on anybody's tuple:

* person i is in group i mod groups of every grouping set that they answer;
* a *cluster* is one grouping set of one group; its scrambler has the number set · groups + group;
* the compute nodes of all sets are numbered through, those of one set next to each other;
* spares stand by for any cluster.

A *unit* is what counts as a whole or not at all: a group, or a person where there are no
scramblers.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.runtime.actor import Address
from incrowd.protocols.runtime.context import Timing

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_DEVICE, _SCRAMBLER, _SPARE, _COMPUTE = "device/", "scrambler/", "spare/", "compute/"


@dataclass(frozen=True)
class Deadlines:
    """In seconds after the start; none is reached where everybody is there."""

    people: float
    """People without a scrambler wait no longer for compute nodes that are silent."""
    scramblers: float
    """A scrambler waits no longer for its people, nor a curator for people who have none."""
    replaced: float
    """A group whose scrambler has not asked for its grant goes to a spare."""
    pause: float
    """So long after that a spare that has not answered is passed over for the next."""
    spares: float
    """A spare waits no longer for people."""
    compute: float
    """A compute node waits no longer for scramblers."""
    counted: float
    """The curator waits no longer for compute nodes to say which groups came."""
    result: float
    """Nobody waits for anybody any more."""


def deadlines(timing: Timing) -> Deadlines:
    """How long everybody waits, by the patience of whoever collects."""
    patience = timing.patience
    return Deadlines(
        people=0.5 * patience,
        scramblers=patience,
        replaced=1.5 * patience,
        pause=0.25 * patience,
        spares=2.5 * patience,
        compute=3 * patience,
        counted=3.25 * patience,
        result=3.5 * patience,
    )


def group_of(people: int, groups: int) -> NDArray[np.intp]:
    """The group of each person."""
    return np.arange(people, dtype=np.intp) % groups


def set_of(people: int, groups: int, sets: int) -> NDArray[np.intp]:
    """The one grouping set that each person answers, where everyone answers one."""
    return np.arange(people, dtype=np.intp) // max(1, groups) % sets


@dataclass(frozen=True)
class Places:
    """The places of one query."""

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
        chosen = protocol
        one = chosen.answers == "one"
        return cls(chosen.people, chosen.groups, protocol.set_targets, chosen.spares, one)

    @property
    def local(self) -> bool:
        """Whether people send to compute nodes themselves."""
        return self.groups == 0

    @property
    def clusters(self) -> int:
        """How many scramblers there are."""
        return self.groups * len(self.targets)

    @property
    def units(self) -> int:
        """How many groups of a set there are, or people where there are no groups."""
        return self.groups or self.people

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The number of the first compute node of each set, and how many there are in all."""
        return tuple(accumulate(self.targets, initial=0))

    # Addresses.

    def scrambler(self, cluster: int) -> Address:
        """Who mixes the messages of a cluster."""
        return f"{_SCRAMBLER}{cluster}"

    def spare(self, index: int) -> Address:
        """Who stands by."""
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

    def target_of(self, node: int) -> tuple[int, int]:
        """The grouping set of a compute node, and which of its targets it is."""
        index = bisect_right(self.first, node) - 1
        return index, node - self.first[index]

    def person_of(self, address: Address) -> int | None:
        """Whose device this is."""
        return _number(address, _DEVICE, self.people)

    # People.

    def sets(self, person: int) -> tuple[int, ...]:
        """The grouping sets that a person answers."""
        if not self.one:
            return tuple(range(len(self.targets)))
        return (person // max(1, self.groups) % len(self.targets),)

    def cluster(self, index: int, person: int) -> int:
        """Where the messages of a person for a grouping set are mixed."""
        return index * self.groups + person % self.groups

    def set_and_group(self, cluster: int) -> tuple[int, int]:
        """What a cluster is made of."""
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
    """Where a person's messages may go: to their scramblers and spares, or to compute nodes."""
    places = Places.of(protocol)
    if places.local:
        return tuple(
            places.compute(index, target)
            for index in places.sets(person)
            for target in range(places.targets[index])
        )
    mixed = (places.scrambler(places.cluster(index, person)) for index in places.sets(person))
    return (*mixed, *map(places.spare, range(places.spares)))
