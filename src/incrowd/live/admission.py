"""What a party checks before it takes part in anything: the hub is not believed.

An :class:`Offer` is a task after these checks, all made from bytes that may come from anywhere:

* the task is signed by a certified curator and has not expired; its helpers are certified;
* roster and graph are the ones whose hashes were signed; every person on the roster has a certified
  key of their own, and there are enough of them;
* protocol, parameters and randomizer are ones this software knows, and fit the people;
* **every stated promise is recomputed** from these public parts alone, and none was stated lower.

A start is then checked for the joins of a whole crowd under the same digest, and its promises are
recomputed for exactly those people. Both are done once per process however many devices it hosts,
since they depend on nothing that is a device's own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cryptography import x509

from incrowd.errors import IncrowdError
from incrowd.graphs.graph import Graph
from incrowd.live import task as tasks
from incrowd.live.cells import CAPACITY, RECORD, number
from incrowd.live.keys import KeyRecord, Role, check
from incrowd.live.links import SEAL
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.task import Promise, Spec, Start
from incrowd.protocols.actor import CURATOR, Address, device
from incrowd.protocols.base import VIEWS, Protocol
from incrowd.protocols.cover import CellFormat, CoverPlan
from incrowd.tasks.base import Task

__all__ = ["CELLS", "VIEWS", "Offer", "Started", "examine", "promises_of"]

CELLS = CellFormat(capacity=CAPACITY, record=RECORD, seal=SEAL)
"""How much fits into a cell, for the plans of cover traffic."""

_SHORTEST_ROUND = 0.1
_MOST_ROUNDS = 10_000
_FAR = 30 * 86_400.0
"""No start lies further ahead than this, in seconds."""
_LAST_WORDS = 120.0
"""Whoever collects stops waiting at a deadline, and what it says then still has to arrive."""


@dataclass(frozen=True)
class Offer:
    """A task that was examined and found to be what it says."""

    signed: tasks.Signed
    spec: Spec
    digest: bytes
    roster: Sequence[KeyRecord]
    protocol: Protocol
    plan: CoverPlan | None
    task: Task
    delta: float

    @cached_property
    def serials(self) -> list[int]:
        """The serial numbers of the certificates on the roster."""
        return [record.certificate_serial for record in self.roster]

    @cached_property
    def places(self) -> dict[bytes, int]:
        """The place of each identity on the roster."""
        return {record.identity: place for place, record in enumerate(self.roster)}

    def started(self, encoded: bytes, now: float, revoked: Collection[int] = ()) -> Started:
        """The run that a start describes, or a refusal."""
        signed, start = tasks.read_start(encoded, self.spec, self.digest)
        if not now - _FAR < start.at < now + _FAR:
            raise Rejected(Reason.expired, "the survey is said to start at an impossible time")
        tasks.check_joins(start, self.roster, self.spec.min_crowd)
        serials = [self.serials[place] for place in start.people]
        serials += [record.certificate_serial for record in self.spec.helpers.values()]
        if not set(revoked).isdisjoint(serials):
            raise Rejected(Reason.revoked, "somebody takes part whose certificate was withdrawn")
        protocol, plan = self.protocol, self.plan
        if len(start.people) < len(self.roster):
            try:
                fewer = self.protocol.among(start.people)
            except IncrowdError as error:
                raise Rejected(Reason.malformed, str(error)) from error
            protocol, plan = _covered(fewer, self.spec, self.delta)
        if protocol is not self.protocol or start.promises != self.spec.promises:
            _check_views(start.promises, self.protocol.views)
            _recompute(protocol, start.promises)
        return Started(self, start, tasks.digest_of(signed), protocol, plan)


@dataclass(frozen=True)
class Started:
    """A run that was examined: who takes part, since when, and by which protocol."""

    offer: Offer
    start: Start
    context: bytes
    """The digest of the start: it stands for everything that this run is bound to."""
    protocol: Protocol
    plan: CoverPlan | None
    records: dict[Address, KeyRecord] = field(init=False)
    """The keys of everyone who takes part, by address."""

    def __post_init__(self) -> None:
        """Number those who joined anew, in the order of the roster."""
        crowd = [self.offer.roster[place] for place in self.start.people]
        records = {device(person): record for person, record in enumerate(crowd)}
        object.__setattr__(self, "records", records | dict(self.offer.spec.helpers))

    def address_of(self, identity: bytes) -> Address | None:
        """Which party of the run has this key; none when it has no part in it."""
        return self._addresses.get(identity)

    @cached_property
    def _addresses(self) -> dict[bytes, Address]:
        return {record.identity: address for address, record in self.records.items()}

    def stage(self, now: float) -> tuple[str, int, int]:
        """What is going on at this time, and how much of how much of it."""
        rounds = self.protocol.cost().rounds
        done = int((now - self.start.at) // self.offer.spec.timing.round_seconds)
        if done < 0:
            return "comparing", 0, 0
        return ("round", done + 1, rounds) if done < rounds else ("handing in", 0, 0)

    @cached_property
    def serials(self) -> dict[int, int]:
        """The serial numbers of everyone's certificates, by their number in cells."""
        return {number(each): record.certificate_serial for each, record in self.records.items()}

    @property
    def ends(self) -> float:
        """When everyone may leave, in seconds since 1970, if nobody says so before."""
        return self.start.at + self.protocol.lasts(self.offer.spec.timing) + _LAST_WORDS


