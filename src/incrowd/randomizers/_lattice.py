"""Exactly realisable probabilities, on the safe side of those in the formulas.

``rng.random()`` returns multiples of 2⁻⁵³, so that ``rng.random() < p`` happens with probability
exactly ``p`` when ``p`` is such a multiple. Every probability that a randomizer draws with is one,
rounded from 60 decimal digits in the direction that lowers the likelihood ratio: the realised ε
never exceeds the stated one. Estimators and laws use the realised probabilities: E in their
formulas is the ratio that is really drawn, which differs from e^ε0 by less than rounding except at
extremes.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache

from incrowd import checks
from incrowd.errors import InvalidEpsilon

BITS = 53
_STEPS = 1 << BITS
_MAX_EPSILON = 30.0
_CONTEXT = Context(prec=60)


def check_realisable(epsilon: float) -> None:
    """Refuse an ε0 whose rarest answer would be rarer than the resolution of the lattice."""
    checks.epsilon(epsilon)
    if epsilon > _MAX_EPSILON:
        raise InvalidEpsilon(
            f"epsilon must be at most {_MAX_EPSILON:g} for a randomizer that draws, "
            f"got {epsilon!r}",
            field="epsilon",
        )


@lru_cache(maxsize=256)
def keep_probability(epsilon: float, answers: int) -> float:
    """Return (E − 1)/(E + k − 1), rounded down: keep the value, else answer uniformly among all k.

    Then the true answer has probability E/(E + k − 1) and each other one 1/(E + k − 1); a smaller
    keep probability only brings the two closer.
    """
    top = _CONTEXT.exp(Decimal(epsilon))
    keep = _down(_CONTEXT.divide(top - 1, top + (answers - 1)))
    if keep == 0:
        raise InvalidEpsilon(
            f"epsilon {epsilon!r} is too small for {answers} answers: every report would be noise",
            field="epsilon",
        )
    return keep


@lru_cache(maxsize=256)
def truth_probability(epsilon: float) -> float:
    """Return E/(E + 1), rounded down: the chance that one bit is reported as it is."""
    top = _CONTEXT.exp(Decimal(epsilon))
    truth = _down(_CONTEXT.divide(top, top + 1))
    if truth <= 0.5:
        raise InvalidEpsilon(
            f"epsilon {epsilon!r} is too small: every report would be noise", field="epsilon"
        )
    return truth


def response_odds(epsilon: float, answers: int) -> float:
    """Return the odds of the true over another answer under :func:`keep_probability`, ≤ e^ε0."""
    keep = keep_probability(epsilon, answers)
    return 1 + answers * keep / (1 - keep)


def truth_odds(epsilon: float) -> float:
    """Return the odds of a true bit under :func:`truth_probability`, ≤ e^ε0."""
    truth = truth_probability(epsilon)
    return truth / (1 - truth)


def _down(value: Decimal) -> float:
    return int((value * _STEPS).to_integral_value(ROUND_FLOOR, _CONTEXT)) / _STEPS


def lowered(value: float, margin: float) -> float:
    """Return ``value`` less a relative margin, rounded down to the lattice."""
    return _down(Decimal(value) * (1 - Decimal(margin)))
