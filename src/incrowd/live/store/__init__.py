"""The hub's durable store: a registry of keys, tasks, and a mailbox of sealed cells.

One contract (:class:`Store`, :class:`Tables`), two databases: an SQLite file for a hub on one
machine, PostgreSQL for several hubs on one database. :class:`Committer` puts group commit in front.
"""

from __future__ import annotations

from pathlib import Path

from incrowd.errors import InvalidParameter
from incrowd.extras import needed_extra
from incrowd.live.store.base import Store
from incrowd.live.store.committer import Committer
from incrowd.live.store.mailbox import CellRow, Counts, Parcel, Placed
from incrowd.live.store.sqlite import SqliteStore
from incrowd.live.store.tables import ConnectionRow, Tables, TaskRow, TaskSummary

__all__ = [
    "CellRow",
    "Committer",
    "ConnectionRow",
    "Counts",
    "Parcel",
    "Placed",
    "SqliteStore",
    "Store",
    "Tables",
    "TaskRow",
    "TaskSummary",
    "open_store",
]

_SQLITE = "sqlite:///"


def open_store(where: str | Path) -> Store:
    """Open a store, and make its tables if they are missing.

    ``where`` is the path of an SQLite file, or ``sqlite:///relative/path``,
    ``sqlite:////absolute/path`` or ``postgresql://user@host/database``.
    """
    text = str(where)
    if isinstance(where, Path) or "://" not in text:
        return SqliteStore(where)
    if text.startswith(_SQLITE):
        return SqliteStore(text.removeprefix(_SQLITE))
    if text.startswith(("postgresql://", "postgres://")):
        with needed_extra("a store in PostgreSQL needs"):
            from incrowd.live.store.postgres import PostgresStore
        return PostgresStore(text)
    raise InvalidParameter(
        f"a store is a path, sqlite:///path or postgresql://…, got {text.partition('://')[0]}://…"
    )
