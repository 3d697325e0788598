"""Order-private shuffles with real keys, a shuffler of its own, processes that die, and a hub."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from incrowd.graphs import families
from incrowd.live import cells
from incrowd.live.cells import CELL, DATA
from incrowd.live.journal import Journal
from incrowd.live.links import HpkeSealer
from incrowd.live.options import LiveOptions
from incrowd.live.party import Party
from incrowd.live.run import run_live
from incrowd.live.service import JOURNAL_FILE
from incrowd.live.transports.memory import MemoryNetwork
from incrowd.protocols.order_shuffle import OrderShuffle
from incrowd.protocols.order_shuffle.messages import PlacedBatch
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.runtime.outputs import unpack_output
from incrowd.randomizers import KRR
from incrowd.tasks import Placed, Release
from incrowd.tasks.release import MOST_GROUP_TEXT
from tests.live.chaos_world import DELTA, Doom, Stage, assert_exactly_once, staged, truthful
from tests.live.crowds import until
from tests.live.overheard import overhear_shuffle
from tests.live.played import CONTEXT, QUICK, SURVEY, Cast, Host, make_keys
from tests.live.worlds import LiveHub
from tests.sim.order_played import law, own, p_value

NUMBERS = tuple(map(str, range(12)))


def assert_forgotten(row: Any, people: int) -> None:
    """A shuffler's row in its journal has who came, and nothing of what they said or where."""
    assert row.number == cells.number(SHUFFLER)
    assert row.state is not None
    (_, [(ids, payloads, closed)]), (pending, *_) = msgspec.msgpack.decode(row.state)
    assert closed
    assert len(ids) == people
    assert {len(each) for each in ids.values()} <= {16}
    assert payloads == pending == {}
    assert msgspec.msgpack.decode(row.queue, strict=False) == {}
    assert row.output == msgspec.msgpack.encode(None)


# Real keys, links and journals, in one process.


class Line(Cast):
    """A cast of people who all share one group, with a stream of random numbers for each life."""

    def __init__(self, keys: Path, protocol: OrderShuffle) -> None:
        super().__init__(keys, "shuffle", protocol.n)
        self.protocol = protocol
        self.stream: Callable[..., np.random.Generator] = np.random.default_rng

    def party(self, address: str, **options: Any) -> Party:
        number = cells.number(address)
        seat = ActorContext(
            generator=lambda *_: self.stream(number),
            value=np.array([number]) if number < self.people else None,
            sealer=HpkeSealer(number, self.keys[address], SURVEY, CONTEXT, self.records),
            timing=Timing(backoff=QUICK),
        )
        return Party(
            address, SURVEY, lambda: self.protocol.actor(address, seat), self.links(address),
            origin=self.origin, round_seconds=1.0, **options,
        )  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("order-keys")
    make_keys(directory, "shuffle", 3)
    return directory


def released(party: Party) -> Placed:
    assert party.output is not None
    return unpack_output(party.output, Placed)


def test_the_law_is_the_mallows_law(keys, tmp_path):
    """Pearson's test, at the level 0.001, accepts the exact law and tells it from others."""
    order = [1, 0, 2]
    cast = Line(keys, own(3, [[0, 1, 2]], order=order, theta=1.0))
    seen: Counter[Any] = Counter()

    async def main(run: int) -> None:
        cast.stream = lambda number: np.random.default_rng([run, number])
        host = Host(cast, MemoryNetwork(), tmp_path / f"{run}.db")
        await host.start()
        try:
            await asyncio.wait_for(host.player.finished(), 60.0)
            found = released(host.parties[CURATOR])
            assert found.who.tolist() == [0, 1, 2]
            seen[tuple(found.pooled().tolist())] += 1
            (row,) = (
                each for each in host.journal.parties() if each.number == cells.number(SHUFFLER)
            )
            assert_forgotten(row, 3)
        finally:
            await host.stop()

    for run in range(80):
        asyncio.run(main(run))
    assert p_value(seen, law(order, 1.0)) > 1e-3
    for other in (law(order, 0.0), law(order, 3.0), law([0, 2, 1], 1.0)):
        assert p_value(seen, other) < 1e-4


