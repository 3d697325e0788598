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

from incrowd.live import task as tasks
from incrowd.live.accounting import (
    FAR,
    Built,
    Costs,
    Request,
    build,
    check_limits,
    recompute,
    subset,
)
from incrowd.live.cells import number
from incrowd.live.keys import KeyRecord, Role, check
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.task import Spec, Start
from incrowd.protocols.api import Protocol
from incrowd.protocols.runtime.actor import CURATOR, Address, device
from incrowd.protocols.runtime.cover import CoverPlan
from incrowd.tasks.base import Task

_LAST_WORDS = 120.0
"""Whoever collects stops waiting at a deadline, and what it says then still has to arrive."""


@dataclass(frozen=True)
class Offer:
    """A task that was examined and found to be what it says."""

    signed: tasks.Signed
    spec: Spec
    digest: bytes
    roster: Sequence[KeyRecord]
    built: Built
    graph: bytes | None
    costs: Costs
    """Recomputed guarantees when nobody colludes."""

    @property
    def protocol(self) -> Protocol:
        """The protocol among everyone on the roster."""
        return self.built.protocol

    @property
    def plan(self) -> CoverPlan | None:
        """The timetable of cover traffic."""
        return self.built.plan

    @property
    def task(self) -> Task:
        """The question."""
        return self.built.task

    @property
    def delta(self) -> float:
        """The least δ of its promises."""
        return self.built.delta

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
        if not now - FAR < start.at < now + FAR:
            raise Rejected(Reason.expired, "the survey is said to start at an impossible time")
        tasks.check_joins(start, self.roster, self.spec.min_crowd)
        serials = [self.serials[place] for place in start.people]
        serials += [record.certificate_serial for record in self.spec.helpers.values()]
        if not set(revoked).isdisjoint(serials):
            raise Rejected(Reason.revoked, "somebody takes part whose certificate was withdrawn")
        encoded = tasks.encode_signed(self.signed)
        whole = len(start.people) == len(self.roster)
        costs = self.costs
        if not whole or start.promises != self.spec.promises:
            request = Request(encoded, self.graph, start.people, start.promises)
            costs = recompute(request)
        built = subset(self.built, self.spec, start.people)
        return Started(self, start, tasks.digest_of(signed), built.protocol, built.plan, costs)

    def charged(self, colluders: int) -> Costs:
        """Costs together with any such number of people on the roster; takes time to recompute."""
        if not colluders:
            return self.costs
        return recompute(Request(tasks.encode_signed(self.signed), self.graph, colluders=colluders))


@dataclass(frozen=True)
class Started:
    """A run that was examined: who takes part, since when, and by which protocol."""

    offer: Offer
    start: Start
    context: bytes
    """The digest of the start: it stands for everything that this run is bound to."""
    protocol: Protocol
    plan: CoverPlan | None
    costs: Costs
    """Recomputed guarantees for this crowd when nobody colludes."""
    records: dict[Address, KeyRecord] = field(init=False)
    """The keys of everyone who takes part, by address."""

    def __post_init__(self) -> None:
        """Number those who joined anew, in the order of the roster."""
        crowd = [self.offer.roster[place] for place in self.start.people]
        records = {device(person): record for person, record in enumerate(crowd)}
        object.__setattr__(self, "records", records | dict(self.offer.spec.helpers))

    def charged(self, colluders: int) -> Costs:
        """Costs together with any such number of people; takes time to recompute."""
        if not colluders:
            return self.costs
        start, offer = self.start, self.offer
        encoded = tasks.encode_signed(offer.signed)
        return recompute(Request(encoded, offer.graph, start.people, start.promises, colluders))

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
        return self.start.at + self.protocol.duration(self.offer.spec.timing) + _LAST_WORDS


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
    check_limits(spec, graph)
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
        raise Rejected(Reason.malformed, "roster and task state different numbers of people")
    # Only what could be recomputed within the bounds of the sandbox is built here as well.
    costs = recompute(Request(signed, graph))
    built = build(spec, graph)
    return Offer(task, spec, tasks.digest_of(task), people, built, graph, costs)
