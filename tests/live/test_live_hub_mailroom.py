"""The mailroom on a real store: what is pushed from memory, what is read, and what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from incrowd.errors import StoreUnavailable
from incrowd.live.authority import Authority
from incrowd.live.frames import MOST_CELLS
from incrowd.live.hub import mailroom as module
from incrowd.live.hub.board import Survey
from incrowd.live.hub.limits import Bucket, Limits
from incrowd.live.hub.mailroom import Listener, Mailroom
from incrowd.live.hub.metrics import Metrics
from incrowd.live.keys import Role
from incrowd.live.reasons import Reason
from incrowd.live.store import Committer, SqliteStore, Tables
from incrowd.live.supervisor import Supervisor
from tests.live.hub_server import Poll, make_poll


class Room:
    """A mailroom, a survey of three that has started, and who listens."""

    def __init__(self, store: SqliteStore, limits: Limits | None = None) -> None:
        self.store, self.metrics = store, Metrics()
        self.committer = Committer(store)
        self.supervisor = Supervisor()
        self.mailroom = Mailroom(self.committer, self.metrics, limits or Limits())
        authority = Authority.create()
        people = [authority.issue(f"p{n}", Role.device) for n in range(3)]
        self.poll: Poll = make_poll(people, authority.issue("c", Role.curator))
        self.survey = Survey(self.poll.signed, [each.record() for each in people])
        self.survey.begin([0, 1, 2])
        self.mail: list[tuple[int, bytes]] = []
        self.frames = 0
        self.slow = False

    def listen(self, window: int = 32_768) -> Listener:
        """Number 1 listens, from the beginning."""
        self.mail.clear()

        def deliver(mail: list[tuple[int, bytes]]) -> None:
            self.mail += mail
            self.frames += 1
            if not self.slow:
                asyncio.get_running_loop().call_soon(self.mailroom.sent, listener)

        listener = Listener((self.survey.id, 1), window, deliver)
        self.mailroom.listen(listener)
        return listener

    def cells(self, first: int, count: int, sender: int = 0) -> list[bytes]:
        return [self.poll.cell(sender, 1, counter) for counter in range(first, first + count)]

    async def put(self, cells: list[bytes], sender: int = 0) -> None:
        assert await self.mailroom.put(self.survey, sender, cells) == []

    async def took(self, listener: Listener, count: int) -> None:
        places = [place for place, _ in self.mail[:count]]
        del self.mail[:count]
        await self.mailroom.took(listener.box, places, listener)

    async def settle(self) -> None:
        """Until everything that was asked of the store by now is done and passed on."""
        for _ in range(4):
            await self.committer.do(lambda tables: None)
            for _ in range(10):
                await asyncio.sleep(0)


def play(
    tmp_path: Path, story: Callable[[Room], Awaitable[None]], limits: Limits | None = None
) -> None:
    async def main(store: SqliteStore) -> None:
        room = Room(store, limits)
        room.supervisor.service("commit", room.mailroom.commit, period=1.0)
        room.supervisor.service("delivery", room.mailroom.carry, period=1.0)
        try:
            await story(room)
        finally:
            await room.supervisor.close()
            await room.committer.close()

    with SqliteStore(tmp_path / "hub.db", synchronous="OFF") as store:
        asyncio.run(main(store))
        assert store.integrity() == []


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cells each look into the store found."""
    found: list[int] = []
    waiting = Tables.waiting

    def counted(*arguments: object) -> list[tuple[int, bytes]]:
        mail = waiting(*arguments)  # type: ignore[arg-type]
        found.append(len(mail))
        return mail

    monkeypatch.setattr(Tables, "waiting", counted)
    return found


def test_fresh_mail_is_pushed_without_reading_it_back(tmp_path: Path, reads: list[int]) -> None:
    async def story(room: Room) -> None:
        listener = room.listen()
        await room.settle()
        sent = [room.cells(20 * turn, 20) for turn in range(3)]
        await asyncio.gather(*map(room.put, sent))
        assert [cell for _, cell in room.mail] == [cell for batch in sent for cell in batch]
        await room.put(sent[0])  # known
        await room.settle()
        assert len(room.mail) == 60
        assert sum(reads) == 0
        await room.took(listener, 60)
        assert not listener.untaken
        assert (room.metrics.accepted, room.metrics.delivered) == (60, 60)

    play(tmp_path, story)


def test_what_came_before_is_read_once_and_in_order(tmp_path: Path, reads: list[int]) -> None:
    async def story(room: Room) -> None:
        old = room.cells(0, 600)
        for first in range(0, 600, 200):
            await room.put(old[first : first + 200])
        room.listen()
        fresh = [room.cells(1000 + n, 1) for n in range(30)]
        for batch in fresh:  # while the mail before them is being read
            await room.put(batch)
        await room.settle()
        assert [cell for _, cell in room.mail] == old + [cell for (cell,) in fresh]
        asked = len(reads)
        await room.put(room.cells(2000, 5))
        await room.settle()
        assert len(room.mail) == 635
        assert len(reads) == asked

    play(tmp_path, story)


