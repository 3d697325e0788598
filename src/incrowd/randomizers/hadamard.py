"""Hadamard response: report a column in which the own row of a Hadamard matrix likely has +1.

K is the least power of two above the number of categories, and H[r, y] = (−1)^popcount(r & y) the
Sylvester matrix of size K. Category x owns row x + 1; row 0, all ones, is unused. A report is a
column, with probability E/(E + 1) uniform on the half where the own row has +1, otherwise uniform
on the other half ("Hadamard Response: Estimating Distributions Privately, Efficiently, and with
Little Communication", Acharya, Sun, Zhang; here with one matrix, as in their high-privacy case).

Any two distinct non-zero rows agree in exactly half the columns, so a report supports the own
category with probability E/(E + 1) and any other with probability exactly 1/2. The server counts
columns and applies one fast Walsh-Hadamard transform.

Law. Under w = (2/K)/(E + 1), which lies below every R_x, the ratios at x0 and x1 are each E or 1,
on a quarter of the columns for each of the four combinations: (E, E), (E, 1), (1, E), (1, 1) with
mass 1/(2(E + 1)). All pairs have the same law, which is symmetric: one pair dominates at every ε,
in both directions. (The envelope is larger than w in columns where all used rows have +1; a
smaller blanket is still a blanket.) See ``docs/theory/worst_pairs.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers import _inputs
from incrowd.randomizers._categorical import Categorical, from_support
from incrowd.randomizers._lattice import truth_odds, truth_probability
from incrowd.randomizers.base import Estimate, FloatArray, Reports
from incrowd.randomizers.law import PairLaw


class HadamardResponse(Categorical, frozen=True, tag="hadamard"):
    """Hadamard response with one Sylvester matrix; a report is one column index."""

    def __post_init__(self) -> None:
        super().__post_init__()
        truth_probability(self.epsilon)

    @property
    def size(self) -> int:
        """K, the least power of two with K ≥ categories + 1."""
        return 1 << self.categories.bit_length()

    @property
    def report_bytes(self) -> int:
        """Size of a column index."""
        return _inputs.smallest_unsigned(self.size - 1).itemsize

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw a column uniformly and move it to the other half when its sign is not the one drawn.

        Flipping the lowest bit that is set in the row changes the sign and maps the halves onto
        each other, one to one.
        """
        kind = _inputs.smallest_unsigned(self.size - 1)
        rows = _inputs.codes(values, self.categories, rng).astype(kind) + kind.type(1)
        columns: Reports = rng.integers(0, self.size, rows.size, dtype=kind)
        agree = rng.random(rows.size) < truth_probability(self.epsilon)
        negative = (np.bitwise_count(rows & columns) & 1).astype(np.bool_)
        lowest = rows & (~rows + kind.type(1))
        columns[negative == agree] ^= lowest[negative == agree]
        return columns

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate frequencies from the transform of the column counts."""
        reports = _inputs.received(reports, None, self.size)
        n = len(reports)
        signs = walsh_hadamard(np.bincount(reports, minlength=self.size).astype(np.float64))
        support = (n + signs[1 : self.categories + 1]) / 2
        return from_support(support, n, *self.support_probabilities())

    def support_probabilities(self) -> tuple[float, float]:
        return truth_probability(self.epsilon), 0.5

    def blanket(self) -> PairLaw:
        """(E, E), (E, 1), (1, E), (1, 1), mass 1/(2(E + 1)) each."""
        top = truth_odds(self.epsilon)
        return PairLaw.of([top, top, 1.0, 1.0], [top, 1.0, top, 1.0], 1 / (2 * (top + 1)))

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at a third category; for two categories all at x1, or all at x0.

        Three rows with the third the sum of the first two (1, 2, 3) always have an even number of
        −1; from four categories on there are also independent ones (1, 2, 4). The worse one depends
        on the crowd, so both are given.
        """
        if self.categories == 2:
            at_x1 = self._law_of_rows((1, 2), others_at=1)
            return at_x1, at_x1.swapped()
        triples = [(1, 2, 3)] if self.categories == 3 else [(1, 2, 3), (1, 2, 4)]
        return tuple(self._law_of_rows(rows, others_at=2) for rows in triples)

    def _law_of_rows(self, rows: tuple[int, ...], others_at: int) -> PairLaw:
        """Group the columns of a matrix just large enough to hold these rows by their signs."""
        top = truth_odds(self.epsilon)
        columns = 1 << max(rows).bit_length()
        atoms = []
        for column in range(columns):
            density = [1.0 if (row & column).bit_count() & 1 else top for row in rows]
            against = density[others_at]
            mass = against * 2 / (columns * (top + 1))
            atoms.append((density[0] / against, density[1] / against, mass))
        return PairLaw.of(*np.array(atoms).T)


def walsh_hadamard(values: FloatArray) -> FloatArray:
    """Return H·values for the Sylvester matrix, in K·log2 K steps; exact while sums are < 2⁵³."""
    size, half = values.size, 1
    while half < size:
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        half *= 2
    return values.reshape(size)
