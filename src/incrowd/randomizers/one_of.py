"""One of several randomizers, drawn by the device with public probabilities.

A person has a value for each of the *parts*, draws part j with probability π_j whatever the values
are, and reports j together with the report of that part. Two neighbouring people may differ in all
of their values.

Law. The outputs of different parts are disjoint, so R_x = Σ_j π_j·R^j_{x_j}, and w = Σ_j π_j·w_j is
a blanket. Under it the law of (a, b) is the mixture, with weights π_j, of the laws of the parts. A
mixture with fixed weights keeps convex order: if the law of each part dominates all pairs of its
inputs, the mixture of these dominates all pairs of values. ε0 is the largest of the parts', and the
local curve at most Σ_j π_j·δ_j(ε), which is attained where all values change. Proofs:
``docs/theory/channel.md``.

A report is a row of bytes: the number of the part, the little-endian bytes of its report, and zeros
up to the longest. All rows have one length, which tells nothing of the part.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.randomizers import _inputs
from incrowd.randomizers._matrix import RealisedLaw, checked_chances
from incrowd.randomizers.base import (
    ABSENT,
    DerivedEpsilon,
    Domain,
    Estimate,
    FloatArray,
    Randomizer,
    Reports,
)
from incrowd.randomizers.channel import Channel
from incrowd.randomizers.hadamard import HadamardResponse
from incrowd.randomizers.hierarchical import Hierarchical
from incrowd.randomizers.law import PairLaw
from incrowd.randomizers.local_hash import OLH
from incrowd.randomizers.noise import Laplace
from incrowd.randomizers.response import KRR, RR, OneBit
from incrowd.randomizers.ternary import Ternary
from incrowd.randomizers.unary import OUE, SUE

Part = (
    RR
    | KRR
    | OUE
    | SUE
    | HadamardResponse
    | OLH
    | Channel
    | Hierarchical
    | Laplace
    | OneBit
    | Ternary
)
MOST_PARTS = 256


class OneOf(DerivedEpsilon, frozen=True, dict=True, tag="one-of"):
    """One of ``parts``, drawn with ``probabilities`` (even ones by default), whatever the values.

    Values have one column per part; NaN, or −1 for a category, is an absent value. The estimate
    holds the coordinates of all parts, one after another.
    """

    parts: tuple[Part, ...]
    probabilities: tuple[float, ...] = ()

    domain: ClassVar[Domain] = "several"

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if not 1 <= len(parts) <= MOST_PARTS or not all(isinstance(p, Randomizer) for p in parts):
            wanted = f"1 to {MOST_PARTS} randomizers"
            raise InvalidParameter(f"parts must be {wanted}, got {len(parts)}", field="parts")
        for number, part in enumerate(parts, 1):
            if part.domain not in ("category", "interval") or part.delta or not part.drawable:
                raise InvalidParameter(
                    f"parts must be pure randomizers of a category or a number: part {number} is "
                    f"{part.kind}",
                    field="parts",
                )
        chances = self.probabilities or (1 / len(parts),) * len(parts)
        if len(chances) != len(parts):
            raise InvalidParameter(
                f"probabilities must be one for each of the {len(parts)} parts, got {len(chances)}",
                field="probabilities",
            )
        set_field = msgspec.structs.force_setattr
        set_field(self, "parts", parts)
        set_field(self, "probabilities", checked_chances(chances, "probabilities"))
        self._derive(max(part.epsilon for part in parts))

    @cached_property
    def _choice(self) -> RealisedLaw:
        return RealisedLaw.of((self.probabilities,))

    @cached_property
    def chances(self) -> FloatArray:
        """Probabilities with which the parts are really drawn."""
        return np.asarray(self._choice.chances[0])

    @cached_property
    def _forms(self) -> tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]:
        """Type and shape of one report of each part."""
        rng = np.random.default_rng(0)
        examples = [part.randomize(example_of(part), rng) for part in self.parts]
        return tuple((each.dtype.newbyteorder("<"), each.shape[1:]) for each in examples)

    @property
    def report_bytes(self) -> int:
        """Size of the number of a part and the longest of their reports."""
        return 1 + max(part.report_bytes for part in self.parts)

    @property
    def assumption(self) -> str | None:
        """That of the first part that has one."""
        return next((part.assumption for part in self.parts if part.assumption), None)

    def treatment(self) -> str:
        """Describe the treatment of a person's values."""
        return f"{super().treatment()}, about one of {len(self.parts)} questions"

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw a part for each row, then its report of the value in its column."""
        return self._drawn(values, rng, "randomize")

    def randomize_exactly(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw as devices do."""
        return self._drawn(values, rng, "randomize_exactly")

    def _drawn(self, values: NDArray[Any], rng: np.random.Generator, how: str) -> Reports:
        rows = self._rows(values)
        chosen = self._choice.draw(np.zeros(len(rows), np.int64), rng)
        reports = np.zeros((len(rows), self.report_bytes), np.uint8)
        reports[:, 0] = chosen
        for number, (part, (form, _)) in enumerate(zip(self.parts, self._forms, strict=True)):
            held = chosen == number
            if held.any():
                drawn = getattr(part, how)(_column(part, rows[held, number]), rng)
                raw = np.ascontiguousarray(drawn, form).view(np.uint8).reshape(len(drawn), -1)
                reports[held, 1 : 1 + raw.shape[1]] = raw
        return reports

    def filled(self, values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Return the values with a stand-in for each absent one, column by column."""
        rows = self._rows(values)
        columns = [
            part.filled(_column(part, rows[:, number]), rng)
            for number, part in enumerate(self.parts)
        ]
        return np.column_stack(columns)

    def split(self, reports: Reports) -> list[Reports]:
        """Return the reports of each part; refuse rows that are of no part."""
        rows = _inputs.received(reports, self.report_bytes, 256).astype(np.uint8, copy=False)
        found = []
        for number, (form, shape) in enumerate(self._forms):
            own = rows[rows[:, 0] == number]
            width = form.itemsize * int(np.prod(shape, dtype=np.int64))
            if own[:, 1 + width :].any():
                raise _foreign("end in zeros")
            raw = np.ascontiguousarray(own[:, 1 : 1 + width])
            found.append(raw.view(form).reshape(len(own), *shape).astype(form.newbyteorder("=")))
        if sum(map(len, found)) != len(rows):
            raise _foreign(f"begin with the number of one of {len(self.parts)} parts")
        return found

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate the coordinates of all parts, each from the reports of its part.

        The people of a part are a random sample: where m is the estimate of a coordinate, a mean of
        numbers in [0, 1], their spread is at most m·(1 − m). Without a report of a part nothing is
        known: the estimate is zero, of infinite variance.
        """
        values, variances = [], []
        for part, chance, own in zip(self.parts, self.chances, self.split(reports), strict=True):
            if not len(own):
                size = np.size(part.estimand(example_of(part)))
                values.append(np.zeros(size))
                variances.append(np.full(size, np.inf))
                continue
            found = part.estimate(own)
            inside = np.clip(found.value, 0.0, 1.0)
            spread = (1 - chance) * inside * (1 - inside) / len(own)
            values.append(np.atleast_1d(found.value))
            variances.append(np.atleast_1d(found.variance + spread))
        return Estimate(np.concatenate(values), np.concatenate(variances), len(reports))

    def estimand(self, values: NDArray[Any]) -> FloatArray:
        """Return the means of the estimates of all parts."""
        rows = self._rows(values)
        found = [
            np.atleast_1d(part.estimand(_column(part, rows[:, number])))
            for number, part in enumerate(self.parts)
        ]
        return np.concatenate(found)

    def local_delta(self, epsilon: float) -> float:
        """Return the mean of the curves of the parts, rounded up."""
        if epsilon >= self.epsilon:
            return 0.0
        each = [part.local_delta(epsilon) for part in self.parts]
        return min(1.0, float(self.chances @ np.array(each)) * (1 + 2.0**-45))

    def blanket(self) -> PairLaw:
        """Return the mixture of the blankets of the parts, each of which dominates."""
        return self._mixture([part.blanket() for part in self.parts])

    def attack(self) -> tuple[PairLaw, ...]:
        """Return mixtures of attacks on the parts, as many as the part with most of them has."""
        known = [part.attack() for part in self.parts]
        if not all(known):
            return ()
        kinds = max(map(len, known))
        return tuple(
            self._mixture([laws[min(kind, len(laws) - 1)] for laws in known])
            for kind in range(kinds)
        )

    def _mixture(self, laws: list[PairLaw]) -> PairLaw:
        pairs = list(zip(self.chances.tolist(), laws, strict=True))
        return PairLaw.of(
            np.concatenate([law.a for law in laws]),
            np.concatenate([law.b for law in laws]),
            np.concatenate([chance * law.mass for chance, law in pairs]),
            sum(chance * law.escaped for chance, law in pairs),
        )

    def _rows(self, values: NDArray[Any]) -> NDArray[Any]:
        rows = np.asarray(values)
        if rows.size == 0:
            return np.empty((0, len(self.parts)))
        if rows.ndim != 2 or rows.shape[1] != len(self.parts):
            raise InvalidParameter(
                f"values must be an array of shape (people, {len(self.parts)}), got {rows.shape}"
            )
        return rows


def _column(part: Randomizer, column: NDArray[Any]) -> NDArray[Any]:
    """Values of one part: whole codes where it takes categories, whatever is beside them."""
    if part.domain != "category" or column.dtype.kind != "f":
        return column
    codes = np.where(np.isnan(column), ABSENT, column)
    whole = np.rint(codes)
    # What is no code is refused by the part.
    return whole.astype(np.int64) if np.array_equal(whole, codes) else codes


def example_of(part: Randomizer) -> NDArray[Any]:
    """Return one public value of a part."""
    return np.array([0]) if part.domain == "category" else np.array([0.5])


def _foreign(wanted: str) -> InvalidParameter:
    return InvalidParameter(f"reports must {wanted}: these come from another randomizer")
