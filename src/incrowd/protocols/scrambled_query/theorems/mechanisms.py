"""Routings, which hide where the messages of one cluster go: four mechanisms.

* :class:`Scrambler` mixes messages with uniform dummies.
* :class:`CappedScrambler` gives no target more messages than there are sources.
* :class:`Flooding` needs no scrambler: everyone adds dummies of their own.
* :class:`SomeScrambler` mixes reports of any randomizer with dummies of its blanket.

Each has a ``profile`` against an observer of all that it sends; colluders of the same group, who
tell where they sent their messages, hide no one and count as absent. ``coins`` says whether chance
decides which tuples arrive, so that a result tells about it; ``local_epsilon`` is the ε of one
message seen together with its source; ``theorem`` names the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from incrowd import checks
from incrowd.errors import InvalidCrowd, NotProven
from incrowd.privacy import LocalProfile, ShuffleProfile, functional
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.pure import PureProfile
from incrowd.privacy.search import crossing
from incrowd.protocols.scrambled_query.theorems.capped import capped_epsilon, check_capped
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile, check_floor, mirrored
from incrowd.protocols.scrambled_query.theorems.flooding import flooding_epsilon, telling
from incrowd.protocols.scrambled_query.theorems.occupancy import Crowds, crowds
from incrowd.randomizers import PairLaw, Randomizer, Redirect

_PAGE = "(docs/theory/scrambler.md)"


@dataclass(frozen=True)
class _Redirecting:
    """People who send to one of ``targets`` drawn at random with the chance ``sampling``."""

    targets: int
    sampling: float

    @property
    def local_epsilon(self) -> float:
        return Redirect(targets=self.targets, redirect_probability=self.sampling).epsilon

    @property
    def coins(self) -> bool:
        return self.sampling > 0 and self.targets > 1


@dataclass(frozen=True)
class _Scrambling(_Redirecting):
    sources: int
    dummies: int

    def words(self, cap: str = "") -> str:
        return (
            f"{self.sources:,} sources and {self.dummies:,} dummies scrambled among "
            f"{self.targets:,} targets{cap}, sampling {self.sampling:g}"
        )


@dataclass(frozen=True)
class Scrambler(_Scrambling):
    """A scrambler of ``sources`` messages that adds uniform ``dummies``."""

    theorem: ClassVar[str] = f"scrambler {_PAGE}"

    def __post_init__(self) -> None:
        ScramblerProfile(self.targets, self.sampling, self.sources, self.dummies)

    def profile(self, colluders: int = 0) -> Profile:
        """The blanket of the others' redirected messages and the dummies, in full."""
        honest = _honest(self.sources, colluders)
        return ScramblerProfile(self.targets, self.sampling, honest, self.dummies)


@dataclass(frozen=True)
class CappedScrambler(_Scrambling):
    """A scrambler whose dummies go to targets with fewer than ``sources`` messages."""

    theorem: ClassVar[str] = f"capped scrambler {_PAGE}"

    def __post_init__(self) -> None:
        check_capped(self.targets, self.sampling, self.sources, self.dummies)

    def profile(self, colluders: int = 0) -> Profile:
        """The exact pure ε; nothing is proven with colluders, who know more of who is full."""
        if checks.integer(colluders, "colluders", 0):
            raise NotProven(
                "a capped scrambler is not accounted for with colluders: use mode scrambler"
            )
        epsilon = capped_epsilon(self.targets, self.sampling, self.sources, self.dummies)
        if math.isinf(epsilon):
            raise NotProven(
                "without sampling a capped scrambler shows where messages go when all go to one "
                "target: set sampling, or use mode scrambler, whose dummies then hide with a δ"
            )
        return PureProfile(epsilon)

    def words(self, cap: str = "") -> str:
        """Describe the routing in one line."""
        return super().words(cap or f", at most {self.sources:,} each")


@dataclass(frozen=True)
class Flooding(_Redirecting):
    """Everyone sends to ``dummies`` more targets of their own choice."""

    theorem: ClassVar[str] = f"sampling and flooding {_PAGE}"

    dummies: int

    def __post_init__(self) -> None:
        flooding_epsilon(self.targets, self.sampling, self.dummies)

    def profile(self, colluders: int = 0) -> Profile:
        """The exact curve of one source, whom others neither hide nor expose."""
        checks.integer(colluders, "colluders", 0)
        if math.isinf(self.local_epsilon):
            raise NotProven(
                "without sampling the true target always gets a message: set sampling, or dummies "
                f"to targets − 1 = {self.targets - 1}, which sends to all"
            )
        tells = telling(self.targets, self.sampling, self.dummies) * (1 + 2.0**-48)
        return PureProfile(self.local_epsilon, min(1.0, tells))

    @property
    def local_epsilon(self) -> float:
        """Infinite without sampling, unless everyone sends to all targets."""
        return flooding_epsilon(self.targets, self.sampling, self.dummies)

    def words(self) -> str:
        """Describe the routing in one line."""
        return (
            f"every source sends to {self.dummies + 1:,} of {self.targets:,} targets, sampling "
            f"{self.sampling:g}"
        )


