"""Models as a flat vector of parameters, with the gradient of every person's own loss.

A :class:`Model` says where training starts, what the gradients of some people are at given
parameters, and what it predicts. It holds no parameters and no randomness: those belong to whoever
trains it. The linear ones are numpy only; neural networks are
:class:`incrowd.tasks.learning.TorchModule`.

A linear model has one margin m = ⟨w, x⟩ + b per output. With ℓ(m, y) the loss of one person, the
gradient is (∂ℓ/∂m) ⊗ (x, 1). The penalty ½·l2·‖w‖² says nothing about anybody, so it is added after
the private average and costs no privacy; the intercept b is not penalised.

Classes are part of the question and given beforehand: reading them off the data would tell whether
anybody has a rare one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from incrowd import checks
from incrowd.errors import InvalidParameter, NotANumber, UnknownCategory
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds
from incrowd.tasks.learning.gradients import Gradients, OuterGradients

_PEOPLE_AT_ONCE = 1 << 16
"""Records that are gathered at once; sums are rounded, so results depend on it a little."""


class Model(ABC):
    """What is trained. ``theta`` is always the flat vector of all parameters."""

    @abstractmethod
    def start(self, shape: tuple[int, ...], seeds: Seeds) -> FloatArray:
        """The parameters before the first round, for records of this shape."""

    @abstractmethod
    def targets(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Labels as the losses want them; refuses those that the model does not know."""

    @abstractmethod
    def gradients(
        self, theta: FloatArray, records: NDArray[Any], targets: NDArray[Any]
    ) -> Gradients:
        """The gradient of each person's own loss."""

    @abstractmethod
    def losses(self, theta: FloatArray, records: NDArray[Any], targets: NDArray[Any]) -> FloatArray:
        """Each person's own loss, without the penalty."""

    @abstractmethod
    def predict(self, theta: FloatArray, records: NDArray[Any]) -> NDArray[Any]:
        """One label or number per record."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What makes two models the same, in types that JSON has."""

    def at_once(self, size: int) -> int:
        """How many people's gradients to ask for at a time."""
        del size
        return _PEOPLE_AT_ONCE

    def smoothness(self, norm: float) -> float | None:
        """How fast gradients change at most, for records up to this length, the penalty included.

        None unless the loss is a convex and smooth function of one margin: then it stays so when
        each record's gradient is clipped.
        """
        del norm
        return None

    def penalty(self, theta: FloatArray) -> FloatArray:
        """The gradient of the penalty, which depends on the parameters alone."""
        return np.zeros_like(theta)

    def score(self, theta: FloatArray, records: NDArray[Any], labels: NDArray[Any]) -> float:
        """The share of labels that are predicted correctly."""
        self.targets(labels)
        return float(np.mean(self.predict(theta, records) == np.asarray(labels)))


