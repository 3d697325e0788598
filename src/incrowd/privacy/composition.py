"""Composition over rounds: curves become privacy-loss distributions, which convolve.

A curve of upper bounds δ(ε₀) ≥ δ(ε₁) ≥ … on a grid is joined by straight lines in t = e^ε. The
result lies above the true convex curve everywhere and is the exact curve of a discrete pair whose
losses are the grid points ("connecting the dots", Doroshenko et al.): that pair dominates, so its
losses may be convolved, for rounds chosen adaptively too. The curve beyond the grid is put on an
outcome that only the first distribution has (infinite loss). ``dp-accounting`` convolves; proofs
are in ``docs/theory/composition.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter, NumericalFloor
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.rounding import rounded_up
from incrowd.privacy.search import Crossing, crossing

_NEGLIGIBLE = 1e-15
"""Curves are followed until δ is this small; the rest becomes infinite loss."""
_NOISE = 1e-14
"""Allowed for rounding in the fast convolution, per round, and charged to δ."""
MOST_POINTS = 2_000_000
_MOST_LOSS = 600.0
"""Up to here e^ε and e^−ε are normal doubles, with some room."""
_ATTACKED_ROUNDS = 10_000
"""Attacks are followed for this many rounds; what they attain then holds for more as well."""


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Losses on the grid ``interval·(first + i)`` with chances ``mass``, and ``infinite`` mass."""

    interval: float
    first: int
    mass: NDArray[np.float64]
    infinite: float
    pessimistic: bool = True
    """Whether losses err upwards (for bounds) or downwards (for attacks)."""

    def heights(self) -> NDArray[np.float64]:
        """The curve δ at the grid points, as sums of positive terms."""
        t = np.exp(self.interval * (self.first + np.arange(self.mass.size)))
        beyond = np.cumsum((self.mass / t)[::-1])[::-1][1:]
        rise = np.cumsum((np.diff(t) * beyond)[::-1])[::-1]
        return self.infinite + np.append(rise, 0.0)

    def to_dp_accounting(self) -> Any:
        """The same as a ``dp_accounting`` privacy-loss distribution."""
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution

        return privacy_loss_distribution.PrivacyLossDistribution(
            pld_pmf.DensePLDPmf(
                self.interval,
                self.first,
                self.mass,
                self.infinite,
                pessimistic_estimate=self.pessimistic,
            )
        )


def connect_the_dots(
    curve: Callable[[float], float], interval: float, greatest_loss: float = math.inf
) -> LossDistribution:
    """The discrete pair whose curve is the greatest convex one through or below the dots.

    The dots are upper bounds ``curve`` at the grid points; the true curve is convex and below each
    of them, so it is below that one. It is zero from ``greatest_loss`` on.
    """
    last = _reach(curve, interval, greatest_loss)
    losses = interval * np.arange(-last, last + 1)
    height = np.array([curve(float(loss)) for loss in losses])
    if losses[-1] >= greatest_loss:
        height[-1] = 0.0
    return joined(interval, -last, height)


def joined(interval: float, first: int, height: NDArray[np.float64]) -> LossDistribution:
    """The same from upper bounds at consecutive grid points, of which ``first`` is the first."""
    losses = interval * (first + np.arange(height.size))
    height = np.minimum.accumulate(height)  # the curve falls: earlier bounds hold later too
    t = np.exp(losses)
    kept = convex_minorant(np.concatenate([[0.0], t]), np.concatenate([[1.0], height]))[1:] - 1
    slope = np.diff(height[kept], prepend=1.0) / np.diff(t[kept], prepend=0.0)
    bend = np.zeros(losses.size)
    bend[kept] = np.diff(slope, append=0.0)
    return LossDistribution(interval, first, np.maximum(bend, 0.0) * t, float(height[-1]))


