"""Group commit: acknowledged means committed, and one failure is nobody else's."""

from __future__ import annotations

import asyncio
import threading

import pytest

from incrowd.errors import FileUnreadable, InvalidParameter, ProtocolFailed
from incrowd.live.store import Committer, open_store
from tests.live.stores import cell, postgres, store, where

__all__ = ["postgres", "store", "where"]


async def busy(committer):
    """Keep the committer's thread in a piece of work until the gate opens, so that others queue."""
    started, gate = threading.Event(), threading.Event()
    first = asyncio.create_task(committer.do(lambda t: (started.set(), gate.wait())))
    await until(started.is_set)
    return first, gate


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


@pytest.fixture
def transactions(store, monkeypatch):
    """How many transactions there were, one entry each."""
    log, transact = [], store.transact
    monkeypatch.setattr(store, "transact", lambda work: (log.append(1), transact(work))[1])
    return log


def test_acknowledged_means_committed(store, where):
    async def main():
        committer = Committer(store)
        with open_store(where) as other:
            for number in range(5):
                rows = [cell(number)]
                assert await committer.do(lambda t, rows=rows: t.put_cells(rows)) == [True]
                assert other.transact(lambda t: t.counts()).sent == number + 1
        await committer.close()

    asyncio.run(main())


def test_what_queues_up_is_one_transaction(store, transactions):
    async def main():
        committer = Committer(store)
        first, gate = await busy(committer)
        rest = [
            asyncio.create_task(committer.do(lambda t, n=n: t.put_cells([cell(n)])))
            for n in (*range(50), 0)
        ]
        await until(lambda: committer._queue.qsize() == 51)
        gate.set()
        await first
        assert await asyncio.gather(*rest) == [[True]] * 50 + [[False]]
        await committer.close()

    asyncio.run(main())
    assert len(transactions) == 2
    assert store.transact(lambda t: t.counts()).sent == 50


def test_one_failure_undoes_only_itself(store, transactions):
    def bad(tables):
        tables.put_cells([cell(100)])
        raise KeyError("on purpose")

    def worse(tables):
        tables._session.run("INSERT INTO nowhere VALUES (1)")

    async def main():
        committer = Committer(store)
        works = [lambda t, n=n: t.put_cells([cell(n)]) for n in range(3)]
        works[1:1] = [bad, worse]
        first, gate = await busy(committer)
        rest = [asyncio.create_task(committer.do(work)) for work in works]
        await until(lambda: committer._queue.qsize() == 5)
        gate.set()
        await first
        outcomes = await asyncio.gather(*rest, return_exceptions=True)
        assert [outcomes[0], *outcomes[3:]] == [[True]] * 3
        assert isinstance(outcomes[1], KeyError)
        assert isinstance(outcomes[2], store._failures)
        with pytest.raises(KeyError):
            await committer.do(bad)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await committer.do(lambda t: next(iter(t.tasks())))
        await committer.close()

    asyncio.run(main())
    assert len(transactions) == 4
    assert store.transact(lambda t: t.counts()).sent == 3
    assert store.integrity() == []


@pytest.mark.parametrize("together", [1, 4])
def test_when_the_commit_fails_nobody_is_told_otherwise(store, monkeypatch, together):
    async def main():
        committer = Committer(store)
        first, gate = await busy(committer)
        rest = [
            asyncio.create_task(committer.do(lambda t, n=n: t.put_cells([cell(n)])))
            for n in range(together)
        ]
        await until(lambda: committer._queue.qsize() == together)
        commit = store._commit

        def fail_from_the_second_on():
            monkeypatch.setattr(store, "_commit", fail)
            commit()

        def fail():
            raise store._failures("disk I/O error")

        monkeypatch.setattr(store, "_commit", fail_from_the_second_on)
        gate.set()
        await first
        for outcome in await asyncio.gather(*rest, return_exceptions=True):
            assert isinstance(outcome, FileUnreadable)
        monkeypatch.setattr(store, "_commit", commit)
        assert await committer.do(lambda t: t.put_cells([cell(0)])) == [True]
        await committer.close()

    asyncio.run(main())
    assert store.transact(lambda t: t.counts()).sent == 1


def test_back_pressure_and_close(store):
    """Two may queue; the others wait, close waits for them too, and then it is over."""

    async def main():
        committer = Committer(store, limit=2)
        first, gate = await busy(committer)
        tasks = [
            asyncio.create_task(committer.do(lambda t, n=n: t.put_cells([cell(n)])))
            for n in range(6)
        ]
        await until(lambda: committer._queue.qsize() == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert committer._queue.qsize() == 1  # one runs, one waits, five have no slot
        closing = asyncio.create_task(committer.close())
        await asyncio.sleep(0)
        with pytest.raises(ProtocolFailed, match="closing"):
            await committer.do(lambda t: None)
        gate.set()
        await first
        assert await asyncio.gather(*tasks) == [[True]] * 6
        await closing
        await committer.close()
        assert not committer._thread.is_alive()

    asyncio.run(main())
    with pytest.raises(InvalidParameter, match="room"):
        Committer(store, limit=0)


def test_a_cancelled_caller_disturbs_nobody(store):
    async def main():
        committer = Committer(store, limit=2)
        first, gate = await busy(committer)
        second = asyncio.create_task(committer.do(lambda t: t.put_cells([cell(1)])))
        await until(lambda: committer._queue.qsize() == 1)
        second.cancel()
        third = asyncio.create_task(committer.do(lambda t: t.put_cells([cell(2)])))
        await asyncio.sleep(0)
        gate.set()
        await first
        assert await third == [True]
        with pytest.raises(asyncio.CancelledError):
            await second
        await committer.close()

    asyncio.run(main())
    assert store.transact(lambda t: t.counts()).sent == 2