def test_a_shuffler_that_starts_again_repeats_its_batch_and_draws_nothing(keys, tmp_path):
    """The curator comes only after the shuffler, which had sent everything, has died."""
    cast = Line(keys, own(3, [[0, 1, 2]], alpha=0.0))
    people = [each for each in cast.addresses if each.startswith("device")]
    number = cells.number(SHUFFLER)

    def batch_of(journal: Journal) -> bytes | None:
        for row in journal.parties():
            if row.number == number and row.state is not None:
                pending = msgspec.msgpack.decode(row.state, strict=False)[1][0]
                return pending[0][1] if pending else None
        return None

    async def main() -> None:
        network = MemoryNetwork()
        devices = await Host(cast, network, tmp_path / "devices.db", people).start()
        first = await Host(cast, network, tmp_path / "shuffler.db", [SHUFFLER]).start()
        await until(lambda: batch_of(first.journal) is not None)
        sent = batch_of(first.journal)
        await first.abandon()

        def never(number: int) -> np.random.Generator:
            raise AssertionError("a shuffle is drawn twice")

        cast.stream = never
        second = await Host(cast, network, tmp_path / "shuffler.db", [SHUFFLER]).start()
        assert batch_of(second.journal) == sent
        curator = await Host(cast, network, tmp_path / "curator.db", [CURATOR]).start()
        try:
            for host in (curator, second, devices):
                await asyncio.wait_for(host.player.finished(), 60.0)
            assert sent is not None
            _, who, _, payloads = msgspec.msgpack.decode(sent)
            sealer = HpkeSealer(
                cells.number(CURATOR), cast.keys[CURATOR], SURVEY, CONTEXT, cast.records
            )
            found = released(curator.parties[CURATOR])
            assert found.who.tolist() == who == [0, 1, 2]
            assert found.pooled().tolist() == [sealer.open(each)[0] for each in payloads]
            assert second.player.failures == {}
            (row,) = second.journal.parties()
            assert_forgotten(row, 3)
            for payload in payloads:
                assert payload not in (row.state or b"") + row.queue + row.links
        finally:
            for host in (curator, second, devices):
                await host.stop()

    asyncio.run(main())


# The whole survey on one machine, as `incrowd run --engine live` does it.


def asked(kind: str, people: int) -> tuple[OrderShuffle, Any, Any]:
    """People in a line, twelve different answers, and places of a kind."""
    randomizer = KRR(categories=12, epsilon=30.0)
    if kind == "people":
        task = Release(categories=NUMBERS, complete=True)
        rows = [[str(each % 12)] for each in range(people)]
        return OrderShuffle(randomizer, alpha=2.0, graph=families.ring(people)), task, rows
    if kind == "points":
        task = Release(categories=NUMBERS, coordinates=("x", "y"), complete=True)
        rows = [[str(each % 12), str(float(each)), "0.5"] for each in range(people)]
        return OrderShuffle(randomizer, n=people, alpha=2.0, radius=1.0, exact=True), task, rows
    task = Release(categories=NUMBERS, groups="near", complete=True)
    rows = [[str(each % 12), f"g{each // 3}"] for each in range(people)]
    return OrderShuffle(randomizer, n=people, alpha=2.0, distance="hamming"), task, rows


def lived(kind: str, people: int, folder: Path, hosts: int = 1, **options: Any) -> tuple[Any, Any]:
    """A live run, of which the files are kept, and the simulation of the same survey."""
    protocol, task, cells_ = asked(kind, people)
    values = task.rows(cells_)
    run = run_live(
        protocol, values, task, delta=DELTA, hosts=hosts, keep=folder,
        options=LiveOptions(**{"round_seconds": 2.0} | options),
    )  # fmt: skip
    simulated = protocol.simulate(values, task=task, seed=1)
    found, due = run.collected, simulated.collected
    np.testing.assert_array_equal(found.who, due.who)
    np.testing.assert_array_equal(found.at, due.at)
    assert sorted(found.pooled().tolist()) == sorted(due.pooled().tolist())
    assert (found.pooled().dtype, found.sent) == (due.pooled().dtype, people)
    assert found.groups == due.groups
    np.testing.assert_array_equal(
        *(np.zeros(0) if each.points is None else each.points for each in (found, due))
    )
    np.testing.assert_array_equal(run.result.value, simulated.result.value)
    assert [row[:-1] for row in run.result.rows] == [row[:-1] for row in simulated.result.rows]
    assert run.cost == simulated.cost
    assert run.live.rejected == {}
    with Journal(folder / f"{SHUFFLER}-state" / JOURNAL_FILE, readonly=True) as journal:
        (row,) = journal.parties()
    assert_forgotten(row, people)
    return run, simulated


@pytest.mark.parametrize(
    "kind",
    [
        "points",
        pytest.param("groups", marks=pytest.mark.slow),
        pytest.param("people", marks=pytest.mark.slow),
    ],
)
def test_a_live_run_is_the_one_that_was_simulated(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run, simulated = lived(kind, 12, tmp_path / "kept")
    assert len(run.guarantees) == len(simulated.guarantees)
    for given, due in zip(run.guarantees, simulated.guarantees, strict=True):
        assert (given.view, given.theorem, given.notion, given.digest) == (
            due.view,
            due.theorem,
            due.notion,
            due.digest,
        )
        assert given.epsilon(DELTA) == due.epsilon(DELTA)
    (promised,) = (
        each for each in run.guarantees if each.notion == "order" and each.view == {"curator"}
    )
    assert promised.alpha <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["points", "people"])
