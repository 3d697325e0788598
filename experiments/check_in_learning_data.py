"""Pictures to learn from, a public map from pictures to edges, and results that are kept.

Digits are read from ``mnist/mnist.npz`` in the directory that ``INCROWD_DATA`` names. Small colour
pictures (CIFAR-10) are read from a folder with its *binary* version: ``data_batch_1.bin`` … and
``test_batch.bin``, of records of one byte for the kind and 3 × 32 × 32 for the picture. The other
version is made of pickles, which can run whatever their author likes, and is not read.

:func:`edges` is fixed before any picture is seen, so it costs no privacy: in each of cells × cells
squares, how much edge there is in each of eight directions. Square roots are taken, a constant is
subtracted, and each picture is scaled to length one. A linear model on it reads digits far better
than one on pixels, with fewer parameters: "Differentially Private Learning Needs Better Features
(or Much More Data)" (Tramèr, Boneh).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import FileUnreadable

__all__ = ["Pictures", "cifar", "digits", "edges", "load", "save", "tell"]

Singles = NDArray[np.float32]

_DIRECTIONS = 8
_SHARP = 3
"""Edges count in a direction by the cosine to the power of 2 to this."""
_CENTRE = 0.7
_TINY = 1e-6
_AT_ONCE = 500
_RECORD = 1 + 3 * 32 * 32


@dataclass(frozen=True, eq=False)
class Pictures:
    """Grey values in [0, 1] as (picture, row, column), and what they show, to learn and to test."""

    name: str
    seen: Singles
    labels: NDArray[np.int64]
    unseen: Singles
    truth: NDArray[np.int64]

    def part(self, people: int, tests: int) -> Pictures:
        """The first of each."""
        return Pictures(
            self.name, self.seen[:people], self.labels[:people], self.unseen[:tests],
            self.truth[:tests],
        )  # fmt: skip


def digits() -> Pictures:
    """MNIST: 60,000 handwritten digits to learn from and 10,000 to test."""
    directory = os.environ.get("INCROWD_DATA")
    if directory is None:
        raise FileUnreadable("set INCROWD_DATA to the directory that holds mnist/mnist.npz")
    path = Path(directory) / "mnist" / "mnist.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:
            seen, labels, unseen, truth = (
                stored[name] for name in ("x_train", "y_train", "x_test", "y_test")
            )
    except (OSError, ValueError, KeyError) as wrong:
        raise FileUnreadable(f"cannot read {path}: {wrong}") from wrong
    return Pictures(
        "MNIST", _scaled(seen), labels.astype(np.int64), _scaled(unseen), truth.astype(np.int64)
    )


def cifar(folder: Path) -> Pictures:
    """CIFAR-10 in its binary version, as grey values."""
    batches = sorted(folder.glob("data_batch_*.bin"))
    if not batches:
        raise FileUnreadable(
            f"{folder} has no data_batch_*.bin: unpack the binary version of CIFAR-10 there"
        )
    parts = [_batch(path) for path in batches]
    unseen, truth = _batch(folder / "test_batch.bin")
    return Pictures(
        "CIFAR-10", np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]), unseen, truth,
    )  # fmt: skip


def _batch(path: Path) -> tuple[Singles, NDArray[np.int64]]:
    try:
        raw = np.fromfile(path, np.uint8)
    except OSError as wrong:
        raise FileUnreadable(f"cannot read {path}: {wrong.strerror or wrong}") from wrong
    if raw.size == 0 or raw.size % _RECORD:
        raise FileUnreadable(f"{path} is not a file of CIFAR-10 records of {_RECORD} bytes")
    records = raw.reshape(-1, _RECORD)
    if records[:, 0].max() > 9:
        raise FileUnreadable(f"{path} has a kind above 9: it is not of CIFAR-10")
    colours = records[:, 1:].reshape(-1, 3, 32, 32)
    return _scaled(colours.mean(axis=1)), records[:, 0].astype(np.int64)


def _scaled(bytes_: NDArray[np.generic]) -> Singles:
    return bytes_.astype(np.float32) / np.float32(255)


def edges(pictures: Singles, cells: int) -> Singles:
    """8·cells² numbers per picture, of length one."""
    count, side = len(pictures), pictures.shape[1]
    width = side // cells
    inner = slice((side - cells * width) // 2, (side - cells * width) // 2 + cells * width)
    angles = 2 * np.pi * np.arange(_DIRECTIONS, dtype=np.float32) / _DIRECTIONS
    found = np.empty((count, cells, cells, _DIRECTIONS), np.float32)
    for start in range(0, count, _AT_ONCE):
        some = np.pad(pictures[start : start + _AT_ONCE], ((0, 0), (1, 1), (1, 1)))
        across = (some[:, 1:-1, 2:] - some[:, 1:-1, :-2])[:, inner, inner]
        along = (some[:, 2:, 1:-1] - some[:, :-2, 1:-1])[:, inner, inner]
        steep = np.sqrt(across**2 + along**2)
        across, along = across / np.maximum(steep, _TINY), along / np.maximum(steep, _TINY)
        for direction, angle in enumerate(angles):
            share = np.maximum(np.cos(angle) * across + np.sin(angle) * along, 0)
            for _ in range(_SHARP):
                share *= share
            share *= steep
            rows = share.reshape(-1, cells, width, cells * width).sum(axis=2)
            summed = rows.reshape(-1, cells, cells, width).sum(axis=3)
            found[start : start + _AT_ONCE, ..., direction] = summed
    roots = _unit(np.sqrt(found.reshape(count, -1)))
    return _unit(roots - np.float32(_CENTRE / np.sqrt(roots.shape[1])))


def _unit(rows: Singles) -> Singles:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, _TINY), np.float32)


def load(path: Path) -> Any:
    return msgspec.json.decode(path.read_bytes()) if path.exists() else {}


def save(path: Path, content: Any) -> None:
    """Beside the old one and renamed, so that a whole file is there at every moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(msgspec.json.encode(content))
    new.replace(path)


def tell(text: str) -> None:
    print(f"\n  {text}", end=" ", file=sys.stderr, flush=True)
