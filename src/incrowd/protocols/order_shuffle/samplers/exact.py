"""Mallows draws without floating point: every chance is the very number of the formula.

A guarantee of pure order privacy bounds ratios of chances, however small. Doubles realise chances
to about 2⁻⁵³; rarer events never come out, and their ratio is not bounded by anything. Here only
fair words are read and whole numbers compared.

* Codes. With θ = s/t and t a power of 2, a whole X with chances ∝ e^(−X/t) gives ⌊X/s⌋, which is
  geometric with ratio e^−θ, after "The Discrete Gaussian for Differential Privacy" (Canonne,
  Kamath, Steinke). Its remainder by i has chances ∝ Σ_k e^(−θ(v + ki)) ∝ e^(−θv) on 0…i − 1: the
  law of a code.
* Pinned people of the Hamming law: a Poisson number of mean e^θ − 1, at most n. Its distribution
  function is enclosed between whole numbers, and a uniform number is read word by word until the
  enclosure says where it falls.

Proof: ``docs/theory/mallows.md``.
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter

_WORD: Final = 64
_WORDS_PER_ITEM: Final = 10
"""A little more than is read on average; more are fetched when they run out."""
_MOST_WORDS: Final = 2**20
_MARGIN: Final = 192
"""Binary digits that enclosures carry beyond what the uniform number has."""
MOST_THETA: Final = 1000.0
"""With a larger θ nobody moves, but once in e^1000 shuffles."""


def exact_codes(n: int, theta: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Independent codes, the i-th on 0…i with chances exactly proportional to e^(−θ·code).

    ``theta`` is positive and finite, and taken for the exact fraction that a double is.
    """
    from incrowd.protocols.order_shuffle.samplers.kernels import exponentials

    step = Fraction(theta)
    parts = max(1, -(-(step.denominator.bit_length() - 1) // _WORD))
    unit = 1 << (parts * _WORD)
    step_units = step.numerator * (unit // step.denominator)
    fractions = np.empty((n, parts), dtype=np.uint64)
    wholes = np.empty(n, dtype=np.int64)
    done, words = 0, np.empty(0, dtype=np.uint64)
    while done < n:
        wanted = (_WORDS_PER_ITEM + parts) * (n - done) + _WORD
        fresh = _random_words(min(wanted, _MOST_WORDS), rng)
        # Words that were read for an item that is not finished must be read for it again.
        words = np.concatenate([words, fresh])
        done, taken = exponentials(words, done, fractions, wholes)
        words = words[taken:]
    numbers = wholes.tolist()
    for part in range(parts):
        words_here = fractions[:, part].tolist()
        numbers = [high << _WORD | low for high, low in zip(numbers, words_here, strict=True)]
    # With all its words appended, a whole part is worth 2^64 for each: the unit.
    codes = [number // step_units % i for i, number in enumerate(numbers, 1)]
    return np.array(codes, dtype=np.int64)


def exact_pinned(n: int, theta: float, rng: np.random.Generator) -> int:
    """A whole number q in 0…n with chances exactly proportional to (e^θ − 1)^q/q!, 0 < θ < ∞."""
    if theta > MOST_THETA:
        raise InvalidParameter(
            f"theta = {theta!r} is too large for exact draws of the Hamming law: use at most"
            f" {MOST_THETA:g}, or inf, which moves nobody",
            field="theta",
        )
    drawn, bits = 0, 0
    while True:
        for word in _random_words(2, rng).tolist():
            drawn, bits = drawn << _WORD | word, bits + _WORD
        found = _quantile(n, theta, drawn, bits)
        if found is not None:
            return found


def _random_words(count: int, rng: np.random.Generator) -> NDArray[np.uint64]:
    return rng.integers(2**_WORD, size=count, dtype=np.uint64)


def _quantile(n: int, theta: float, drawn: int, bits: int) -> int | None:
    """The q of all numbers from drawn/2^bits to (drawn + 1)/2^bits; none if that is not sure."""
    low, high, scale = _growth(theta, bits + _MARGIN)
    # Weights relative to the likeliest q, as whole multiples of 2^−scale, from below and above.
    mode = min(n, low >> scale)
    below, above = [0] * (n + 1), [0] * (n + 1)
    below[mode] = above[mode] = 1 << scale
    for q in range(mode, n):
        below[q + 1] = (below[q] * low >> scale) // (q + 1)
        above[q + 1] = (above[q] * high >> scale) // (q + 1) + 2
    for q in range(mode, 0, -1):
        below[q - 1] = (below[q] * q << scale) // high
        above[q - 1] = (above[q] * q << scale) // low + 1
    least, most = 0, 0
    rest_least, rest_most = sum(below), sum(above)
    for q in range(n + 1):
        if drawn * (most + rest_least) < most << bits:
            # Some of these numbers may belong to those before q, which did not surely take them.
            return None
        least, most = least + below[q], most + above[q]
        rest_least, rest_most = rest_least - below[q], rest_most - above[q]
        if (drawn + 1) * (least + rest_most) <= least << bits:
            return q
    return None


def _growth(theta: float, bits: int) -> tuple[int, int, int]:
    """Bounds of (e^θ − 1)·2^scale, with about so many correct binary digits; and the scale."""
    # Small θ lose digits to the subtraction, large ones have digits before the point.
    scale = bits + max(0, -math.frexp(theta)[1])
    digits = int((scale + 1.5 * theta) * 0.302) + 20
    with decimal.localcontext(decimal.Context(prec=digits)):
        # The decimal module rounds exponentials correctly, so that the neighbours enclose e^θ.
        power = decimal.Decimal(theta).exp()
        below, above = Fraction(power.next_minus()), Fraction(power.next_plus())
    return math.floor((below - 1) * 2**scale), math.ceil((above - 1) * 2**scale), scale
