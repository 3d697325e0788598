"""Cells to put, and both kinds of store to put them into.

Use the fixtures by importing them: ``from tests.live.stores import postgres, store, where``.
"""

from __future__ import annotations

import pytest

from incrowd.live.store import CellRow, open_store
from tests.live.postgres import postgres, postgres_url

__all__ = [
    "CURATOR",
    "OTHER",
    "SURVEY",
    "cell",
    "postgres",
    "postgres_url",
    "run",
    "store",
    "where",
]

SURVEY, OTHER = bytes(range(16)), b"o" * 16
CURATOR = 0xFFFFFFFF


def cell(number, recipient=7, survey=SURVEY, expires=100.0, body=None):
    name = number.to_bytes(24, "big")
    return CellRow(survey, name, recipient, expires, name if body is None else body)


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """Where an empty store is: a file, then a PostgreSQL place."""
    if request.param == "sqlite":
        return tmp_path / "hub.db"
    return request.getfixturevalue("postgres").url()


@pytest.fixture
def store(where):
    """A store; sound at the end, whatever happened to it."""
    with open_store(where) as store:
        yield store
        assert store.integrity() == []


@pytest.fixture
def run(store):
    """Call one operation in a transaction of its own."""
    return lambda name, *arguments: store.transact(lambda t: getattr(t, name)(*arguments))
