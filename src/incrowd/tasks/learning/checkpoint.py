"""Training that survives being killed: a checkpoint is everything the next round depends on.

Randomness is addressed by round, so parameters, velocity, running average, the number of rounds
done and the root seed are all of it: a resumed training continues bit for bit as if nothing had
happened. A file is written beside the old one, brought to the disk and renamed, so that at every
moment one whole checkpoint exists.

The format is numpy's ``npz`` without pickles, with one JSON header. The header holds the
configuration and its digest; a checkpoint of another one is refused by the name of what differs.
Records are never stored. The root seed is: with it the noise of a simulated training can be drawn
again, so a checkpoint is for whoever may know the records.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import FileUnreadable, InvalidParameter
from incrowd.randomizers.base import FloatArray

__all__ = ["State", "load", "root_of", "save"]

_FORMAT = "incrowd learning checkpoint 1"
_MALFORMED = (KeyError, ValueError, EOFError, zipfile.BadZipFile, msgspec.MsgspecError)
"""What reading a file that is no checkpoint, or only part of one, can raise."""


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
        )

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that is an array, by its name in the file."""
        return {
            "parameters": self.parameters,
            "velocity": self.velocity,
            "average": self.average,
            "participants": self.participants[: self.rounds],
            "steps": self.steps[: self.rounds],
            "rates": self.rates[: self.rounds],
        }


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    root: int
    rounds: int
    digest: str
    configuration: dict[str, Any]


def save(path: Path, state: State, configuration: dict[str, Any]) -> None:
    """Replace the checkpoint at ``path``, all at once."""
    header = _Header(_FORMAT, state.root, state.rounds, _digest(configuration), configuration)
    text = np.frombuffer(msgspec.json.encode(header), np.uint8)
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
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
        raise FileUnreadable(
            f"cannot write the checkpoint {path}: {wrong.strerror or wrong}"
        ) from wrong


def root_of(path: Path) -> int:
    """The root seed of the training that was saved."""
    return _read(path)[0].root


def load(path: Path, configuration: dict[str, Any], size: int) -> State:
    """The state at ``path``; refuses damaged files and those of another configuration."""
    header, arrays = _read(path)
    _compare(path, header, configuration)
    try:
        state = State(root=header.root, rounds=header.rounds, **arrays)
    except TypeError as wrong:
        raise _damaged(path) from wrong
    for name, array in state.arrays.items():
        length = size if name in ("parameters", "velocity", "average") else state.rounds
        kind = np.int64 if name == "participants" else np.float64
        if array.shape != (length,) or array.dtype != kind:
            raise _damaged(path)
    return state


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
    except _MALFORMED as wrong:
        raise _damaged(path) from wrong
    if header.format != _FORMAT or header.digest != _digest(header.configuration):
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
