"""The event loop, with parties small enough to predict."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest

from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.protocols.runtime.actor import Actor, Done, Message, Send, Wake
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play


class Counter(Actor):
    """Counts distinct numbers it was sent, answers each, and is done after ``total`` of them."""

    def __init__(self, total, log=None):
        self.total, self.seen, self.log = total, set(), log

    def start(self, now):
        return []

    def receive(self, message, now):
        if self.log is not None:
            self.log.append((now, message.body))
        self.seen.add(int(message.body))
        effects = [Send(message.sender, message.body)]
        if len(self.seen) == self.total:
            effects.append(Done(sorted(self.seen)))
        return effects

    def wake(self, now):
        return []

    def state(self):
        return ",".join(map(str, sorted(self.seen))).encode()

    def resume(self, state):
        self.seen = {int(part) for part in state.split(b",") if part}


class Sender(Actor):
    """Sends one number every second until it is answered."""

    def __init__(self, number, to="counter"):
        self.number, self.to, self.sent = number, to, 0

    def start(self, now):
        return self.wake(now)

    def receive(self, message, now):
        return [Done(self.sent)]

    def wake(self, now):
        self.sent += 1
        return [Send(self.to, str(self.number).encode()), Wake(now + 1)]

    def state(self):
        return str(self.sent).encode()

    def resume(self, state):
        self.sent = int(state)


def cast(people=20, log=None):
    makers = {f"device/{person}": partial(Sender, person) for person in range(people)}
    makers["counter"] = partial(Counter, people, log)
    return makers


def test_play_without_faults_delivers_everything():
    played = play(cast(), Seeds(1))
    assert played.finished
    assert played.outputs["counter"] == list(range(20))
    stats = played.statistics
    assert (stats.sent, stats.delivered, stats.lost, stats.crashes) == (40, 40, 0, 0)
    assert played.traffic["device/3"].messages == 1
    assert played.traffic["device/13"].bytes == 2


@pytest.mark.parametrize("spread", ["constant", "exponential", "heavy"])
@pytest.mark.parametrize("seed", range(3))
def test_play_with_all_faults_finishes(seed, spread):
    faults = Faults(loss=0.4, duplicate=0.4, reorder=0.4, crash=0.2, delay_law=spread)
    played = play(cast(), Seeds(seed), faults)
    assert played.finished
    assert played.outputs["counter"] == list(range(20))
    stats = played.statistics
    assert min(stats.lost, stats.duplicated, stats.crashes) > 0
    assert stats.delivered + stats.lost <= stats.sent + stats.duplicated


def test_play_repeats_with_seed_and_differs_by_seed():
    faults = Faults(loss=0.3, duplicate=0.3, crash=0.1)
    first, again, other = (play(cast(), Seeds(seed), faults) for seed in (1, 1, 2))
    assert (first.statistics, first.traffic) == (again.statistics, again.traffic)
    assert first.statistics != other.statistics


def test_constant_delays_keep_order_and_reorder_breaks_it():
    def order(**faults):
        log = []
        play(cast(log=log), Seeds(3), Faults(delay_law="constant", **faults))
        return [int(body) for _, body in log]

    assert order() == list(range(20))
    assert order(reorder=1.0) != list(range(20))


def test_travel_has_stated_mean_delay():
    rng = np.random.default_rng(0)
    for spread, tolerance in (("constant", 1e-12), ("exponential", 0.01), ("heavy", 0.2)):
        faults = Faults(delay=0.2, delay_law=spread)
        mean = np.mean([faults.travel(rng) for _ in range(20_000)])
        assert mean == pytest.approx(0.2, abs=tolerance)


def test_play_loses_stated_share_of_messages():
    played = play(cast(200), Seeds(1), Faults(loss=0.3))
    stats = played.statistics
    deviation = np.sqrt(stats.sent * 0.3 * 0.7)
    assert stats.lost == pytest.approx(0.3 * stats.sent, abs=4 * deviation)


def test_play_stops_when_time_is_up():
    played = play(cast(), Seeds(1), Faults(loss=1.0), until=10.5)
    assert not played.finished
    assert played.outputs == {}
    assert played.statistics.duration <= 10.5
    assert played.statistics.sent == 20 * 11


def test_play_stops_without_further_events():
    played = play({"counter": partial(Counter, 1)}, Seeds(1))
    assert not played.finished


def test_dropout_affects_devices_only():
    played = play(cast(), Seeds(1), Faults(dropout=1.0))
    assert played.statistics.absent == 20
    assert list(played.traffic) == ["counter"]


def test_messages_to_unknown_address_are_lost():
    played = play({"device/0": partial(Sender, 0, "nobody")}, Seeds(1), until=5)
    assert played.statistics.lost == played.statistics.sent > 0


def test_play_reports_progress():
    seen = []
    play(cast(3), Seeds(1), progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


class Alarm(Actor):
    """Sets two alarms; only the later one may ring."""

    def __init__(self, rung):
        self.rung = rung

    def start(self, now):
        return [Wake(5), Wake(9)]

    def receive(self, message, now):
        return []

    def wake(self, now):
        self.rung.append(now)
        return [Done()]

    def state(self):
        return b""

    def resume(self, state):
        pass


def test_later_alarm_replaces_earlier_one():
    rung = []
    assert play({"a": partial(Alarm, rung)}, Seeds(0)).finished
    assert rung == [9]


@pytest.mark.parametrize("seed", range(10))
def test_alarm_survives_crashes(seed):
    rung = []
    assert play({"a": partial(Alarm, rung)}, Seeds(seed), Faults(crash=0.7)).finished
    assert rung
    assert min(rung) >= 9


class Restless(Alarm):
    """Asks for the past again and again."""

    def wake(self, now):
        return [Wake(now - 1)]


def test_repeated_wake_at_one_instant_raises():
    with pytest.raises(ProtocolFailed, match="a asks to be woken at 9 s again"):
        play({"a": partial(Restless, [])}, Seeds(0))


class Once(Actor):
    """Sends one number per start; to show what a crash does to a call and to its effects."""

    def __init__(self, made):
        made.append(self)
        self.state_given = None
        self.starts = 0

    def start(self, now):
        self.starts += 1
        return [Send("counter", b"1"), Done()]

    def receive(self, message: Message, now):
        return []

    def wake(self, now):
        return []

    def state(self):
        return b"started"

    def resume(self, state):
        self.state_given = state


def test_crash_repeats_call_or_effects():
    """Before the commit a start is repeated by a new actor; after it only its effects are."""
    undone = repeated = 0
    for seed in range(60):
        made = []
        makers = {"once": partial(Once, made), "counter": partial(Counter, 1)}
        played = play(makers, Seeds(seed), Faults(crash=0.5, delay=0.01, delay_law="constant"))
        assert sum(actor.starts for actor in made) <= 1
        for actor in made:
            assert not (actor.starts and actor.state_given)
        if played.finished and len(made) > 1:
            # The state is given to a new actor exactly when the start had become durable.
            assert any(actor.state_given == b"started" for actor in made) or made[-1].starts
            undone += made[0].starts == 0
            repeated += made[0].starts == 1 and played.traffic["once"].messages == 2
    assert undone > 0
    assert repeated > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": -0.1},
        {"loss": 1.1},
        {"duplicate": 2},
        {"crash": 1.0},
        {"delay": -1.0},
        {"delay": np.inf},
        {"downtime": np.nan},
        {"delay_law": "uniform"},
        {"dropout": np.nan},
    ],
)
def test_faults_refuse_invalid_rates(wrong):
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        Faults(**wrong)


@pytest.mark.parametrize("until", [0, -1, np.inf, np.nan])
def test_play_refuses_invalid_until(until):
    with pytest.raises(InvalidParameter, match="until"):
        play(cast(), Seeds(1), until=until)


class Silent(Actor):
    """Does nothing but note when it is called."""

    def __init__(self, log):
        self.log = log

    def start(self, now):
        self.log.append(("start", now))
        return [Wake(10.0)]

    def receive(self, message, now):
        self.log.append(("receive", now))
        return []

    def wake(self, now):
        self.log.append(("wake", now))
        return [Wake(now + 10.0)]

    def state(self):
        return b""

    def resume(self, state):
        self.log.append(("resume", None))


class TestOutages:
    """When a party is off is planned before anything is called."""

    def test_party_when_off_hears_nothing_and_is_woken_when_back(self):
        log = []
        play({"a": partial(Silent, log)}, Seeds(0), until=60.0, outages={"a": [(15.0, 42.0)]})
        assert log == [
            ("start", 0.0), ("wake", 10.0), ("resume", None), ("wake", 42.0), ("wake", 52.0),
        ]  # fmt: skip

    def test_party_when_off_from_the_start_starts_when_back(self):
        log = []
        play({"a": partial(Silent, log)}, Seeds(0), until=40.0, outages={"a": [(-1.0, 25.0)]})
        assert log == [("start", 25.0), ("wake", 25.0), ("wake", 35.0)]

    def test_outages_when_the_calls_differ_are_the_same(self):
        faults = Faults(outages=600.0, downtime=4.0)
        busy = play(cast(20), Seeds(1), faults, until=200.0)
        idle = {address: partial(Silent, []) for address in cast(20)}
        quiet = play(idle, Seeds(1), msgspec.structs.replace(faults, crash=0.3), until=200.0)
        assert busy.outages == quiet.outages
        assert sum(map(len, busy.outages.values())) > 100
        assert len(set(busy.outages.values())) == 21

    def test_outages_when_drawn_have_the_stated_means(self):
        rng = np.random.default_rng(3)
        planned = Faults(outages=6.0, downtime=60.0).plan(rng, 3600.0 * 2000)
        off = np.array([end - begin for begin, end in planned])
        assert off.mean() == pytest.approx(60.0, rel=4 / np.sqrt(off.size))
        on = np.diff([0.0, *(begin for begin, _ in planned)]) - np.append(0.0, off[:-1])
        assert on.mean() == pytest.approx(600.0, rel=4 / np.sqrt(off.size))

    def test_crash_when_inside_a_call_takes_no_time(self):
        log = []
        play({"a": partial(Silent, log)}, Seeds(0), Faults(crash=0.5), until=500.0)
        assert [now for what, now in log if what == "wake"] == [10.0 * k for k in range(1, 51)]
        assert ("resume", None) in log

    @pytest.mark.parametrize("wrong", [[(5.0, 5.0)], [(5.0, 9.0), (8.0, 12.0)], [(7.0, 3.0)]])
    def test_outages_when_out_of_order_are_refused(self, wrong):
        with pytest.raises(InvalidParameter, match="the outages of counter must follow"):
            play(cast(), Seeds(1), outages={"counter": wrong})
