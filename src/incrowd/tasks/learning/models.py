"""Models as a flat vector of parameters, with the gradient of every person's own loss.

A :class:`Model` has a start, the gradients of some people at given parameters, and predictions. It
holds no parameters and no randomness: those belong to its training. The linear ones are numpy only;
neural networks are :class:`incrowd.tasks.learning.TorchModule`.

A linear model has one margin m = ⟨w, x⟩ + b per output. With ℓ(m, y) the loss of one person, the
gradient is (∂ℓ/∂m) ⊗ (x, 1). The penalty ½·l2·‖w‖² tells nothing about people, so it is added after
the private average and costs no privacy; the intercept b is not penalised.

Classes are part of the question and given beforehand: reading them off the data would tell whether
a person has a rare one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_softmax, softmax

from incrowd import checks
from incrowd.errors import EmptyData, InvalidParameter, NotANumber, UnknownCategory
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds
from incrowd.tasks.learning.gradients import Gradients, OuterGradients
from incrowd.tasks.raw import Array, IntArray

Classes = int | Sequence[Any]
_PEOPLE_AT_ONCE = 1 << 16
"""Records in memory; sums are rounded, so results depend on it a little."""


class Model(ABC):
    """A model to be trained. ``theta`` is always the flat vector of all parameters."""

    @abstractmethod
    def start(self, shape: tuple[int, ...], seeds: Seeds) -> FloatArray:
        """The parameters before the first round, for records of this shape."""

    @abstractmethod
    def targets(self, labels: Array) -> Array:
        """Convert labels for the losses; refuse those that the model does not know."""

    @abstractmethod
    def gradients(self, theta: FloatArray, records: Array, targets: Array) -> Gradients:
        """The gradient of each person's own loss."""

    @abstractmethod
    def losses(self, theta: FloatArray, records: Array, targets: Array) -> FloatArray:
        """Each person's own loss, without the penalty."""

    @abstractmethod
    def predict(self, theta: FloatArray, records: Array) -> Array:
        """One label or number per record."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Describe what makes two models the same, in types that JSON has."""

    def at_once(self, size: int) -> int:
        """Number of people whose gradients are computed together."""
        del size
        return _PEOPLE_AT_ONCE

    def smoothness(self, norm: float) -> float | None:
        """Lipschitz constant of gradients for records up to this length, with the penalty.

        None unless the loss is a convex and smooth function of one margin: then it stays so when
        each record's gradient is clipped.
        """
        del norm
        return None

    def labelled(self, records: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
        """Check records, and convert their labels to targets.

        A person has one record with a label, or k of them: then labels have the shape (people, k),
        and records these two axes before their own.
        """
        rows, given = records_of(records), np.asarray(labels)
        if given.ndim == 2 and rows.ndim > 2 and given.size:
            if rows.shape[:2] != given.shape:
                counts = f"{rows.shape[:2]} records and {given.shape} labels"
                problem = "as (people, records of each): give one label for each record"
                raise InvalidParameter(f"there are {counts}, {problem}")
            return rows, self.targets(given.reshape(-1)).reshape(given.shape)
        targets = self.targets(given)
        if len(rows) != len(targets):
            counts = f"{len(rows)} records and {len(targets)} labels"
            raise InvalidParameter(f"there are {counts}: give one label each")
        return rows, targets

    def penalty(self, theta: FloatArray) -> FloatArray:
        """The gradient of the penalty, which depends on the parameters alone."""
        return np.zeros_like(theta)

    def score(self, theta: FloatArray, records: Array, labels: Array) -> float:
        """The share of labels that are predicted correctly."""
        self.targets(labels)
        return float(np.mean(self.predict(theta, records) == np.asarray(labels)))


def records_of(records: ArrayLike) -> Array:
    """Check records, people first; single and double precision stay what they are."""
    try:
        rows = np.asarray(records)
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
    except (TypeError, ValueError) as wrong:
        raise InvalidParameter("records must be numbers, as many for each person") from wrong
    if rows.ndim < 2:
        problem = f"one row per person and at least two axes, got {rows.shape}"
        raise InvalidParameter(f"records must have {problem}")
    if len(rows) == 0:
        raise EmptyData("there are no records: at least one person must be there")
    if not np.isfinite(rows).all():
        raise NotANumber("records must be finite numbers: fill in or drop those that are not")
    return rows


def class_codes(classes: Classes, labels: Array) -> IntArray:
    """Position of each label among the classes; 0…k−1 where only their number is given."""
    known, given = class_labels(classes), np.asarray(labels)
    if given.ndim != 1:
        raise InvalidParameter(f"labels must be one per person, got an array {given.shape}")
    order = np.argsort(known, kind="stable")
    try:
        place = np.minimum(np.searchsorted(known, given, sorter=order), known.size - 1)
        fits = known[order[place]] == given
    except (TypeError, ValueError):
        fits = np.zeros(len(given), bool)
    if not np.all(fits):
        wrong = given[np.argmin(fits)]
        raise UnknownCategory(
            f"label {wrong.item() if hasattr(wrong, 'item') else wrong!r} is none of the "
            f"{known.size} classes of the model: add it to classes, or drop the record"
        )
    return order[place].astype(np.int64)


def class_labels(classes: Classes) -> Array:
    """The labels of the classes, in the order of their codes."""
    if isinstance(classes, (Number, str, bytes)) or classes is None:
        return np.arange(checks.integer(classes, "classes", 2))  # type: ignore[arg-type]
    known = np.asarray(classes)
    if known.ndim != 1 or known.size < 2 or np.unique(known).size != known.size:
        raise InvalidParameter(f"classes must be at least two different labels, got {classes!r}")
    return known


@dataclass(frozen=True, kw_only=True)
class Linear(Model):
    """Base of the linear models: one row of weights, and an intercept, per output."""

    l2: float = 0.0
    intercept: bool = True
    _curvature: ClassVar[float | None] = None
    """The largest second derivative of the loss in its margin; None if there is none."""

    def __post_init__(self) -> None:
        if checks.number(self.l2, "l2") < 0:
            raise InvalidParameter(f"l2 must be ≥ 0, got {self.l2!r}")

    @property
    @abstractmethod
    def _outputs(self) -> int:
        """Number of margins of a record."""

    @abstractmethod
    def _residuals(self, margins: FloatArray, targets: Array) -> FloatArray:
        """∂ℓ/∂m for each person, of shape (people, outputs)."""

    @abstractmethod
    def _margin_losses(self, margins: FloatArray, targets: Array) -> FloatArray:
        """ℓ for each person."""

    def smoothness(self, norm: float) -> float | None:
        if self._curvature is None or self._outputs > 1:
            return None
        return self._curvature * (norm**2 + self.intercept) + self.l2

    def start(self, shape: tuple[int, ...], seeds: Seeds) -> FloatArray:
        """All zero: these losses are convex, so any start is as good."""
        del seeds
        if len(shape) != 1 or shape[0] < 1:
            problem = f"takes records that are rows of numbers, got records {shape}"
            raise InvalidParameter(f"a linear model {problem}: reshape them to two axes")
        return np.zeros(self._outputs * (shape[0] + self.intercept))

    def _margins(self, theta: FloatArray, records: Array) -> FloatArray:
        weights = theta.reshape(self._outputs, -1)
        slopes = weights[:, : records.shape[1]].astype(records.dtype)
        found = np.asarray(records @ slopes.T, np.float64)
        return np.asarray(found + weights[:, -1]) if self.intercept else found

    def gradients(self, theta: FloatArray, records: Array, targets: Array) -> Gradients:
        with np.errstate(over="ignore", invalid="ignore"):
            residuals = self._residuals(self._margins(theta, records), targets)
        return OuterGradients(residuals, records, self.intercept)

    def losses(self, theta: FloatArray, records: Array, targets: Array) -> FloatArray:
        return self._margin_losses(self._margins(theta, records), targets)

    def penalty(self, theta: FloatArray) -> FloatArray:
        pull = self.l2 * theta.reshape(self._outputs, -1)
        if self.intercept:
            pull[:, -1] = 0.0
        return pull.reshape(-1)

    def describe(self) -> dict[str, Any]:
        return {"model": type(self).__name__, "l2": self.l2, "intercept": self.intercept}


@dataclass(frozen=True, kw_only=True)
class Classifier(Linear):
    """A linear model that predicts the class with the largest margin."""

    classes: Classes = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        class_labels(self.classes)

    @property
    def _outputs(self) -> int:
        # With two classes a single margin, positive for the second.
        count = class_labels(self.classes).size
        return 1 if count == 2 else int(count)

    def targets(self, labels: Array) -> Array:
        return class_codes(self.classes, labels)

    def predict(self, theta: FloatArray, records: Array) -> Array:
        margins = self._margins(theta, records)
        codes = margins.argmax(axis=1) if self._outputs > 1 else (margins[:, 0] > 0).astype(int)
        return np.asarray(class_labels(self.classes)[codes])

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "classes": [*map(str, class_labels(self.classes).tolist())]}


