"""Graphs in files; the suffix selects the format.

=====================================  ==========================================================
``.npz``                               arrays ``u``, ``v`` and ``n``, as :func:`save` writes them,
                                       or a matrix saved by ``scipy.sparse.save_npz``
``.mtx``                               Matrix Market
``.csv``, ``.tsv``                     one edge per line, two columns
``.txt``, ``.edges``, ``.edgelist``    one edge per line, two words
=====================================  ==========================================================

``.npz`` and ``.mtx`` number their vertices. Text files label them: labels are all whole numbers ≥ 0
or all names, and vertex ``i`` is the i-th smallest label, by number or by code point. So labels
0, …, n−1 stay as they are. Lines that begin with ``#`` or ``%`` are comments. A first line of
names above lines of numbers is a header; above names, only a usual pair of titles is, such as
``source,target``.

Multi-edges, direction and self-loops are treated as :mod:`incrowd.graphs.graph` says. Every
failure is one line that names the file, and the line in it where there is one. No pickles are read.
"""

from __future__ import annotations

import csv
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import EmptyData, FileUnreadable, GraphMalformed, InvalidCrowd, InvalidParameter
from incrowd.graphs.graph import Graph, from_edges, from_scipy, require_no_isolated

_TITLES = re.compile(
    r"source,target|src,dst|from,to|(id|node|user|vertex)_?[0-9],(id|node|user|vertex)_?[0-9]",
    re.IGNORECASE,
)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+)")
_DIGITS = 20
_SPARSE_KEYS = frozenset({"format", "shape", "data"})


def load(path: str | Path, *, allow_isolated: bool = False, self_loops: bool = False) -> Graph:
    """Read a graph; refuse isolated vertices unless ``allow_isolated``.

    Self-loops are dropped unless ``self_loops``; a vertex with nothing else is then isolated.
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
        graph = read(path, self_loops)
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot be read ({error.strerror or error})") from None
    if not allow_isolated:
        require_no_isolated(graph, where=str(path))
    return graph


def save(graph: Graph, path: str | Path) -> None:
    """Write ``u``, ``v`` (each edge once, u ≤ v) and ``n`` to an ``.npz`` file."""
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise InvalidParameter(f"{path}: graphs are saved as .npz, not {path.suffix!r}")
    u, v = graph.edges()
    try:
        with path.open("wb") as file:
            np.savez_compressed(file, u=u, v=v, n=np.int64(graph.n))
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot be written ({error.strerror or error})") from None


def _npz(path: Path, self_loops: bool) -> Graph:
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
    return _named(path, lambda: from_edges(u, v, int(n), self_loops=self_loops))


def _mtx(path: Path, self_loops: bool) -> Graph:
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


Row = tuple[int, list[str]]
"""Line number and fields."""


def _text(separator: str | None) -> Callable[[Path, bool], Graph]:
    """Make a reader of edge lists; ``None`` separates by any white space."""

    def read(path: Path, self_loops: bool) -> Graph:
        try:
            # Line ends inside quotes are kept for the csv reader, which counts lines itself.
            with path.open(encoding="utf-8-sig", newline="") as file:
                ends = _labels(path, _rows(path, file, separator))
        except UnicodeDecodeError as error:
            raise GraphMalformed(f"{path}: not UTF-8 text ({error.reason})") from None
        except csv.Error as error:
            raise GraphMalformed(f"{path}: not a table of text ({error})") from None
        distinct, codes = np.unique(ends, return_inverse=True)
        u, v = codes.reshape(2, -1)
        return from_edges(u, v, distinct.size, self_loops=self_loops)

    return read


def _rows(path: Path, lines: Iterator[str], separator: str | None) -> Iterator[Row]:
    """Yield the lines other than comments, each checked to have two fields."""
    if separator is None:
        split = ((number, line.split()) for number, line in enumerate(lines, 1))
    else:
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        split = ((reader.line_num, [field.strip() for field in row]) for row in reader)
    for number, fields in split:
        if not any(fields) or fields[0].startswith(("#", "%")):
            continue
        if len(fields) != 2 or not all(fields):
            raise GraphMalformed(
                f"{path}, line {number}: expected two vertices, found {len(fields)} fields: "
                + _cut(" | ".join(fields))
                + ("; weights are not supported, keep two columns" if len(fields) == 3 else "")
            )
        yield number, fields


def _labels(path: Path, rows: Iterator[Row]) -> NDArray[Any]:
    """Both ends of every edge, first ends first: all integers, or all names."""
    head = list(islice(rows, 2))
    if head and _is_header(head):
        del head[0]
    if not head:
        raise EmptyData(f"{path}: no edges in the file")
    numeric = all(map(_is_integer, head[0][1]))
    parse = _number if numeric else _name
    pairs = [[parse(path, line, label) for label in fields] for line, fields in (*head, *rows)]
    return np.array(pairs, dtype=np.int64 if numeric else None).T.ravel()


def _is_header(head: list[Row]) -> bool:
    """Whether the first of two rows holds titles and not vertices."""
    titles = head[0][1]
    if any(map(_is_integer, titles)):
        return False
    if _TITLES.fullmatch(",".join(titles)):
        return True
    return len(head) == 2 and all(map(_is_integer, head[1][1]))


def _is_integer(label: str) -> bool:
    return _INTEGER.fullmatch(label) is not None


def _number(path: Path, line: int, label: str) -> int:
    if not _is_integer(label):
        raise GraphMalformed(
            f"{path}, line {line}: {_cut(label)!r} is not a whole number, as the first edge has"
        )
    if len(label) > _DIGITS or not 0 <= (value := int(label)) < 2**63:
        raise GraphMalformed(
            f"{path}, line {line}: vertex {_cut(label)} is out of range; numbers go from 0 to"
            " 2^63 − 1"
        )
    return value


def _name(path: Path, line: int, label: str) -> str:
    if _DECIMAL.fullmatch(label):
        raise GraphMalformed(
            f"{path}, line {line}: {_cut(label)!r} is a decimal number; vertices are whole numbers"
            " or names"
        )
    return label


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"


_READERS: dict[str, Callable[[Path, bool], Graph]] = {
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