def convex_minorant(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
    """The points on the lower convex hull, first and last included."""
    kept: list[int] = []
    for index in range(x.size):
        while len(kept) > 1:
            before, middle = kept[-2], kept[-1]
            rise = (y[index] - y[before]) * (x[middle] - x[before])
            if (y[middle] - y[before]) * (x[index] - x[before]) < rise:
                break
            kept.pop()
        kept.append(index)
    return np.array(kept)


def _reach(curve: Callable[[float], float], interval: float, greatest_loss: float) -> int:
    """The number of grid points after which the curve is zero or negligible."""
    most = math.ceil(min(greatest_loss, _MOST_LOSS) / interval)
    first, last = 0, min(8, most)
    while last < most and curve(interval * last) > _NEGLIGIBLE:
        first, last = last, min(2 * last, most)
        if last > MOST_POINTS:
            raise NumericalFloor(
                f"a privacy curve needs more than {MOST_POINTS:,} grid points of {interval:.1e}: "
                "compose profiles of more similar size"
            )
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if curve(interval * middle) > _NEGLIGIBLE else (first, middle)
    return last


def _solved(losses: Any, delta: float) -> Crossing:
    """Two values of ε with the one between them at which a ``dp_accounting`` curve meets δ.

    ``dp_accounting`` solves for ε with sums of mass·e^−loss. Where these leave the range of normal
    doubles the curve itself is searched: its sum of mass·(1 − e^(ε − loss)) keeps all digits.
    """
    with np.errstate(over="ignore"):
        found = float(losses.get_epsilon_for_delta(delta))
    if found <= _MOST_LOSS:
        return Crossing(found * (1 - 1e-12), found * (1 + 1e-12))
    curve, ceiling = losses.get_delta_for_epsilon, _MOST_LOSS
    while curve(ceiling) > delta:
        ceiling *= 2
        if math.isinf(ceiling):
            return Crossing(math.inf, math.inf)
    return crossing(curve, delta, 0.75 * ceiling, ceiling, tolerance=1e-9, factor=1.1)


@dataclass(frozen=True)
class ComposedProfile(Profile):
    """Several profiles, each used in a number of rounds; the choice of rounds may be adaptive.

    Compositions among the parts are taken apart, and equal parts put together.
    """

    parts: tuple[tuple[Profile, int], ...]

    def __post_init__(self) -> None:
        """Refuse an empty composition and rounds that are no whole numbers; flatten."""
        flat: dict[Profile, int] = {}
        for part, rounds in self.parts:
            times = checks.integer(rounds, "rounds", 1)
            for profile, each in part.components:
                flat[profile] = flat.get(profile, 0) + each * times
        if not flat:
            raise InvalidParameter("a composition needs at least one part")
        object.__setattr__(self, "parts", tuple(flat.items()))

    @property
    def components(self) -> tuple[tuple[Profile, int], ...]:
        """The parts, none of which is a composition."""
        return self.parts

    def delta(self, epsilon: float) -> float:
        """δ of the convolved losses."""
        if (single := self._single) is not None:
            return single.delta(epsilon)
        if checks.number(epsilon, "epsilon") >= self.greatest_loss:
            return 0.0
        if self._tells_all:
            return 1.0
        return min(1.0, float(self.distribution.get_delta_for_epsilon(epsilon)) + self._noise)

    def epsilon(self, delta: float) -> float:
        """ε of the convolved losses at this δ, rounded up."""
        checks.delta(delta)
        if (single := self._single) is not None:
            return single.epsilon(delta)
        if delta < 10 * self._noise:
            raise NumericalFloor(
                f"delta = {delta!r} is below {10 * self._noise:.1e}, the least that this many "
                "composed rounds can certify: ask for a larger delta or fewer rounds",
                field="delta",
            )
        if self._tells_all:
            return math.inf
        own = _solved(self.distribution, delta - self._noise).within
        return min(own, self.greatest_loss)

    def lower(self, delta: float) -> float | None:
        """The strongest attack on any part over its rounds: other parts never tell less."""
        found = [self._part_lower(part, rounds, delta) for part, rounds in self.parts]
        return max((each for each in found if each is not None), default=None)

    def _part_lower(self, part: Profile, rounds: int, delta: float) -> float | None:
        best = part.lower(delta)
        if rounds > 1 and best is not None:
            for losses in part.attained():
                many = losses.to_dp_accounting().self_compose(min(rounds, _ATTACKED_ROUNDS))
                found = _solved(many, delta + self._noise).above
                # Beyond the range of doubles nothing is told; it is infinite for no other reason.
                best = max(best, found) if math.isfinite(found) else best
        return best

    @property
    def greatest_loss(self) -> float:
        """Losses add up, exactly, and the sum is rounded up."""
        each = [(part.greatest_loss, rounds) for part, rounds in self.parts]
        if any(math.isinf(loss) for loss, _ in each):
            return math.inf
        return rounded_up(sum((Fraction(loss) * rounds for loss, rounds in each), Fraction(0)))

    @property
    def interval(self) -> float:
        """The finest grid that any part asks for."""
        return min(part.interval for part, _ in self.parts)

    def losses(self, interval: float) -> LossDistribution:
        """A distribution that dominates the whole composition."""
        return connect_the_dots(self.delta, interval, self.greatest_loss)

    @cached_property
    def distribution(self) -> Any:
        """The composed ``dp_accounting`` privacy-loss distribution."""
        composed: Any = None
        for losses, rounds in self._losses:
            one = losses.to_dp_accounting()
            many = one.self_compose(rounds) if rounds > 1 else one
            composed = many if composed is None else composed.compose(many)
        return composed

    @cached_property
    def _tells_all(self) -> bool:
        """Whether some part never falls below δ = 1, which ``dp-accounting`` cannot compose."""
        return any(losses.infinite >= 1 for losses, _ in self._losses)

    @cached_property
    def _losses(self) -> tuple[tuple[LossDistribution, int], ...]:
        interval = self.interval
        return tuple((part.losses(interval), rounds) for part, rounds in self.parts)

    @property
    def _noise(self) -> float:
        return _NOISE * (1 + sum(rounds for _, rounds in self.parts))

    @property
    def _single(self) -> Profile | None:
        (part, rounds), *rest = self.parts
        return part if rounds == 1 and not rest else None