@dataclass(frozen=True, kw_only=True)
class Softmax(Classifier):
    """Multinomial logistic regression: one margin per class, the loss −log of its softmax."""

    @property
    def _outputs(self) -> int:
        return int(class_labels(self.classes).size)

    def _residuals(self, margins: FloatArray, targets: Array) -> FloatArray:
        found: FloatArray = softmax(margins, axis=1)
        found[np.arange(len(found)), targets] -= 1.0
        return found

    def _margin_losses(self, margins: FloatArray, targets: Array) -> FloatArray:
        log_chance = log_softmax(margins, axis=1)
        return -np.asarray(log_chance[np.arange(len(margins)), targets])


@dataclass(frozen=True, kw_only=True)
class Logistic(Classifier):
    """Logistic regression: one margin for two classes, one against the rest for more."""

    _curvature: ClassVar[float | None] = 0.25  # p(1 − p)

    def _residuals(self, margins: FloatArray, targets: Array) -> FloatArray:
        return np.asarray(expit(margins) - _one_hot(targets, self._outputs))

    def _margin_losses(self, margins: FloatArray, targets: Array) -> FloatArray:
        # Σ log(1 + e^{−s·m}) over the outputs, s = ±1 for a true and a false class.
        signs = 2 * _one_hot(targets, self._outputs) - 1
        return np.asarray(np.logaddexp(0.0, -signs * margins).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class SVM(Classifier):
    """Support vector machine with the hinge loss; one against the rest for more than two."""

    def _residuals(self, margins: FloatArray, targets: Array) -> FloatArray:
        signs = 2 * _one_hot(targets, self._outputs) - 1
        return np.where(signs * margins < 1, -signs, 0.0)

    def _margin_losses(self, margins: FloatArray, targets: Array) -> FloatArray:
        signs = 2 * _one_hot(targets, self._outputs) - 1
        return np.asarray(np.maximum(0.0, 1 - signs * margins).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class Ridge(Linear):
    """Linear regression with the loss ½(m − y)²; the penalty makes it ridge regression."""

    _curvature: ClassVar[float | None] = 1.0

    @property
    def _outputs(self) -> int:
        return 1

    def targets(self, labels: Array) -> Array:
        try:
            numbers = np.asarray(labels, np.float64)
        except (TypeError, ValueError) as wrong:
            raise NotANumber("labels of a regression must be numbers: convert them") from wrong
        if numbers.ndim != 1:
            raise InvalidParameter(f"labels must be one per person, got an array {numbers.shape}")
        if not np.isfinite(numbers).all():
            raise NotANumber("labels of a regression must be finite: drop the records without one")
        return numbers

    def _residuals(self, margins: FloatArray, targets: Array) -> FloatArray:
        return np.asarray(margins - targets[:, None])

    def _margin_losses(self, margins: FloatArray, targets: Array) -> FloatArray:
        return np.asarray(0.5 * (margins[:, 0] - targets) ** 2)

    def predict(self, theta: FloatArray, records: Array) -> Array:
        return self._margins(theta, records)[:, 0]

    def score(self, theta: FloatArray, records: Array, labels: Array) -> float:
        """R²: the share of the variance that is explained."""
        truth = self.targets(labels)
        left = np.sum((truth - self.predict(theta, records)) ** 2)
        return 1.0 - float(left / np.sum((truth - truth.mean()) ** 2))


def _one_hot(codes: Array, outputs: int) -> FloatArray:
    # The second class alone when there are two.
    if outputs == 1:
        return np.asarray(codes[:, None], np.float64)
    return np.asarray(codes[:, None] == np.arange(outputs), np.float64)