def test_untaken_mail_comes_again_to_a_new_connection(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        first = room.listen()
        await room.settle()
        await room.put(room.cells(0, 10))
        before = list(room.mail)
        await room.took(first, 4)
        room.mailroom.leave(first)
        room.listen()
        await room.settle()
        assert room.mail == before[4:]

    play(tmp_path, story)


def test_mail_of_another_hub_is_not_skipped(tmp_path: Path) -> None:
    """Someone else writes to the store: what this hub puts next must not hide it."""

    async def story(room: Room) -> None:
        room.listen()
        await room.settle()
        other = Mailroom(room.committer, Metrics(), Limits())
        room.supervisor.service("commit", other.commit, period=1.0)
        theirs, ours = room.cells(0, 3, sender=2), room.cells(0, 3)
        await other.put(room.survey, 2, theirs)
        await room.put(ours)
        await room.settle()
        assert [cell for _, cell in room.mail] == theirs + ours

    play(tmp_path, story)


def test_window_and_what_ends_its_wait(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        listener = room.listen(window=40)
        await room.settle()
        sent = room.cells(0, 100)
        for first in range(0, 100, 20):
            await room.put(sent[first : first + 20])
        await room.settle()
        assert len(room.mail) == 40
        await room.took(listener, 10)
        await room.settle()
        assert len(room.mail) == 40
        room.mailroom.widen()  # it has just become full
        await room.settle()
        assert len(room.mail) == 40
        room.mailroom.widen()  # and still is, and nothing was taken: this may be half a message
        await room.settle()
        assert (listener.window, len(room.mail)) == (80, 80)
        await room.took(listener, 80)
        await room.settle()
        room.mailroom.widen()
        assert listener.window == 80
        assert [cell for _, cell in room.mail] == sent[90:]

    play(tmp_path, story)


def test_a_slow_network_holds_a_few_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AHEAD", 3)

    async def story(room: Room) -> None:
        room.slow = True
        listener = room.listen()
        await room.settle()
        sent = room.cells(0, 10 * MOST_CELLS)
        for first in range(0, len(sent), MOST_CELLS):
            await room.put(sent[first : first + MOST_CELLS])
        await room.settle()
        assert room.frames == 3
        for _ in range(7):
            room.mailroom.sent(listener)
            await room.settle()
        assert [cell for _, cell in room.mail] == sent
        # Together they hold too much: whoever holds something waits.
        monkeypatch.setattr(module, "_ALL_AHEAD", 2)
        room.mailroom.sent(listener)
        await room.put(room.cells(5000, 1))
        await room.settle()
        assert room.frames == 10
        for _ in range(2):
            room.mailroom.sent(listener)
        await room.settle()
        assert room.frames == 11
        room.mailroom.leave(listener)
        room.mailroom.sent(listener)
        assert room.mailroom._underway == 0

    play(tmp_path, story)


def test_a_full_mailbox_refuses_only_what_is_too_much(tmp_path: Path) -> None:
    async def story(room: Room) -> None:
        sent = room.cells(0, 8)
        refused = await room.mailroom.put(room.survey, 0, [*sent[:4], b"no cell", *sent[4:]])
        assert sorted(refused) == [(4, Reason.malformed), *((k, Reason.full) for k in (6, 7, 8))]
        assert await room.mailroom.put(room.survey, 0, sent[:5]) == []

    play(tmp_path, story, Limits(quota=5))


def test_a_store_that_fails_is_told_to_everyone_and_overcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(room: Room) -> None:
        listener = room.listen()
        await room.settle()
        commit = room.store._commit

        def fail() -> None:
            raise room.store._failures("disk I/O error")

        monkeypatch.setattr(room.store, "_commit", fail)
        taking = asyncio.gather(room.mailroom.took(listener.box, [1], listener))
        outcomes = await asyncio.gather(
            room.put(room.cells(0, 3)), room.put(room.cells(3, 3)), return_exceptions=True
        )
        assert [type(each) for each in outcomes] == [StoreUnavailable] * 2
        assert room.mail == []
        assert not taking.done()
        monkeypatch.setattr(room.store, "_commit", commit)
        await room.put(room.cells(0, 6))
        await taking
        await room.settle()
        assert len(room.mail) == 6

    play(tmp_path, story)


def test_bucket() -> None:
    bucket = Bucket(rate=10, burst=20, now=0.0)
    assert (bucket.take(20, 0.0), bucket.debt) == (20, 0.0)
    assert (bucket.take(5, 0.0), bucket.debt) == (5, 0.5)
    assert (bucket.take(50, 0.0), bucket.debt) == (15, 2.0)
    assert bucket.take(1, 0.0) == 0
    assert (bucket.take(1, 1.0), bucket.debt) == (1, pytest.approx(1.1))
    assert (bucket.take(100, 100.0), bucket.debt) == (40, 2.0)
