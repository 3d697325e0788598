"""Flooding: everyone hides a message among dummies of their own, each to another target.

The first target is the true one, or with probability σ one of all T, drawn uniformly; ``dummies``
more are drawn from the rest without replacement, and the d + 1 messages leave in random order. Only
the set of targets is seen, and the worst one has the true target and not the other:

    e^ε = 1 + (1 − σ)·T/(σ·(d + 1)),   0 ≤ d ≤ T − 2,

and ε = 0 when all T get a message. Proof: ``docs/theory/scrambler.md``.
"""

from __future__ import annotations

import math

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers import Redirect

_ROUND_UP = 1 + 2.0**-48


def flooding_epsilon(targets: int, sampling: float, dummies: int) -> float:
    """The exact ε, rounded up; infinite without sampling, unless every target gets a message."""
    _check(targets, sampling, dummies)
    if dummies == targets - 1 or sampling == 1:
        return 0.0
    if sampling == 0:
        return math.inf
    return math.log1p((1 - sampling) * targets / (sampling * (dummies + 1))) * _ROUND_UP


def telling(targets: int, sampling: float, dummies: int) -> float:
    """The chance that the true target is among those drawn and some given other one is not."""
    _check(targets, sampling, dummies)
    if targets == 1:
        return 0.0
    missed = (targets - dummies - 1) / (targets - 1)
    return missed * (1 - sampling + sampling * (dummies + 1) / targets)


def _check(targets: int, sampling: float, dummies: int) -> None:
    Redirect(targets=targets, redirect_probability=sampling)
    if checks.integer(dummies, "dummies", 0) > targets - 1:
        raise InvalidParameter(
            f"dummies must be at most targets − 1 = {targets - 1}, got {dummies}: each goes to a "
            "target of its own",
            field="dummies",
        )
