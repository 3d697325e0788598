"""The law of a randomizer under a blanket: the accountants' whole knowledge of it.

Let ``R_x`` be the output law for input ``x``, let ``x0`` and ``x1`` be the two inputs that the
adversary must tell apart, and let ``w`` be a measure that the output law of every *other* person
dominates (the blanket, of total mass γ ≤ 1). A :class:`PairLaw` is the joint law, under ``w``, of

    a = dR_x0/dw   and   b = dR_x1/dw,

as finitely many atoms ``(a, b, mass)``; the mass ``1 − γ`` that is missing sits at ``(0, 0)``, on a
symbol that reveals nothing about the victim. The accountants use only ``G = a − t·b`` with
``t = e^ε``, so one law serves every ε. Because ``R_x0`` and ``R_x1`` are probability measures,
``E[a] = E[b] = 1``: that is checked at construction and catches almost every mistake in a law.

Replacing a law by a larger one in convex order (a mean-preserving spread of the points ``(a, b)``)
can only raise the bound; by a smaller one (merging points into their mean) only lower it. Laws of
continuous randomizers are spread for upper bounds and merged for lower bounds.
See ``docs/theory/blanket.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd.errors import InvalidParameter

_MEAN_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class PairLaw:
    """Atoms ``(a, b)`` with their masses; ``escaped`` is mass of ``R_x0`` charged to delta.

    ``escaped`` is for unbounded randomizers: the part of ``R_x0`` (and, by symmetry of use, of
    ``R_x1``) that was cut off. It is added to delta by the accountants, never dropped.
    """

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    mass: NDArray[np.float64]
    escaped: float = 0.0

    def __repr__(self) -> str:
        # Atoms can be thousands: only their number is shown.
        escaped = f", escaped = {self.escaped:.3g}" if self.escaped else ""
        return f"PairLaw({self.mass.size} atoms, γ = {self.gamma:.3g}{escaped})"

    @staticmethod
    def of(a: ArrayLike, b: ArrayLike, mass: ArrayLike, escaped: float = 0.0) -> PairLaw:
        """Build a law from anything array-like, dropping atoms of mass zero, and check it."""
        first, second, weight = np.broadcast_arrays(
            *(np.asarray(each, np.float64) for each in (a, b, mass))
        )
        keep = weight > 0
        law = PairLaw(first[keep], second[keep], weight[keep], float(escaped))
        law._check(bool(np.any(weight < 0)))
        return law

    def _check(self, negative: bool) -> None:
        tolerance = _MEAN_TOLERANCE + self.escaped
        gamma = float(self.mass.sum())
        mean_a, mean_b = float(self.a @ self.mass), float(self.b @ self.mass)
        if negative or np.any(self.a < 0) or np.any(self.b < 0):
            raise InvalidParameter("a pair law has negative atoms or masses")
        if gamma > 1 + _MEAN_TOLERANCE:
            raise InvalidParameter(f"a pair law has total mass {gamma} > 1")
        if abs(mean_a - 1) > tolerance or abs(mean_b - 1) > tolerance:
            raise InvalidParameter(f"a pair law needs E[a] = E[b] = 1, got {mean_a} and {mean_b}")

    @property
    def gamma(self) -> float:
        """Total mass of the blanket."""
        return min(1.0, float(self.mass.sum()))

    def swapped(self) -> PairLaw:
        """Return the law of the opposite direction: ``x0`` and ``x1`` exchanged."""
        return PairLaw(self.b, self.a, self.mass, self.escaped)

    def partially_mixed(self, share: float) -> PairLaw:
        """Return the law when each other report joins the crowd only with probability ``share``.

        The rest are revealed with their owners. Masses shrink and values grow, so that the means
        stay one: ``docs/theory/network_shuffle.md``.
        """
        return PairLaw(self.a / share, self.b / share, self.mass * share, self.escaped)

    def subsampled(self, rate: float) -> PairLaw:
        """Return the law when each person, the victim included, reports with probability ``rate``.

        An absent report is the symbol *void*, equally likely for every input: masses shrink, and
        the rest of the blanket is void at (1, 1). See ``docs/theory/check_in.md``.
        """
        if rate == 1:
            return self
        return PairLaw(
            np.append(self.a, 1.0),
            np.append(self.b, 1.0),
            np.append(self.mass * rate, 1.0 - rate),
            self.escaped * rate,
        )

    @cached_property
    def symmetric(self) -> bool:
        """Whether exchanging ``x0`` and ``x1`` leaves the law unchanged."""
        return self.mirrors(self)

    def mirrors(self, other: PairLaw) -> bool:
        """Whether this is the other law with ``x0`` and ``x1`` exchanged."""
        if self.mass.size != other.mass.size:
            return False
        here = np.lexsort((self.mass, self.b, self.a))
        there = np.lexsort((other.mass, other.a, other.b))
        pairs = ((self.a, other.b), (self.b, other.a), (self.mass, other.mass))
        return all(np.allclose(x[here], y[there], rtol=1e-12, atol=0) for x, y in pairs)
