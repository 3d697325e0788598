"""Text of data files: bytes, perhaps compressed, their encoding, and the separator of their fields.

An encoding that is not stated is that of the byte-order mark, else UTF-8, else cp1252, in which
spreadsheets save. A file that is UTF-8 but for a few bytes is damaged, and not taken for cp1252,
which would garble all its other letters. Bytes that are no characters survive as lone surrogates,
so that the reader of the table can name their rows.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from incrowd.errors import EmptyData, FileUnreadable, InvalidParameter

SEPARATORS = (",", ";", "\t", "|")
"""Separators that are looked for; the earlier one wins a tie."""
SAMPLED_LINES = 200
"""Number of lines that a separator is found from."""
UNDECODED = re.compile("[\udc80-\udcff]")
"""Byte that is no character: 0xdc00 more than its value."""

_GZIP = b"\x1f\x8b"
_ARCHIVE = b"PK\x03\x04"
_JSON = (b'{"', b"{\n", b"[{", b"[[", b"[\n")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_LETTERS = re.compile("[^\x00-\x7f\udc80-\udcff]")


def read_bytes(path: Path, what: str = "data") -> bytes:
    """Content of a file that holds ``what``, unpacked where it is compressed by gzip."""
    try:
        content = path.read_bytes()
        packed = path.suffix.lower() == ".gz" or content.startswith(_GZIP)
        return gzip.decompress(content) if packed else content
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileUnreadable(f"{path}: cannot read the {what}: {reason}") from error


def has_mark(content: bytes) -> bool:
    """Whether a byte-order mark opens the content."""
    return content.startswith(tuple(_MARKS))


def decode(source: str, content: bytes, encoding: str | None = None) -> tuple[str, str]:
    """Text of a file, and the name of its encoding.

    Args:
        source: Name of the file, for errors.
        content: Its bytes.
        encoding: Its encoding, where that is stated.

    """
    if content.startswith(_ARCHIVE):
        raise FileUnreadable(f"{source}: a spreadsheet or an archive, not text: save it as CSV")
    if content.startswith(_JSON):
        raise FileUnreadable(f"{source}: JSON, not a table: save it as CSV, one person per line")
    text, name = _stated(source, content, encoding) if encoding else _found(source, content)
    if "\0" in text:
        raise FileUnreadable(
            f"{source}: holds null bytes: if it is UTF-16 without a byte-order mark, state the "
            "encoding (utf-16-le); if it is no text, save it as CSV"
        )
    return text, name


def _stated(source: str, content: bytes, encoding: str) -> tuple[str, str]:
    try:
        name = codecs.lookup(encoding).name
        # A byte-order mark would become a part of the first column's name.
        text = content.decode("utf-8-sig" if name == "utf-8" else name, "surrogateescape")
    except LookupError:
        raise InvalidParameter(
            f"encoding {encoding!r} is unknown: use utf-8, utf-16, cp1252 or another of Python's",
            field="encoding",
        ) from None
    except UnicodeDecodeError as error:
        raise _undecodable(source, encoding, error) from error
    return text, name


def _found(source: str, content: bytes) -> tuple[str, str]:
    for mark, name in _MARKS.items():
        if content.startswith(mark):
            try:
                return content.decode(name, "surrogateescape"), name.removesuffix("-sig")
            except UnicodeDecodeError as error:
                raise _undecodable(source, name, error) from error
    text = content.decode("utf-8", "surrogateescape")
    wrong = len(UNDECODED.findall(text))
    if wrong and wrong >= len(_LETTERS.findall(text)):
        return content.decode("cp1252", "surrogateescape"), "cp1252"
    return text, "utf-8"


def _undecodable(source: str, encoding: str, error: UnicodeDecodeError) -> FileUnreadable:
    return FileUnreadable(
        f"{source}: not {encoding} text (byte {error.start:,}: {error.reason}): save it as UTF-8"
    )


def find_separator(lines: Sequence[str], least: float = 0.0) -> str | None:
    """Separator of these lines; None where they have no fields.

    It splits the first line, and then as many lines as possible into as many fields as the first;
    on a tie, into the most fields.

    Args:
        lines: Lines of a file, the header first.
        least: Share of the lines that must have as many fields as the first.

    """
    best: tuple[float, int] = (least, 1)
    found = None
    for separator in SEPARATORS:
        counts = _widths(lines, separator)
        if not counts or counts[0] < 2:
            continue
        score = counts.count(counts[0]) / len(counts), counts[0]
        if score > best:
            best, found = score, separator
    return found


def _widths(lines: Sequence[str], separator: str) -> list[int]:
    """Number of fields of each row that is not blank, as far as they can be read."""
    found = []
    with contextlib.suppress(csv.Error):  # which is said when the whole file is read
        for row in csv.reader(lines, delimiter=separator):
            if row:
                found.append(len(row))  # noqa: PERF401 - those before an error count
    return found


def read_numbers(path: Path) -> tuple[float, ...]:
    """The numbers of a file that holds nothing else, one per line; blank ones may end it."""
    text, _ = decode(str(path), read_bytes(path, "numbers"))
    found = []
    for number, line in enumerate(text.rstrip().splitlines(), 1):
        try:
            found.append(float(line))
        except ValueError:
            raise InvalidParameter(
                f"{path}: line {number}: {line.strip()!r} is not a number: write one per line"
            ) from None
    if not found:
        raise EmptyData(f"{path}: the file is empty; write one number per line")
    return tuple(found)
