"""Surveys that each owner has answered or reserved, and their cost.

Privacy losses add up: whoever has taken part in surveys of (ε₁, δ₁), (ε₂, δ₂), … is protected by
(Σε, Σδ) against all of them together (basic composition, which needs no assumption on how the
surveys were chosen). A device keeps these sums within its owner's policy (``decide``). Sums are
exact: doubles are added as fractions, so that no rounding ever makes room.

A **reservation** holds the cost of a survey from the join until its line replaces it, it is
declined, or it expires; lines and reservations together stay within the budget, so that many
offers at a time cannot spend it twice. A **line** is the guarantee of the crowd that began. People
who leave later can weaken that, which no device can know; only the local ε holds whatever happens,
and the policy bounds its sum as well.

A line is written in the same transaction as the first report (see ``journal``), hence there is no
report without its line. A survey is answered once: its identifier is refused ever after, also under
another digest. Lines are never changed or removed, and their hash chain is checked when the ledger
is opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import msgspec

from incrowd.errors import FileUnreadable, InvalidParameter
from incrowd.live.chain import Entry
from incrowd.live.decide import Charge, Standing
from incrowd.live.journal import Fact, Journal
from incrowd.privacy.rounding import rounded_up

RESERVED: Final = "reserved"
"""Key of the fact that holds a reservation."""
DECLINED: Final = "declined"
"""Key of the fact that holds a refusal."""
_LINE_LIMIT: Final = 1 << 16


class Line(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One survey that was answered, or is reserved, and its price."""

    at: float
    """Time of the charge, in seconds since 1970."""
    survey: bytes
    digest: bytes
    question: str
    epsilon0: float
    """Guarantee of the randomizer alone, towards anyone who learns whose report it is."""
    delta0: float
    promises: list[tuple[str, float, float]]
    """View, ε and δ that are charged."""
    curator: bytes = b""
    """Identity key of the curator; empty where it is unknown, and then every budget pays."""
    questions: tuple[str, ...] = ()
    """Words of each of several questions; none of a single one, nor in lines of older programs."""

    def __post_init__(self) -> None:
        """Refuse a price that is no number, or negative: it would make room for others."""
        for name, epsilon, delta in [("local", self.epsilon0, self.delta0), *self.promises]:
            if not (epsilon >= 0 and delta >= 0):
                raise InvalidParameter(
                    f"the {name} guarantee of a survey must be at least 0, got ε = {epsilon!r} "
                    f"and δ = {delta!r}"
                )

    @classmethod
    def of(
        cls, charge: Charge, digest: bytes, question: str, questions: tuple[str, ...] = ()
    ) -> Line:
        """The line of a charge."""
        return cls(
            at=charge.at,
            survey=charge.survey,
            digest=digest,
            question=question,
            epsilon0=charge.local[0],
            delta0=charge.local[1],
            promises=[(view, *cost) for view, cost in sorted(charge.views.items())],
            curator=charge.curator,
            questions=questions,
        )

    @property
    def charge(self) -> Charge:
        """The price as decisions count it."""
        return Charge(
            survey=self.survey,
            curator=self.curator,
            at=self.at,
            views={view: (epsilon, delta) for view, epsilon, delta in self.promises},
            local=(self.epsilon0, self.delta0),
        )

    def cost(self, view: str) -> tuple[float, float]:
        """ε and δ towards a view; without a promise the local guarantee, which holds for all."""
        return self.charge.cost(view)


class Reservation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A price that is held until the survey begins, is declined, or expires."""

    line: Line
    expires: float
    """End of the reservation, in seconds since 1970."""


class Refusal(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A survey that was declined, for its owner to read."""

    at: float
    question: str
    curator: bytes
    reason: str
    why: str
    questions: tuple[str, ...] = ()
    """Words of each of several questions, as in a line."""


class Ledger:
    """Lines and reservations of all owners of one host."""

    def __init__(self, journal: Journal) -> None:
        """Read every line; a broken chain is refused."""
        self._journal = journal
        self._lines: dict[bytes, list[Line]] = {}
        self._reserved: dict[bytes, dict[bytes, Reservation]] = {}
        for entry in journal.entries():
            self._lines.setdefault(entry.owner, []).append(_decode(entry, journal))

    def lines(self, owner: bytes) -> tuple[Line, ...]:
        """Surveys that this owner has answered, in order."""
        return tuple(self._lines.get(owner, ()))

    def reserved(self, owner: bytes, now: float) -> tuple[Reservation, ...]:
        """Open reservations: neither replaced by a line nor expired."""
        answered = {line.survey for line in self._lines.get(owner, ())}
        return tuple(
            each
            for survey, each in self._reservations(owner).items()
            if survey not in answered and now < each.expires
        )

    def standing(self, owner: bytes, now: float, *, paused: bool = False) -> Standing:
        """The account that a decision is made from."""
        return Standing(
            spent=tuple(line.charge for line in self.lines(owner)),
            reserved=tuple(each.line.charge for each in self.reserved(owner, now)),
            paused=paused,
        )

    def spent(self, owner: bytes, view: str = "curator") -> tuple[float, float]:
        """The sums of ε and δ towards a view so far, rounded up."""
        costs = [line.cost(view) for line in self.lines(owner)]
        return _up(epsilon for epsilon, _ in costs), _up(delta for _, delta in costs)

    def reserve(self, owner: bytes, reservation: Reservation) -> Fact:
        """Hold a price from now on, in this process; for good once the fact is committed."""
        survey = reservation.line.survey
        self._reservations(owner)[survey] = reservation
        return Fact(owner, survey, RESERVED, msgspec.msgpack.encode(reservation))

    def release(self, owner: bytes, survey: bytes) -> Fact:
        """Hold the price of this survey no more."""
        self._reservations(owner).pop(survey, None)
        return Fact(owner, survey, RESERVED, None)

    def spend(self, owner: bytes, line: Line) -> Entry:
        """Add a line that was decided on; commit the entry with the first report.

        From now on the line counts in this process; it counts for good once it is committed.
        """
        if any(line.survey == before.survey for before in self._lines.get(owner, ())):
            raise InvalidParameter(
                f"survey {line.survey.hex()} was already answered: a survey is answered once"
            )
        body = msgspec.msgpack.encode(line)
        if len(body) > _LINE_LIMIT:
            raise InvalidParameter(f"a line of the ledger has at most {_LINE_LIMIT} bytes")
        self._lines.setdefault(owner, []).append(line)
        return Entry(owner, line.survey, body)

    def _reservations(self, owner: bytes) -> dict[bytes, Reservation]:
        if owner not in self._reserved:
            self._reserved[owner] = {
                survey: msgspec.msgpack.decode(facts[RESERVED], type=Reservation)
                for survey, facts in self._journal.facts(owner).items()
                if RESERVED in facts
            }
        return self._reserved[owner]


def _decode(entry: Entry, journal: Journal) -> Line:
    try:
        if len(entry.body) > _LINE_LIMIT:
            raise ValueError("it is too long")
        line = msgspec.msgpack.decode(entry.body, type=Line)
    except ValueError as error:
        raise FileUnreadable(
            f"a line of the ledger in {journal.path} cannot be read: {error}: use the program that "
            "wrote it"
        ) from None
    return line


def _up(amounts: Iterable[float]) -> float:
    """The sum, rounded up."""
    values = list(amounts)
    if math.inf in values:
        return math.inf
    return rounded_up(sum(map(Fraction, values), Fraction(0)))
