"""The hash chain of ledger lines: each line's hash covers the one before it.

A change made by other means than appending is found, unless the whole chain is rewritten or its end
cut off; the end is what ``witness`` keeps elsewhere.
"""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Final, NamedTuple

_CHAIN: Final = b"incrowd ledger 1\0"
_FIRST: Final = bytes(32)


class Entry(NamedTuple):
    """One line of an owner's ledger, as bytes."""

    owner: bytes
    survey: bytes
    body: bytes


class Head(NamedTuple):
    """The end of an owner's ledger: how many lines it has, and the hash over all of them."""

    lines: int
    hash: bytes


def head_of(database: sqlite3.Connection, owner: bytes) -> Head:
    """The end of this owner's ledger."""
    row = database.execute(
        "SELECT place, hash FROM ledger WHERE owner = ? ORDER BY place DESC LIMIT 1", (owner,)
    ).fetchone()
    return Head(*(row or (0, _FIRST)))


def append(database: sqlite3.Connection, entry: Entry) -> None:
    """Add a line at the end of its owner's ledger."""
    before = head_of(database, entry.owner)
    database.execute(
        "INSERT INTO ledger VALUES (?, ?, ?, ?, ?)",
        (entry.owner, before.lines + 1, entry.survey, entry.body, _link(before.hash, entry)),
    )


def passes(database: sqlite3.Connection, owner: bytes, head: Head) -> bool:
    """Whether this owner's ledger ended, now or at some time, as ``head`` says."""
    if head.lines == 0:
        return head.hash == _FIRST
    row = database.execute(
        "SELECT hash FROM ledger WHERE owner = ? AND place = ?", (owner, head.lines)
    ).fetchone()
    return row is not None and row[0] == head.hash


def verified(database: sqlite3.Connection) -> tuple[list[Entry], tuple[bytes, int] | None]:
    """Every line in order, up to the first that breaks its chain; its owner and place, if any."""
    found: list[Entry] = []
    heads: dict[bytes, Head] = {}
    rows = database.execute(
        "SELECT owner, survey, body, place, hash FROM ledger ORDER BY owner, place"
    )
    for owner, survey, body, place, stored in rows:
        entry = Entry(owner, survey, body)
        before = heads.get(owner, Head(0, _FIRST))
        if place != before.lines + 1 or stored != _link(before.hash, entry):
            return found, (owner, place)
        heads[owner] = Head(place, stored)
        found.append(entry)
    return found, None


def _link(before: bytes, entry: Entry) -> bytes:
    """The hash of an entry and of all before it."""
    state = hashlib.sha256(_CHAIN + before)
    for part in entry:
        state.update(len(part).to_bytes(8, "big") + part)
    return state.digest()
