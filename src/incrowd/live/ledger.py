"""What each person has answered so far, what it has cost, and whether the next survey fits.

Privacy losses add up: whoever has taken part in surveys of (ε₁, δ₁), (ε₂, δ₂), … is protected by
(Σε, Σδ) against all of them together (basic composition, which needs no assumption on how the
surveys were chosen). A device keeps these sums below its owner's budget. Sums are exact: doubles
are added as fractions, so that no rounding ever makes room.

A line is what was promised at the start. People who leave later can weaken that, which no device
can know; only the local ε holds whatever happens, and ``local_epsilon`` bounds its sum.

A line is written in the same transaction as the first report (see ``journal``), hence there is no
report without its line. A survey is answered once: its identifier is refused ever after, also under
another digest. Lines are never changed or removed, and their hash chain is checked when the ledger
is opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

import msgspec

from incrowd import checks
from incrowd.errors import Declined, FileUnreadable, InvalidParameter
from incrowd.live.chain import Entry
from incrowd.live.journal import Journal
from incrowd.privacy.rounding import rounded_up
from incrowd.views import view_name

__all__ = ["AlreadyAnswered", "Budget", "Declined", "Ledger", "Line", "OverBudget"]

_LINE_LIMIT: Final = 1 << 16


class OverBudget(Declined):
    """The survey would cost more than is left of its owner's budget."""

    reason: ClassVar[str] = "over budget"


class AlreadyAnswered(Declined):
    """The device has reported to this survey before."""

    reason: ClassVar[str] = "already answered"


class Line(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One survey that was answered, or is to be, and its price."""

    at: float
    """When, in seconds since 1970."""
    survey: bytes
    digest: bytes
    question: str
    epsilon0: float
    """What the randomizer alone guarantees, towards anyone who learns whose report it is."""
    delta0: float
    promises: list[tuple[str, float, float]]
    """View, ε and δ of what was promised and recomputed."""

    def __post_init__(self) -> None:
        """Refuse a price that is no number, or negative: it would make room for others."""
        for name, epsilon, delta in [("local", self.epsilon0, self.delta0), *self.promises]:
            if not (epsilon >= 0 and delta >= 0):
                raise InvalidParameter(
                    f"the {name} guarantee of a survey must be at least 0, got ε = {epsilon!r} "
                    f"and δ = {delta!r}"
                )

    def cost(self, view: str) -> tuple[float, float]:
        """ε and δ towards a view; without a promise the local guarantee, which holds for all."""
        for name, epsilon, delta in self.promises:
            if name == view:
                return epsilon, delta
        return self.epsilon0, self.delta0


@dataclass(frozen=True)
class Budget:
    """How much of its owner's privacy a device may spend in all.

    ``view`` is towards whom; ``local_epsilon`` bounds what the randomizers alone guarantee, for the
    case that every other party colludes.
    """

    epsilon: float
    delta: float
    view: str = "curator"
    local_epsilon: float = math.inf
    unlimited: bool = False
    """Take part whatever it costs, also where nothing is promised towards the view."""

    @property
    def bound(self) -> float:
        """The most ε that may be spent."""
        return math.inf if self.unlimited else self.epsilon

    def __post_init__(self) -> None:
        """Refuse budgets that bound nothing."""
        # Promises name their views in this order.
        object.__setattr__(self, "view", view_name(self.view))
        if not checks.number(self.epsilon, "the budget's epsilon") > 0:
            raise InvalidParameter(f"the budget's epsilon must be positive, got {self.epsilon!r}")
        if not 0 <= checks.number(self.delta, "the budget's delta") < 1:
            raise InvalidParameter(f"the budget's delta must be in [0, 1), got {self.delta!r}")
        if not self.local_epsilon > 0:
            raise InvalidParameter(
                f"the budget's local epsilon must be positive, got {self.local_epsilon!r}"
            )


class Ledger:
    """The lines of all owners of one host."""

    def __init__(self, journal: Journal) -> None:
        """Read every line; a broken chain is refused."""
        self._lines: dict[bytes, list[Line]] = {}
        for entry in journal.entries():
            self._lines.setdefault(entry.owner, []).append(_decode(entry, journal))

    def lines(self, owner: bytes) -> tuple[Line, ...]:
        """What this owner has answered, in order."""
        return tuple(self._lines.get(owner, ()))

    def spent(self, owner: bytes, view: str = "curator") -> tuple[float, float]:
        """The sums of ε and δ towards a view so far, rounded up."""
        costs = [line.cost(view) for line in self.lines(owner)]
        return _up(epsilon for epsilon, _ in costs), _up(delta for _, delta in costs)

    def allows(self, owner: bytes, budget: Budget, line: Line) -> None:
        """Raise ``AlreadyAnswered`` or ``OverBudget`` unless this line may be added."""
        lines = self.lines(owner)
        if any(line.survey == before.survey for before in lines):
            raise AlreadyAnswered(
                f"survey {line.survey.hex()} was already answered: a survey is answered once"
            )
        costs = [each.cost(budget.view) for each in (*lines, line)]
        local = [(each.epsilon0, each.delta0) for each in (*lines, line)]
        for name, amounts, bound in (
            (f"ε towards the {budget.view}", [epsilon for epsilon, _ in costs], budget.bound),
            (f"δ towards the {budget.view}", [delta for _, delta in costs], budget.delta),
            ("local ε", [epsilon for epsilon, _ in local], budget.local_epsilon),
            ("local δ", [delta for _, delta in local], budget.delta),
        ):
            if _exceeds(amounts, bound):
                raise OverBudget(
                    f"survey {line.survey.hex()} would bring {name} to {_up(amounts):.6g}, over "
                    f"the budget of {bound:.6g}: raise the budget or do not take part"
                )

    def spend(self, owner: bytes, budget: Budget, line: Line) -> Entry:
        """Add the line, if the budget allows; commit the entry with the first report.

        From now on the line counts in this process; it counts for good once it is committed.
        """
        self.allows(owner, budget, line)
        body = msgspec.msgpack.encode(line)
        if len(body) > _LINE_LIMIT:
            raise InvalidParameter(f"a line of the ledger has at most {_LINE_LIMIT} bytes")
        self._lines.setdefault(owner, []).append(line)
        return Entry(owner, line.survey, body)


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


def _exceeds(amounts: Iterable[float], bound: float) -> bool:
    """Whether the exact sum is above the bound."""
    values = list(amounts)
    if bound == math.inf:
        return False
    return math.inf in values or sum(map(Fraction, values)) > Fraction(bound)


def _up(amounts: Iterable[float]) -> float:
    """The sum, rounded up."""
    values = list(amounts)
    if math.inf in values:
        return math.inf
    return rounded_up(sum(map(Fraction, values), Fraction(0)))
