"""Laws of the pairs of inputs of a finite channel, and one law above them all.

For a channel N/S (see ``_matrix``) the largest blanket is w = min over x of N[x]/S. Each pair of
inputs has a law of (a, b) under it, and the maximum of their bounds over all pairs holds for every
pair. One law that dominates all of them is the *opposed envelope*. With

    T_x(m) = largest probability under input x of a test that has mass m under w,

a concave, piecewise linear curve whose slopes are the values of a_x in falling order, let T be the
least concave curve above all T_x. The envelope has a = T′(m) and b = T′(γ − m) for m uniform on
[0, γ]. Proofs: ``docs/theory/channel.md``. Masses and slopes are exact integers and their ratios.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers._matrix import Integers, RealisedLaw
from incrowd.randomizers.law import PairLaw

MOST_LAWS = 16
"""Of channels with more different pairs than this only the envelope is accounted."""
_ATTACKS = 2
"""Data sets of each kind that are tried as attacks."""
_Point = tuple[int, int]


def pair_laws(channel: RealisedLaw) -> tuple[PairLaw, ...] | None:
    """Return the different laws of all pairs under the largest blanket, the widest first.

    A law and its mirror image count once, and equal rows, which tell nothing, not at all. None if
    there are more than :data:`MOST_LAWS`.
    """
    found: dict[bytes, PairLaw] = {}
    for x0, x1 in combinations(range(len(channel.counts)), 2):
        if np.array_equal(channel.counts[x0], channel.counts[x1]):
            continue
        law = _law(channel, x0, x1, channel.least)
        found.setdefault(min(_key(law), _key(law.swapped())), law)
        if len(found) > MOST_LAWS:
            return None
    return tuple(sorted(found.values(), key=_spread, reverse=True))


def envelope(channel: RealisedLaw) -> PairLaw:
    """Return the opposed envelope, a symmetric law that dominates all pairs of inputs."""
    used = channel.least > 0
    curve = _concave(channel.counts[:, used], channel.least[used])
    last = curve[-1][0]
    cuts = sorted({m for m, _ in curve} | {last - m for m, _ in curve})
    knots = np.array(curve, np.float64)
    middles = np.array([(low + high) / 2 for low, high in pairwise(cuts)])
    slopes = np.diff(knots[:, 1]) / np.diff(knots[:, 0])

    def slope(at: NDArray[np.float64]) -> NDArray[np.float64]:
        return slopes[np.searchsorted(knots[:, 0], at, side="right") - 1]

    mass = np.array([high - low for low, high in pairwise(cuts)]) / channel.total
    return _merged(slope(middles), slope(last - middles), mass)


def attack_laws(channel: RealisedLaw) -> tuple[PairLaw, ...]:
    """Return exact laws where all others hold one value: the widest, and those at one of the two.

    The first are best in large crowds, where Σ (R_x0 − R_x1)²/R_x* over the outputs decides; the
    others in small ones, where the largest ratio of two outputs does.
    """
    chances = channel.chances[:, channel.least > 0]
    inputs = range(len(chances))
    wide: list[tuple[float, int, int, int]] = []
    for others in inputs:
        gram = (chances / chances[others]) @ chances.T
        spread = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
        x0, x1 = np.unravel_index(int(np.argmax(np.triu(spread, 1))), spread.shape)
        wide.append((float(spread[x0, x1]), int(x0), int(x1), others))
    ratio = [
        (float((chances[x0] / chances[x1]).max()), x0, x1, x1)
        for x0 in inputs
        for x1 in inputs
        if x0 != x1
    ]
    chosen = sorted(wide, reverse=True)[:_ATTACKS] + sorted(ratio, reverse=True)[:_ATTACKS]
    places = dict.fromkeys((x0, x1, others) for _, x0, x1, others in chosen)
    return tuple(_law(channel, x0, x1, channel.counts[others]) for x0, x1, others in places)


def _law(channel: RealisedLaw, x0: int, x1: int, measure: Integers) -> PairLaw:
    """Law of a pair under a measure in units of 1/S, outputs with equal ratios merged."""
    used = measure > 0
    weight = measure[used]
    first, second = channel.counts[x0][used] / weight, channel.counts[x1][used] / weight
    return _merged(first, second, weight / channel.total)


def _merged(a: NDArray[np.float64], b: NDArray[np.float64], mass: NDArray[np.float64]) -> PairLaw:
    points, place = np.unique(np.column_stack([a, b]), axis=0, return_inverse=True)
    return PairLaw.of(points[:, 0], points[:, 1], np.bincount(place.ravel(), weights=mass))


def _key(law: PairLaw) -> bytes:
    order = np.lexsort((law.b, law.a))
    return np.concatenate([law.a[order], law.b[order], law.mass[order]]).tobytes()


def _spread(law: PairLaw) -> float:
    return float(law.mass @ (law.a - law.b) ** 2)


def _concave(counts: Integers, least: Integers) -> list[_Point]:
    """Return the corners of the least concave curve above all T_x, in units of 1/S."""
    corners: dict[int, int] = {0: 0}
    for row in counts:
        order = np.argsort(-(row / least), kind="stable")
        masses, heights = np.cumsum(least[order]).tolist(), np.cumsum(row[order]).tolist()
        for m, height in zip(masses, heights, strict=True):
            corners[m] = max(corners.get(m, 0), height)
    hull: list[_Point] = []
    for m, height in sorted(corners.items()):
        while len(hull) > 1 and _below(hull[-2], hull[-1], (m, height)):
            hull.pop()
        hull.append((m, height))
    return hull


def _below(first: _Point, middle: _Point, last: _Point) -> bool:
    """Whether the middle one of three points lies on or below the chord of the others."""
    rise = (middle[1] - first[1]) * (last[0] - first[0])
    return rise <= (last[1] - first[1]) * (middle[0] - first[0])
