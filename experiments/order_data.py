"""Crowds for the experiments on order: three real ones and the crescents.

The real ones are read from the directory that the environment variable ``INCROWD_DATA`` names:
Adult (the census of 1994), Twitch (mutual friends among German streamers in 2018) and California
(block groups of the census of 1990, in place of the paper's hospital records, which cannot be had).
Places are public; ``values`` are what people keep to themselves, as whole numbers from 0.
"""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import FileUnreadable
from incrowd.graphs import Graph, from_edges

__all__ = ["Dataset", "adult", "california", "crescents", "twitch"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SCALE, _NOISE = 0.14, 0.1
_CLUSTERS = ((0.2, 0.15), (0.66, 0.65))


@dataclass(frozen=True, eq=False)
class Dataset:
    """People at places or in a graph, and what each keeps to themselves."""

    name: str
    points: FloatArray | None
    """Coordinates, one row each; latitude and longitude where the metric is haversine."""
    metric: str
    graph: Graph | None
    values: IntArray
    categories: int
    privileged: IntArray | None
    """What an attacker knows besides the place."""


def adult() -> Dataset:
    """Age; whether income is above 50,000 dollars; marital status."""
    path = _directory() / "adult" / "adult_train.csv.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        ages = np.array([float(line["age"]) for line in lines])
        rich = np.array([line["income"] == ">50K" for line in lines], np.int64)
        status = np.unique([line["marital_status"] for line in lines], return_inverse=True)[1]
    except (OSError, ValueError, KeyError) as wrong:
        raise FileUnreadable(f"cannot read {path}: {wrong}") from wrong
    return Dataset(
        "Adult", ages[:, np.newaxis], "euclidean", None, rich, 2, status.astype(np.int64)
    )


def twitch() -> Dataset:
    """Friends; whether a streamer uses explicit language."""
    edges, nodes = _arrays("twitch_de/edges.npz"), _arrays("twitch_de/nodes.npz")
    graph = from_edges(edges["u"], edges["v"], int(edges["n"]))
    return Dataset("Twitch", None, "", graph, nodes["mature"].astype(np.int64), 2, None)


def california() -> Dataset:
    """Latitude and longitude; income in five brackets; the number of households."""
    stored = _arrays("california_geo/points.npz")
    points = np.column_stack([stored["lat"], stored["lon"]]).astype(np.float64)
    values, households = stored["income5"].astype(np.int64), stored["households"].astype(np.int64)
    return Dataset("California", points, "haversine", None, values, 5, households)


def crescents(n: int, seed: int) -> Dataset:
    """Two clusters of two crescents that reach into each other, each with a dark and a light half.

    Label 4·cluster + 2·crescent + half: what is left of it after halving is the crescent, and after
    halving that the cluster. All lie within about the unit square.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % 8)
    cluster, crescent, half = labels // 4, labels // 2 % 2, labels % 2
    angle = (half + rng.random(n)) * np.pi / 2
    arc = np.column_stack([np.cos(angle), np.sin(angle)])
    arc = np.where(crescent[:, np.newaxis] == 1, [1.0, 0.5] - arc, arc)
    arc += rng.normal(scale=_NOISE, size=(n, 2))
    points = np.array(_CLUSTERS)[cluster] + _SCALE * arc
    return Dataset("crescents", points, "euclidean", None, labels.astype(np.int64), 8, None)


def _arrays(name: str) -> dict[str, NDArray[np.generic]]:
    path = _directory() / name
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError) as wrong:
        raise FileUnreadable(f"cannot read {path}: {wrong}") from wrong


def _directory() -> Path:
    directory = os.environ.get("INCROWD_DATA")
    if not directory:
        raise FileUnreadable("set INCROWD_DATA to the directory of the data sets")
    return Path(directory)
