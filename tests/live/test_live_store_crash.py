"""Stores under crashes and races: nothing acknowledged is lost, nothing comes twice."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from incrowd.errors import FileUnreadable
from incrowd.live.store import Counts, open_store
from incrowd.live.store.sqlite import SqliteStore
from tests.live.stores import SURVEY, cell, postgres, postgres_url, store, where

__all__ = ["postgres", "postgres_url", "store", "where"]

WRITER = """
import os, signal, sys
from incrowd.live.store import CellRow, open_store

where, point, turn = sys.argv[1], sys.argv[2], int(sys.argv[3])
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
store = open_store(where)
commit, current = store._commit, 0

def killed():
    if current == turn and point == "before":
        die()
    commit()
    if current == turn and point == "after":
        die()

store._commit = killed

def work(tables):
    names = [(10 * current + k).to_bytes(24, "big") for k in range(10)]
    tables.put_cells([CellRow(bytes(range(16)), n, 7, 100.0, n) for n in names])
    if current == turn and point == "work":
        die()

while True:
    store.transact(work)
    print(current, flush=True)
    current += 1
"""


def writer(where, point, turn):
    """Run the writer until it dies by its own hand; what it acknowledged."""
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(where), point, str(turn)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return [int(line) for line in done.stdout.split()]


def test_two_writers_accept_each_cell_once(store, where):
    """Both put the same cells in different orders; over both, each is new exactly once."""
    rows = [cell(number) for number in range(200)]

    def write(seed):
        order = random.Random(seed).sample(rows, len(rows))
        new = []
        with open_store(where) as own:
            for begin in range(0, len(order), 10):
                batch = order[begin : begin + 10]
                flags = own.transact(lambda t, batch=batch: t.put_cells(batch))
                new += [row.id for row, flag in zip(batch, flags, strict=True) if flag]
        return new

    with ThreadPoolExecutor(2) as pool:
        accepted = [name for new in pool.map(write, (1, 2)) for name in new]
    assert sorted(accepted) == [row.id for row in rows]
    assert store.transact(lambda t: t.counts(SURVEY)) == Counts(200, 200, 0, 0)


def test_a_reader_that_remembers_its_place_misses_nothing(store, where):
    """Two write while a third reads on from the last number it saw."""
    done = threading.Event()

    def write(first):
        with open_store(where) as own:
            for number in range(first, first + 300, 6):
                batch = [cell(number + k) for k in range(6)]
                own.transact(lambda t, batch=batch: t.put_cells(batch))

    def read():
        after, bodies = 0, []
        with open_store(where) as own:
            while True:
                over = done.is_set()
                page = own.transact(lambda t, after=after: t.waiting(SURVEY, 7, after, 50))
                if not page and over:
                    return bodies
                after = page[-1][0] if page else after
                bodies += [body for _, body in page]

    with ThreadPoolExecutor(3) as pool:
        reading = pool.submit(read)
        list(pool.map(write, (0, 300)))
        done.set()
        assert sorted(reading.result()) == [cell(number).body for number in range(600)]


def test_several_may_make_the_tables_at_once(where):
    def make(_):
        with open_store(where) as own:
            return own.transact(lambda t: t.counts(None).sent)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(4))) == [0] * 4


def test_a_new_file_that_another_is_making(tmp_path):
    """SQLite does not wait by itself before it turns a file over to a write-ahead log."""
    path = tmp_path / "hub.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with closing(other), ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        opening = pool.submit(SqliteStore, path)
        with pytest.raises(TimeoutError):
            opening.result(timeout=0.2)
        other.execute("COMMIT")
        opening.result().close()


@pytest.mark.parametrize("point", ["work", "before", "after"])
@pytest.mark.parametrize("turn", [0, 3])
def test_killed_while_writing(where, point, turn):
    """The writer dies in its work, right before its commit, or right after it."""
    acknowledged = writer(where, point, turn)
    assert acknowledged == list(range(turn))
    committed = turn + (point == "after")
    with open_store(where) as store:
        assert store.integrity() == []
        found = store.transact(lambda t: t.waiting(SURVEY, 7, 0, 1000))
        assert [body for _, body in found] == [
            cell(10 * number + k).body for number in range(committed) for k in range(10)
        ]
        # The writer repeats what was not acknowledged: nothing is lost, nothing comes twice.
        flags = store.transact(lambda t: t.put_cells([cell(10 * turn + k) for k in range(10)]))
        assert flags == [point != "after"] * 10
        sent = 10 * (turn + 1)
        assert store.transact(lambda t: t.counts(SURVEY)) == Counts(sent, sent, 0, 0)
        assert store.integrity() == []


@pytest.mark.parametrize("acknowledged", [1, 4, 9])
def test_killed_at_any_moment(where, acknowledged):
    """From outside, wherever the writer happens to be."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(where), "never", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        for _ in range(acknowledged):
            process.stdout.readline()
        process.kill()
        acknowledged += len(process.stdout.readlines())
    with open_store(where) as store:
        assert store.integrity() == []
        sent = store.transact(lambda t: t.counts(SURVEY)).sent
        assert sent in (10 * acknowledged, 10 * acknowledged + 10)


def test_the_server_crashes(postgres_url, postgres):
    """Nothing acknowledged is lost, and the store finds its way back by itself."""
    with open_store(postgres_url) as store:
        for number in range(5):
            store.transact(lambda t, number=number: t.put_cells([cell(number)]))
        postgres.stop("immediate")
        with pytest.raises(FileUnreadable, match="failed"):
            store.transact(lambda t: t.put_cells([cell(5)]))
        with pytest.raises(FileUnreadable, match="failed"):
            store.transact(lambda t: t.put_cells([cell(5)]))
        postgres.start()
        assert store.transact(lambda t: t.put_cells([cell(4), cell(5)])) == [False, True]
        assert store.transact(lambda t: t.counts(SURVEY)) == Counts(6, 6, 0, 0)
        assert store.integrity() == []
