"""The compiled sums over what is seen at two targets, imported only when first used.

Given how many messages S went to either of two targets, the number at the first is Bin(S, ½), and
what an observer gains is (αA − βB − η)₊, linear above a threshold. With the least gainful count k,
the upper tail G₁(k) = Pr[A ≥ k] and its sum G₂(k) = G₁(k) + G₁(k + 1) + …, the mean gain is

    v(k)·G₁(k) + (α + β)·G₂(k + 1),

a sum of positive terms: nothing cancels. Tails are listed for one S by adding up from above, and
carried on to the next by G(S + 1, k) = (G(S, k) + G(S, k − 1))/2, which is true of both.

Invariant: entries of a table are within rounding of the truth, or, where that is below ``_TINY``,
above it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from incrowd.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


_CARRIED = 64  # tables are carried on for this many S before they are listed afresh
_TINY = 1e-290
_LEAST_LOG = -680.0
_DOUBT = 16 * 2.0**-53
"""The rounding of a gain, as a share of the numbers that it was computed from."""
_NEGLIGIBLE = 1e-18


@compiled()
def _log_chance(total: int, count: int) -> float:
    """The logarithm of Pr[Bin(total, ½) = count]."""
    ways = math.lgamma(total + 1.0) - math.lgamma(count + 1.0) - math.lgamma(total - count + 1.0)
    return ways - total * math.log(2.0)


@compiled()
def _anchor(total: int, top: int) -> int:
    """The largest count up to ``top`` whose chance is no smaller than a double can hold."""
    if _log_chance(total, top) >= _LEAST_LOG:
        return top
    low, high = total // 2, top
    while high - low > 1:
        middle = (low + high) // 2
        if _log_chance(total, middle) >= _LEAST_LOG:
            low = middle
        else:
            high = middle
    return low


@compiled()
def _list_tails(total: int, low: int, high: int, first: FloatArray, second: FloatArray) -> None:
    """Put G₁ and G₂ of Bin(total, ½) at low…high into the tables, from ``first[0]`` on."""
    top = min(high, total)
    for k in range(max(top + 1, low), high + 1):
        first[k - low], second[k - low] = 0.0, 0.0
    anchor = _anchor(total, top)
    for k in range(max(anchor + 1, low), top + 1):
        first[k - low], second[k - low] = _TINY, _TINY
    chance = math.exp(_log_chance(total, anchor))
    tail, tails, term = 0.0, 0.0, chance
    for a in range(anchor, total + 1):
        weight = a - anchor + 1.0
        tail += term
        tails += weight * term
        ratio = (total - a) / (a + 1.0)
        if ratio < 1.0:
            # Ratios fall, so that the rest is below a geometric series.
            rest = term * ratio / (1.0 - ratio)
            left_out = rest * (weight + 1.0 / (1.0 - ratio))
            if left_out <= _NEGLIGIBLE * tails:
                tail += rest
                tails += left_out
                break
        term *= ratio
    for k in range(anchor, low - 1, -1):
        if k < anchor:
            if k >= 0:
                chance *= (k + 1.0) / (total - k)
                tail = tail + chance if k > 0 else 1.0
            tails += tail
        first[k - low], second[k - low] = tail, tails


@compiled()
def _carry(first: FloatArray, second: FloatArray, spare: FloatArray, size: int) -> None:
    """Tables of S + 1 from those of S; the lowest entry is lost."""
    for table in (first, second):
        for k in range(1, size):
            spare[k] = 0.5 * (table[k] + table[k - 1])
        for k in range(1, size):
            table[k] = spare[k]


@compiled()
def curve(
    t: FloatArray,
    growth: FloatArray,
    people: IntArray,
    weight: FloatArray,
    lowest: IntArray,
    highest: IntArray,
    start: FloatArray,
    odds: float,
    share: float,
    out: FloatArray,
) -> None:
    """Add Σ_N weight·Σ_S Pr[S]·E[(A − t·B − N·share·growth)₊ | S] to ``out``, for every t.

    ``t`` = e^ε increases, and ``growth`` is t − 1. ``people`` are the values of N, increasing; S
    runs from ``lowest`` to ``highest``, neither of which decreases; ``start`` is the chance of the
    lowest S, and ``odds`` are those of a message to be at one of the two targets. Rounding of the
    gains is added to them.
    """
    sizes, last_t = people.size, t.size - 1
    factor = np.zeros(sizes)
    first_active, end_active = 0, 0
    room = 1024
    one, two, spare = np.zeros(room), np.zeros(room), np.zeros(room)
    low, high, listed_until = 0, 0, -1
    total = lowest[0]
    while True:
        while end_active < sizes and lowest[end_active] <= total:
            factor[end_active] = start[end_active] * weight[end_active]
            end_active += 1
        while first_active < end_active and highest[first_active] < total:
            first_active += 1
        if first_active == end_active:
            if end_active == sizes:
                break
            total, listed_until = lowest[end_active], -1
            continue
        if total > 0:
            if total > listed_until:
                listed_until = total + _CARRIED - 1
                least = (people[0] * share * growth[0] + t[0] * listed_until) / (1.0 + t[0])
                low = int(least) - _CARRIED
                # The largest N of all may lie far above those that matter here.
                near = sizes - 1
                while near > first_active and lowest[near] > listed_until:
                    near -= 1
                most = people[near] * share * growth[last_t] + t[last_t] * listed_until
                high = int(min(float(listed_until), most / (1.0 + t[last_t]))) + 3
                if high - low + 1 > room:
                    room = 2 * (high - low + 1)
                    one, two, spare = np.zeros(room), np.zeros(room), np.zeros(room)
                _list_tails(total, low, high, one, two)
            for i in range(t.size):
                ratio, both = t[i], 1.0 + t[i]
                certain, inverse, sum_here = ratio * total, 1.0 / both, 0.0
                for j in range(first_active, end_active):
                    lost = share * growth[i] * people[j]
                    if lost >= total:
                        break
                    k = min(int((lost + certain) * inverse) + 1, total)
                    away = ratio * (total - k)
                    doubt = _DOUBT * (k + away + lost)
                    gain = k - away - lost + doubt
                    # The count before may gain as well, by the rounding of its threshold alone.
                    while gain - both + doubt > 0.0:
                        k, gain = k - 1, gain - both + doubt
                    while gain <= 0.0:
                        k, gain = k + 1, gain + both
                    if k <= total:
                        tail, tails = one[k - low], two[k + 1 - low]
                        sum_here += factor[j] * (gain * tail + both * tails)
                out[i] += sum_here
        step = odds / (total + 1.0)
        for j in range(first_active, end_active):
            factor[j] *= (people[j] - total) * step
        if total < listed_until:
            _carry(one, two, spare, high - low + 1)
        total += 1


@compiled()
def attacks(
    begin: int, weight: FloatArray, lost: FloatArray, alpha: float, beta: float, doubt: float
) -> tuple[float, float]:
    """Σ_S weight·E[(α·A − β·B − lost)₊ | S] for S = begin, begin + 1, …: from below and above.

    ``doubt`` is the rounding of a gain, as a share of what it was computed from.
    """
    below, above = 0.0, 0.0
    room = 1024
    one, two, spare = np.zeros(room), np.zeros(room), np.zeros(room)
    low, high, listed_until = 0, 0, -1
    for index in range(weight.size):
        total = begin + index
        if index > listed_until:
            listed_until = min(index + _CARRIED, weight.size) - 1
            low, high = total, 0
            for ahead in range(index, listed_until + 1):
                seen = begin + ahead
                k = int(min((beta * seen + lost[ahead]) / (alpha + beta), float(seen)))
                low, high = min(low, k - (ahead - index)), max(high, k + 3)
            if high - low + 1 > room:
                room = 2 * (high - low + 1)
                one, two, spare = np.zeros(room), np.zeros(room), np.zeros(room)
            _list_tails(total, low, high, one, two)
        if weight[index] > 0.0 and alpha * total > lost[index]:
            k = int((beta * total + lost[index]) / (alpha + beta))
            while k <= total:
                away = beta * (total - k) + lost[index]
                gain, unsure = alpha * k - away, doubt * (alpha * k + away)
                if gain > 0.0:
                    more = (alpha + beta) * two[k + 1 - low]
                    below += weight[index] * max(0.0, (gain - unsure) * one[k - low] + more)
                    above += weight[index] * ((gain + unsure) * one[k - low] + more)
                    break
                k += 1
        if index < listed_until:
            _carry(one, two, spare, high - low + 1)
    return below, above