@pytest.mark.parametrize("cover", [False, True])
def test_three_hundred_people(tmp_path, monkeypatch, kind, cover):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run, _ = lived(
        kind, 300, tmp_path / "kept", hosts=2, cover=cover, timeout=300.0, round_seconds=10.0
    )
    assert run.collected.received == 300


def test_the_batch_of_thousands_with_long_names_is_one_message():
    """What 5,000 people with the longest names make of a batch is well within a message."""
    people, longest = 5000, "\U0010ffff" * MOST_GROUP_TEXT
    batch = PlacedBatch(list(range(people)), [longest] * people, [bytes(64)] * people)
    assert len(wire.encode(batch)) < cells.MESSAGE_LIMIT / 3


# What the hub sees.

PEOPLE = 4
NAMES = ["a", "a; b", "b" * MOST_GROUP_TEXT, "\U0010ffff" * (MOST_GROUP_TEXT - 3) + "; a"]
"""Groups of all lengths; the last takes hundreds of bytes more than the first."""
QUESTION = Release(categories=("no", "yes"), groups="street", complete=True)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("order-hub"))
    yield hub
    hub.stop()


async def transcripts(hub: LiveHub, folder: Path, answers: Sequence[str]) -> tuple[list[Any], Any]:
    """What the hub sees of each device, and what was collected, under cover."""
    protocol = OrderShuffle(KRR(categories=2, epsilon=1.0), n=PEOPLE, alpha=1.0)
    said = [
        {"cycles": answer, "street": names} for answer, names in zip(answers, NAMES, strict=True)
    ]
    heard, collected = await overhear_shuffle(hub, folder, protocol, QUESTION, said)
    return [each.unsigned for each in heard], collected


def test_under_cover_neither_answers_nor_places_show(hub, tmp_path):
    async def main() -> list[Any]:
        return await asyncio.gather(
            transcripts(hub, tmp_path / "no", ["no"] * PEOPLE),
            transcripts(hub, tmp_path / "mixed", ["yes", "no", "no", "yes"]),
        )

    (one, found), (other, again) = asyncio.run(main())
    assert found.groups == again.groups == tuple(NAMES)
    assert one == other
    # Everybody sends the same, however long their names: two cells in each of three ticks.
    assert all(each == one[0] for each in one)
    sent = [count for (kind, *_), count in sorted(one[0].items()) if kind == DATA]
    assert sent == [2, 2, 2]
    assert {size for *_, size in one[0]} == {CELL}


# Kills.


def ring(people: int) -> OrderShuffle:
    """Everybody's number, in groups of three neighbours on a ring."""
    return OrderShuffle(truthful(people), alpha=1.0, graph=families.ring(people))


def assert_released(stage: Stage, outcome: Any) -> None:
    """Everybody is in the table once, with a promise for all, and the shuffler has forgotten."""
    assert_exactly_once(stage, outcome)
    found = outcome.run.collected
    assert found.who.tolist() == found.at.tolist() == list(range(stage.n))
    stated = {each.view_name: each for each in outcome.run.guarantees if each.notion == "order"}
    due = stage.protocol.order_guarantee()
    assert (stated["curator"].alpha, stated["curator"].digest) == (due.alpha, due.digest)
    assert_forgotten(stage.helper_row(SHUFFLER), stage.n)


async def _killed(folder: Path, dooms: dict[str, list[Doom]], people: int = 5) -> None:
    async with staged(folder, ring(people), hosts=1, dooms=dooms) as stage:
        outcome = await stage.ask(shortest=1.0)
    assert_released(stage, outcome)


def test_a_shuffler_that_is_killed_loses_and_doubles_nothing(tmp_path):
    """It dies right after one of its first commits."""
    asyncio.run(_killed(tmp_path, {SHUFFLER: [Doom("after", 2)]}))


@pytest.mark.slow
def test_a_shuffler_that_comes_back_late_repeats_its_batch_and_all_is_delivered(tmp_path):
    """It dies with the answer in hand, and the curator has its result long before it is back."""

    async def survey() -> None:
        dooms = {SHUFFLER: [Doom("done", 1)]}
        async with staged(tmp_path, ring(5), hosts=1, dooms=dooms) as stage:
            (victim,) = stage.helpers
            victim.pause = lambda: stage.started.result().offer.spec.timing.backoff.first
            outcome = await stage.ask(shortest=1.0)
        assert victim.deaths == 1
        assert_released(stage, outcome)

    asyncio.run(survey())


@pytest.mark.slow
@pytest.mark.parametrize("commit", range(1, 9))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("victim", ["host 0", SHUFFLER])
def test_a_process_may_die_at_any_commit(tmp_path, victim, when, commit):
    asyncio.run(_killed(tmp_path, {victim: [Doom(when, commit)]}))
