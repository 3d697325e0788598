"""Graphs in files; the suffix selects the format.

=====================================  ==========================================================
``.npz``                               arrays ``u``, ``v``, ``n``, as :func:`save` writes them,
                                       or a matrix saved by ``scipy.sparse.save_npz``
``.mtx``                               Matrix Market
``.csv``, ``.tsv``                     one edge per line, in the first two columns
``.txt``, ``.edges``, ``.edgelist``    one edge per line, two words
=====================================  ==========================================================

``.mtx`` numbers its vertices; ``.npz`` may name them too, in an array ``labels``. Text names them,
unless it numbers them 0, …, n−1: :mod:`incrowd.graphs.edge_lists` says how, and what is a header.

Multi-edges, direction and self-loops are treated as :mod:`incrowd.graphs.graph` says. Every
failure is one line that names the file, and the line in it where there is one. No pickles are read.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from incrowd.data.people import Names
from incrowd.errors import (
    EmptyData,
    FileNotWritable,
    FileUnreadable,
    GraphMalformed,
    InvalidCrowd,
    InvalidParameter,
)
from incrowd.graphs.edge_lists import read_edge_list
from incrowd.graphs.graph import Graph, from_edges, from_scipy, require_no_isolated

_SPARSE_KEYS = frozenset({"format", "shape", "data"})


Reader = Callable[[Path, bool, Names | None], Graph]
"""Function of a path, whether self-loops are kept, and the names of the people."""


def load(
    path: str | Path,
    *,
    allow_isolated: bool = False,
    self_loops: bool = False,
    people: Names | None = None,
) -> Graph:
    """Read a graph; refuse isolated vertices unless ``allow_isolated``.

    Args:
        path: The file; its suffix says the format.
        allow_isolated: Keep vertices without an edge.
        self_loops: Keep self-loops; else they are dropped, and a vertex with nothing else is
            isolated.
        people: Names of the people, where these are known: text then holds names alone, and a
            first line without any of these is a header. ``load(path, people=names).aligned(names)``
            joins a graph to data by name.

    """
    path = Path(path)
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise GraphMalformed(
            f"{path}: unknown kind of graph file {path.suffix!r}; use one of {', '.join(_READERS)}"
        )
    try:
        if path.stat().st_size == 0:
            raise EmptyData(f"{path}: the file is empty")
        graph = read(path, self_loops, people)
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot be read ({error.strerror or error})") from None
    if not allow_isolated:
        require_no_isolated(graph, where=str(path))
    return graph


def save(graph: Graph, path: str | Path) -> None:
    """Write ``u``, ``v`` (each edge once, u ≤ v), ``n`` and any ``labels`` to an ``.npz`` file."""
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise InvalidParameter(f"{path}: graphs are saved as .npz, not {path.suffix!r}")
    u, v = graph.edges()
    names: dict[str, Any] = {} if graph.labels is None else {"labels": graph.labels}
    try:
        with path.open("wb") as file:
            np.savez_compressed(file, u=u, v=v, n=np.int64(graph.n), **names)
    except OSError as error:
        raise FileNotWritable(f"{path}: cannot be written ({error.strerror or error})") from None


def _npz(path: Path, self_loops: bool, _: Names | None) -> Graph:
    from scipy import sparse

    try:
        # Opened here, since numpy leaves the file open when the archive turns out to be damaged.
        with path.open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise GraphMalformed(f"{path}: a single array, not an .npz archive")
            keys = set(stored.files)
            if keys >= _SPARSE_KEYS:
                file.seek(0)
                matrix = sparse.load_npz(file)
                return _named(path, lambda: from_scipy(matrix, self_loops=self_loops))
            if not keys >= {"u", "v", "n"}:
                raise GraphMalformed(
                    f"{path}: has the keys {', '.join(sorted(keys)) or '(none)'}; a graph needs"
                    " u, v and n, or what scipy.sparse.save_npz writes"
                )
            u, v, n = stored["u"], stored["v"], stored["n"]
            labels = stored["labels"] if "labels" in keys else None
    except GraphMalformed:
        raise
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
        # numpy's own message advises to allow pickles, which run code from the file.
        raise GraphMalformed(
            f"{path}: not an .npz archive of plain arrays; write it with incrowd.graphs.save or "
            "scipy.sparse.save_npz"
        ) from None
    if n.shape != () or n.dtype.kind not in "iu" or n < 1:
        raise GraphMalformed(f"{path}: n must be a single whole number ≥ 1")
    return _named(
        path, lambda: replace(from_edges(u, v, int(n), self_loops=self_loops), labels=labels)
    )


def _mtx(path: Path, self_loops: bool, _: Names | None) -> Graph:
    from scipy.io import mmread

    try:
        matrix = mmread(path)
    except (ValueError, OverflowError) as error:
        raise GraphMalformed(f"{path}: not a Matrix Market file ({error})") from None
    return _named(path, lambda: from_scipy(matrix, self_loops=self_loops))


def _named(path: Path, build: Callable[[], Graph]) -> Graph:
    """Build a graph; put the name of the file in front of errors."""
    try:
        return build()
    except (GraphMalformed, InvalidCrowd) as error:
        raise GraphMalformed(f"{path}: {error}") from None


def _text(separator: str | None) -> Reader:
    """Make a reader of edge lists; ``None`` separates by any white space."""

    def read(path: Path, self_loops: bool, people: Names | None) -> Graph:
        found = read_edge_list(path, separator, people)
        graph = from_edges(found.u, found.v, found.n, self_loops=self_loops)
        return replace(graph, labels=found.labels, notes=found.notes)

    return read


_READERS: dict[str, Reader] = {
    ".npz": _npz,
    ".mtx": _mtx,
    ".csv": _text(","),
    ".tsv": _text("\t"),
    ".txt": _text(None),
    ".edges": _text(None),
    ".edgelist": _text(None),
}

SUFFIXES = tuple(_READERS)
"""Suffixes of graph files."""
