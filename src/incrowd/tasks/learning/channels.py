"""Channels: from the gradients of a round to one average, with its privacy.

A :class:`Channel` is where learners differ: it takes the per-example gradients of the people who
are in, returns an estimate of their average, and states the guarantee of a number of rounds.

*Reports* (:class:`VectorReports`): everyone sends a vector of their own. A gradient g, clipped to
length C, is put on the sphere of one more dimension as (g/C, √(1 − ‖g‖²/C²)); PrivUnit randomizes
that unit vector, which is ε0-private for every pair of records; the first coordinates of the
unbiased estimate times C are an unbiased estimate of the average clipped gradient. As the error
grows with the dimension, gradients may first be projected on a random subspace from public
randomness: then the projected gradient is clipped, reported and mapped back, and training stays in
the subspace through its start.

*Sums*: only a noisy sum leaves. Its noise is Gaussian with σ·C in every coordinate.

*Own noise* (:class:`LocalNoise`): everyone adds Gaussian noise of σ·C to their clipped gradient.

Whether the number of people in a round is public decides what an empty round may do: where it is
(``counted``), nothing happens; where it is not, the curator adds the same noise as ever to nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter, NotProven
from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.thinned import thinned
from incrowd.randomizers.base import FloatArray
from incrowd.randomizers.noise import REAL_NOISE, Gaussian
from incrowd.randomizers.privunit import PrivUnit
from incrowd.randomness import Seeds
from incrowd.tasks.learning.features import orthonormal
from incrowd.tasks.learning.gradients import Batch, clip_weights
from incrowd.tasks.learning.privacy import SubsampledGaussian
from incrowd.views import EVERYONE

_LOCAL = "local randomizer (docs/theory/local.md)"
_WRITTEN_AT_ONCE = 1 << 22
"""Numbers of gradients in memory. Results depend on it: the streams do."""


@dataclass(frozen=True)
class Crowd:
    """Number of people, chance of each to be in a round, and number of parameters."""

    people: int
    rate: float
    size: int
    one: bool = False
    """Whether exactly one person is in each round, drawn uniformly: then the rate is 1/people."""

    @property
    def expected(self) -> float:
        """Number of people in a round on average."""
        return 1.0 if self.one else self.people * self.rate


class Channel(ABC):
    """Base of the channels, which are frozen dataclasses."""

    counted: ClassVar[bool]
    """Whether the number of people in each round is part of what is released."""
    takes_one: ClassVar[bool] = False
    """Whether rounds of one person, drawn uniformly, are accounted for."""
    name: ClassVar[str] = ""
    """The name in checkpoints; that of the class, if empty."""

    @property
    def most_rounds(self) -> int | None:
        """Limit on the rounds that one person contributes to; None without a limit."""
        return None

    @property
    def record_clip(self) -> float | None:
        """Clipping length of each single record's gradient, before their mean; None without."""
        return None

    @abstractmethod
    def average(self, batch: Batch, crowd: Crowd, seeds: Seeds, number: int) -> FloatArray | None:
        """Estimate the average clipped gradient in round ``number``; None from no one."""

    @abstractmethod
    def guarantee(self, crowd: Crowd, rounds: int) -> Guarantee:
        """Return the guarantee of this many rounds."""

    def stopped(self, crowd: Crowd, rounds: int) -> Guarantee:
        """Return the guarantee of training that may have ended before, in view of its results.

        Rounds that compose one by one prove it anyway: a part of them is a function of all.
        """
        return self.guarantee(crowd, rounds)

    def rounds_within(self, crowd: Crowd, wanted: int, epsilon: float, delta: float) -> int:
        """Return the most rounds, up to those wanted, that are proven to stay within (ε, δ)."""
        # One point of a curve is cheaper than to look for the point where it meets δ.
        within, beyond, trial = 0, wanted + 1, wanted
        while beyond - within > 1:
            fits = self.guarantee(crowd, trial).delta(epsilon) <= delta
            within, beyond = (trial, beyond) if fits else (within, trial)
            trial = (within + beyond) // 2
        while within and self.guarantee(crowd, within).epsilon(delta) > epsilon:
            within -= 1
        return within

    def describe(self) -> dict[str, Any]:
        """Describe what makes two channels the same, in types that JSON has."""
        return {"channel": self.name or type(self).__name__, **vars(self)}


