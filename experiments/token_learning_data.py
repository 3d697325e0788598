"""Houses to learn from, and many trainings at once to choose settings by.

Houses are read from ``california_housing/california_housing.csv.gz`` in the directory that
``INCROWD_DATA`` names: 20,640 block groups of the census of 1990. The paper uses a version with two
classes from OpenML (number 823), which is not at hand. Its class sizes are said to be 8,914 and
11,726, and those are the sizes of a longitude below and above its mean, not of any split by price;
so that is what is told from the other eight numbers here, the price among them.

:func:`walks` takes the same steps as the learners of ``incrowd``, for many settings and seeds side
by side, because choosing settings takes thousands of trainings; a test compares the two. Results
that are reported come from the learners themselves.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from incrowd.errors import FileUnreadable

__all__ = ["Contender", "Houses", "houses", "tuned", "walks"]

FloatArray = NDArray[np.float64]

_FEATURES = (
    "median_house_value", "median_income", "housing_median_age", "total_rooms", "total_bedrooms",
    "population", "households", "latitude",
)  # fmt: skip
_LABEL = "longitude_below_mean"
POINTS = 8
"""Houses that each person holds."""
_TEST_SHARE = 0.2
_SPLIT = 823
"""The seed of the split, the same for all trainings."""
_AT_ONCE = 500


@dataclass(frozen=True, eq=False)
class Houses:
    """Records of length one: those of each person, with 0 or 1 for each, and those to test on."""

    records: FloatArray
    """Of shape (people, records of each, numbers)."""
    labels: NDArray[np.int64]
    unseen: FloatArray
    truth: NDArray[np.int64]

    @property
    def flat(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """All records of all people, and their labels."""
        return self.records.reshape(-1, self.records.shape[2]), self.labels.reshape(-1)


def houses(people: int) -> Houses:
    """A fifth of the houses to test on; the others dealt out, 8 to each person."""
    table, labels = _read()
    order = np.random.default_rng(_SPLIT).permutation(len(table))
    tests = round(_TEST_SHARE * len(table))
    unseen, seen = order[:tests], order[tests : tests + people * POINTS]
    mean, scale = table[seen].mean(axis=0), table[seen].std(axis=0)
    rows = (table - mean) / scale
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Houses(
        rows[seen].reshape(people, POINTS, -1), labels[seen].reshape(people, POINTS),
        rows[unseen], labels[unseen],
    )  # fmt: skip


def _read() -> tuple[FloatArray, NDArray[np.int64]]:
    directory = os.environ.get("INCROWD_DATA")
    if directory is None:
        raise FileUnreadable("set INCROWD_DATA to the directory that holds california_housing")
    path = Path(directory) / "california_housing" / "california_housing.csv.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        table = np.array([[float(line[name]) for name in _FEATURES] for line in lines])
        return table, np.array([int(line[_LABEL]) for line in lines])
    except (OSError, ValueError, KeyError) as wrong:
        raise FileUnreadable(f"cannot read {path}: {wrong}") from wrong


@dataclass(frozen=True)
class Contender:
    """One way to train: noise in units of the clipping length, step size, contributions of one."""

    sigma: float
    speed: float
    cap: int | None = None
    rests: bool = False
    """Whether whoever has contributed often enough hands the token on, rather than add noise."""


def walks(
    data: Houses,
    contenders: Sequence[Contender],
    holders: NDArray[np.intp],
    noise: FloatArray,
    theta: FloatArray,
    times: NDArray[np.int64],
) -> None:
    """Take one step of every contender for each row of ``holders`` and ``noise``.

    Walks are along the second axis of ``holders``, the first of ``theta`` (walk, contender, number)
    and of ``times`` (walk, person), which counts the visits so far; both are changed. Records have
    length one, so that no gradient is longer than that and clipping to one changes nothing.
    """
    sigma = np.array([one.sigma for one in contenders])[:, None]
    speed = np.array([one.speed for one in contenders])[:, None]
    cap = np.array([np.inf if one.cap is None else one.cap for one in contenders])
    rests = np.array([one.rests for one in contenders])
    every = np.arange(len(theta))
    for who, drawn in zip(holders, noise, strict=True):
        records, labels = data.records[who], data.labels[who]
        residuals = expit(theta @ records.transpose(0, 2, 1)) - labels[:, None, :]
        step = residuals @ records / records.shape[1]
        active = (times[every, who][:, None] < cap)[:, :, None]
        step *= active
        step += (active | ~rests[:, None]) * sigma * drawn[:, None, :]
        theta -= speed * step
        times[every, who] += 1


def tuned(
    data: Houses, contenders: Sequence[Contender], steps: int, walkers: int, seed: int
) -> FloatArray:
    """The mean loss on all people's records after so many steps: (contender, walk)."""
    people, _, size = data.records.shape
    rng = np.random.default_rng(seed)
    theta = np.zeros((walkers, len(contenders), size))
    times = np.zeros((walkers, people), np.int64)
    for first in range(0, steps, _AT_ONCE):
        some = min(_AT_ONCE, steps - first)
        holders = rng.integers(people, size=(some, walkers))
        noise = rng.standard_normal((some, walkers, size))
        walks(data, contenders, holders, noise, theta, times)
    records, labels = data.flat
    signs = 2 * labels - 1
    losses: list[Any] = [
        [float(np.logaddexp(0, -signs * (records @ one)).mean()) for one in walk] for walk in theta
    ]
    return np.array(losses).T
