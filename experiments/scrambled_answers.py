"""Answers of ``experiments.scrambled_query``: what lies, dummies and noise do to a real query.

Everyone has one made-up record of four attributes, each with 20 intervals, and a value that depends
on the first of them. A query asks for counts and averages by each attribute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.scrambled_figures import DELTA, TARGETS
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.randomness import Seeds
from incrowd.tasks.query import Column, Query

__all__ = ["SETTINGS", "SOURCES", "SPREADS", "Measured", "Setting", "made_up", "measured", "query"]

FloatArray = NDArray[np.float64]

ATTRIBUTES = ("a", "b", "c", "d")
INTERVALS = 20
SPREADS = ("even", "uneven")
SOURCES = 500
_LEAST, _MOST = 0.0, 100.0
_STEP, _NOISE = 3.0, 10.0
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Setting:
    """How a query is protected."""

    name: str
    sampling: float
    dummies: int
    release: float = 0.0


SETTINGS = (
    Setting("1,000 dummies", 0.0, 1000),
    Setting("σ = 0.1, 300 dummies", 0.1, 300),
    Setting("σ = 0.5, 100 dummies", 0.5, 100),
    Setting("1,000 dummies, result with ε = 1", 0.0, 1000, 1.0),
    Setting("σ = 0.1, 300 dummies, result with ε = 1", 0.1, 300, 1.0),
)


@dataclass(frozen=True)
class Measured:
    """What some runs of one setting brought."""

    epsilon: float
    """Of the traffic of the whole query."""
    released: float
    """Of traffic and result; infinite where the result has no noise."""
    arrived: float
    """The share of tuples behind the answer."""
    count_error: float
    average_error: float


@lru_cache(maxsize=1)
def query() -> Query:
    """Counts and averages by each of the four attributes."""
    intervals = tuple(str(each) for each in range(INTERVALS))
    columns = [
        Column(name=name, type="category", values=intervals, complete=True) for name in ATTRIBUTES
    ]
    value = Column(name="value", type="number", low=_LEAST, high=_MOST, complete=True)
    sets = ", ".join(f"({name})" for name in ATTRIBUTES)
    return Query(
        sql=f"SELECT {', '.join(ATTRIBUTES)}, COUNT(*) AS many, AVG(value) AS mean FROM people "
        f"GROUP BY GROUPING SETS ({sets})",
        table="people",
        columns=(*columns, value),
    )


@lru_cache(maxsize=8)
def made_up(spread: str, records: int) -> NDArray[Any]:
    """Encoded records, the same at every call."""
    rng = np.random.default_rng(SPREADS.index(spread) + 1)
    share = np.ones(INTERVALS) if spread == "even" else 1 / np.arange(1, INTERVALS + 1)
    cells = rng.choice(INTERVALS, size=(records, len(ATTRIBUTES)), p=share / share.sum())
    mean = 20 + _STEP * cells[:, 0]
    values = np.clip(rng.normal(mean, _NOISE), _LEAST, _MOST).round(3)
    text = np.column_stack([cells.astype(str), values.astype(str)])
    return query().encode(text)


def measured(spread: str, records: int, setting: Setting, seeds: int) -> Measured:
    """Runs of one setting on one set of records, each with a seed of its own."""
    protocol = ScrambledQuery(
        n=records, targets=TARGETS, redirect_probability=setting.sampling, sources=SOURCES,
        dummies=setting.dummies, release_epsilon=setting.release, query=query(),
    )  # fmt: skip
    values = made_up(spread, records)
    truth, deviation = _truth(values)
    counted = truth[..., 0] > 0
    arrived, counts, averages = [], [], []
    for seed in range(seeds):
        collected = protocol.collect(values, Seeds(seed))
        answer = query().estimate(collected, protocol.randomizer, _CONFIDENCE)
        found = np.full(truth.size, np.nan)
        found[answer.positions] = answer.value
        table = found.reshape(truth.shape)
        arrived.append(sum(collected.crowds) / (len(ATTRIBUTES) * records))
        # A cell that is not in the answer has no tuples.
        counts.append(np.nan_to_num(table[..., 0]) - truth[..., 0])
        averages.append((table[..., 1] - truth[..., 1])[counted & ~np.isnan(table[..., 1])])
    network = protocol.guarantee("network").epsilon(DELTA)
    both = protocol.guarantee("curator+network").epsilon(DELTA) if setting.release else math.inf
    return Measured(
        epsilon=network,
        released=both,
        arrived=float(np.mean(arrived)),
        count_error=_root(counts) / (records / INTERVALS),
        average_error=_root(averages) / deviation,
    )


def _root(errors: list[FloatArray]) -> float:
    return math.sqrt(float(np.mean(np.concatenate([each.ravel() for each in errors]) ** 2)))


def _truth(values: NDArray[Any]) -> tuple[FloatArray, float]:
    """Count and mean of each cell of each attribute, and the deviation of the values."""
    found = np.empty((len(ATTRIBUTES), INTERVALS, 2))
    for at, name in enumerate(ATTRIBUTES):
        cells = values[name]
        count = np.bincount(cells, minlength=INTERVALS)
        total = np.bincount(cells, weights=values["value"], minlength=INTERVALS)
        found[at] = np.column_stack([count, total / np.maximum(count, 1)])
    return found, float(values["value"].std())
