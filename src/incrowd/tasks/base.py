"""Tasks: the question that is asked, and the only place that turns reports into an answer.

A task encodes raw column values for a randomizer, and estimates from what a protocol collected.
Debiasing happens here and nowhere else; a randomizer's ``estimate`` is its building block.

Invariants: ``encode`` is total. No value makes it raise, so that whether a device takes part cannot
depend on an answer; a missing or out-of-domain answer becomes the reserved outcome of its task, and
the answer says what that does to the estimate. An estimate has one row per label, in the units of
the raw column, and is never clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import msgspec
import numpy as np

from incrowd.blocks import HEAD, Block, Fact, Figure, Section, Text
from incrowd.display import Displayed
from incrowd.errors import EmptyData, InvalidParameter, ProtocolFailed
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer, Reports
from incrowd.randomizers.registry import drawable_kinds
from incrowd.tasks.raw import NO_ANSWER, Array, ColumnDomain, Gaps, IntArray, blank

PlaceKind = Literal["points", "groups", "people"]
"""Place of a person: coordinates, names of groups, or only the person."""

_BATCHES = 1000
_TOO_WIDE = 0.5
"""Share of all possible answers from which on an interval is of no use."""


@dataclass(frozen=True)
class Dummies:
    """Reports without an answer, indistinguishable among the others.

    ``share`` is their expected share of the reports; ``center`` is the mean of an unbiased estimate
    from dummies alone, in the randomizer's own units.
    """

    share: float
    center: FloatArray


@dataclass(frozen=True)
class Collected:
    """The reports of a run and what the protocol knows of them.

    ``rounds`` holds the reports that arrived, one array per round, in an order that says nothing.
    ``sent`` counts the reports that people were asked for over all rounds; the others were
    ``dropped``. With ``dummies``, the remaining reports are a random sample of those that people
    sent. ``sampled``: the reporting people are a random sample, which the errors must cover.
    """

    sampled: ClassVar[bool] = False

    rounds: tuple[Reports, ...]
    sent: int
    dummies: Dummies | None = None

    def __repr__(self) -> str:
        return f"Collected({self.received} of {self.sent} reports, rounds = {len(self.rounds)})"

    @property
    def received(self) -> int:
        """Number of reports that arrived over all rounds."""
        return sum(self.crowds)

    @property
    def dropped(self) -> int:
        """Number of reports that were asked for and never arrived."""
        return self.sent - self.received

    @property
    def crowds(self) -> tuple[int, ...]:
        """Number of reports in each round."""
        return tuple(len(reports) for reports in self.rounds)

    @property
    def people(self) -> int:
        """Number of people who took part, as far as is known: the reports of the fullest round."""
        return max(self.crowds)

    @property
    def smallest_crowd(self) -> int:
        """Number of reports in the round that had the fewest."""
        return min(self.crowds, default=0)

    @property
    def vanished(self) -> bool:
        """Whether a device is not accounted for, so that a hub's record of it would tell more."""
        return False

    @property
    def parts(self) -> tuple[Collected, ...]:
        """What was collected for each question."""
        return (self,)

    def first(self, rounds: int) -> Self:
        """Keep the first rounds alone."""
        kept = self.rounds[:rounds]
        return replace(self, rounds=kept, sent=self.sent * len(kept) // len(self.rounds))

    def pooled(self) -> Reports:
        """Concatenate the reports of all rounds; refuse when there is none."""
        if self.received == 0:
            remedy = "lower the faults or give people more time"
            problem = f"none of the {self.sent} reports arrived, so there is nothing to estimate"
            raise ProtocolFailed(f"{problem}: {remedy}")
        return self.rounds[0] if len(self.rounds) == 1 else np.concatenate(self.rounds)

    def estimate(self, randomizer: Randomizer, *, joint: bool = False) -> Estimate:
        """Estimate from the reports, in the randomizer's own units; ``joint``: with covariance."""
        reports = self.pooled()
        estimate = randomizer.joint_estimate(reports) if joint else randomizer.estimate(reports)
        if self.dummies is not None:
            return _without_dummies(estimate, reports, randomizer, self.dummies)
        if not self.sampled or len(reports) < 2:
            return estimate
        drawn, covariance = as_sampled(estimate, reports, randomizer), estimate.covariance
        if covariance is not None and drawn.covariance is not None:
            covariance = max(drawn.covariance, covariance, key=np.trace)
        variance = np.maximum(drawn.variance, estimate.variance)
        return replace(estimate, variance=variance, covariance=covariance)


@dataclass(frozen=True, eq=False)
class AnswerContext:
    """Facts of a run that an answer is shown with.

    ``shares``: estimates are shares of people. ``span``: the width of all possible answers, in the
    units of the estimates; infinite where there is none. ``live``: devices talked over a network.
    ``geographic``: places are degrees on the earth. ``explained``: how to read an answer was said
    beside another one. The ``truth`` has one row per label, and is
    known only if everybody's data are at hand; ``column`` names what was asked. ``true_codes``
    are the true answers of all people, by their number, where a task maps them: in simulations.
    """

    collected: Collected
    randomizer: Randomizer
    shares: bool
    span: float = math.inf
    truth: FloatArray | None = None
    true_codes: IntArray | None = None
    live: bool = False
    column: str = ""
    geographic: bool = False
    explained: bool = False


@dataclass(frozen=True, repr=False)
class Answer(Displayed):
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
        """Truth of each row, from that about every label of the task."""
        return truth[: len(self.labels)]

    def share(self, *, shares: bool) -> list[bool]:
        """Whether each row is a share of people; beside a mean or a sum, the one missing is."""
        return [shares or label == NO_ANSWER for label in self.labels]

    def largest_error(self, *, shares: bool) -> float:
        """Largest standard error of the rows that have one unit."""
        errors = zip(self.standard_error, self.share(shares=shares), strict=True)
        return max(float(error) for error, share in errors if share == shares)

    def too_wide(self, context: AnswerContext) -> list[str]:
        """Labels of estimates whose interval covers more than half of all possible answers."""
        # Beside a mean or a sum, the row of missing answers is a share.
        own = (each == context.shares for each in self.share(shares=context.shares))
        rows = zip(self.labels, own, self.high - self.low, strict=True)
        return [
            label
            for label, same_unit, width in rows
            if width > _TOO_WIDE * (context.span if same_unit else 1.0)
        ]

    def records(self, truth: FloatArray | None = None) -> list[dict[str, Any]]:
        """Rows as plain data: label, estimate, standard error, limits, and the truth if known."""
        known = [None] * len(self.labels) if truth is None else truth.tolist()
        columns = (self.labels, self.value, self.standard_error, self.low, self.high, known)
        names = ("label", "estimate", "standard_error", "low", "high", "truth")
        return [
            dict(zip(names, (row[0], *map(float, row[1:5]), row[5]), strict=True))
            for row in zip(*columns, strict=True)
        ]

    def data(self, truth: FloatArray | None) -> dict[str, Any]:
        """Estimates and limits as plain data, row by row, beside the truth."""
        rows = zip(self.labels, self.value, self.standard_error, strict=True)
        limits = {"low": self.low.tolist(), "high": self.high.tolist()}
        result = [
            {"label": label, "estimate": float(value), "standard_error": float(error)}
            for label, value, error in rows
        ]
        interval = {"confidence": self.confidence, **limits}
        shown = None if truth is None else truth.tolist()
        return {"result": result, "interval": interval, "truth": shown}

    def sections(self, context: AnswerContext) -> tuple[Section, ...]:
        """Parts of a report: the precision, and the estimates with their limits."""
        head = Section(HEAD, "", 0, (self._precision(context),))
        return head, Section("answer", "The answer", 10, self._shown(context))

    def _shown(self, context: AnswerContext) -> tuple[Block, ...]:
        prose = () if context.explained else (Text(self._prose(context)),)
        return *prose, Text(self.missing), self._figure(context)

    def _precision(self, context: AnswerContext) -> Fact:
        error = self.largest_error(shares=context.shares)
        luck = " and the luck of who was in" if context.collected.sampled else " alone"
        error, unit = (100 * error, "± points") if context.shares else (error, "±")
        note = f"one standard error, from the noise{luck}"
        return Fact("typical_error", error, unit=unit, note=note)

    def _prose(self, context: AnswerContext) -> str:
        told = "Each person’s report is noisy on purpose; over many people the noise averages out, "
        told += "and what it adds is removed."
        if context.truth is not None:
            run = "Everybody’s device ran on one machine"
            told += f" {run if context.live else 'This run was a simulation'}, so the truth is "
            told += "known and shown beside the estimate. In a real survey nobody sees it."
        told += " The intervals cover the noise that protects people"
        if context.collected.sampled:
            told += " and the luck of who was in, each number on its own."
        else:
            told += ", each number on its own; they do not cover how the people were chosen."
        if bool((self.value < 0).any()):
            told += " An estimate may fall below zero: nothing was clipped, because "
            told += "clipping would bias it."
        return told

    def _figure(self, context: AnswerContext) -> Figure:
        known = context.truth is not None
        data = self.data(context.truth) | {"share": self.share(shares=context.shares)}
        data["too_wide"] = self.too_wide(context)
        alt = f"Estimates with confidence limits{' and the truth' if known else ''}"
        caption = f"Dots are estimates, whiskers the {100 * self.confidence:g} % interval of each"
        caption += "; upright marks are the truth." if known else "."
        return Figure("estimates", data, alt=alt, caption=caption)


class Task(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of all tasks; subclasses add what is asked and set ``domain``."""

    domain: ClassVar[Domain]
    collected_type: ClassVar[type[Collected]] = Collected
    """Type that a protocol must collect for it."""

    @property
    def kind(self) -> str:
        """The name in survey files."""
        return str(type(self).__struct_config__.tag)

    @property
    def labels(self) -> tuple[str, ...]:
        """One name per row of the answer."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Task, ...]:
        """Tasks of all questions: several where a survey asks several."""
        return (self,)

    def questions(self, text: str, column: str) -> tuple[Asked, ...]:
        """The questions: its own, or the only one with these words about this column."""
        return (Asked(text=text, column=column, task=self),)

    def answers(self, values: Array) -> list[Array]:
        """Raw values of each of the parts."""
        return [values]

    @property
    def outcomes(self) -> int:
        """Number of categories that a randomizer of its values must have."""
        return len(self.labels)

    @property
    def shares(self) -> bool:
        """Whether the rows of the answer are shares of people."""
        return self.domain == "category"

    @property
    def places(self) -> PlaceKind | None:
        """Places of people that the answer is about; None for an answer about people alone."""
        return None

    @property
    def axes(self) -> int:
        """Number of coordinates of a place."""
        return 0

    def variants(self, kind: type[Randomizer]) -> tuple[Mapping[str, Any], ...]:
        """Parameters with which a kind of randomizer is tried where none is named; none if unfit.

        Groups of neighbouring categories serve sums of frequencies, and none of these by itself.
        """
        return () if kind.nested else ({},)

    def noise(self, randomizer: Randomizer) -> float | None:
        """Return the error of the answer from one report, by which randomizers are compared.

        None where no closed form is known.
        """
        return randomizer.noise()

    def default_question(self, column: str) -> str:
        """The question in words, for a survey file that has none."""
        return f"What is the {self.kind} of {column}?"

    def asks(self, column: str) -> tuple[str, ...]:
        """Columns of a person's data that hold the answer; ``column`` is the one named."""
        return (column,)

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        """Declared domain of each column that is asked for, by its name."""
        raise NotImplementedError

    def clear_columns(self, column: str) -> tuple[str, ...]:
        """Columns that leave a device unrandomized, readable by others: none, unless stated."""
        del column
        return ()

    def releases(self, column: str) -> tuple[str, ...]:
        """Columns of the table that the answer releases: none, unless stated."""
        del column
        return ()

    def rows(self, cells: Sequence[Sequence[str | None]]) -> Array:
        """Raw values, one per person, from the texts of the columns asked for; None is missing."""
        return np.array([each[0] for each in blank(cells)], np.str_)

    def scale(self, people: int) -> float:
        """One unit of the randomizer in the units of an answer about this many people."""
        del people
        return 1.0

    def expected_error(
        self, coordinate: float, randomizer: Randomizer, people: int, *, sampled: bool
    ) -> float:
        """Expected standard error of the answer in its units, before anyone has answered.

        Args:
            coordinate: Expected error of a coordinate of the randomizer's estimate, in its units.
            randomizer: The randomizer of the reports.
            people: Number of people.
            sampled: Whether reporters are a random sample, which ``coordinate`` covers.

        """
        del randomizer, sampled
        return self.scale(people) * coordinate

    def encode(self, column: Array) -> Array:
        """Encode raw values for a randomizer, whatever they are.

        Raises:
            InvalidParameter: for an array of the wrong shape.
            EmptyData: without rows.

        """
        raise NotImplementedError

    def gaps(self, column: Array) -> Gaps:
        """Count the rows without an answer, and those outside the domain; in simulations alone."""
        raise NotImplementedError

    def effect(self, randomizer: Randomizer) -> str:
        """Say in a sentence how people without an answer count, and the bias of that."""
        raise NotImplementedError

    def truth(self, column: Array) -> FloatArray:
        """The answer on the raw values, one row per label, to compare with in simulations."""
        raise NotImplementedError

    def true_codes(self, column: Array) -> IntArray | None:
        """Categories of the raw values by person, to map in simulations: none, unless stated."""
        del column
        return None

    def require(self, randomizer: Randomizer) -> None:
        """Refuse a randomizer that does not take the values of this task."""
        self.require_domain(type(randomizer))

    def require_domain(self, kind: type[Randomizer]) -> None:
        """Refuse a kind of randomizer for another domain, whatever its parameters."""
        if kind.domain != self.domain:
            fitting = f"{self.domain!r} (one of {', '.join(sorted(drawable_kinds(self.domain)))})"
            raise InvalidParameter(
                f"a {self.kind} needs a randomizer of the domain {fitting}, but "
                f"{kind.__struct_config__.tag} takes {kind.domain!r}"
            )

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> Answer:
        """Estimate the answer from the reports alone."""
        self.require(randomizer)
        people = collected.people
        estimate = self.in_units(collected.estimate(randomizer), people)
        low, high = estimate.interval(confidence)
        error, told = np.sqrt(estimate.variance), self.effect(randomizer)
        return Answer(self.labels, estimate.value, low, high, error, confidence, people, told)

    def in_units(self, estimate: Estimate, people: int) -> Estimate:
        """Convert a randomizer's estimate to the units of the answer, one row per label."""
        del people
        return estimate


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One of the questions: its words, the column that answers it, and its task."""

    text: str = ""
    column: str
    task: Task


def _without_dummies(
    estimate: Estimate, reports: Reports, randomizer: Randomizer, dummies: Dummies
) -> Estimate:
    # The people in the sample, and the number of dummies, are random too.
    kept = 1 - dummies.share
    if kept <= 0 or len(reports) < 2:
        raise ProtocolFailed("only dummies are left, so there is nothing to estimate")
    drawn = as_sampled(estimate, reports, randomizer)
    value = np.asarray((estimate.value - dummies.share * dummies.center) / kept)
    covariance = None if drawn.covariance is None else drawn.covariance / kept**2
    return replace(estimate, value=value, variance=drawn.variance / kept**2, covariance=covariance)


def as_sampled(estimate: Estimate, reports: Reports, randomizer: Randomizer) -> Estimate:
    """Return the estimate with the variance it has when reports are independent draws from all.

    It is taken from the spread between batches, and is a little too large for a sample without
    replacement, which varies less. The covariance is computed likewise where there is one.
    """
    count = max(2, min(_BATCHES, len(reports) // 2))
    edges = np.linspace(0, len(reports), count + 1).astype(int)
    batches = np.array([randomizer.estimate(reports[a:b]).value for a, b in pairwise(edges)])
    weights = np.diff(edges).reshape(-1, *(1,) * (batches.ndim - 1))
    # Each batch mean has variance v over its size: this average of squares estimates v.
    away = np.sqrt(weights / (count - 1) / len(reports)) * (batches - estimate.value)
    covariance = None if estimate.covariance is None else away.T @ away
    return replace(estimate, variance=np.asarray((away**2).sum(axis=0)), covariance=covariance)


def check_rows(column: Array, axes: int) -> Array:
    """Return a column as an array of this many axes; refuse one without rows."""
    try:
        array = np.asarray(column)
    except ValueError as ragged:
        raise InvalidParameter("the rows of a column must all have the same length") from ragged
    if array.ndim == 0:
        wanted = "a list or an array with one row per person"
        raise InvalidParameter(f"a column must be {wanted}, got a {type(column).__name__}")
    if array.ndim != axes:
        raise InvalidParameter(f"a column must have {axes} axes, got an array {array.shape}")
    if len(array) == 0:
        raise EmptyData("the column has no rows: at least one person must answer")
    return array
