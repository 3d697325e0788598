"""Supervision: one owner of every background task of a process.

Nothing else in ``incrowd.live`` creates a task. Three kinds of work run beside the main flow:

* a **service** lasts as long as its process (deliveries, the journal, the round clock). It has a
  name, a period and a heartbeat. Store and network errors make it not ready, and it is begun again
  after 0.1 s, doubling to 5 s, for as long as they last, or as soon as another service finds that
  the store works. Any other exception, or a return, is a fault: one log event, not ready, begun
  again from what is in the store. The fifth fault of a process within 60 s is its last: it ends
  with exit code 70;
* a **part** is the work of one party in one survey. It is treated like a service, except that it
  may return, and that its fifth fault within 60 s ends this part alone: one survey must not end the
  others of the process;
* a **job** is awaited by its caller, who gets its result or its exception.

A process is ready when no service waits for a store or a network, every heartbeat is younger than
three periods and, where the process proves that it can write, a row was committed within 5 s.

A log event names the task and the kind of the error. The text of an error is logged only for store
and network errors: any other text might quote what was being worked on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import traceback
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from incrowd.errors import HubUnreachable, ServiceFailed, StoreUnavailable
from incrowd.live.transports.base import Unreachable
from incrowd.protocols.runtime.delivery import Backoff

LOGGER: Final = "incrowd.supervisor"
TRANSIENT: Final = (StoreUnavailable, HubUnreachable, Unreachable, OSError)
"""Errors of stores and networks: the same work may succeed later."""

_T = TypeVar("_T")
_log = logging.getLogger(LOGGER)

_PAUSES: Final = Backoff(first=0.1, factor=2.0, cap=5.0)
_MOST_FAULTS: Final = 5
_FAULT_SECONDS: Final = 60.0
_LATE_PERIODS: Final = 3
_COMMIT_SECONDS: Final = 5.0


class _Faults:
    """Times of the latest faults."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_MOST_FAULTS)

    def add(self, now: float) -> bool:
        """Count one more; whether it is one too many."""
        self._times.append(now)
        return len(self._times) == _MOST_FAULTS and now - self._times[0] <= _FAULT_SECONDS


