"""With cover on, what a hub sees is the same whatever people answer and wherever reports walk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from incrowd.live import party as parties
from incrowd.live.answers import Answers, Secret
from incrowd.live.cells import CELL, COMPARE, DATA
from incrowd.protocols.runtime.actor import CURATOR
from tests.live.crowds import crowd, until, walk
from tests.live.overheard import SECONDS, Overheard, Seen
from tests.live.worlds import LiveHub

PEOPLE, ROUNDS, SETTLE = 5, 2, 1
TAKEN = 0
"""The kind under which acknowledgements are counted."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("cover-hub"))
    yield hub
    hub.stop()


async def transcript(hub: LiveHub, folder: Any, answers: Sequence[str]) -> Counter[Seen]:
    """What the hub sees of one survey among people with these answers."""
    folder.mkdir()
    async with crowd(hub, folder, PEOPLE) as people:
        devices = await people.process("all", range(PEOPLE), connection=Overheard)
        for device, answer in zip(devices.devices.values(), answers, strict=True):
            device._answers = Answers({"cycles": Secret(answer)})
        proposal = await people.offered(
            protocol=walk(PEOPLE, ROUNDS), cover=True, round_seconds=SECONDS, grace_rounds=SETTLE,
            timeout=30.0,
        )  # fmt: skip
        started = await people.begin(proposal)
        run = await people.curator.receive(started)
        assert run.collected.received == PEOPLE
        assert run.collected.away is None
        planned = sum(
            sum(tick.cells.values())
            for address in started.records
            if address != CURATOR
            for tick in started.plan.ticks(address, started.offer.spec.timing)
        )
        heard = [device.connection for device in devices.devices.values()]
        # The last ticks come after everything is handed in; they belong to the picture.
        await until(lambda: sum(each.sent for each in heard) >= planned)
        # Every device gets what its neighbours sent it, and one answer of the curator.
        came = PEOPLE * ((PEOPLE - 1) * (1 + ROUNDS + SETTLE) + 1)
        await until(lambda: sum(each.taken for each in heard) >= came)
        await people.curator.close_survey(proposal.survey)
        seen = sum((each.stored for each in heard), Counter())
        return seen + Counter(
            {(TAKEN, each, each, 0, 0): heard[each].taken for each in range(PEOPLE)}
        )


def test_transcripts_do_not_depend_on_answers_or_walks(hub, tmp_path):
    async def main() -> list[Counter[Seen]]:
        return await asyncio.gather(
            transcript(hub, tmp_path / "no", ["no"] * PEOPLE),
            transcript(hub, tmp_path / "mixed", ["yes", "no", "yes", "yes", "no"]),
        )

    one, other = asyncio.run(main())
    assert one == other
    assert {size for kind, *_, size in one if kind != TAKEN} == {CELL}
    assert len({one[TAKEN, person, person, 0, 0] for person in range(PEOPLE)}) == 1
    # One tick per window to every other person, one compare cell each, three hand-ins.
    for person in range(PEOPLE):
        for neighbour in set(range(PEOPLE)) - {person}:
            sent = {round_: one[DATA, person, neighbour, round_, CELL] for round_ in range(9)}
            assert sent == {round_: int(round_ < ROUNDS + SETTLE) for round_ in range(9)}
            assert one[COMPARE, person, neighbour, 0, CELL] == 1


@pytest.mark.parametrize("fault", ["one more", "elsewhere"])
def test_a_cell_more_or_elsewhere_shows(hub, tmp_path, monkeypatch, fault):
    """The comparison above bites: a runtime that strays from the plan once is found out."""
    honest, strayed = parties.Party._seal, []

    def stray(self: parties.Party, to: int, round_: int, count: int | None) -> None:
        if count is not None and not strayed and self.number == 0 and to == 1:
            strayed.append(to)
            if fault == "one more":
                count += 1
            else:
                to = 2
        honest(self, to, round_, count)

    async def main() -> Counter[Seen]:
        return await transcript(hub, tmp_path / "straying", ["no"] * PEOPLE)

    monkeypatch.setattr(parties.Party, "_seal", stray)
    seen = asyncio.run(main())
    assert strayed
    sent = [seen[DATA, 0, 1, round_, CELL] for round_ in range(ROUNDS + SETTLE)]
    assert sorted(sent) == ([1, 1, 2] if fault == "one more" else [0, 1, 1])


class TestTogether:
    """Acknowledgements: all cells of a tick at once, whatever is in them."""

    @staticmethod
    def cells(count: int, start: int = 0) -> list[parties._Came]:
        return [parties._Came(start + each, b"s" * 16, start + each) for each in range(count)]

    def test_a_dummy_waits_for_the_other_cells_of_its_tick(self):
        together = parties._Together({1: 2})
        dummy, part = self.cells(2)
        together.add(1, 0, dummy)
        assert together.over(1, [dummy]) == []
        together.add(1, 0, part)
        assert together.over(1, [part]) == [dummy, part]

    def test_a_message_in_parts_shows_no_other_than_dummies(self):
        together = parties._Together({1: 2})
        first, second = self.cells(2)
        together.add(1, 0, first)
        assert together.over(1, []) == []
        together.add(1, 0, second)
        assert together.over(1, [first, second]) == [first, second]

    def test_ticks_are_apart_and_single_cells_are_free(self):
        together = parties._Together({1: 2, 2: 1})
        early, late, other = self.cells(3)
        together.add(1, 0, early)
        together.add(1, 1, late)
        assert together.over(1, [early]) == []
        assert together.over(1, [late]) == []
        together.add(2, 0, other)
        assert together.over(2, [other]) == [other]
        assert together.over(9, [other]) == [other]