def class_codes(classes: int | Sequence[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """The position of each label among the classes; 0…k−1 where only their number is given."""
    known = class_labels(classes)
    given = np.asarray(labels)
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
    codes: NDArray[np.int64] = order[place].astype(np.int64)
    return codes


def class_labels(classes: int | Sequence[Any]) -> NDArray[Any]:
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

    def __post_init__(self) -> None:
        """Refuse a negative penalty."""
        if checks.number(self.l2, "l2") < 0:
            raise InvalidParameter(f"l2 must be ≥ 0, got {self.l2!r}")

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many margins a record has."""

    @abstractmethod
    def residuals(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """∂ℓ/∂m for each person, of shape (people, outputs)."""

    @abstractmethod
    def margin_losses(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """ℓ for each person."""

    @property
    def curvature(self) -> float | None:
        """The largest second derivative of the loss in its margin; none if there is no such."""
        return None

    def smoothness(self, norm: float) -> float | None:
        """The curvature times the square of the length of (x, 1), and the penalty's own."""
        if self.curvature is None or self.outputs > 1:
            return None
        return self.curvature * (norm**2 + self.intercept) + self.l2

    def start(self, shape: tuple[int, ...], seeds: Seeds) -> FloatArray:
        """All zero: these losses are convex, so any start is as good."""
        del seeds
        if len(shape) != 1 or shape[0] < 1:
            raise InvalidParameter(
                f"a linear model takes records that are rows of numbers, got records {shape}: "
                "reshape them to two axes"
            )
        return np.zeros(self.outputs * (shape[0] + self.intercept))

    def margins(self, theta: FloatArray, records: NDArray[Any]) -> FloatArray:
        """⟨w, x⟩ + b, one row per person."""
        weights = theta.reshape(self.outputs, -1)
        slopes = weights[:, : records.shape[1]].astype(records.dtype)
        found = np.asarray(records @ slopes.T, np.float64)
        return np.asarray(found + weights[:, -1]) if self.intercept else found

    def gradients(
        self, theta: FloatArray, records: NDArray[Any], targets: NDArray[Any]
    ) -> Gradients:
        """Outer products, never written down unless asked for."""
        with np.errstate(over="ignore", invalid="ignore"):
            residuals = self.residuals(self.margins(theta, records), targets)
        return OuterGradients(residuals, records, self.intercept)

    def losses(self, theta: FloatArray, records: NDArray[Any], targets: NDArray[Any]) -> FloatArray:
        """Each person's own loss."""
        return self.margin_losses(self.margins(theta, records), targets)

    def penalty(self, theta: FloatArray) -> FloatArray:
        """l2·w, and nothing for the intercept."""
        pull = self.l2 * theta.reshape(self.outputs, -1)
        if self.intercept:
            pull[:, -1] = 0.0
        return pull.reshape(-1)

    def describe(self) -> dict[str, Any]:
        """The kind and its fields."""
        return {"model": type(self).__name__, "l2": self.l2, "intercept": self.intercept}


@dataclass(frozen=True, kw_only=True)
class Classifier(Linear):
    """A linear model that predicts the class with the largest margin."""

    classes: int | Sequence[Any] = 2

    def __post_init__(self) -> None:
        """Refuse classes that are none."""
        super().__post_init__()
        class_labels(self.classes)

    @property
    def outputs(self) -> int:
        """One margin per class; a single one, positive for the second class, when there are two."""
        count = class_labels(self.classes).size
        return 1 if count == 2 else int(count)

    def targets(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Positions among the classes."""
        return class_codes(self.classes, labels)

    def predict(self, theta: FloatArray, records: NDArray[Any]) -> NDArray[Any]:
        """The class with the largest margin."""
        margins = self.margins(theta, records)
        codes = margins.argmax(axis=1) if self.outputs > 1 else (margins[:, 0] > 0).astype(int)
        return np.asarray(class_labels(self.classes)[codes])

    def describe(self) -> dict[str, Any]:
        """With the classes as texts."""
        labels = [str(each) for each in class_labels(self.classes).tolist()]
        return {**super().describe(), "classes": labels}


@dataclass(frozen=True, kw_only=True)
class Softmax(Classifier):
    """Multinomial logistic regression: one margin per class, the loss −log of its softmax."""

    @property
    def outputs(self) -> int:
        """One margin per class, also when there are two."""
        return int(class_labels(self.classes).size)

    def residuals(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """Probabilities, less one for the true class."""
        found: FloatArray = softmax(margins, axis=1)
        found[np.arange(len(found)), targets] -= 1.0
        return found

    def margin_losses(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """−log of the probability of the true class."""
        log_chance = log_softmax(margins, axis=1)
        return -np.asarray(log_chance[np.arange(len(margins)), targets])


@dataclass(frozen=True, kw_only=True)
class Logistic(Classifier):
    """Logistic regression: one margin for two classes, one against the rest for more."""

    @property
    def curvature(self) -> float:
        """p(1 − p) ≤ ¼."""
        return 0.25

    def residuals(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """The chance of each class, less one where it is the true one."""
        found: FloatArray = expit(margins) - _one_hot(targets, self.outputs)
        return found

    def margin_losses(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """Σ log(1 + e^{−s·m}) over the outputs, s = ±1 for a true and a false class."""
        signs = 2 * _one_hot(targets, self.outputs) - 1
        return np.asarray(np.logaddexp(0.0, -signs * margins).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class SVM(Classifier):
    """Support vector machine with the hinge loss; one against the rest for more than two."""

    def residuals(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """−s where s·m < 1, else nothing."""
        signs = 2 * _one_hot(targets, self.outputs) - 1
        return np.where(signs * margins < 1, -signs, 0.0)

    def margin_losses(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """Σ max(0, 1 − s·m)."""
        signs = 2 * _one_hot(targets, self.outputs) - 1
        return np.asarray(np.maximum(0.0, 1 - signs * margins).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class Ridge(Linear):
    """Linear regression with the loss ½(m − y)²; the penalty makes it ridge regression."""

    @property
    def curvature(self) -> float:
        """That of a square."""
        return 1.0

    @property
    def outputs(self) -> int:
        """One number."""
        return 1

    def targets(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Finite numbers, one per person."""
        try:
            numbers = np.asarray(labels, np.float64)
        except (TypeError, ValueError) as wrong:
            raise NotANumber("labels of a regression must be numbers: convert them") from wrong
        if numbers.ndim != 1:
            raise InvalidParameter(f"labels must be one per person, got an array {numbers.shape}")
        if not np.isfinite(numbers).all():
            raise NotANumber("labels of a regression must be finite: drop the records without one")
        return numbers

    def residuals(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """By how much the margin is too large."""
        return np.asarray(margins - targets[:, None])

    def margin_losses(self, margins: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """½(m − y)²."""
        return np.asarray(0.5 * (margins[:, 0] - targets) ** 2)

    def predict(self, theta: FloatArray, records: NDArray[Any]) -> NDArray[Any]:
        """The margin itself."""
        return self.margins(theta, records)[:, 0]

    def score(self, theta: FloatArray, records: NDArray[Any], labels: NDArray[Any]) -> float:
        """R²: the share of the variance that is explained."""
        truth = self.targets(labels)
        left = np.sum((truth - self.predict(theta, records)) ** 2)
        return 1.0 - float(left / np.sum((truth - truth.mean()) ** 2))


def _one_hot(codes: NDArray[Any], outputs: int) -> FloatArray:
    """1 for each person's true class, 0 elsewhere; the second class alone when there are two."""
    if outputs == 1:
        return np.asarray(codes[:, None], np.float64)
    return np.asarray(codes[:, None] == np.arange(outputs), np.float64)