@dataclass(frozen=True)
class SomeScrambler:
    """A scrambler of reports of any ``randomizer``, whose dummies are drawn from its blanket."""

    coins: ClassVar[bool] = True

    randomizer: Randomizer
    sources: int
    dummies: int

    def __post_init__(self) -> None:
        checks.crowd(self.sources, "sources")
        checks.integer(self.dummies, "dummies", 0)

    def profile(self, colluders: int = 0) -> Profile:
        """The blanket bound, with the dummies as more of the blanket."""
        honest = _honest(self.sources, colluders)
        law, local = self.randomizer.blanket(), LocalProfile(self.randomizer)
        if not self.dummies:
            return ShuffleProfile(law, honest, local, self.randomizer.attack())
        if not self.randomizer.drawable or law.escaped:
            # These laws dominate those of reports, not those of the blanket itself: how dummies
            # spread over outcomes is not in them.
            raise NotProven(
                f"dummies are drawn from the blanket of a randomizer, which {self.randomizer.kind} "
                "does not say: choose krr or another concrete one of whole answers, or no dummies",
                field="dummies",
            )
        return BlanketProfile(law, honest, self.dummies, local)

    @property
    def local_epsilon(self) -> float:
        """That of the randomizer."""
        return self.randomizer.epsilon

    @property
    def theorem(self) -> str:
        """The name of the bound."""
        return f"scrambler of {self.randomizer.kind} reports {_PAGE}"

    def words(self) -> str:
        """Describe the routing in one line."""
        return (
            f"{self.sources:,} reports of {self.randomizer.kind} and {self.dummies:,} dummies of "
            "its blanket, scrambled"
        )


Routing = Scrambler | CappedScrambler | Flooding | SomeScrambler


def _honest(sources: int, colluders: int) -> int:
    """The sources that hide each other, the victim among them."""
    if checks.integer(colluders, "colluders", 0) >= sources:
        raise InvalidCrowd(
            f"{colluders} colluders leave nobody to protect among {sources} sources: assume fewer"
        )
    return sources - colluders


_EXPONENT = 36.0
_BLOCKS, _FEW_BLOCKS = 64, 10
_MANY_ATOMS = 200


@dataclass(frozen=True)
class BlanketProfile(Profile):
    """``sources`` reports under a blanket law, with ``dummies`` drawn from that blanket.

    If m of the others report from the blanket, of mass γ, the victim's report hides among
    N = m + d + 1 draws of it, so that δ(ε) ≤ Σ_m Pr[Bin(n − 1, γ) = m]·F_N(ε), with F_N the blanket
    functional of the law scaled to mass one. ``cap`` is the curve that holds without a crowd.
    """

    law: PairLaw
    sources: int
    dummies: int
    cap: Profile

    def delta(self, epsilon: float) -> float:
        if checks.number(epsilon, "epsilon") < 0:
            return mirrored(self.delta(-epsilon), epsilon)
        if epsilon >= self.greatest_loss:
            return 0.0
        found = self._crowds.missing + self.law.escaped
        blocks = zip(self._crowds.least.tolist(), self._crowds.chance.tolist(), strict=True)
        for least, chance in blocks:
            found += chance * self._either_way(least + self.dummies + 1, epsilon)
        return min(1.0, found * (1 + 2.0**-40), self.cap.delta(epsilon))

    def _either_way(self, crowd: int, epsilon: float) -> float:
        forth = functional(self._scaled, crowd, epsilon).upper
        if self._scaled.symmetric:
            return forth
        return max(forth, functional(self._scaled.swapped(), crowd, epsilon).upper)

    def epsilon(self, delta: float) -> float:
        check_floor(delta)
        ceiling = self.cap.epsilon(delta)
        guess = self.deviation * math.sqrt(2 * math.log(1 / delta))
        return crossing(self.delta, delta, guess, ceiling, tolerance=1e-5).within

    @property
    def greatest_loss(self) -> float:
        """The crowd only helps."""
        return self.cap.greatest_loss

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of a small privacy loss."""
        spread = float(self._scaled.mass @ (self._scaled.a - self._scaled.b) ** 2)
        return math.sqrt(spread / ((self.sources - 1) * self.law.gamma + self.dummies + 1))

    @property
    def interval(self) -> float:
        return min(self.deviation / 20, self.cap.interval)

    @cached_property
    def _scaled(self) -> PairLaw:
        gamma = self.law.gamma
        return PairLaw(self.law.a * gamma, self.law.b * gamma, self.law.mass / gamma)

    @cached_property
    def _crowds(self) -> Crowds:
        # Laws of many atoms come from continuous noise, and each crowd takes its time.
        blocks = _BLOCKS if self.law.mass.size <= _MANY_ATOMS else _FEW_BLOCKS
        return crowds(self.sources - 1, self.law.gamma, _EXPONENT).merged(blocks)
