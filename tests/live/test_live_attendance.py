"""Devices that vanish in the middle of a walk: the hub's record of them, and what a run states."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from incrowd.errors import HubRefused
from incrowd.live.curator import Curator
from incrowd.live.hub.board import Survey
from incrowd.live.hub.closing import sign_close
from incrowd.live.hub.presence import Presence
from incrowd.live.store import ConnectionRow
from incrowd.protocols.network_shuffle.theorems.attendance import AWAY, ON, UNKNOWN
from tests.live.crowds import DELTA, crowd, until, walk
from tests.live.worlds import LiveHub

PEOPLE, ROUNDS, GONE = 24, 6, 5


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("attendance-hub"))
    yield hub
    hub.stop()


@pytest.fixture
def play(hub, tmp_path):
    """A survey of which one device vanishes after two rounds."""

    async def played():
        async with crowd(hub, tmp_path, PEOPLE) as world:
            others = [each for each in range(PEOPLE) if each != GONE]
            await world.process("others", others)
            alone = await world.process("alone", [GONE])
            proposal = await world.offered(
                protocol=walk(PEOPLE, ROUNDS), grace_rounds=10, round_seconds=0.8
            )
            started = await world.start(proposal)
            running = asyncio.ensure_future(world.curator.receive(started))
            clock = world.host.clocks
            await until(lambda: clock.now(proposal.survey) > started.start.at + 2.2 * 0.8)
            world.processes.remove(alone)
            await alone.close()
            run = await running
            _, again = await world.curator.result(proposal.survey)
            return started, run, again

    return lambda: asyncio.run(played())


def test_run_when_a_device_vanishes_states_what_the_hub_knows_of_it(play):
    started, run, again = play()
    planned = started.protocol.guarantee().epsilon(DELTA)
    stated = run.guarantees[0].epsilon(DELTA)
    table = run.collected.attendance
    assert run.collected.silent.tolist() == [each == GONE for each in range(PEOPLE)]
    assert not (table == UNKNOWN).any()
    assert table[0, GONE] == ON
    # The hub's clock goes on while a busy machine holds the crowd's up, so that it may see the end
    # some windows later; the record ends well before the hand-in all the same.
    assert (table[-4:, GONE] == AWAY).all()
    assert planned < stated < 0.6
    assert any("(N)" in named for named in run.guarantees[0].assumptions)
    assert again.guarantees[0].epsilon(DELTA) == stated
    assert np.array_equal(again.collected.attendance, table)


@pytest.mark.parametrize("transport", ["direct", "nats"])
def test_connections_where_cells_pass_the_hub_by_are_not_asked_for(transport):
    """A device without a connection to the hub still reaches the others there."""
    spec = SimpleNamespace(transport=transport)
    started = SimpleNamespace(offer=SimpleNamespace(spec=spec))
    assert asyncio.run(Curator._connections(SimpleNamespace(), started)) is None


def test_connections_are_told_to_the_curator_of_a_closed_survey_only(hub, tmp_path):
    async def ask():
        async with crowd(hub, tmp_path, 3) as world:
            await world.process("all", range(3))
            proposal = await world.offered()
            started = await world.start(proposal)
            client, survey = world.host.hub, proposal.survey
            body = world.curator._signed_close(survey)
            with pytest.raises(HubRefused, match="not closed"):
                await client.connections(survey, body)
            await world.conclude(started)
            stranger = sign_close(started.offer.digest, world.keys[0].identity)
            with pytest.raises(HubRefused, match="403"):
                await client.connections(survey, stranger)
            return started, await client.connections(survey, body)

    started, found = asyncio.run(ask())
    assert sorted(found) == ["device/0", "device/1", "device/2"]
    for (span,) in found.values():
        assert span.begin < started.start.at < span.heard
        assert span.end is None


def test_presence_keeps_what_could_not_be_written():
    presence, one, two = Presence(), object(), object()
    presence.enter(one, b"a")

    def write():
        with presence.writing() as rows:
            raise OSError(rows)

    with pytest.raises(OSError, match="ConnectionRow"):
        write()
    presence.enter(two, b"b")
    presence.leave(one)
    with presence.writing() as rows:
        assert [(row.identity, row.ended is None) for row in rows] == [(b"a", False), (b"b", True)]
    with presence.writing() as rows:
        assert rows == []


def test_presence_of_a_connection_without_an_end_goes_on(monkeypatch):
    """Of one that another hub left open only its begin is known."""
    monkeypatch.setattr(Survey, "__init__", lambda self: None)
    survey = Survey()
    survey.helpers, survey.places, survey._slots = {}, {b"a": 7, b"out": 8}, {7: 0}
    rows = [
        ConnectionRow(b"1", b"a", 3.0, 3.0, None),
        ConnectionRow(b"2", b"stranger", 3.0, 3.0, None),
        ConnectionRow(b"3", b"out", 3.0, 3.0, None),
    ]
    (spans,) = Presence().spans(survey, rows).values()
    assert [(each.begin, each.heard, each.end) for each in spans] == [(3.0, 3.0, None)]
