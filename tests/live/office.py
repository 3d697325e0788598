"""A curator's office that signs whatever a test wants signed, and examines it as a device would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from incrowd.graphs import families
from incrowd.live import task as tasks
from incrowd.live.accounting import CELLS, promises_of
from incrowd.live.admission import Offer, examine
from incrowd.live.authority import Authority
from incrowd.live.curator import Proposal, propose
from incrowd.live.keys import KeyRecord, PrivateKeys, Role
from incrowd.live.options import LiveOptions
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.task import Join, Start
from incrowd.protocols.api import Protocol
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.runtime.actor import CURATOR
from incrowd.protocols.runtime.context import Timing
from incrowd.randomizers import KRR
from incrowd.tasks.histogram import Histogram
from tests.live.specs import changed

NOW = time.time() + 3600
"""Ahead of every certificate that a test makes, however long after this line it runs."""
PEOPLE = 6
EVERYONE = list(range(PEOPLE))
DELTA = 0.05
"""Large enough for a crowd of six to hide anyone."""
FRIENDS = families.complete(PEOPLE)
QUESTION = Histogram(categories=("no", "yes"), complete=True)


def walk(**options: Any) -> NetworkShuffle:
    return NetworkShuffle(KRR(categories=2, epsilon=1.0), graph=FRIENDS, **{"rounds": 4, **options})


@dataclass
class Office:
    """An authority, a curator and people, who can sign whatever a test wants signed."""

    authority: Authority = field(default_factory=Authority.create)

    def __post_init__(self) -> None:
        self.people = [self.authority.issue(f"p{place}", Role.device) for place in range(PEOPLE)]
        self.curator = self.authority.issue("census", Role.curator)
        self.shuffler = self.authority.issue("shuffler", Role.helper)

    def proposal(self, protocol: Protocol | None = None, **options: Any) -> Proposal:
        protocol = protocol or walk()
        task, column = options.pop("task", QUESTION), options.pop("column", "cycles")
        helpers = {CURATOR: self.curator.record(), "shuffler": self.shuffler.record()}
        return propose(
            protocol,
            task,
            question="Do you cycle?",
            column=column,
            delta=DELTA,
            roster=[each.record() for each in self.people],
            helpers={each: helpers[each] for each in protocol.helpers},
            keys=self.curator,
            options=LiveOptions(**{"min_crowd": 4, **options}),
            timing=Timing(round_seconds=1.0),
            expires=NOW + 600,
        )

    def signed(self, proposal: Proposal, **changes: Any) -> bytes:
        """The task with other contents, under the curator's own signature."""
        spec = changed(proposal.spec, **changes)
        return tasks.encode_signed(tasks.sign_task(spec, self.curator.identity))

    def examine(
        self, proposal: Proposal, *, shown: bytes | None = None, revoked: Any = (), **changes: Any
    ) -> Offer:
        return self.read(
            self.signed(proposal, **changes), shown or proposal.roster, proposal.graph, revoked
        )

    def read(self, signed: bytes, roster: bytes, graph: bytes | None, revoked: Any = ()) -> Offer:
        certificate = self.authority.certificate
        return examine(signed, roster, graph, authority=certificate, revoked=revoked, now=NOW)

    def with_roster(self, records: list[KeyRecord], **changes: Any) -> Offer:
        """The survey asked of these instead, with everything signed accordingly."""
        roster, hashed = tasks.encode_roster(records)
        asked = {"roster": hashed, "people": len(records), **changes}
        return self.examine(self.proposal(), shown=roster, **asked)

    def start(self, offer: Offer, places: list[int], **changes: Any) -> bytes:
        """A start with these people, as an honest curator would sign it, but for the changes."""
        few = offer.protocol if len(places) == PEOPLE else offer.protocol.subset(places)
        if len(places) < PEOPLE and offer.plan is not None:
            few = few.covered(DELTA, CELLS)
        fields: dict[str, Any] = {
            "digest": offer.digest,
            "at": NOW + 5,
            "joins": [self.join(offer, place) for place in places],
            "promises": promises_of(few, DELTA),
        }
        start = Start(**(fields | changes))
        return tasks.encode_signed(tasks.sign_start(start, self.curator.identity))

    def join(self, offer: Offer, place: int, keys: PrivateKeys | None = None) -> Join:
        identity = (keys or self.people[place]).identity
        return tasks.join_task(offer.digest, place, identity)


def refused(reason: Reason, work: Callable[[], object], says: str | None = None) -> None:
    with pytest.raises(Rejected, match=says) as caught:
        work()
    assert caught.value.reason is reason, caught.value