def examine(
    signed: bytes,
    roster: bytes,
    graph: bytes | None,
    *,
    authority: x509.Certificate,
    revoked: Collection[int],
    now: float,
) -> Offer:
    """The task in these bytes, or ``Rejected`` with what is wrong with it."""
    task, spec = tasks.read_task(signed)
    if not now < spec.expires < math.inf:
        raise Rejected(Reason.expired, "the survey is over, or never ends")
    for address, record in spec.helpers.items():
        role = Role.curator if address == CURATOR else Role.helper
        check(record, authority, now, revoked, role)
    people = tasks.decode_roster(roster, spec.roster)
    for record in people:
        # Whoever was revoked cannot be in a start; that they were asked harms nobody.
        check(record, authority, now, (), Role.device)
    if len(people) != spec.people or spec.people < spec.min_crowd:
        raise Rejected(Reason.malformed, "the roster does not have the people that were promised")
    shown = _graph(spec, graph)
    protocol, asked = tasks.offered_protocol(spec, shown)
    _check_fit(spec, protocol)
    _check_views(spec.promises, protocol.views)
    delta = min(promise.delta for promise in spec.promises)
    _check_playable(spec, protocol)
    protocol, plan = _covered(protocol, spec, delta)
    _recompute(protocol, spec.promises)
    return Offer(task, spec, tasks.digest_of(task), people, protocol, plan, asked, delta)


def promises_of(protocol: Protocol, delta: float) -> list[Promise]:
    """What is proven about a protocol against each view at this δ."""
    return [
        Promise(view=view, epsilon=protocol.guarantee(view).epsilon(delta), delta=delta)
        for view in protocol.views
    ]


def _graph(spec: Spec, encoded: bytes | None) -> Graph | None:
    if spec.graph is None:
        if encoded is not None:
            raise Rejected(Reason.malformed, "a graph is shown that was not signed")
        return None
    if encoded is None:
        raise Rejected(Reason.malformed, "the graph that was signed is not shown")
    return tasks.decode_graph(encoded, spec.graph)


def _check_fit(spec: Spec, protocol: Protocol) -> None:
    """Parameters of another crowd, other parties, and randomizers that leak are refused."""
    if protocol.parameters.n != spec.people:
        raise Rejected(Reason.malformed, "the parameters are those of another number of people")
    if protocol.parameters != protocol.published():
        raise Rejected(Reason.malformed, "the parameters mean something on one machine only")
    if set(protocol.helpers) != set(spec.helpers):
        raise Rejected(
            Reason.malformed,
            f"{protocol.kind} needs exactly {', '.join(protocol.helpers)} besides people",
        )
    if not protocol.randomizer.exact:
        raise Rejected(
            Reason.unproven,
            f"{protocol.randomizer.kind} is drawn in floating point, whose last bits can betray a "
            "value: choose onebit, krr or another randomizer that answers with whole numbers",
        )


def _check_playable(spec: Spec, protocol: Protocol) -> None:
    """What is proven about a crowd must be about one that can be played, for a time that ends."""
    if spec.timing.round_seconds < _SHORTEST_ROUND or spec.timing.settle < 1:
        # Else the walk could be over before anybody's report has left.
        raise Rejected(Reason.malformed, "the rounds are too short to be kept")
    try:
        protocol.contacts(0)
        lasts = protocol.lasts(spec.timing)
    except (ArithmeticError, IncrowdError) as error:
        raise Rejected(Reason.malformed, str(error)) from error
    if protocol.cost().rounds > _MOST_ROUNDS:
        raise Rejected(Reason.malformed, f"no survey needs more than {_MOST_ROUNDS} rounds")
    if not lasts < _FAR:
        raise Rejected(Reason.malformed, "the survey would take more than a month")


def _check_views(promises: Sequence[Promise], wanted: Sequence[str]) -> None:
    views = [promise.view for promise in promises]
    missing = set(wanted) - set(views)
    if missing:
        raise Rejected(Reason.unproven, f"nothing is promised against {', '.join(sorted(missing))}")
    if len(views) != len(set(views)):
        raise Rejected(Reason.malformed, "two promises are made against one view")
    for promise in promises:
        if not 0 < promise.delta < 1 or not math.isfinite(promise.epsilon):
            raise Rejected(Reason.unproven, "a promise must be a number")


def _covered(protocol: Protocol, spec: Spec, delta: float) -> tuple[Protocol, CoverPlan | None]:
    if not spec.cover:
        return protocol, None
    try:
        return protocol.covered(delta, CELLS)
    except (ArithmeticError, IncrowdError) as error:
        raise Rejected(Reason.unproven, str(error)) from error


def _recompute(protocol: Protocol, promises: Sequence[Promise]) -> None:
    """Refuse a promise that this software cannot prove."""
    for promise in promises:
        try:
            proven = protocol.guarantee(promise.view).epsilon(promise.delta)
        except (ArithmeticError, IncrowdError) as error:
            raise Rejected(Reason.unproven, str(error)) from error
        if not proven <= promise.epsilon:
            raise Rejected(
                Reason.unproven,
                f"epsilon {promise.epsilon:.6g} is promised against {promise.view}, but only "
                f"{proven:.6g} is proven",
            )
