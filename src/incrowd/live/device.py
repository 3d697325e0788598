"""One person's device: it decides by the owner's policy, and reads the answer when it begins.

Whether a device joins, declines, begins or leaves follows from the offer, the policy, the ledger
and the owner's wishes (``decide``, ``control``), never from an answer: none is looked at on the
way. The answer is read once, after the start is confirmed and the ledger has its line, in the
transaction that writes the report; a missing answer takes the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from numpy.typing import NDArray

from incrowd.errors import IncrowdError
from incrowd.live import task as tasks
from incrowd.live.accounting import Costs
from incrowd.live.admission import Offer, Started
from incrowd.live.answers import Answers
from incrowd.live.chain import Entry
from incrowd.live.control import Control, Wishes
from incrowd.live.decide import Decline, Join, decide
from incrowd.live.host import Host, patiently
from incrowd.live.journal import Fact
from incrowd.live.keys import PrivateKeys
from incrowd.live.ledger import DECLINED, RESERVED, Line, Refusal, Reservation
from incrowd.live.member import DIGEST, Member, latest_beginning, why
from incrowd.live.policy import Policy
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.terms import terms_of
from incrowd.protocols.runtime.actor import CURATOR

_REFUSALS: Final = 64
"""Refusals that are kept for the owner to read."""


class Device(Member):
    """Holds one person's answers, and takes part for them as far as their policy allows."""

    def __init__(
        self,
        keys: PrivateKeys,
        host: Host,
        path: Path | None = None,
        *,
        answers: Answers,
        policy: Policy | None,
        control: Control | None = None,
    ) -> None:
        """Without a policy everything is declined; ``control`` tells the owner's wishes."""
        super().__init__(keys, host, path)
        self._answers = answers
        self._policy = policy
        self._control = control

    async def live(self, survey: bytes) -> None:
        """Examine, decide, join, compare, report, forward, and hand in."""
        _, spec = await self.host.task(survey)
        known = self.host.facts(self.identity).get(survey, {})
        curator = spec.helpers[CURATOR].identity
        policy = self._policy
        if DIGEST not in known and (policy is None or policy.rule_of(curator) is None):
            # Nothing is computed for a curator without an entry; what has begun goes on.
            raise Rejected(Reason.policy, "the policy has no entry for this curator")
        self.open_offer(survey, curator)
        offer = await self.host.offer(survey)
        place = offer.places.get(self.identity)
        if place is None:
            raise Rejected(Reason.foreign, "this device is not on the roster")
        if known.get(DIGEST, offer.digest) != offer.digest:
            raise Rejected(Reason.equivocal, "another task of the same survey was joined before")
        colluders = 0 if policy is None else policy.colluders(curator, len(offer.roster))
        if DIGEST not in known:
            if DECLINED not in known and self.host.had_started(survey):
                await self._check_rollback(offer, colluders)
            charged = await self.host.charged(offer, colluders)
            reserved = self._decided(offer, colluders, charged).reservation
            line = Line.of(reserved, offer.digest, spec.question, spec.words)
            held = Reservation(line, spec.expires)
            await self.host.note(
                Fact(self.identity, survey, DIGEST, offer.digest),
                self.host.ledger.reserve(self.identity, held),
            )
        await self._join(offer, place)
        started = await self.host.start_of(offer)
        address = started.address_of(self.identity)
        if address is None:
            raise Rejected(Reason.foreign, "the survey started without this device")
        latest = latest_beginning(started, address)
        begun = await self.host.charged(started, colluders)
        joined: dict[str, str] = {}
        """Coarsenings to answer with, known when the ledger has the line."""

        def spend() -> Entry:
            if self.host.clocks.now(survey) >= latest:
                raise Rejected(Reason.expired, "it is too late to begin")
            decided = self._decided(offer, colluders, begun, started)
            joined.update(decided.coarsenings)
            line = Line.of(decided.reservation, offer.digest, spec.question, spec.words)
            return self.host.ledger.spend(self.identity, line)

        party = self.party(started, address, partial(self._value, offer, joined))
        await self.play(started, party, spend)

    async def withdraw(self) -> None:
        """End what has not begun and its owner has withdrawn from."""
        wishes = self._wishes()
        for survey, life in list(self._lives.items()):
            party = self.parties.get(survey)
            # What begins meanwhile asks for the same wishes, and does not.
            if wishes.withdraws(survey) and (party is None or not party.begun):
                await life.stop()
                await self._decline(survey, Rejected(Reason.withdrawn, "its owner has withdrawn"))
                self._leave(survey)

    def _decided(
        self, offer: Offer, colluders: int, charged: Costs, started: Started | None = None
    ) -> Join:
        """The decision on an offer, or on its start for the crowd that begins."""
        wishes, now, survey = self._wishes(), self.host.time(), offer.spec.survey
        if wishes.withdraws(survey):
            raise Rejected(Reason.withdrawn, "its owner has withdrawn")
        if self._policy is not None:
            leaves = self._policy.consent.mode == "ask" and (
                self._policy.consent.on_refusal == "leave"
            )
            if started is not None and leaves and not wishes.consents(survey):
                raise Rejected(Reason.consent, "its owner did not consent")
        standing = self.host.ledger.standing(self.identity, now, paused=wishes.paused)
        terms = terms_of(offer, colluders, charged, started)
        decided = decide(terms, self._policy, standing, now)
        if isinstance(decided, Decline):
            raise Rejected(decided.reason, decided.line)
        return decided

    def _wishes(self) -> Wishes:
        return Wishes() if self._control is None else self._control.wishes()

    async def _check_rollback(self, offer: Offer, colluders: int) -> None:
        """Charge and decline a survey that this device joined before its store knew of it.

        The start holds the device's own signature then, so a report may have left already.
        """
        started = await self.host.start_of(offer)
        if started.address_of(self.identity) is None:
            return
        charged = await self.host.charged(started, colluders)
        decided = self._decided(offer, colluders, charged, started)
        spec = offer.spec
        line = Line.of(decided.reservation, offer.digest, spec.question, spec.words)
        await self.host.player.write(entries=[self.host.ledger.spend(self.identity, line)])
        raise Rejected(
            Reason.answered, "the survey was joined before, and the store was rolled back since"
        )

    async def _join(self, offer: Offer, place: int) -> None:
        join = tasks.encode_join(tasks.join_task(offer.digest, place, self.keys.identity))
        refused = await patiently(lambda: self.connection.join(offer.spec.survey, join))
        # A survey that has started takes no more joins; whether this one is in, the start says.
        if refused not in (None, Reason.expired):
            raise Rejected(refused, "the hub does not take the join")

    def _value(self, offer: Offer, coarsenings: Mapping[str, str]) -> NDArray[Any]:
        """The owner's answer, encoded: read here alone, and whatever it is, the same steps.

        Without the consent that the policy asks for, nothing is read: that is no answer.
        """
        task, policy = offer.task, self._policy
        columns = task.asks(offer.spec.column)
        cells: list[str | None] = [None] * len(columns)
        ask = policy is not None and policy.consent.mode == "ask"
        if not ask or self._wishes().consents(offer.spec.survey):
            found = self._answers.read(columns)
            cells = [None if each is None else each.reveal() for each in found]
        if policy is not None:
            cells = [
                policy.column[name].coarsened(coarsenings[name], cell)
                if name in coarsenings
                else cell
                for name, cell in zip(columns, cells, strict=True)
            ]
        return task.encode(task.rows([cells]))

    async def _decline(self, survey: bytes, refusal: IncrowdError) -> None:
        await super()._decline(survey, refusal)
        facts = []
        if RESERVED in self.host.facts(self.identity).get(survey, {}):
            facts.append(self.host.ledger.release(self.identity, survey))
        # Offers that are one too many leave nothing behind.
        if (reason := why(refusal)) != Reason.full:
            told = await self._refusal(survey, reason, str(refusal))
            facts.append(Fact(self.identity, survey, DECLINED, msgspec.msgpack.encode(told)))
            facts += self._oldest_refusals()
        if facts:
            await self.host.note(*facts)

    async def _refusal(self, survey: bytes, reason: str, line: str) -> Refusal:
        """The refusal of an offer, with its questions and its curator as far as it can be read."""
        now = self.host.time()
        try:
            _, spec = await self.host.task(survey)
        except Rejected:
            return Refusal(now, "", b"", reason, line)
        curator = spec.helpers[CURATOR].identity
        return Refusal(now, spec.question, curator, reason, line, spec.words)

    def _oldest_refusals(self) -> list[Fact]:
        """Forget all but the newest refusals."""
        known = [
            (msgspec.msgpack.decode(facts[DECLINED], type=Refusal).at, survey)
            for survey, facts in self.host.facts(self.identity).items()
            if DECLINED in facts
        ]
        gone = sorted(known, reverse=True)[_REFUSALS - 1 :]
        return [Fact(self.identity, survey, DECLINED, None) for _, survey in gone]
