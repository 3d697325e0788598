"""The truth about statements that depend on what was seen: the best stopping rule, computed.

A run states ε_t when it ends after t rounds. Whoever ends it, or picks its next crowd, in view of
the privacy loss L so far attains E_P[(1 − e^(ε − L))₊] under the best rule, which dynamic
programming finds: exactly where losses lie on a lattice, by a fine quadrature for Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binom, norm

Doubles = NDArray[np.float64]

_STEP = 0.02
_REACH = 6.0


def gained(epsilon: float, loss: Doubles) -> Doubles:
    """(1 − e^(ε − L))₊."""
    return -np.expm1(np.minimum(epsilon - loss, 0.0))


def stopped_response(epsilon0: float, stated: Sequence[float]) -> float:
    """Binary randomized response, seen alone round by round; ``stated[t − 1]`` after t rounds."""
    keep = 1 / (1 + math.exp(-epsilon0))
    held = len(stated)
    value = gained(stated[-1], epsilon0 * (2.0 * np.arange(held + 1) - held))
    for rounds in range(held - 1, -1, -1):
        value = keep * value[1:] + (1 - keep) * value[:-1]
        if rounds:
            loss = epsilon0 * (2.0 * np.arange(rounds + 1) - rounds)
            value = np.maximum(value, gained(stated[rounds - 1], loss))
    return float(value[0])


def stopped_gaussian(shift: float, stated: Sequence[float], rate: float = 1.0) -> float:
    """Gaussian noise around a shift, round by round; the loss of one is N(shift²/2, shift²).

    The victim is in a round with probability ``rate``, and everyone sees whether.
    """
    held = len(stated)
    top = held * shift**2 / 2 + _REACH * shift * math.sqrt(held)
    loss = np.arange(-top, top, _STEP)
    reach = math.ceil((_REACH * shift + shift**2 / 2) / _STEP)
    move = np.arange(-reach, reach + 1)
    weight = norm.pdf(move * _STEP, shift**2 / 2, shift)
    weight /= weight.sum()
    value = gained(stated[-1], loss)
    for rounds in range(held - 1, -1, -1):
        moved = np.convolve(np.pad(value, reach, mode="edge"), weight[::-1], mode="valid")
        value = rate * moved + (1 - rate) * value
        if rounds:
            value = np.maximum(value, gained(stated[rounds - 1], loss))
    return float(np.interp(0.0, loss, value))


def picked_gaussian(first: float, stated: Mapping[float, float]) -> float:
    """One round, then a second one whose shift is picked; ``stated`` is the ε after each pick."""
    place = np.linspace(-9, 9, 4001)
    weight = norm.pdf(place)
    loss = first * place + first**2 / 2
    best = np.zeros_like(loss)
    for shift, epsilon in stated.items():
        left = epsilon - loss
        more = np.exp(np.minimum(left, 300.0)) * ndtr(-left / shift - shift / 2)
        best = np.maximum(best, ndtr(shift / 2 - left / shift) - more)
    return float(weight @ best / weight.sum())


def response_counts(crowd: int, epsilon0: float, rate: float = 1.0) -> tuple[Doubles, Doubles]:
    """Laws of (reports, ones) when the victim holds 1 or 0 and all others hold 0."""
    keep = 1 / (1 + math.exp(-epsilon0))
    others = np.zeros((crowd, crowd))
    for reports in range(crowd):
        chance = binom.pmf(reports, crowd - 1, rate)
        others[reports, : reports + 1] = chance * binom.pmf(
            np.arange(reports + 1), reports, 1 - keep
        )
    laws = []
    for one in (keep, 1 - keep):
        law = np.zeros((crowd + 1, crowd + 1))
        law[:-1, :-1] += (1 - rate) * others
        law[1:, 1:] += rate * one * others
        law[1:, :-1] += rate * (1 - one) * others
        laws.append(law)
    return laws[0], laws[1]
