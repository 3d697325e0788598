"""PrivUnit: unit vectors, reported as unit vectors from a cap around them.

Let the cap of v be {u : ⟨u, v⟩ ≥ τ} and q its share of the sphere. A report is uniform on the cap
with probability P and uniform on its complement otherwise. Its density against the uniform law is
P/q on the cap and c0 = (1 − P)/(1 − q) off it; P = E·q/(1 + (E − 1)q) makes their ratio exactly E
= e^ε0 ("Protection Against Reconstruction and Its Applications in Private Federated Learning",
Bhowmick, Duchi, Freudiger, Kapoor, Rogers; there ε is split in two, here cap and P are chosen
together: "Optimal Algorithms for Mean Estimation under Local Differential Privacy", Asi, Feldman,
Talwar).

Which cap. With f the density of the height t = ⟨u, v⟩ of a uniform u and I(τ) = ∫_τ^1 t·f(t)dt,
the mean height is m(τ) = (E − 1)·I/(1 + (E − 1)q), and u/m is unbiased with squared error 1/m² −
1. As dI = −τ·f and dq = −f, m is stationary where τ(1 + (E − 1)q) = (E − 1)·I; the difference of
the two sides has derivative 1 + (E − 1)q > 0, is negative at τ = 0 and positive at τ = 1. So there
is one best cap, it has τ > 0, and there **m = τ**.

Sampling is direct. The share of the sphere above the height is drawn: uniform on [0, q] or [q, 1],
and turned into a height by the quantile function of Student's t; the ratio of densities depends on
q and P alone. Nothing is rejected and nothing can fail.

Law. w = c0·uniform lies below every R_v (every u is outside some cap, so it is the envelope).
Under it a and b are E on the two caps and 1 elsewhere. With overlap o of the caps: (E, E): o·c0,
(E, 1) and (1, E): (q − o)c0 each, (1, 1): the rest. Moving mass from (E, E) and (1, 1), in equal
parts, to (E, 1) and (1, E) is a mean-preserving spread: less overlap is worse. As τ > 0 the caps
of v and −v do not meet: they are the worst pair, at every ε, and by symmetry in both directions.
See ``docs/theory/worst_pairs.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln, stdtrit

from incrowd import checks
from incrowd.errors import InvalidEpsilon
from incrowd.randomizers import _inputs
from incrowd.randomizers._lattice import check_realisable, lowered
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer, Reports
from incrowd.randomizers.law import PairLaw

_CHUNK = 1 << 17
"""Numbers per chunk of vectors, which then stays in the cache."""


@dataclass(frozen=True)
class Cap:
    """Cap of least variance: share ``q`` of the sphere, ``P`` as drawn, moments of the height."""

    share: float
    probability: float
    mean_height: float
    mean_square_height: float


class PrivUnit(Randomizer, frozen=True, tag="privunit"):
    """Unit vectors of the given dimension, with the cap of least variance at exactly ε0.

    A report is a unit vector in single precision (rounding it is post-processing); the direction
    across the vector is drawn with the same resolution, the height with double.
    """

    dimension: int

    domain: ClassVar[Domain] = "vector"
    # The chance of the cap is exact; the rest of a report is floating-point.
    assumption: ClassVar[str] = (
        "directions are uniform on the sphere, which floating-point numbers approximate"
    )

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)
        checks.integer(self.dimension, "dimension", 2)
        best_cap(self.epsilon, self.dimension)

    @property
    def report_bytes(self) -> int:
        """One single-precision number per coordinate."""
        return 4 * self.dimension

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw a height, and a uniform direction across the vector."""
        from incrowd.randomizers import _kernels

        vectors = _inputs.vectors(values, self.dimension, rng)
        heights = self._heights(len(vectors), rng)
        reports = np.empty(vectors.shape, np.float32)
        rows = max(1, _CHUNK // self.dimension)
        across = np.empty((min(rows, len(vectors)), self.dimension), np.float32)
        scratch = np.empty(across.size, np.int32)
        for start in range(0, len(vectors), rows):
            chunk = slice(start, start + rows)
            directions = across[: len(vectors[chunk])]
            _kernels.fill_normals(directions.reshape(-1), scratch, rng)
            wrong = _kernels.turn_towards(
                reports[chunk], directions, vectors[chunk], heights[chunk], _inputs.UNIT_TOLERANCE
            )
            if wrong >= 0:
                _inputs.refuse_length(vectors, start + wrong)
        return reports

    def _heights(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draw ⟨report, vector⟩: the height with a drawn share of the sphere above it."""
        cap = best_cap(self.epsilon, self.dimension)
        inside = rng.random(count) < cap.probability
        uniform = rng.random(count)
        above = np.where(inside, cap.share * uniform, cap.share + (1 - cap.share) * uniform)
        # A uniform height is Student's t with d − 1 degrees of freedom, divided by √(t² + d − 1).
        student = -stdtrit(self.dimension - 1, above)
        return np.asarray(student / np.sqrt(student * student + (self.dimension - 1)))

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate the mean vector of the respondents.

        Given their data, coordinate j has variance (M_j/m² − S_j)/n with M_j the mean of the
        squared reports' expectations and S_j the mean of the squared values. M_j is estimated by
        the observed squares and S_j from it, as M_j = T·S_j + (1 − T)(1 − S_j)/(d − 1) with T the
        mean squared height. A negative variance, possible for few reports, becomes 0.
        """
        reports = _inputs.received_floats(reports, self.dimension)
        cap, n = best_cap(self.epsilon, self.dimension), len(reports)
        squares = np.einsum("ij,ij->j", reports, reports, dtype=np.float64) / n
        across = (1 - cap.mean_square_height) / (self.dimension - 1)
        own = (squares - across) / (cap.mean_square_height - across)
        value = reports.mean(axis=0, dtype=np.float64) / cap.mean_height
        variance = np.maximum(squares / cap.mean_height**2 - own, 0.0) / n
        return Estimate(value, variance, n)

    def blanket(self) -> PairLaw:
        """Vectors v and −v: (E, 1), (1, E): q·c0 each; (1, 1): (1 − 2q)c0."""
        top, q, base = self._densities()
        return PairLaw.of([top, 1.0, 1.0], [1.0, top, 1.0], np.array([q, q, 1 - 2 * q]) * base)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place the victim at v or −v and all others at −v, or all at v."""
        top, q, base = self._densities()
        at_x1 = PairLaw.of([top, 1 / top, 1.0], 1.0, np.array([q, top * q, 1 - 2 * q]) * base)
        return at_x1, at_x1.swapped()

    def _densities(self) -> tuple[float, float, float]:
        """Ratio E as drawn, share q of a cap, and density c0 off it."""
        cap = best_cap(self.epsilon, self.dimension)
        base = (1 - cap.probability) / (1 - cap.share)
        return cap.probability / cap.share / base, cap.share, base


@lru_cache(maxsize=64)
def best_cap(epsilon: float, dimension: int) -> Cap:
    """Bisect for the height at which the mean height equals it; P is rounded down."""
    gain = math.expm1(epsilon)
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        q, first = _share(middle, dimension), _first_moment(middle, dimension)
        if middle * (1 + gain * q) < gain * first:
            low = middle
        else:
            high = middle
        if high - low <= 2.0**-52 * high:
            break
    q, first = _share(low, dimension), _first_moment(low, dimension)
    probability = lowered((1 + gain) * q / (1 + gain * q), margin=2.0**-48)
    if not (0 < q <= 0.5 and q < probability < 1):
        raise InvalidEpsilon(
            f"epsilon {epsilon!r} in {dimension} dimensions has no cap that doubles can resolve",
            field="epsilon",
        )
    second = ((dimension - 1) * low * first + q) / dimension
    on, off = probability / q, (1 - probability) / (1 - q)
    return Cap(q, probability, (on - off) * first, on * second + off * (1 / dimension - second))


def _share(height: float, dimension: int) -> float:
    """Share of the sphere above a height ≥ 0."""
    return float(betainc((dimension - 1) / 2, 0.5, (1 - height) * (1 + height))) / 2


def _first_moment(height: float, dimension: int) -> float:
    """∫ t·f(t) from the height to 1: (1 − h²)^((d−1)/2)·Γ(d/2)/((d − 1)·√π·Γ((d−1)/2))."""
    half = (dimension - 1) / 2
    log_density = gammaln(half + 0.5) - gammaln(half) - 0.5 * math.log(math.pi)
    decay = half * (math.log1p(-height) + math.log1p(height)) if height < 1 else -math.inf
    return math.exp(log_density + decay) / (2 * half)
