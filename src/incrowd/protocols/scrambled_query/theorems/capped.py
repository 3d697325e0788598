"""Pure privacy of a scrambler that caps what one target gets.

A dummy goes to a target drawn from those that have fewer than n = ``sources`` messages. With d
dummies, d ≤ n − 1, the worst output has n messages at the true target and none at the other. Let k
be the number of dummies among these n, and

    u_k = Pr[Bin(d, 1/T) ≥ k]·C(n − 1, k)·((T − 1)·p/r)^k,   y = (r/p)·Σ u_k·k/(n − k) / Σ u_k.

Then e^ε = (p + r·y)/(r + r·y) for T ≥ 3, and (p + r·y)/(r + p·y) for T = 2, exactly. Dummies help
little: p/r bounds it without them, and the worst output is rare. Proof:
``docs/theory/scrambler.md``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from incrowd import checks
from incrowd.errors import InvalidParameter, NotProven
from incrowd.randomizers import Redirect

_UNIT = 2.0**-53


def capped_epsilon(targets: int, sampling: float, sources: int, dummies: int) -> float:
    """The exact ε, rounded up; infinite without sampling, unless every target gets all it can."""
    alone = check_capped(targets, sampling, sources, dummies)
    if alone == 0 or dummies == (targets - 1) * sources:
        return 0.0
    if math.isinf(alone):
        return math.inf
    if dummies > sources - 1:
        raise NotProven(
            f"a capped scrambler is accounted for with at most sources − 1 = {sources - 1:,} "
            f"dummies, got {dummies:,}: lower dummies, or use mode scrambler"
        )
    other = sampling / targets
    true = 1 - sampling + other
    share = _share(targets, true / other, sources, dummies)
    # Too few hidden messages, by the rounding of the logarithms that the shares come from.
    size = sources + dummies + 2.0
    share *= 1 - min(0.5, 64 * _UNIT * size * (math.log(size) + alone + 1))
    beside = true * share if targets == 2 else other * share
    ratio = (true - other) * (1 - share if targets == 2 else 1.0) / (other + beside)
    return min(math.log1p(max(ratio, 0.0)) * (1 + 2.0**-44), alone)


def check_capped(targets: int, sampling: float, sources: int, dummies: int) -> float:
    """ε0, after refusing what describes no scrambler, or more dummies than targets may take.

    Where there is one target there is nothing to hide, and dummies do not matter.
    """
    alone = Redirect(targets=targets, redirect_probability=sampling).epsilon
    checks.crowd(sources, "sources")
    room = (targets - 1) * sources
    if checks.integer(dummies, "dummies", 0) > room and targets > 1:
        raise InvalidParameter(
            f"dummies must be at most (targets − 1)·sources = {room:,}, got {dummies:,}: no target "
            "takes more messages than there are sources",
            field="dummies",
        )
    return alone


def _share(targets: int, odds: float, sources: int, dummies: int) -> float:
    """y: how likely the victim's message is elsewhere, against at the full target."""
    k = np.arange(dummies + 1, dtype=np.float64)
    ways = gammaln(dummies + 1.0) - gammaln(k + 1) - gammaln(dummies - k + 1)
    log_chance = ways - k * math.log(targets) + (dummies - k) * math.log1p(-1 / targets)
    log_tail = np.logaddexp.accumulate(log_chance[::-1])[::-1]
    log_ways = gammaln(sources + 0.0) - gammaln(k + 1) - gammaln(sources - k)
    log_weight = log_tail + log_ways + k * (math.log(targets - 1) + math.log(odds))
    weight = np.exp(log_weight - log_weight.max())
    return float(weight @ (k / (sources - k))) / (odds * float(weight.sum()))
