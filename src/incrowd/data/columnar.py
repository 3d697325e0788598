"""Columnar files: Parquet, read by duckdb, and Arrow, read by pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from incrowd.data.frames import TypedColumns, read_frame
from incrowd.errors import FileUnreadable, MissingColumn
from incrowd.extras import needed_extra

_PARQUET = b"PAR1"
_ARROW = b"ARROW1"
_STREAM = b"\xff\xff\xff\xff"
_NESTED = ("[", "STRUCT", "MAP", "UNION", "BLOB", "VARIANT")
_FLOATS = ("FLOAT", "DOUBLE")
_GLOB = str.maketrans({each: f"[{each}]" for each in "*?["})
_SETTINGS = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
"""No extension is fetched from a network while data are read."""


def read_columnar(path: Path) -> TypedColumns | None:
    """Columns of a Parquet or Arrow file, known by how it begins; None of any other file."""
    try:
        with path.open("rb") as file:
            begin = file.read(len(_ARROW))
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot read the data: {error.strerror}") from error
    if begin.startswith(_PARQUET):
        return _read_parquet(path)
    if begin.startswith((_ARROW, _STREAM)):
        return read_frame(str(path), _read_arrow(path, stream=begin.startswith(_STREAM)))
    return None


def _read_parquet(path: Path) -> TypedColumns:
    """Read the shape of a Parquet file, and each column when it is asked for."""
    with needed_extra(f"{path}: Parquet files need", "save it as CSV"):
        import duckdb

    connection = duckdb.connect(config=dict(_SETTINGS))

    def fetch(query: str) -> list[tuple[Any, ...]]:
        try:
            # A name is a pattern to duckdb, in which some characters stand for others.
            return connection.execute(query, [str(path).translate(_GLOB)]).fetchall()
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise _unreadable(path, "Parquet", reason) from error

    described = fetch("DESCRIBE SELECT * FROM read_parquet(?)")
    kinds = [(str(name), str(kind)) for name, kind, *_ in described]

    def texts(position: int) -> list[str]:
        name, kind = kinds[position]
        if any(each in kind for each in _NESTED):
            raise MissingColumn(
                f"{path}: column {name!r} holds values of type {kind}: turn them into text or "
                "numbers"
            )
        quoted = '"' + name.replace('"', '""') + '"'
        query = f"SELECT CAST({quoted} AS VARCHAR) FROM read_parquet(?)"  # noqa: S608 - quoted
        found = ["" if text is None else str(text) for (text,) in fetch(query)]
        return [_float(each) for each in found] if kind in _FLOATS else found

    [(n,)] = fetch("SELECT count(*) FROM read_parquet(?)")
    return TypedColumns(tuple(name.strip() for name, _ in kinds), n, texts)


def _float(text: str) -> str:
    return "" if text == "nan" else text.removesuffix(".0")


def _read_arrow(path: Path, *, stream: bool) -> Any:
    """Read an Arrow file, or a stream in one, as a table of pyarrow."""
    with needed_extra(f"{path}: Arrow files need", "save it as CSV"):
        import pyarrow.ipc
    try:
        with path.open("rb") as file:
            opened = pyarrow.ipc.open_stream if stream else pyarrow.ipc.open_file
            return opened(file).read_all()
    except (pyarrow.ArrowInvalid, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise _unreadable(path, "Arrow", reason) from error


def _unreadable(path: Path, kind: str, reason: str) -> FileUnreadable:
    remedy = "save it again, or as CSV"
    return FileUnreadable(f"{path}: {kind} that cannot be read: {reason}: {remedy}")
