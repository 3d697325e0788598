"""Preservation of sets of people by a Hamming shuffle, exactly.

A shuffle *preserves* a share η of a set S up to δ if, but for a chance of δ, at least η·|S| of the
reports that the places of S get come from S. With l = |S|, k = l − ⌈η·l⌉ may be lost. A Hamming
shuffle draws a permutation with a weight e^(−θ·moved). With x = e^θ − 1 and
U_(N, j) = Σ_q C(N − j, q)·x^q·(N − q)!, exactly j are lost with the chance

    C(l, j)·C(n − l, j)·U_(l, j)·U_(n − l, j) / U_(n, 0),

and δ is the sum over j > k: positive terms only, log-concave in q and in j, so that both sums are
taken from their largest term outwards. Proof: ``docs/theory/preservation.md``. The count that is
printed in "A Shuffling Framework for Local Differential Privacy" (Meehan, Roy Chowdhury, Chaudhuri,
Jha, Theorem 5.6) is too large and tolerates one loss too many.

Invariant: δ is never below the truth. For Kendall's distance no closed form is known.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle.theorems.alpha import amount

_GREATEST_THETA = 700.0
"""From here on δ is stated for this θ: it falls with θ, and is below e^−1300 already."""


def tolerated(size: int, eta: float | str | Fraction) -> int:
    """Count the people of a set that can be lost while a share η stays, η as it is written.

    So 0.9 of ten are nine, although the double that is written 0.9 is a little less.
    """
    people = checks.crowd(size, "size")
    try:
        share = eta if isinstance(eta, Fraction) else Fraction(str(eta))
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1 or isinstance(eta, bool):
        raise InvalidParameter(f"eta must be a share between 0 and 1, got {eta!r}")
    return people - math.ceil(share * people)


def hamming_preservation(n: int, size: int, eta: float | str | Fraction, theta: float) -> float:
    """Return the chance δ that a Hamming shuffle keeps less than η of a set: rounded up."""
    log_delta = log_hamming_preservation(n, size, eta, theta)
    if log_delta == -math.inf:
        return 0.0
    return min(1.0, math.nextafter(math.exp(log_delta) * (1 + 2.0**-51), math.inf))


def log_hamming_preservation(n: int, size: int, eta: float | str | Fraction, theta: float) -> float:
    """The logarithm of that chance, rounded up; minus infinity where it is zero."""
    people, held = checks.crowd(n), checks.crowd(size, "size")
    if held > people:
        raise InvalidCrowd(f"size must be at most n = {people}, got {held}")
    least = tolerated(held, eta) + 1
    theta = amount(theta, "theta")
    if least > min(held, people - held) or theta == math.inf:
        return -math.inf
    return _log_lost(people, held, least, math.expm1(min(theta, _GREATEST_THETA)))


@lru_cache(maxsize=256)
def _log_lost(n: int, size: int, least: int, x: float) -> float:
    from incrowd.protocols.order_shuffle.theorems.kernels import log_lost

    return float(log_lost(n, size, least, x))
