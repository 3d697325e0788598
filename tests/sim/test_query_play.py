"""Scrambled queries in which messages are lost, doubled and late, and parties crash or die."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incrowd.errors import ProtocolFailed
from incrowd.protocols.run import conclude, make_actors
from incrowd.protocols.runtime.actor import CURATOR, Send, device
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.protocols.scrambled_query import messages as wired
from incrowd.protocols.scrambled_query.roles import compute, curator, scrambler, source
from incrowd.protocols.scrambled_query.topology import Places, deadlines
from incrowd.randomness import Seeds
from incrowd.sim import Faults
from tests.sim.query_played import (
    PARCEL,
    SETS,
    TIMING,
    Desk,
    Queried,
    assert_folded,
    check,
    exact,
    own,
    tuples,
    without,
)
from tests.sim.schedules import schedules

TROUBLE = Faults(loss=0.2, duplicate=0.3, reorder=0.5, crash=0.05, outages=60.0, downtime=1.0)

common = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def asked(**parameters):
    given = {"targets": 3, "n": 20, "sources": 7, "dummies": 3} | parameters
    if given.get("hiding") == "local":
        given["sources"] = 0
        given["dummies"] = 1
    return ScrambledQuery(query=SETS, **given)


# The exact answer, whatever the network does.


@pytest.mark.parametrize("mode", ["scrambler", "capped", "local"])
@pytest.mark.parametrize("faults", [None, TROUBLE])
def test_play_without_sampling_gives_exact_answer(mode, faults):
    protocol = asked(hiding=mode)
    for seed in range(2):
        queried = Queried(protocol, seed, faults)
        found = queried.found
        assert queried.played.finished
        assert found.present == (20,) * 3
        assert found.kept == (1.0,) * 3
        assert found.sent == 60
        assert not any(map(len, found.lost))
        for index in range(3):
            assert_folded(found.folded[index], exact(SETS, queried.values, index))
    if faults is None:
        assert queried.played.statistics.duration < TIMING.timeout / 2


def test_play_with_one_set_each_counts_people_in_that_set():
    protocol = asked(sets_per_person="one")
    queried = Queried(protocol, 1, TROUBLE)
    places = Places.of(protocol)
    assert queried.found.sent == 20
    assert queried.found.present == (20,) * 3
    for index in range(3):
        people = places.answering(index)
        assert queried.found.kept[index] == pytest.approx(len(people) / 20)
        due = exact(SETS, queried.values[people], index)
        assert_folded(queried.found.folded[index], due)
    assert sum(len(places.answering(index)) for index in range(3)) == 20


def test_all_actors_finish_within_duration():
    protocol = own(standby_scramblers=2)
    everything = [(), ("scrambler/0",), ("compute/1",), ("scrambler/0", "scrambler/1", "spare/0")]
    for gone in everything:
        queried = Queried(protocol, 1, change=without(*gone, device(3)))
        assert queried.played.finished
        assert queried.played.statistics.duration <= protocol.duration(TIMING)


@common
@given(faults=schedules(0.6), seed=st.integers(0, 2**32), mode=st.sampled_from(["mix", "local"]))
def test_faults_never_count_anyone_twice(faults, seed, mode):
    options = (
        {"hiding": "local", "sources": 0, "standby_scramblers": 0, "dummies": 1}
        if mode == "local"
        else {}
    )
    queried = Queried(own(**options), seed, faults)
    assert queried.played.finished
    check(queried.protocol, queried.found, 12)


@settings(common, max_examples=25)
@given(faults=schedules(0.3), seed=st.integers(0, 2**32))
def test_replaced_scramblers_never_count_anyone_twice(faults, seed):
    faults = msgspec.structs.replace(faults, downtime=100.0)
    queried = Queried(
        own(standby_scramblers=2), seed, faults, change=without(f"scrambler/{seed % 2}")
    )
    assert queried.played.finished
    check(queried.protocol, queried.found, 12)


# A crash in any call.


def _crashes(protocol, victim):
    calm = Desk(make_actors(protocol, tuples(protocol), Seeds(5), timing=TIMING)).run()
    for call in range(1, calm.calls[victim] + 1):
        for when in ("before", "after"):
            yield victim, call, when


@pytest.mark.parametrize("mode", ["scrambler", "local"])
@pytest.mark.parametrize("victim", ["device/2", "scrambler/1", "compute/1", CURATOR])
def test_crash_in_any_call_changes_nothing(mode, victim):
    if mode == "local":
        protocol = own(6, hiding="local", sources=0, standby_scramblers=0, dummies=1)
        if victim.startswith("scrambler"):
            return
    else:
        protocol = own(6)
    crashes = list(_crashes(protocol, victim))
    assert len(crashes) >= 4
    for crash in crashes:
        desk = Desk(make_actors(protocol, tuples(protocol), Seeds(5), timing=TIMING), crash).run()
        assert desk.found.folded[0].count.tolist() == [1] * 6, crash
        assert desk.found.present == (6,), crash
        if mode == "scrambler":
            assert desk.found.traffic[0].sum(axis=1).tolist() == [7, 7], crash


@pytest.mark.parametrize("victim", ["device/2", "spare/0", CURATOR])
def test_crash_during_takeover_changes_nothing(victim):
    protocol = own(6)

    def makers():
        return without("scrambler/0")(
            make_actors(protocol, tuples(protocol), Seeds(5), timing=TIMING)
        )

    calm = Desk(makers()).run()
    for call in range(1, calm.calls[victim] + 1):
        for when in ("before", "after"):
            desk = Desk(makers(), (victim, call, when)).run()
            assert desk.found.folded[0].count.tolist() == [1] * 6, (call, when)


# Who dies.


def test_dead_scrambler_is_replaced_without_loss():
    for seed in range(5):
        queried = Queried(own(), seed, TROUBLE, change=without("scrambler/0"))
        assert check(queried.protocol, queried.found, 12) == 12
        assert queried.found.traffic[0].sum(axis=1).tolist() == [10, 10]
        # Everybody of the group is told, whoever had got through, and nobody else.
        diverted = {to for to, _ in queried.bodies(CURATOR, wired.Divert)}
        assert diverted == {device(each) for each in range(0, 12, 2)}


def test_diverted_people_send_same_bytes_to_spare():
    """Also those whose message the first scrambler had accepted before it died."""

    def mute(sender, send):
        return sender == "scrambler/0" and send.to == CURATOR

    protocol = own()
    sent: dict[str, set[bytes]] = {}

    def held(sender, send):
        if send.to in ("scrambler/0", "spare/0") and sender.startswith("device"):
            sent.setdefault(sender, set()).add(send.body)
        return mute(sender, send)

    makers = make_actors(protocol, tuples(protocol), Seeds(1), timing=TIMING)
    desk = Desk(makers, held=held).run()
    assert desk.found.present == (12,)
    assert len(sent) == 6
    assert all(len(bodies) == 1 for bodies in sent.values())


def test_dead_spare_is_passed_over():
    gone = without("scrambler/0", "spare/0")
    assert (
        check(
            own(standby_scramblers=2), Queried(own(standby_scramblers=2), 1, change=gone).found, 12
        )
        == 12
    )
    assert (
        check(
            own(standby_scramblers=1), Queried(own(standby_scramblers=1), 1, change=gone).found, 12
        )
        == 6
    )


def test_dead_scrambler_without_spares_makes_group_absent():
    queried = Queried(own(standby_scramblers=0), 1, change=without("scrambler/1"))
    assert check(queried.protocol, queried.found, 12) == 6
    assert queried.found.folded[0].count.tolist() == [1, 0] * 6
    assert queried.found.traffic[0].sum(axis=1).tolist() == [10, 0]


def test_scrambler_death_after_grant_makes_group_absent():
    """Also in the cells of compute nodes that its parcels had reached, and no spare gets it."""
    arrived = []

    def held(sender, send):
        if sender != "scrambler/0" or not send.to.startswith("compute"):
            return False
        if send.to == "compute/0":
            arrived.append(len(PARCEL.decode(send.body).records))
        return send.to != "compute/0"

    protocol = own()
    desk = Desk(make_actors(protocol, tuples(protocol), Seeds(1), timing=TIMING), held=held).run()
    assert arrived[0] > 0
    assert check(protocol, desk.found, 12) == 6
    assert desk.found.folded[0].count.tolist() == [0, 1] * 6
    assert msgspec.msgpack.decode(desk.actors["spare/0"].state())[0] == scrambler._IDLE


class Away:
    """A scrambler whose questions are lost until a spare has taken over."""

    def __init__(self, protocol):
        self.protocol, self.answers = protocol, set()
        makers = make_actors(protocol, tuples(protocol), Seeds(1), timing=TIMING)
        self.desk = Desk(makers, held=self.held)
        self.desk.run(protocol.duration(TIMING))

    def held(self, sender, send):
        if (sender, send.to) == (CURATOR, "scrambler/0"):
            self.answers.add(msgspec.msgpack.decode(send.body)[0])
        early = self.desk.now <= deadlines(TIMING).replaced
        return (sender, send.to) == ("scrambler/0", CURATOR) and early


def test_returning_scrambler_has_lost_group_and_forgets_it():
    away = Away(own())
    assert away.answers == {"lost"}
    assert check(away.protocol, away.desk.found, 12) == 12
    assert away.desk.actors["scrambler/0"]._state.held == []
    assert len(away.desk.actors["scrambler/0"]._outbox) == 0


def test_late_people_are_replaced_by_dummies():
    for gone in (1, 5, 6):
        away = without(*(device(2 * each) for each in range(gone)))
        queried = Queried(own(), gone, change=away)
        assert check(queried.protocol, queried.found, 12) == 12 - gone
        assert queried.found.traffic[0].sum(axis=1).tolist() == [10, 10]


def test_dead_compute_node_leaves_cells_unknown():
    for options in ({}, {"hiding": "local", "sources": 0, "standby_scramblers": 0, "dummies": 2}):
        queried = Queried(own(**options), 1, change=without("compute/1"))
        check(queried.protocol, queried.found, 12)
        assert queried.found.lost[0].tolist() == [4, 5, 6, 7]
        assert queried.found.folded[0].count.tolist() == [1] * 4 + [0] * 4 + [1] * 4
        assert queried.found.present == (12,)
        answer = queried.protocol.asked.estimate(queried.found, queried.protocol.randomizer)
        assert answer.lost == (4,)
        assert [row.cell for row in answer.rows] == [0, 1, 2, 3, 8, 9, 10, 11]


def test_conclude_without_messages_fails():
    protocol = own()
    everybody = without(*(device(each) for each in range(12)))
    nodes = without(*(f"compute/{each}" for each in range(3)))
    for change in (everybody, nodes):
        found = Queried(protocol, 1, change=change).found
        assert found.present == (0,)
        with pytest.raises(ProtocolFailed, match="came through"):
            conclude(protocol, found, protocol.asked, 1)


class TestBites:
    """Each of these breaks a party on purpose, and the checks above must notice."""

    def test_checks_detect_curator_granting_twice(self, monkeypatch):
        """Compute nodes take a group once, and a record once; all three together keep it so."""

        def generous(self, sender, asked, now):
            cluster = self._state.clusters[asked.cluster]
            cluster.granted, cluster.present = True, asked.present
            granted = msgspec.msgpack.encode(wired.Granted(asked.cluster))
            return [Send(sender, granted), *self._go_on(now)]

        def greedy(self, message, now):
            parcel = PARCEL.decode(message.body)
            _, group = self._places.set_and_group(parcel.cluster)
            before = self._state.came.get(group)
            self._take(group, b"", [*(before.records if before else ()), *parcel.records])
            # It waits for all groups, so that a late scrambler can come too.
            return [Send(message.sender, msgspec.msgpack.encode(wired.Stored(parcel.cluster)))]

        monkeypatch.setattr(curator.Curator, "_asked", generous)
        away = Away(own())
        assert away.answers == {"granted"}
        assert check(away.protocol, away.desk.found, 12) == 12
        monkeypatch.setattr(compute.Compute, "_parcel", greedy)
        assert Away(own()).desk.found.folded[0].count.tolist() == [1] * 12
        monkeypatch.setattr(wired.RecordFormat, "tuples", _every_time)
        assert Away(own()).desk.found.folded[0].count.tolist() == [2, 1] * 6

    def test_checks_detect_source_drawing_again_after_crash(self, monkeypatch):
        honest = source.Source.resume

        def resume(self, state):
            honest(self, state)
            self._state.posts = []
            self.start(0.0)

        monkeypatch.setattr(source.Source, "resume", resume)
        monkeypatch.setattr(scrambler.Intake, "take", _take_all)
        failures = 0
        for seed in range(12):
            queried = Queried(own(), seed, Faults(crash=0.3))
            try:
                check(queried.protocol, queried.found, 12)
            except AssertionError:
                failures += 1
        assert failures > 0

    def test_checks_detect_groups_counted_where_incomplete(self, monkeypatch):
        """Half a group shows as fewer tuples than people."""

        def units(self, index, late):
            del index
            return set(range(self._places.groups)) if late else None

        def ask(self, node, now):
            address = self._places.compute(*self._places.target_of(node))
            fold = msgspec.msgpack.encode(wired.Fold(self._state.counted[0]))
            return [self._outbox.put(curator._key(curator._FOLD, node), address, fold, now)]

        def held(sender, send):
            return (sender, send.to) == ("scrambler/0", "compute/1")

        monkeypatch.setattr(curator.Curator, "_units", units)
        monkeypatch.setattr(curator.Curator, "_ask_for", ask)
        protocol = own()
        desk = Desk(
            make_actors(protocol, tuples(protocol), Seeds(1), timing=TIMING), held=held
        ).run()
        with pytest.raises(AssertionError):
            check(protocol, desk.found, 12)


def _every_time(self, records, first, last):
    """All records, however often they came."""
    cells = [int.from_bytes(record[1:5], "little") for record in records if record[0] == 1]
    here = np.array([each for each in cells if first <= each < last], np.int64)
    return here, np.empty(len(here), self.query.measure_dtype)


def _take_all(self, sender, report):
    """Every report, also another one of the same person."""
    into = self._rounds[report.round]
    if not into.closed:
        key = f"{sender}{len(into.ids)}" if sender in into.ids else sender
        into.ids[key] = report.id
        into.payloads[key] = report.payload
    return report.id in into.ids.values()