class Service:
    """One supervised service or part; its work is handed it as the heartbeat."""

    def __init__(
        self,
        name: str,
        work: Callable[[Service], Awaitable[None]],
        *,
        period: float | None,
        lasting: bool,
        fault: Callable[[], bool],
        waiting: Counter[str],
        clock: Callable[[], float],
    ) -> None:
        """``fault`` counts a fault, and says whether the work is given up because of it.

        ``waiting`` counts the services of each name that wait: of a thousand connections to one hub
        only the first and the last are worth a line in the log.
        """
        self.name = name
        self._work = work
        self._period = period
        self._lasting = lasting
        self._fault = fault
        self._waiting = waiting
        self._clock = clock
        self._at = clock()
        self._attempts = 0
        self._trouble: str | None = None
        self._finishing = False
        self._nudged = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        """The task, which the supervisor makes."""

    # The heartbeat, for the work itself.

    def beat(self) -> None:
        """Record that the work goes on, and that it no longer waits for a store or a network."""
        self._at = self._clock()
        if self._trouble is not None:
            self.forget()
            self._attempts = 0
            if not self._waiting[self.name]:
                _log.warning("%s goes on", self.name)

    def wait(self, why: Exception) -> None:
        """Record that the work waits for a store or a network."""
        if not self._waiting[self.name]:
            _log.warning("%s waits: %s", self.name, " ".join(str(why).split()))
        self._troubled(type(why).__name__)

    def forget(self) -> None:
        """Wait for nothing any more."""
        if self._trouble is not None:
            self._waiting[self.name] -= 1
            self._trouble = None

    def _troubled(self, kind: str) -> None:
        self.forget()
        self._waiting[self.name] += 1
        self._trouble = kind

    async def until(self, event: asyncio.Event, seconds: float | None = None) -> bool:
        """Wait for an event, at most ``seconds``, and beat meanwhile; whether it is set."""
        deadline = None if seconds is None else self._clock() + seconds
        while not event.is_set():
            self.beat()
            left = None if deadline is None else deadline - self._clock()
            if left is not None and left <= 0:
                await asyncio.sleep(0)
                return event.is_set()
            pause = min((each for each in (self._period, left) if each is not None), default=None)
            # Unlike wait_for, a timeout never swallows a cancellation that comes with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await event.wait()
        return True

    async def sleep(self, seconds: float) -> None:
        """Pause, and beat meanwhile."""
        await self.until(asyncio.Event(), seconds)

    # For its owner.

    def failing(self) -> str | None:
        """Why the process is not ready on its account; none when it is."""
        if self._trouble is not None:
            return f"{self.name} ({self._trouble})"
        age = self._clock() - self._at
        if self._period is not None and age >= _LATE_PERIODS * self._period:
            return f"{self.name} (no heartbeat for {age:.0f} s)"
        return None

    async def stop(self) -> None:
        """End it now."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def finish(self) -> None:
        """Let the work return; an error of the store that lasts is tried once more and raised."""
        self._finishing = True
        self._nudged.set()
        if self.task is not None:
            await self.task

    def recovered(self) -> None:
        """Try again now, if the work waits for the store."""
        if self._trouble == StoreUnavailable.__name__:
            self._nudged.set()

    async def run(self) -> None:
        """Do the work, again and again if need be, until it may end."""
        while True:
            last = self._finishing
            error: Exception | None = None
            try:
                await self._work(self)
            except Exception as raised:
                if last:
                    raise
                error = raised
            if error is None and (not self._lasting or self._finishing):
                return
            if isinstance(error, TRANSIENT):
                self.wait(error)
            else:
                what = "returned" if error is None else told(error)
                _log.error("%s failed: %s", self.name, what)
                self._troubled(what.partition(" ")[0])
                if self._fault():
                    return
            self._attempts += 1
            if not self._finishing:
                self._nudged.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_jittered(_PAUSES.pause(self._attempts))):
                    await self._nudged.wait()


class Supervisor:
    """Owns the background tasks of one process, or of a component that is used alone."""

    def __init__(
        self, *, proves_writes: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``proves_writes``: the process is ready only while it calls :meth:`committed`."""
        self.exhausted: ServiceFailed | None = None
        """Why the process has to end, once it has."""
        self.on_exhausted: Callable[[], None] | None = None
        self._clock = clock
        self._proves_writes = proves_writes
        self._committed: float | None = None
        self._faults = _Faults()
        self._waiting: Counter[str] = Counter()
        self._services: set[Service] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    def service(
        self,
        name: str,
        work: Callable[[Service], Awaitable[None]],
        *,
        period: float,
        restart: bool = True,
    ) -> Service:
        """Run work for as long as the process lasts.

        It must beat at least every ``period`` seconds. Work that cannot be begun again inside the
        process (``restart`` false) ends the process with its first fault.
        """

        def fault() -> bool:
            if self._faults.add(self._clock()) or not restart:
                self._give_up(name)
            return self.exhausted is not None

        return self._begin(name, work, period, fault, lasting=True)

    def part(
        self,
        name: str,
        work: Callable[[Service], Awaitable[None]],
        given_up: Callable[[], object],
    ) -> Service:
        """Run one party's work in one survey until it returns."""
        faults = _Faults()

        def fault() -> bool:
            many = faults.add(self._clock())
            if many:
                given_up()
            return many

        return self._begin(name, work, None, fault, lasting=False)

    def job(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run work whose outcome the caller awaits."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def committed(self) -> None:
        """Record that a row was committed now; services that wait for the store try again."""
        self._committed = self._clock()
        for each in self._services:
            each.recovered()

    def failing(self) -> list[str]:
        """Everything on whose account the process is not ready."""
        found = {why for each in self._services if (why := each.failing()) is not None}
        if self.exhausted is not None:
            found.add("supervisor (too many faults)")
        if self._proves_writes and (
            self._committed is None or self._clock() - self._committed >= _COMMIT_SECONDS
        ):
            found.add(f"store (no commit within {_COMMIT_SECONDS:g} s)")
        return sorted(found)

    def check(self) -> None:
        """Raise if the process has to end."""
        if self.exhausted is not None:
            raise self.exhausted

    async def close(self) -> None:
        """End everything that is still running."""
        self._services.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(
        self,
        name: str,
        work: Callable[[Service], Awaitable[None]],
        period: float | None,
        fault: Callable[[], bool],
        *,
        lasting: bool,
    ) -> Service:
        made = Service(
            name,
            work,
            period=period,
            lasting=lasting,
            fault=fault,
            waiting=self._waiting,
            clock=self._clock,
        )

        def ended(_: asyncio.Task[None]) -> None:
            made.forget()
            self._services.discard(made)

        self._services.add(made)
        made.task = self.job(made.run())
        made.task.set_name(name)
        made.task.add_done_callback(ended)
        return made

    def _give_up(self, name: str) -> None:
        self.exhausted = ServiceFailed(
            f"the background task {name!r} failed too often: the log says how, and a new process "
            "goes on from the store"
        )
        if self.on_exhausted is not None:
            self.on_exhausted()


def told(error: BaseException) -> str:
    """The kind of an error and its innermost place, for a log; never its text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {frames[-1].name}, {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + place


def _jittered(pause: float) -> float:
    return pause * random.uniform(0.5, 1.0)  # noqa: S311
