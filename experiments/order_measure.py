"""How vulnerable people are, and how much can be learned: ρ and λ of each way to release.

As in the paper: a trial draws one shuffle and randomizes everybody 50 times; whoever is told
correctly in 45 of those is vulnerable, and ρ is their share. λ is that of a model which learned
from the first of the 50 releases. Means and one standard deviation are over 10 trials. Trials of
all ways share their reports and the randomness of their shuffles, so that differences are those of
the ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from experiments.order_attacks import vulnerable
from experiments.order_learnability import calibrated, inverted, learnability
from experiments.order_worlds import (
    SEEDS,
    Setting,
    Way,
    crowd_of,
    neighbours_of,
    sources,
    truth_of,
)
from experiments.paper_order_shuffle import ALPHA, EPSILON
from incrowd.randomizers import KRR

__all__ = ["Effort", "Spread", "share_vulnerable", "spread_of", "unlearned"]


@dataclass(frozen=True)
class Effort:
    """How often things are drawn."""

    trials: int
    randomizations: int


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over trials."""

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.deviation:.3f}"


def spread_of(found: tuple[float, ...]) -> Spread:
    """Of one number per trial."""
    return Spread(float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else 0.0)


@lru_cache(maxsize=2)
def _reports(setting: Setting, effort: Effort) -> NDArray[np.uint8]:
    """(trial, randomization, person)."""
    crowd = crowd_of(setting)
    randomizer = KRR(epsilon=EPSILON, categories=crowd.categories)
    found = np.empty((effort.trials, effort.randomizations, crowd.n), np.uint8)
    for trial in range(effort.trials):
        rng = SEEDS.generator("reports", trial)
        for one in range(effort.randomizations):
            found[trial, one] = randomizer.randomize(crowd.values, rng)
    return found


def _neutral(way: Way, radius: float, alpha: float) -> tuple[Way, float, float]:
    """Radius and α do not matter without a Mallows shuffle: compute such ways once."""
    return (way, radius, alpha) if way in ("ours", "paper") else (way, 0.0, 0.0)


def share_vulnerable(
    setting: Setting, effort: Effort, way: Way, radius: float = 0, alpha: float = ALPHA,
    balanced: bool = True,
) -> Spread:  # fmt: skip
    """ρ, by the balanced vote unless told otherwise."""
    return _share_vulnerable(setting, effort, *_neutral(way, radius, alpha), balanced)


@lru_cache(maxsize=1024)
def _share_vulnerable(
    setting: Setting, effort: Effort, way: Way, radius: float, alpha: float, balanced: bool
) -> Spread:
    crowd, asked = crowd_of(setting), neighbours_of(setting)
    found = []
    for trial, rows in enumerate(_reports(setting, effort)):
        released = rows[:, sources(setting, way, radius, alpha, trial)]
        told = vulnerable(crowd.values, released, asked, crowd.categories, balanced=balanced)
        found.append(float(told.mean()))
    return spread_of(tuple(found))


def unlearned(
    setting: Setting, effort: Effort, way: Way, radius: float = 0, alpha: float = ALPHA
) -> Spread:
    """λ: 0 where the distribution at every place is learned, 1 where it could as well be even."""
    return _unlearned(setting, effort, *_neutral(way, radius, alpha))


@lru_cache(maxsize=1024)
def _unlearned(setting: Setting, effort: Effort, way: Way, radius: float, alpha: float) -> Spread:
    crowd, truth = crowd_of(setting), truth_of(setting)
    randomizer = KRR(epsilon=EPSILON, categories=crowd.categories)
    found = []
    for trial, rows in enumerate(_reports(setting, effort)):
        released = rows[0][sources(setting, way, radius, alpha, trial)]
        predicted = calibrated(crowd.features, released, crowd.categories, trial)
        found.append(learnability(inverted(predicted, randomizer), truth))
    return spread_of(tuple(found))
