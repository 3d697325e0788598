"""Checkpoints: everything that the next round of a training depends on.

Randomness is addressed by round, so parameters, velocity, running average, the number of rounds
done and the root seed are all of it: a resumed training continues bit for bit as if nothing had
happened. A file is written beside the old one, brought to the disk and renamed, so that at every
moment one whole checkpoint exists.

The format is numpy's ``npz`` without pickles, with one JSON header. The header holds the
configuration and its digest; a checkpoint of another one is refused by the name of what differs.
Records are never stored, only the SHA-256 of all of them together. The root seed is: with it the
noise of a simulated training can be drawn again, so a checkpoint is as secret as the records.
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

from incrowd.errors import FileNotWritable, FileUnreadable, InvalidParameter
from incrowd.randomizers.base import FloatArray

_FORMAT = "incrowd learning checkpoint 2"
_UNFINISHED = ".part"
_VECTORS = ("parameters", "velocity", "average")
_PER_ROUND = {
    "participants": "<i8",  # −1 where their number stays hidden
    "steps": "<f8",  # length of the move of the parameters
    "rates": "<f8",  # learning rate
    "not_finite": "<i8",  # gradients that counted as zero
}
_ROUND = np.dtype(list(_PER_ROUND.items()))


@dataclass
class State:
    """State of a training; the next gradients are taken at ``parameters``."""

    root: int
    rounds: int
    parameters: FloatArray
    velocity: FloatArray
    average: FloatArray
    history: NDArray[np.void]
    """One row per round, and room for later ones."""

    @staticmethod
    def at(start: FloatArray, root: int) -> State:
        """Return the state before the first round."""
        return State(root, 0, start, np.zeros_like(start), start, np.zeros(0, _ROUND))

    def make_room(self, rounds: int) -> None:
        """Let the history reach this many rounds."""
        more = np.zeros(max(0, rounds - len(self.history)), _ROUND)
        self.history = np.concatenate([self.history, more])


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    root: int
    rounds: int
    digest: str
    configuration: dict[str, Any]


def digest_of(*arrays: NDArray[Any]) -> str:
    """Compute the SHA-256 of the numbers of these arrays."""
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
        raise FileNotWritable(_failure("write", path, wrong)) from wrong


def save(path: Path, state: State, configuration: dict[str, Any]) -> None:
    """Replace the checkpoint at ``path`` atomically; remove what a killed save left."""
    header = _Header(_FORMAT, state.root, state.rounds, _digest(configuration), configuration)
    arrays = {name: getattr(state, name) for name in _VECTORS}
    arrays |= {name: state.history[name][: state.rounds] for name in _PER_ROUND}
    arrays["header"] = np.frombuffer(msgspec.json.encode(header), np.uint8)
    try:
        for left in path.parent.glob(f".{glob.escape(path.name)}.*{_UNFINISHED}"):
            with suppress(OSError):
                left.unlink()
        with _unfinished(path) as file:
            try:
                np.savez(file, **arrays)
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
        raise FileNotWritable(_failure("write", path, wrong)) from wrong


def _unfinished(path: Path) -> IO[bytes]:
    folder, name = path.parent, f".{path.name}."
    return tempfile.NamedTemporaryFile(dir=folder, prefix=name, suffix=_UNFINISHED, delete=False)


def _failure(what: str, path: Path, wrong: OSError) -> str:
    return f"cannot {what} the checkpoint {path}: {wrong.strerror or wrong}"


def root_of(path: Path) -> int:
    """Read the root seed of the training that was saved."""
    return _read(path)[0].root


def load(path: Path, configuration: dict[str, Any], size: int) -> State:
    """Read the state at ``path``; refuse damaged files and those of another configuration."""
    header, arrays = _read(path)
    _compare(path, header.configuration, configuration)
    wanted = {name: ((header.rounds,), kind) for name, kind in _PER_ROUND.items()}
    wanted |= dict.fromkeys(_VECTORS, ((size,), "<f8"))
    found = {name: (array.shape, array.dtype.str) for name, array in arrays.items()}
    if found != wanted or not all(np.isfinite(array).all() for array in arrays.values()):
        raise _damaged(path)
    history = np.empty(header.rounds, _ROUND)
    for name in _PER_ROUND:
        history[name] = arrays.pop(name)
    return State(header.root, header.rounds, **arrays, history=history)


def _read(path: Path) -> tuple[_Header, dict[str, NDArray[Any]]]:
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as file, zipfile.ZipFile(file):
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        header = msgspec.json.decode(arrays.pop("header").tobytes(), type=_Header)
    except OSError as wrong:
        raise FileUnreadable(_failure("read", path, wrong)) from wrong
    except Exception as wrong:
        # Zip archives, array headers and JSON each fail in ways of their own, and none matters.
        raise _damaged(path) from wrong
    whole = header.format == _FORMAT and header.digest == _digest(header.configuration)
    if not whole or header.root < 0 or header.root != header.configuration.get("seed"):
        raise _damaged(path)
    return header, arrays


def _damaged(path: Path) -> FileUnreadable:
    problem = "is not a whole checkpoint of this version"
    return FileUnreadable(f"{path} {problem}: delete it to start anew")


def _compare(path: Path, there: dict[str, Any], configuration: dict[str, Any]) -> None:
    here = msgspec.json.decode(msgspec.json.encode(configuration))
    names = sorted(here.keys() | there.keys())
    different = [name for name in names if here.get(name) != there.get(name)]
    if different:
        told = ", ".join(f"{name} ({there.get(name)!r} there)" for name in different[:3])
        raise another_training(path, told, "settings and data")


def another_training(path: Path, differs: str, settings: str = "settings") -> InvalidParameter:
    """Make the error about a checkpoint that differs in something from this training."""
    problem = f"is the checkpoint of another training, which differs in {differs}"
    return InvalidParameter(f"{path} {problem}: give the same {settings}, or another path")


def _digest(configuration: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(configuration, order="sorted")).hexdigest()
