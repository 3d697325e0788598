"""Finite channels as matrices: checks, reading from a file, and the law that is really drawn.

Row x of a matrix holds the probabilities of all outputs for input x, as doubles that sum to one up
to rounding. Devices draw whole numbers: the *realised* law is a matrix of integers N whose rows all
have the same sum S, about 2⁶⁰, and output y of input x has probability N[x, y]/S exactly. Rows that
are permutations of each other are realised as permutations of each other, so that the symmetries of
a matrix are kept. Everything that is claimed of a channel is computed from N.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from math import fsum, nextafter
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import EmptyData, FileUnreadable, InvalidParameter

Matrix = tuple[tuple[float, ...], ...]
Integers = NDArray[np.int64]
FloatArray = NDArray[np.float64]

MOST_INPUTS = 64
MOST_OUTPUTS = 4096
_STEPS = 1 << 60
_SUM_TOLERANCE = 1e-9
_FINEST = 1074
"""Every double is a multiple of 2⁻¹⁰⁷⁴."""
_CONTEXT = Context(prec=60)


def read_matrix(path: Path) -> Matrix:
    """Read a matrix of probabilities from a file: CSV without a header, or a JSON list of rows.

    Raises:
        FileUnreadable: if the file cannot be read as text.
        EmptyData: if there is nothing in it.
        InvalidParameter: for a cell that is no number, with its place, or rows that are no law.

    """
    try:
        text = path.read_text("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise FileUnreadable(f"{path}: cannot read the matrix: {reason}") from error
    if not text:
        raise EmptyData(f"{path}: the file is empty; write one row of probabilities per line")
    try:
        return checked_matrix(_json_rows(text) if text.startswith("[") else _csv_rows(text))
    except InvalidParameter as error:
        raise error.located(str(path)) from None


def _json_rows(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidParameter(f"not valid JSON: {error}") from error


def _csv_rows(text: str) -> list[list[float]]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split(",")
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            wrong = next(cell for cell in cells if not _is_number(cell))
            raise InvalidParameter(
                f"line {number}: {wrong.strip()!r} is not a number: write one row of "
                "probabilities per line, separated by commas, without a header"
            ) from None
    return rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def checked_matrix(matrix: Any) -> Matrix:
    """Return a matrix as tuples of Python's floats; refuse one whose rows are no output laws.

    A probability of zero beside a positive one is refused: the output would rule the input out, and
    no finite ε would hold.
    """
    rows = matrix.tolist() if isinstance(matrix, np.ndarray) else matrix
    if not _listed(rows) or not all(_listed(row) for row in rows):
        wanted = "a list of rows of probabilities, such as [[0.75, 0.25], [0.25, 0.75]]"
        raise _wrong(f"must be {wanted}, got {_shown(matrix)}")
    found = tuple(
        tuple(_probability(cell, x, y) for y, cell in enumerate(row, 1))
        for x, row in enumerate(rows, 1)
    )
    if len(found) < 2:
        raise _wrong(f"must have a row for each of at least two inputs, got {len(found)}")
    widths = [len(row) for row in found]
    for x, width in enumerate(widths, 1):
        if width != widths[0]:
            raise _wrong(f"must have rows of one length: row 1 has {widths[0]}, row {x} {width}")
    if len(found) > MOST_INPUTS or not 2 <= widths[0] <= MOST_OUTPUTS:
        limits = f"2 to {MOST_INPUTS} rows and 2 to {MOST_OUTPUTS} columns"
        raise _wrong(f"must have {limits}, got {len(found)} and {widths[0]}: group some")
    for x, row in enumerate(found, 1):
        if abs((total := fsum(row)) - 1) > _SUM_TOLERANCE:
            raise _wrong(f"must have rows that sum to 1: row {x} sums to {total!r}")
    return found


def _probability(cell: Any, x: int, y: int) -> float:
    value = float(cell) if isinstance(cell, Real) and not isinstance(cell, bool) else -1.0
    if not 0 <= value <= 1:
        raise _wrong(f"must hold probabilities: row {x}, column {y} is {_shown(cell)}")
    return value


def _listed(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | dict)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _wrong(problem: str) -> InvalidParameter:
    return InvalidParameter(f"matrix {problem}", field="matrix")


@dataclass(frozen=True, eq=False)
class RealisedLaw:
    """Integers N of one row sum S: output y of input x is drawn with probability N[x, y]/S."""

    counts: Integers
    total: int

    @staticmethod
    def of(matrix: Matrix) -> RealisedLaw:
        """Round each probability to a multiple of about 2⁻⁶⁰, and level the sums of the rows.

        The sums differ by at most half a unit per column; the largest entry of a row makes up for
        it.
        """
        rows = [_integers(row) for row in matrix]
        total = max(map(sum, rows))
        for row in rows:
            row[row.index(max(row))] += total - sum(row)
        counts = np.array(rows, np.int64)
        _refuse_zeros(matrix, counts)
        return RealisedLaw(counts, total)

    @cached_property
    def chances(self) -> FloatArray:
        """Probabilities as doubles."""
        return self.counts / self.total

    @cached_property
    def ends(self) -> NDArray[np.uint64]:
        """Sums of each row up to and with each output."""
        return np.cumsum(self.counts, axis=1).astype(np.uint64)

    @cached_property
    def least(self) -> Integers:
        """Lower envelope of the rows, in units of 1/S: the largest blanket."""
        return np.asarray(self.counts.min(axis=0))

    @cached_property
    def epsilon(self) -> float:
        """Logarithm of the largest ratio within a column, rounded up."""
        used = self.least > 0
        most, least = self.counts[:, used].max(axis=0), self.least[used]
        ratios = most / least
        # Doubles find the candidates, exact fractions decide.
        close = np.flatnonzero(ratios >= ratios.max() * (1 - 1e-12))
        return _log_up(max(Fraction(int(most[y]), int(least[y])) for y in close))

    def draw(self, codes: NDArray[Any], rng: np.random.Generator) -> Integers:
        """Draw an output for each input: a uniform whole number below S falls into one cell."""
        places = rng.integers(0, self.total, codes.size, dtype=np.uint64)
        outputs = np.empty(codes.size, np.int64)
        for x in range(len(self.counts)):
            held = codes == x
            outputs[held] = np.searchsorted(self.ends[x], places[held], side="right")
        return outputs


def _integers(row: Sequence[float]) -> list[int]:
    ratios = map(float.as_integer_ratio, row)
    exact = [top << (_FINEST + 1 - below.bit_length()) for top, below in ratios]
    total = sum(exact)
    return [(2 * _STEPS * cell + total) // (2 * total) for cell in exact]


def _refuse_zeros(matrix: Matrix, counts: Integers) -> None:
    mixed = (counts == 0).any(axis=0) & (counts > 0).any(axis=0)
    if not mixed.any():
        return
    y = int(np.flatnonzero(mixed)[0])
    zero, positive = (int(np.flatnonzero(found)[0]) for found in (counts[:, y] == 0, counts[:, y]))
    where = f"row {zero + 1}, column {y + 1}"
    problem = f"{where} is {matrix[zero][y]!r} beside {matrix[positive][y]!r}"
    raise _wrong(
        f"must have no zero beside a positive probability: {problem} in row {positive + 1}, so "
        "that this output rules an input out and no ε holds"
    )


def _log_up(ratio: Fraction) -> float:
    """Return a double that is at least the logarithm, and the least but one at most."""
    exact = _CONTEXT.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    value = _CONTEXT.ln(exact)
    found = float(value)
    while Decimal(found) < value:
        found = nextafter(found, 1e9)
    return nextafter(found, 1e9) if found else 0.0


def checked_chances(chances: Sequence[float], name: str) -> tuple[float, ...]:
    """Check positive probabilities that sum to one, as the rows of a matrix do."""
    found = tuple(float(each) for each in chances)
    positive = all(each > 0 for each in found)  # which nan is not
    if not found or not positive or abs(fsum(found) - 1) > _SUM_TOLERANCE:
        problem = f"must be positive numbers that sum to 1, got {_shown(chances)}"
        raise InvalidParameter(f"{name} {problem}", field=name)
    return found
