"""Unary encodings: one bit per category, each with its own coin.

The own bit is 1 with probability p, every other bit with probability q. *Optimised* unary encoding
(OUE) has p = 1/2, q = 1/(E + 1); *symmetric* unary encoding (SUE, the one-time part of RAPPOR) has
p = 1 − q, q = 1/(√E + 1). Both have p(1 − q)/((1 − p)q) = E = e^ε0.

Law. Let B be the law of independent bits of probability q, L(1) = p/q and L(0) = (1 − p)/(1 − q),
so that R_x(y) = B(y)·L(y_x) and L(1)/L(0) = E. The blanket w = B·L(0) lies below every R_x. Under
it (a, b) = (R_x0, R_x1)/w depends on the bits of x0 and x1 alone: each is E or 1, independently.
For finitely many categories the envelope is larger than w only where all bits are 1; a smaller
blanket is still a blanket, so the law holds for every number of categories. All pairs have the
same law, which is symmetric: one pair dominates at every ε, in both directions. See
``docs/theory/worst_pairs.md``.

Reports are rows of ⌈k/8⌉ bytes, the bit of category x at position x mod 8 of byte x div 8.
"""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers import _inputs
from incrowd.randomizers._categorical import Categorical, from_support
from incrowd.randomizers._lattice import BITS, truth_probability
from incrowd.randomizers.base import Estimate, FloatArray, Reports
from incrowd.randomizers.law import PairLaw

_COLUMN_BLOCK = 2048
_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")


class _Unary(Categorical, frozen=True):
    """Base of the two encodings, which differ in the two probabilities."""

    joint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.support_probabilities()

    @property
    def report_bytes(self) -> int:
        """Size of one bit per category."""
        return -(-self.categories // 8)

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw all bits with probability q, then the own bit afresh with probability p."""
        from incrowd.randomizers import _kernels

        codes = _inputs.codes(values, self.categories, rng).astype(np.int64)
        p, q = self.support_probabilities()
        rows = _kernels.bernoulli_bits(codes.size * self.report_bytes, q, BITS, rng)
        rows = rows.reshape(codes.size, self.report_bytes)
        if self.categories % 8:
            rows[:, -1] &= (1 << self.categories % 8) - 1
        person, byte = np.arange(codes.size), codes >> 3
        bit = np.uint8(1) << (codes & 7).astype(np.uint8)
        own = np.where(rng.random(codes.size) < p, bit, np.uint8(0))
        rows[person, byte] = (rows[person, byte] & ~bit) | own
        return rows

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate frequencies from the column sums."""
        from incrowd.randomizers import _kernels

        reports = _inputs.received(reports, self.report_bytes, 256).astype(np.uint8, copy=False)
        sums = [
            _kernels.byte_histogram(reports[:, start : start + _COLUMN_BLOCK]) @ _BITS_OF_BYTE
            for start in range(0, self.report_bytes, _COLUMN_BLOCK)
        ]
        counts = np.concatenate(sums).ravel()[: self.categories]
        return from_support(counts, len(reports), *self.support_probabilities())

    def support_moments(self, frequencies: FloatArray) -> FloatArray:
        """Return the second moments of the bits, which are independent given the category."""
        p, q = self.support_probabilities()
        both = q**2 + q * (p - q) * (frequencies[:, None] + frequencies)
        np.fill_diagonal(both, q + (p - q) * frequencies)
        return np.asarray(both)

    def frequency_covariance(self, frequencies: FloatArray) -> FloatArray:
        """Return a diagonal: given the data, bits of different categories are independent."""
        p, q = self.support_probabilities()
        own = p * (1 - p) * frequencies + q * (1 - q) * (1 - frequencies)
        return np.diag(own / (p - q) ** 2)

    def blanket(self) -> PairLaw:
        """Group bits of x0 and x1 under w: (E, E), (E, 1), (1, E), (1, 1), for many bits."""
        return self._law_of_bits(others_at=None)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at a third category; for two categories all at x1, or all at x0."""
        if self.categories == 2:
            at_x1 = self._law_of_bits(others_at=1)
            return at_x1, at_x1.swapped()
        return (self._law_of_bits(others_at=2),)

    def _law_of_bits(self, others_at: int | None) -> PairLaw:
        """Group the outputs by the bits of x0, x1 and, if it is a third one, of the others' value.

        ``others_at`` is the position of the others' value among these bits; without it the measure
        is w = B·L(0) instead of R_x*.
        """
        p, q = self.support_probabilities()
        likelihood = ((1 - p) / (1 - q), p / q)
        atoms = []
        for bits in product((0, 1), repeat=3 if others_at == 2 else 2):
            base = float(np.prod([q if bit else 1 - q for bit in bits]))
            against = likelihood[0] if others_at is None else likelihood[bits[others_at]]
            a, b = (likelihood[bit] / against for bit in bits[:2])
            atoms.append((a, b, base * against))
        return PairLaw.of(*np.array(atoms).T)


class OUE(_Unary, frozen=True, tag="oue"):
    """Optimised unary encoding: p = 1/2, q = 1/(E + 1); least variance for rare categories."""

    def support_probabilities(self) -> tuple[float, float]:
        return 0.5, 1 - truth_probability(self.epsilon)


class SUE(_Unary, frozen=True, tag="sue"):
    """Symmetric unary encoding, the one-time part of RAPPOR: p = 1 − q, q = 1/(e^{ε0/2} + 1)."""

    def support_probabilities(self) -> tuple[float, float]:
        truth = truth_probability(self.epsilon / 2)
        return truth, 1 - truth
