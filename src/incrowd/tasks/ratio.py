"""A ratio of two estimates, with Fieller's confidence limits.

For estimates t and b of τ and β that are about normal, t − m·b has mean zero at m = τ/β and the
variance v(m) = Var t − 2m·Cov + m²·Var b. The limits are those m with (t − m·b)² ≤ z²·v(m): they
cover τ/β as often as the normal law says, however close b is to zero. Where b cannot be told from
zero they are not an interval, and nothing is known of the ratio. The standard error is that of the
delta method, √v(m̂)/b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from incrowd.randomizers.base import FloatArray


@dataclass(frozen=True)
class Ratio:
    """A ratio with its limits and standard error."""

    value: float
    low: float
    high: float
    standard_error: float


def ratio(top: float, bottom: float, covariance: FloatArray, z: float) -> Ratio | None:
    """The ratio of two estimates; none where the lower one cannot be told from zero.

    Args:
        top: Estimate of the numerator.
        bottom: Estimate of the denominator, which is not negative.
        covariance: Of both, in this order.
        z: Quantile of the normal law for the limits.

    """
    (of_top, both), (_, of_bottom) = np.asarray(covariance).tolist()
    # (t − m·b)² = z²·v(m) as a·m² − 2·h·m + c = 0.
    a = bottom**2 - z**2 * of_bottom
    if bottom <= 0 or a <= 0:
        return None
    h = top * bottom - z**2 * both
    c = top**2 - z**2 * of_top
    root = math.sqrt(max(0.0, h * h - a * c))
    value = top / bottom
    variance = of_top - 2 * value * both + value**2 * of_bottom
    return Ratio(value, (h - root) / a, (h + root) / a, math.sqrt(max(0.0, variance)) / bottom)