@dataclass(frozen=True)
class NoPrivacy(Channel):
    """The average itself, clipped only if asked: what privacy is compared with."""

    clip: float | None = None
    counted: ClassVar[bool] = True
    takes_one: ClassVar[bool] = True
    name: ClassVar[str] = "plain"

    def __post_init__(self) -> None:
        if self.clip is not None:
            check_clip(self.clip)

    def average(self, batch: Batch, crowd: Crowd, seeds: Seeds, number: int) -> FloatArray | None:
        del crowd, seeds, number
        return batch.summed(self.clip) / batch.count if batch.count else None

    def guarantee(self, crowd: Crowd, rounds: int) -> Guarantee:
        del crowd, rounds
        raise NotProven("training without noise guarantees no privacy: choose another learner")


@dataclass(frozen=True)
class CentralNoise(Channel):
    """A trusted curator sums what it is sent and adds one Gaussian noise: private SGD as usual.

    The sum is divided by the expected number of people, because the real one is not released.
    """

    clip: float
    sigma: float
    counted: ClassVar[bool] = False
    takes_one: ClassVar[bool] = True
    name: ClassVar[str] = "central"

    def __post_init__(self) -> None:
        check_clip(self.clip)
        SubsampledGaussian(1.0, self.sigma)

    def average(self, batch: Batch, crowd: Crowd, seeds: Seeds, number: int) -> FloatArray | None:
        """Divide the noisy sum by the expected number of people, also when no one is in."""
        noise = seeds.generator("noise", number).standard_normal(crowd.size)
        total = batch.summed(self.clip) + self.clip * self.sigma * noise
        return np.asarray(total / crowd.expected)

    def guarantee(self, crowd: Crowd, rounds: int) -> Guarantee:
        theorem = "sampled Gaussian noise, replace-one (docs/learning.md)"
        if crowd.one:
            theorem = "noise on one person's gradient, replace-one (docs/theory/token_walk.md)"
        assumptions = (
            "the curator is trusted with all records and adds the noise as described",
            "nobody else learns who, or how many, were in a round",
            REAL_NOISE,
        )
        profile = self._profile(crowd, rounds)
        return Guarantee(profile, frozenset({"analyst"}), theorem, assumptions)

    def _profile(self, crowd: Crowd, rounds: int) -> Profile:
        if not crowd.one:
            return ComposedProfile(((SubsampledGaussian(crowd.rate, self.sigma), rounds),))
        from incrowd.privacy.repeated import RepeatedProfile
        from incrowd.privacy.sampled import SampledProfile

        # A person who is not drawn is replaced by another, whose gradient is anywhere in the ball.
        own = SampledProfile(GaussianProfile.replacing(self.sigma), crowd.rate)
        return RepeatedProfile(own, rounds)


@dataclass(frozen=True)
class LocalNoise(Channel):
    """Everyone's own Gaussian noise, in at most ``cap`` rounds each, with the senders in view."""

    clip: float
    sigma: float
    cap: int | None = None
    counted: ClassVar[bool] = True
    takes_one: ClassVar[bool] = True
    name: ClassVar[str] = "local noise"

    def __post_init__(self) -> None:
        check_clip(self.clip)
        check_cap(self.cap)
        GaussianProfile.replacing(self.sigma)
        if self.cap is None:
            noise_apart(self.sigma)

    @property
    def most_rounds(self) -> int | None:
        return self.cap

    def average(self, batch: Batch, crowd: Crowd, seeds: Seeds, number: int) -> FloatArray | None:
        """Take the mean of the noisy gradients; the noises are drawn as their sum."""
        del crowd
        return noisy_mean(batch, self.clip, self.sigma, seeds.generator("noise", number))

    def guarantee(self, crowd: Crowd, rounds: int) -> Guarantee:
        """Return the guarantee of one noise per round of a person, up to the cap or to chance."""
        if self.cap is not None:
            often = math.sqrt(min(self.cap, rounds)) * (1 + 2.0**-51)
            profile: Profile = GaussianProfile(2 / self.sigma * often)
        else:
            # A randomizer made for a σ may have a little more: the guarantee is of a little less.
            alone = noise_apart(self.sigma * (1 - 2.0**-39))
            profile = ComposedProfile(((LocalProfile(thinned(alone, crowd.rate)), rounds),))
        assumptions = ("the person's own device adds the noise as described", REAL_NOISE)
        return Guarantee(profile, EVERYONE, _LOCAL, assumptions)


