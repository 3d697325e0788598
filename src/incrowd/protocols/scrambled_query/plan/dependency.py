"""Dependency of a plan on one tuple, and the charges of the tuple for it.

A tuple reaches nodes: its own, then those that hear of it. Followed stage by stage, this gives for
each cluster the number c of its messages that may change, and so which clusters the tuple is
charged for at all. Noise in what a stage sends on ends the way of the tuple, and is charged
instead.

The chance of redirection in a cluster mixes a tuple with others. Redirection decides which tuples
are real, so whatever is observed later and depends on that betrays some of it:

* a later cluster that is routed by it leaves only the redirection of the tuple's own sender: ε0 is
  charged;
* a release with pure noise leaves the mixing if it is charged for two records instead of one, the
  tuple's own and one that it changed places with; or ε0 is charged and the release once;
* without redirection, or where senders hide their own messages without mixing, nothing is lost.

Proofs: ``docs/theory/plans.md``. The charges of one tuple compose adaptively, in the order of the
plan; the guarantee of a plan is that of its worst-off people.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from incrowd.errors import NotProven
from incrowd.privacy.greatest import greatest
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.least import LeastProfile, LentProfile
from incrowd.privacy.local import LocalProfile
from incrowd.privacy.pure import PureProfile
from incrowd.protocols.scrambled_query.theorems import group_privacy as groups
from incrowd.protocols.scrambled_query.theorems import mechanisms
from incrowd.randomizers import Redirect

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.plan.model import Cluster, Plan, Stage

_ROUND = 2.0**-48

Means = Literal["mixing", "lies", "noise"]
"""Protection of a change: a cluster's mixing, one sender's redirection alone, or noise."""


@dataclass(frozen=True)
class Charge:
    """Charge of one tuple for one cluster, or for the release of one stage."""

    name: str
    means: Means
    changes: int
    """Messages of the cluster that may change, or records behind the release."""
    parts: tuple[tuple[Profile, int], ...]
    swaps: frozenset[str] = frozenset()
    """The clusters in which the tuple may change places with another, as far as this release."""


def profile(plan: Plan, *, released: bool, colluders: int) -> Profile:
    """Return the curve of the worst-off people."""
    options = []
    for people in plan.peoples:
        charged = partial(charges, plan, people, released=released, colluders=colluders)
        ways = [_together(charged(mixed=mixed)) for mixed in (True, False)]
        options.append(ways[0] if ways[0] == ways[1] else LeastProfile(*ways))
    return greatest(tuple(dict.fromkeys(options)))


def _together(found: tuple[Charge, ...]) -> Profile:
    counted: dict[Profile, int] = {}
    for part, rounds in (
        *(each for charge in found if not charge.swaps for each in charge.parts),
        *((PureProfile(loss), 1) for loss in _swapped([each for each in found if each.swaps])),
    ):
        # A loss of zero tells nothing and cannot be composed.
        if part.greatest_loss:
            counted[part] = counted.get(part, 0) + rounds
    return groups.TogetherProfile(tuple(counted.items())) if counted else PureProfile(0.0)


def _swapped(releases: list[Charge]) -> list[float]:
    """Losses of releases, added up where the same places may have been changed before.

    The first of them tells who changed places with whom; others are independent.
    """
    joint: list[tuple[frozenset[str], float]] = []
    for each in releases:
        joined = [group for group in joint if group[0] & each.swaps]
        swaps = each.swaps.union(*(group[0] for group in joined))
        loss = sum(part.greatest_loss * rounds for part, rounds in each.parts)
        joint = [group for group in joint if group not in joined]
        joint.append((swaps, loss + sum(group[1] for group in joined)))
    return [loss for _, loss in joint]


def charges(
    plan: Plan, people: str, *, released: bool = False, colluders: int = 0, mixed: bool = True
) -> tuple[Charge, ...]:
    """Return all charges of a tuple of these people, in the order of the plan.

    ``mixed``: a release after redirection is charged for two records; otherwise ε0 is charged.
    """
    return tuple(_Follower(plan, people, released, colluders, mixed).follow())


@dataclass
class _Follower:
    plan: Plan
    people: str
    released: bool
    colluders: int
    mixed: bool
    reached: dict[str, int] = field(default_factory=dict)
    """Nodes of each stage whose input may change."""
    arrived: dict[str, int] = field(default_factory=dict)
    """Nodes that may hear something else through each cluster."""
    records: dict[str, int] = field(default_factory=dict)
    """Messages that may be others, as a stage receives them."""
    swaps: dict[str, frozenset[str]] = field(default_factory=dict)
    """Clusters in which places may have been changed among what a stage receives."""

    def follow(self) -> list[Charge]:
        found: list[Charge] = []
        for stage in self.plan.ordered:
            if stage.kind == "source" and stage.people == self.people:
                self.reached[stage.name] = min(stage.nodes, self.reached.get(stage.name, 0) + 1)
            if self.released and stage.kind == "result" and self.reached.get(stage.name):
                raise NotProven(
                    f"{stage.name} gets tuples of {self.people} without noise: release what is "
                    "sent there, or choose a view of the network alone"
                )
            records = self.records.get(stage.name)
            if stage.release and records and self._observed(stage):
                swaps = self.swaps.get(stage.name, frozenset())
                noise = PureProfile(records * stage.release)
                found.append(Charge(stage.name, "noise", records, ((noise, 1),), swaps))
            for cluster in self.plan.leaving(stage.name):
                found += self._send(stage, cluster)
        return found

    def _send(self, stage: Stage, cluster: Cluster) -> list[Charge]:
        """Charge a cluster, and note where the tuple goes through it."""
        raw = 0 if stage.release else self.reached.get(stage.name, 0)
        own = cluster.by_own and stage.people == self.people
        heard = sum(self.arrived.get(name, 0) for name in cluster.heard)
        changes = min(stage.nodes, int(own) + heard) if cluster.tells else 0
        if not changes or cluster.routing is None:
            self._arrive(cluster, raw, 1, 1)
            return []
        means, exchanged = self._means(cluster, cluster.routing, changes)
        self._arrive(cluster, raw, 1 if means == "lies" else 2, exchanged)
        parts = self._parts(cluster, cluster.routing, means, changes)
        return [Charge(cluster.name, means, changes, parts)]

    def _arrive(self, cluster: Cluster, raw: int, moved: int, exchanged: int) -> None:
        target = self.plan.stage(cluster.targets)
        nodes = target.nodes if raw and cluster.everyone else raw * moved
        self.arrived[cluster.name] = min(target.nodes, nodes)
        self.reached[target.name] = min(target.nodes, self.reached.get(target.name, 0) + nodes)
        copies = target.nodes if cluster.everyone else 1
        self.records[target.name] = self.records.get(target.name, 0) + raw * exchanged * copies
        if raw:
            new = frozenset({cluster.name}) if exchanged > 1 else frozenset()
            known = (self.swaps.get(name, frozenset()) for name in (target.name, cluster.senders))
            self.swaps[target.name] = new.union(*known)

    def _means(
        self, cluster: Cluster, routing: mechanisms.Routing, changes: int
    ) -> tuple[Means, int]:
        """The protection of a cluster's messages, and the records that a release is charged for."""
        # A sender who hides alone changes places with no one: only their own tuple is betrayed.
        alone = not routing.coins or isinstance(routing, mechanisms.Flooding)
        later = set() if alone else self._betrayed_by(cluster)
        if not later:
            return "mixing", 1
        pairs = self.mixed and changes == 1 and not isinstance(routing, mechanisms.CappedScrambler)
        return ("mixing", 2) if pairs and "routing" not in later else ("lies", 1)

    def _betrayed_by(self, cluster: Cluster) -> set[str]:
        """Later observations that depend on a cluster: a routing, a release, or both."""
        target = self.plan.stage(cluster.targets)
        found: set[str] = {"release"} if target.release and self._observed(target) else set()
        for onward in self.plan.leaving(target.name):
            if onward.tells and cluster.name in onward.heard:
                found.add("routing")
            if not target.release:
                found |= self._betrayed_by(onward)
        return found

    def _observed(self, stage: Stage) -> bool:
        """Whether the messages of a stage decide a later routing, or are shown as a result."""
        return any(self._shows(cluster) for cluster in self.plan.leaving(stage.name))

    def _shows(self, cluster: Cluster) -> bool:
        target = self.plan.stage(cluster.targets)
        if target.kind == "result":
            return self.released
        return any(
            (onward.tells and cluster.name in onward.heard) or self._shows(onward)
            for onward in self.plan.leaving(target.name)
        )

    def _parts(
        self, cluster: Cluster, routing: mechanisms.Routing, means: Means, changes: int
    ) -> tuple[tuple[Profile, int], ...]:
        if means == "lies":
            return ((_alone(routing), changes),)
        one = routing.profile(self.colluders)
        if cluster.heard:
            # An attack chooses where the others send, which earlier messages may not let them do.
            one = LentProfile(one)
        if changes == 1:
            return ((one, 1),)
        group: Profile = groups.GroupProfile(one, changes)
        if routing.coins:
            group = LeastProfile(group, groups.TogetherProfile(((_alone(routing), changes),)))
        return ((group, 1),)


def _alone(routing: mechanisms.Routing) -> Profile:
    """One sender's redirection, seen by itself: attacks on it are none here."""
    if isinstance(routing, mechanisms.SomeScrambler):
        return LentProfile(LocalProfile(routing.randomizer))
    if isinstance(routing, mechanisms.Flooding):
        return LentProfile(routing.profile())
    redirect = Redirect(targets=routing.targets, redirect_probability=routing.sampling)
    # A message that reaches its target tells most, one that goes to the other target least.
    return LentProfile(PureProfile(redirect.epsilon, min(1.0, redirect.kept * (1 + _ROUND))))
