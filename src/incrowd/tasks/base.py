"""What is asked, and the only place that turns reports into an answer.

A task encodes raw column values for a randomizer, and estimates from what a protocol collected.
Debiasing happens here and nowhere else; a randomizer's ``estimate`` is its building block.

Invariants: ``encode`` is total. No value makes it raise, so that whether a device takes part cannot
depend on an answer; a missing or out-of-domain answer becomes the reserved outcome of its task, and
the answer says what that does to the estimate. An estimate has one row per label, in the units of
the raw column, and is never clipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.blocks import HEAD, Fact, Figure, Section, Text
from incrowd.errors import EmptyData, InvalidParameter, ProtocolFailed
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer, Reports
from incrowd.randomizers.registry import drawable_kinds
from incrowd.tasks.raw import NO_ANSWER, ColumnDomain, Gaps, blank

PlaceKind = Literal["points", "groups", "people"]
"""What is known of where people are: coordinates, names of groups, or only who they are."""

_BATCHES = 1000
_SHOWN = 3
"""How many rows of an answer its ``repr`` shows."""


@dataclass(frozen=True)
class Dummies:
    """Reports that answer nothing, hidden among the others so that nobody can tell them apart.

    A ``share`` of the reports is expected to be dummies; ``center`` is what an unbiased estimate
    from dummies alone has as its mean, in the randomizer's own units.
    """

    share: float
    center: FloatArray


@dataclass(frozen=True)
class Collected:
    """The reports of a run and what the protocol knows of them.

    ``rounds`` holds the reports that arrived, one array per round, in an order that says nothing.
    ``sent`` counts the reports that people were asked for over all rounds; those that are not in
    ``rounds`` were ``dropped``. Where ``dummies`` are among them, the others are a random sample of
    what people sent. ``sampled`` says that who reports is drawn at random anyway, so that an answer
    about everybody has to allow for that as well.
    """

    sampled: ClassVar[bool] = False

    rounds: tuple[Reports, ...]
    sent: int
    dummies: Dummies | None = None

    def __repr__(self) -> str:
        """How much arrived, without the reports."""
        return f"Collected({self.received} of {self.sent} reports, rounds = {len(self.rounds)})"

    @property
    def received(self) -> int:
        """How many reports arrived over all rounds."""
        return sum(self.crowds)

    @property
    def dropped(self) -> int:
        """How many reports were asked for and never arrived."""
        return self.sent - self.received

    @property
    def crowds(self) -> tuple[int, ...]:
        """The number of reports in each round."""
        return tuple(len(reports) for reports in self.rounds)

    @property
    def people(self) -> int:
        """How many people took part, as far as is known: the reports of the fullest round."""
        return max(self.crowds)

    @property
    def smallest_crowd(self) -> int:
        """The number of reports in the round that had the fewest."""
        return min(self.crowds, default=0)

    @property
    def vanished(self) -> bool:
        """Whether a device is not accounted for, so that a hub's record of it would tell more."""
        return False

    def first(self, rounds: int) -> Self:
        """What the first rounds alone brought."""
        kept = self.rounds[:rounds]
        return replace(self, rounds=kept, sent=self.sent * len(kept) // len(self.rounds))

    def pooled(self) -> Reports:
        """The reports of all rounds together; refuses when there is none."""
        if self.received == 0:
            raise ProtocolFailed(
                f"none of the {self.sent} reports arrived, so there is nothing to estimate: "
                "lower the faults or give people more time"
            )
        return self.rounds[0] if len(self.rounds) == 1 else np.concatenate(self.rounds)

    def estimate(self, randomizer: Randomizer) -> Estimate:
        """What the reports say, in the randomizer's own units."""
        reports = self.pooled()
        estimate = randomizer.estimate(reports)
        if self.dummies is not None:
            return _without_dummies(estimate, reports, randomizer, self.dummies)
        if self.sampled and len(reports) > 1:
            drawn = as_sampled(estimate, reports, randomizer)
            return replace(
                estimate,
                variance=np.maximum(drawn.variance, estimate.variance),
                covariance=_larger(drawn.covariance, estimate.covariance),
            )
        return estimate


@dataclass(frozen=True, eq=False)
class AnswerContext:
    """Facts of a run that an answer is shown with.

    ``shares`` says that estimates are shares of people, ``live`` that devices talked over a
    network, ``geographic`` that places are degrees on the earth. The ``truth`` has one row per
    label, and is known only where everybody's data are at hand; ``column`` names what was asked.
    """

    collected: Collected
    randomizer: Randomizer
    shares: bool
    truth: FloatArray | None = None
    live: bool = False
    column: str = ""
    geographic: bool = False


@dataclass(frozen=True)
class Answer:
    """An estimate in the units of the task, one row per label, with confidence limits.

    The limits cover what randomization did to the people who answered. They do not cover how those
    people were chosen, unless a protocol draws them at random. ``people`` is how many took part,
    and ``missing`` says in a sentence how people without an answer count.
    """

    labels: tuple[str, ...]
    value: FloatArray
    low: FloatArray
    high: FloatArray
    standard_error: FloatArray
    confidence: float
    people: int
    missing: str

    def beside(self, truth: FloatArray) -> FloatArray:
        """The truth that stands beside each row, from that about every label of the task."""
        return truth[: len(self.labels)]

    def share(self, *, shares: bool) -> list[bool]:
        """Whether each row is a share of people; beside a mean or a sum, the one missing is."""
        return [shares or label == NO_ANSWER for label in self.labels]

    def largest_error(self, *, shares: bool) -> float:
        """The largest standard error of the rows that have one unit."""
        errors = zip(self.standard_error, self.share(shares=shares), strict=True)
        return max(float(error) for error, share in errors if share == shares)

    def data(self, truth: FloatArray | None) -> dict[str, Any]:
        """The estimates and their limits as plain data, row by row, beside the truth."""
        rows = zip(self.labels, self.value, self.standard_error, strict=True)
        return {
            "result": [
                {"label": label, "estimate": float(value), "standard_error": float(error)}
                for label, value, error in rows
            ],
            "interval": {
                "confidence": self.confidence,
                "low": self.low.tolist(),
                "high": self.high.tolist(),
            },
            "truth": None if truth is None else truth.tolist(),
        }

    def sections(self, context: AnswerContext) -> tuple[Section, ...]:
        """The answer to be shown: how precise it is, and the estimates with their limits."""
        return (
            Section(HEAD, "", 0, (self._precision(context),)),
            Section("answer", "The answer", 10, (*self._prose(context), self._figure(context))),
        )

    def _precision(self, context: AnswerContext) -> Fact:
        error = self.largest_error(shares=context.shares)
        luck = " and the luck of who was in" if context.collected.sampled else " alone"
        return Fact(
            "typical_error",
            100 * error if context.shares else error,
            unit="± points" if context.shares else "±",
            note=f"one standard error, from the noise{luck}",
        )

    def _prose(self, context: AnswerContext) -> tuple[Text, ...]:
        """The way to read the estimates."""
        told = [
            "Each person’s report is noisy on purpose; over many people the noise averages out, "
            "and what it adds is removed."
        ]
        if context.truth is not None:
            told.append(
                "Everybody’s device ran on one machine, so"
                if context.live
                else "This run was a simulation, so"
            )
            told.append(
                "the truth is known and shown beside the estimate. In a real survey nobody sees it."
            )
        told.append(
            "The intervals cover the noise that protects people and the luck of who was in, each "
            "number on its own."
            if context.collected.sampled
            else "The intervals cover the noise that protects people, each number on its own; they "
            "do not cover how the people were chosen."
        )
        if bool((self.value < 0).any()):
            told.append(
                "An estimate may fall below zero: nothing was clipped, because clipping would bias "
                "it."
            )
        return Text(" ".join(told)), Text(self.missing)

    def _figure(self, context: AnswerContext) -> Figure:
        known = context.truth is not None
        return Figure(
            "estimates",
            self.data(context.truth) | {"share": self.share(shares=context.shares)},
            alt=f"Estimates with confidence limits{' and the truth' if known else ''}",
            caption=f"Dots are estimates, whiskers the {self.confidence:.0%} interval of each"
            f"{'; upright marks are the truth.' if known else '.'}",
        )

    def __repr__(self) -> str:
        """The first rows with their limits, for reading."""
        rows = [
            f"{label} = {value:.3g} in [{low:.3g}, {high:.3g}]"
            for label, value, low, high in zip(
                self.labels[:_SHOWN], self.value, self.low, self.high, strict=False
            )
        ]
        if len(self.labels) > _SHOWN:
            rows.append(f"… {len(self.labels)} rows")
        return f"Answer({', '.join(rows)}; people = {self.people})"


class Task(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of all tasks; subclasses add what is asked and set ``domain``."""

    domain: ClassVar[Domain]
    collected_type: ClassVar[type[Collected]] = Collected
    """What a protocol must collect for it."""

    @property
    def kind(self) -> str:
        """The name in survey files."""
        return str(type(self).__struct_config__.tag)

    @property
    def labels(self) -> tuple[str, ...]:
        """One name per row of the answer."""
        raise NotImplementedError

    @property
    def places(self) -> PlaceKind | None:
        """The places of people that the answer is about; none where it is about people alone."""
        return None

    @property
    def axes(self) -> int:
        """How many coordinates a place has."""
        return 0

    def default_question(self, column: str) -> str:
        """The question in words, where a survey file has none."""
        return f"What is the {self.kind} of {column}?"

    def asks(self, column: str) -> tuple[str, ...]:
        """The columns of a person's data that hold the answer; ``column`` is the one named."""
        return (column,)

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        """The declared domain of each column that is asked for, by its name."""
        raise NotImplementedError

    def clear_columns(self, column: str) -> tuple[str, ...]:
        """The columns that leave a device unrandomized, readable by others: none, unless stated."""
        del column
        return ()

    def releases(self, column: str) -> tuple[str, ...]:
        """The columns of the table that the answer releases: none, unless stated."""
        del column
        return ()

    def rows(self, cells: Sequence[Sequence[str | None]]) -> NDArray[Any]:
        """Raw values, one per person, from the texts in the columns that are asked for.

        A cell that is None has no answer.
        """
        return np.array([each[0] for each in blank(cells)], np.str_)

    def scale(self, people: int) -> float:
        """How much one unit of the randomizer is in the units of an answer about these people."""
        del people
        return 1.0

    def encode(self, column: NDArray[Any]) -> NDArray[Any]:
        """Raw values as a randomizer takes them, whatever they are.

        Raises:
            InvalidParameter: for an array of the wrong shape.
            EmptyData: without rows.

        """
        raise NotImplementedError

    def gaps(self, column: NDArray[Any]) -> Gaps:
        """Count the rows without an answer, and those with one outside the domain.

        For data that are at hand, in simulations; no device computes it.
        """
        raise NotImplementedError

    def effect(self, randomizer: Randomizer) -> str:
        """A sentence about people without an answer: how they count, and the bias of that."""
        raise NotImplementedError

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The answer on the raw values, one row per label, to compare with in simulations."""
        raise NotImplementedError

    def require(self, randomizer: Randomizer) -> None:
        """Refuse a randomizer that does not take the values of this task."""
        self.require_domain(type(randomizer))

    def require_domain(self, kind: type[Randomizer]) -> None:
        """Refuse a kind of randomizer for another domain, whatever its parameters."""
        if kind.domain != self.domain:
            raise InvalidParameter(
                f"a {self.kind} needs a randomizer of the domain {self.domain!r} "
                f"({_fitting(self.domain)}), but {kind.__struct_config__.tag} takes {kind.domain!r}"
            )

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> Answer:
        """The answer from the reports alone."""
        self.require(randomizer)
        estimate = self.in_units(collected.estimate(randomizer), collected.people)
        low, high = estimate.interval(confidence)
        return Answer(
            labels=self.labels,
            value=estimate.value,
            low=low,
            high=high,
            standard_error=np.sqrt(estimate.variance),
            confidence=confidence,
            people=collected.people,
            missing=self.effect(randomizer),
        )

    def in_units(self, estimate: Estimate, people: int) -> Estimate:
        """A randomizer's estimate in the units of the answer, one row per label."""
        del people
        return estimate


def _without_dummies(
    estimate: Estimate, reports: Reports, randomizer: Randomizer, dummies: Dummies
) -> Estimate:
    """The estimate for everyone, from a random sample of them among dummies.

    Which people are in the sample, and how many dummies there are, is random too.
    """
    kept = 1 - dummies.share
    if kept <= 0 or len(reports) < 2:
        raise ProtocolFailed("only dummies are left, so there is nothing to estimate")
    drawn = as_sampled(estimate, reports, randomizer)
    return Estimate(
        value=np.asarray((estimate.value - dummies.share * dummies.center) / kept),
        variance=np.asarray(drawn.variance / kept**2),
        reports=estimate.reports,
        covariance=None if drawn.covariance is None else drawn.covariance / kept**2,
    )


def as_sampled(estimate: Estimate, reports: Reports, randomizer: Randomizer) -> Estimate:
    """The estimate with the variance that it has when reports are independent draws from all.

    It is taken from the spread between batches, and is a little too large for a sample without
    replacement, which varies less. The covariance is computed likewise where there is one.
    """
    count = max(2, min(_BATCHES, len(reports) // 2))
    edges = np.linspace(0, len(reports), count + 1).astype(int)
    batches = np.array(
        [randomizer.estimate(reports[begin:end]).value for begin, end in pairwise(edges)]
    )
    weights = np.diff(edges).reshape(-1, *(1,) * (batches.ndim - 1))
    # Each batch mean has variance v over its size: this average of squares estimates v.
    away = np.sqrt(weights / (count - 1) / len(reports)) * (batches - estimate.value)
    return replace(
        estimate,
        variance=np.asarray((away**2).sum(axis=0)),
        covariance=None if estimate.covariance is None else away.T @ away,
    )


def _larger(one: FloatArray | None, other: FloatArray | None) -> FloatArray | None:
    """The covariance with the larger total variance."""
    if one is None or other is None:
        return None
    return one if np.trace(one) >= np.trace(other) else other


def _fitting(domain: Domain) -> str:
    return "one of " + ", ".join(sorted(drawable_kinds(domain)))


def check_rows(column: NDArray[Any], axes: int) -> NDArray[Any]:
    """A column as an array of the right number of axes with at least one row."""
    try:
        array = np.asarray(column)
    except ValueError as ragged:
        raise InvalidParameter("the rows of a column must all have the same length") from ragged
    if array.ndim == 0:
        raise InvalidParameter(
            "a column must be a list or an array with one row per person, got a "
            f"{type(column).__name__}"
        )
    if array.ndim != axes:
        raise InvalidParameter(f"a column must have {axes} axes, got an array {array.shape}")
    if len(array) == 0:
        raise EmptyData("the column has no rows: at least one person must answer")
    return array