@dataclass(frozen=True)
class VectorReports(Channel):
    """Everyone's own randomized vector; subclasses state who learns its sender."""

    clip: float
    epsilon0: float
    projection: int | None = None
    counted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_clip(self.clip)
        checks.epsilon(self.epsilon0, "epsilon0")
        if self.projection is not None:
            checks.integer(self.projection, "projection", 1)

    def randomizer(self, size: int) -> PrivUnit:
        """Make the PrivUnit on the sphere that clipped gradients of this size are put on."""
        kept = size if self.projection is None else self.projection
        if kept > size:
            problem = f"projection keeps {kept} of {size} parameters: lower it, or leave it out"
            raise InvalidParameter(problem)
        return PrivUnit(epsilon=self.epsilon0, dimension=kept + 1)

    def average(self, batch: Batch, crowd: Crowd, seeds: Seeds, number: int) -> FloatArray | None:
        if not batch.count:
            return None
        randomizer, rng = self.randomizer(crowd.size), seeds.generator("device", number)
        kept, step = self.projection, max(1, _WRITTEN_AT_ONCE // crowd.size)
        subspace = None if kept is None else _subspace(seeds.root, crowd.size, kept)
        total = np.zeros(randomizer.dimension - 1)
        for gradients, norms in batch.blocks:
            for first in range(0, len(norms), step):
                some = slice(first, first + step)
                rows, lengths = gradients.rows(some), norms[some]
                if subspace is not None:
                    rows = rows @ subspace
                    lengths = np.linalg.norm(rows, axis=1)
                reports = randomizer.randomize(self.on_sphere(rows, lengths), rng)
                total += randomizer.estimate(reports).value[:-1] * len(rows)
        found = np.asarray(total * (self.clip / batch.count))
        return found if subspace is None else subspace @ found

    def on_sphere(self, rows: NDArray[Any], lengths: FloatArray) -> FloatArray:
        """Divide clipped gradients by C, and add the coordinate that makes their length one."""
        there = np.empty((len(rows), rows.shape[1] + 1))
        scaled = there[:, :-1]
        np.multiply(rows, (clip_weights(lengths, self.clip) / self.clip)[:, None], out=scaled)
        inside = np.einsum("ij,ij->i", scaled, scaled)
        there[:, -1] = np.sqrt(np.maximum(1.0 - inside, 0.0))
        return there


@dataclass(frozen=True)
class LocalReports(VectorReports):
    """Reports in view of everybody, with their senders: only the randomizer protects."""

    takes_one: ClassVar[bool] = True

    def guarantee(self, crowd: Crowd, rounds: int) -> Guarantee:
        randomizer = self.randomizer(crowd.size)
        profile = ComposedProfile(((LocalProfile(thinned(randomizer, crowd.rate)), rounds),))
        device = "the person's own device flips its coin and runs the randomizer as described"
        return Guarantee(profile, EVERYONE, _LOCAL, (device, randomizer.assumption))


@lru_cache(maxsize=2)
def _subspace(root: int, size: int, kept: int) -> FloatArray:
    return orthonormal(size, kept, Seeds(root))


def check_clip(clip: float) -> float:
    """Check the length that gradients are clipped to."""
    if not (checks.number(clip, "clip") > 0 and math.isfinite(1 / clip)):
        raise InvalidParameter(f"clip must be above 0, got {clip!r}")
    return float(clip)


def check_cap(cap: int | None) -> int | None:
    """Check the number of rounds that one person contributes to at most."""
    return None if cap is None else checks.integer(cap, "cap", 1)


def noisy_mean(
    batch: Batch, clip: float, sigma: float, rng: np.random.Generator
) -> FloatArray | None:
    """Mean of gradients, each with noise of σ·clip, drawn as their sum; None of none."""
    if not batch.count:
        return None
    together = clip * sigma * math.sqrt(batch.count) * rng.standard_normal(batch.size)
    return np.asarray((batch.summed(clip) + together) / batch.count)


def noise_apart(sigma: float) -> Gaussian:
    """Noise of σ·clip as that of a number in [0, 1]: two clipped gradients are 2·clip apart."""
    try:
        return Gaussian.with_sigma(checks.number(sigma, "sigma") / 2)
    except InvalidParameter as error:
        length = f"{sigma!r} times the clipping length"
        problem = f"cannot be used for gradients that are up to twice that apart: {error}"
        raise InvalidParameter(f"sigma of {length} {problem}", field="sigma") from error
