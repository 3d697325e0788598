"""Training that survives being killed: a checkpoint is everything the next round depends on.

Randomness is addressed by round, so parameters, velocity, running average, the number of rounds
done and the root seed are all of it: a resumed training continues bit for bit as if nothing had
happened. A file is written beside the old one, brought to the disk and renamed, so that at every
moment one whole checkpoint exists.

The format is numpy's ``npz`` without pickles, with one JSON header. The header holds the
configuration and its digest; a checkpoint of another one is refused by the name of what differs.
Records are never stored, only the SHA-256 of all of them together. The root seed is: with it the
noise of a simulated training can be drawn again, so a checkpoint is for whoever may know the
records.
"""

from __future__ import annotations

import glob
import hashlib
import os
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import FileUnreadable, InvalidParameter
from incrowd.randomizers.base import FloatArray

_FORMAT = "incrowd learning checkpoint 2"
_UNFINISHED = ".part"
_KINDS = {
    "parameters": np.float64,
    "velocity": np.float64,
    "average": np.float64,
    "participants": np.int64,
    "steps": np.float64,
    "rates": np.float64,
    "not_finite": np.int64,
}
_PER_ROUND = ("participants", "steps", "rates", "not_finite")


@dataclass
class State:
    """What training has come to. ``parameters`` are where the next gradients are taken."""

    root: int
    parameters: FloatArray
    velocity: FloatArray
    average: FloatArray
    rounds: int
    participants: NDArray[np.int64]
    """How many were in each round; −1 where that is nobody's business."""
    steps: FloatArray
    """How far each round moved the parameters."""
    rates: FloatArray
    """The learning rate of each round."""
    not_finite: NDArray[np.int64]
    """How many gradients of each round were no finite numbers, and counted as zero."""

    @staticmethod
    def at(start: FloatArray, root: int) -> State:
        """Before the first round."""
        return State(
            root=root,
            parameters=start,
            velocity=np.zeros_like(start),
            average=start,
            rounds=0,
            participants=np.zeros(0, np.int64),
            steps=np.zeros(0),
            rates=np.zeros(0),
            not_finite=np.zeros(0, np.int64),
        )

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that is an array, by its name in the file."""
        whole = {name: getattr(self, name) for name in _KINDS}
        return {
            name: array[: self.rounds] if name in _PER_ROUND else array
            for name, array in whole.items()
        }

    def make_room(self, rounds: int) -> None:
        """Let the arrays with one number per round reach this many rounds."""
        for name in _PER_ROUND:
            array = getattr(self, name)
            more = np.zeros(max(0, rounds - len(array)), array.dtype)
            setattr(self, name, np.concatenate([array, more]))


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    root: int
    rounds: int
    digest: str
    configuration: dict[str, Any]


def digest_of(*arrays: NDArray[Any]) -> str:
    """The SHA-256 of the numbers of these arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def check_writable(path: Path) -> None:
    """Refuse a place that no checkpoint can be written to."""
    try:
        with _unfinished(path) as file:
            Path(file.name).unlink()
    except OSError as wrong:
        raise _unwritable(path, wrong) from wrong


def save(path: Path, state: State, configuration: dict[str, Any]) -> None:
    """Replace the checkpoint at ``path``, all at once; what a killed save left is removed."""
    header = _Header(_FORMAT, state.root, state.rounds, _digest(configuration), configuration)
    text = np.frombuffer(msgspec.json.encode(header), np.uint8)
    try:
        for left in path.parent.glob(f".{glob.escape(path.name)}.*{_UNFINISHED}"):
            with suppress(OSError):
                left.unlink()
        with _unfinished(path) as file:
            try:
                np.savez(file, header=text, **state.arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as wrong:
        raise _unwritable(path, wrong) from wrong


def _unfinished(path: Path) -> IO[bytes]:
    return tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", suffix=_UNFINISHED, delete=False
    )


def _unwritable(path: Path, wrong: OSError) -> FileUnreadable:
    return FileUnreadable(f"cannot write the checkpoint {path}: {wrong.strerror or wrong}")


def root_of(path: Path) -> int:
    """The root seed of the training that was saved."""
    return _read(path)[0].root


def load(path: Path, configuration: dict[str, Any], size: int) -> State:
    """The state at ``path``; refuses damaged files and those of another configuration."""
    header, arrays = _read(path)
    _compare(path, header, configuration)
    if arrays.keys() != _KINDS.keys():
        raise _damaged(path)
    for name, array in arrays.items():
        length = header.rounds if name in _PER_ROUND else size
        if array.shape != (length,) or array.dtype != _KINDS[name]:
            raise _damaged(path)
        if not np.isfinite(array).all():
            raise _damaged(path)
    return State(root=header.root, rounds=header.rounds, **arrays)


def _read(path: Path) -> tuple[_Header, dict[str, NDArray[Any]]]:
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as file, zipfile.ZipFile(file):
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        header = msgspec.json.decode(arrays.pop("header").tobytes(), type=_Header)
    except OSError as wrong:
        raise FileUnreadable(
            f"cannot read the checkpoint {path}: {wrong.strerror or wrong}"
        ) from wrong
    except Exception as wrong:
        # Zip archives, array headers and JSON each fail in ways of their own, and none matters.
        raise _damaged(path) from wrong
    if header.format != _FORMAT or header.digest != _digest(header.configuration):
        raise _damaged(path)
    if header.root < 0 or header.root != header.configuration.get("seed"):
        raise _damaged(path)
    return header, arrays


def _damaged(path: Path) -> FileUnreadable:
    return FileUnreadable(
        f"{path} is not a whole checkpoint of this version: delete it to start anew"
    )


def _compare(path: Path, header: _Header, configuration: dict[str, Any]) -> None:
    here = msgspec.json.decode(msgspec.json.encode(configuration))
    there = header.configuration
    different = sorted(
        name for name in here.keys() | there.keys() if here.get(name) != there.get(name)
    )
    if different:
        told = ", ".join(f"{name} ({there.get(name)!r} there)" for name in different[:3])
        raise InvalidParameter(
            f"{path} is the checkpoint of another training, which differs in {told}: "
            "give the same settings and data, or another path"
        )


def _digest(configuration: dict[str, Any]) -> str:
    text = msgspec.json.encode(configuration, order="sorted")
    return hashlib.sha256(text).hexdigest()
