"""Group commit: many pieces of work, one transaction, one flush.

A flush to disk costs milliseconds whatever it carries. So a single thread takes everything that
has queued up, runs it in one transaction with a savepoint around each piece, commits, and only then
answers; meanwhile the next group queues up. The busier the hub, the larger the groups.

Invariants: a piece of work is answered with a result only after its commit; a piece that raises is
undone alone and gets its own exception; when the commit fails, nobody gets a result.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.live.store.base import Store
from incrowd.live.store.tables import Tables

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[Tables], Any]
    future: asyncio.Future[Any]


class _Outcome(NamedTuple):
    result: Any
    error: Exception | None


class Committer:
    """Runs work on a store for one event loop, in groups. It does not close the store."""

    def __init__(self, store: Store, *, limit: int = 256) -> None:
        """At most ``limit`` pieces of work are queued or running; further callers wait."""
        if limit < 1:
            raise InvalidParameter(f"a committer needs room for one piece of work, got {limit}")
        self._store = store
        self._limit = limit
        self._slots = asyncio.Semaphore(limit)
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="incrowd-commit", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[Tables], T]) -> T:
        """Run the work in the next transaction; return its result after the commit.

        Cancelling the caller does not undo the work: it may be on its way to the disk.
        """
        if self._closing:
            raise ProtocolFailed("the store is closing: no more work is taken")
        await self._slots.acquire()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(work, future))
        return await future

    async def close(self) -> None:
        """Take no more work, finish what was taken, and end the thread."""
        if self._closing:
            return
        self._closing = True
        # Callers wait for their slots in turn, so holding all of them means that all are done.
        for _ in range(self._limit):
            await self._slots.acquire()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            group = [job]
            with suppress(Empty):
                # The end mark comes only after the last job was answered, so it is never in here.
                while (more := self._queue.get_nowait()) is not None:
                    group.append(more)
            outcomes = self._commit([job.work for job in group])
            # A loop that was closed has nobody left to answer.
            with suppress(RuntimeError):
                job.future.get_loop().call_soon_threadsafe(self._answer, group, outcomes)

    def _commit(self, works: list[Callable[[Tables], Any]]) -> list[_Outcome]:
        try:
            if len(works) == 1:
                # The transaction is its savepoint, and costs less.
                return [_Outcome(self._store.transact(works[0]), None)]
            return self._store.transact(lambda tables: [_attempt(tables, work) for work in works])
        except Exception as error:
            return [_failed(error)] * len(works)

    def _answer(self, group: list[_Job], outcomes: list[_Outcome]) -> None:
        for job, outcome in zip(group, outcomes, strict=True):
            self._slots.release()
            if job.future.cancelled():
                continue
            if outcome.error is not None:
                job.future.set_exception(outcome.error)
            else:
                job.future.set_result(outcome.result)


def _attempt(tables: Tables, work: Callable[[Tables], Any]) -> _Outcome:
    """What became of the work; if it cannot be undone alone, that is the whole group's failure."""
    tables.savepoint()
    try:
        result = work(tables)
    except Exception as error:
        tables.undo()
        return _failed(error)
    tables.keep()
    return _Outcome(result, None)


def _failed(error: Exception) -> _Outcome:
    if isinstance(error, StopIteration):
        # A future cannot carry this one: to the coroutine that awaits, it would mean a return.
        ended = RuntimeError("the work ended with StopIteration")
        ended.__cause__ = error
        return _Outcome(None, ended)
    return _Outcome(None, error)
