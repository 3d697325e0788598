"""Cover traffic: sizes, plans, timetables, guarantees, and real devices that keep to them."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

import incrowd
from incrowd import NetworkShuffle, TrustedShuffle, graphs
from incrowd.errors import BudgetInfeasible, InvalidDelta, InvalidParameter, NotProven
from incrowd.live import cells as live
from incrowd.privacy import LocalProfile
from incrowd.privacy.shifted import ShiftedProfile
from incrowd.protocols.capabilities import covered as covered_by
from incrowd.protocols.network_shuffle import messages as network_messages
from incrowd.protocols.network_shuffle.cover import SHARE, Sizes, plan
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.protocols.run import guarantees, make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Done, Message, Send, Wake, device
from incrowd.protocols.runtime.context import GRACE_ROUNDS, Timing
from incrowd.protocols.runtime.cover import TICKS, CellFormat, phase
from incrowd.randomizers import KRR, RR, Gaussian
from incrowd.randomness import Seeds

CELL = CellFormat(live.CAPACITY, 14, 48)
DELTA = 1e-6


def regular(n=60, degree=6, seed=1):
    return graphs.random_regular(n, degree, np.random.default_rng(seed))


def star(n):
    return graphs.from_edges([0] * (n - 1), range(1, n))


@pytest.fixture(scope="module")
def walked():
    """A protocol, the same under cover, and its plan."""
    protocol = NetworkShuffle(RR(epsilon=1.0), graph=graphs.complete(60), rounds=8, laziness=0.1)
    covered = protocol.covered(DELTA, CELL)
    return protocol, covered, covered.cover


# Sizes


def cells_of(drawn, person, settle):
    """Cells that one device sends in all, counted from its timetable."""
    ticks = drawn.ticks(device(person), Timing(grace_rounds=settle))
    return sum(sum(tick.cells.values()) for tick in ticks)


@pytest.mark.parametrize(
    "lengths",
    [(0,), (1,), (798,), (799,), (23, 23, 700), (23, 760, 5), (784, 23), (5000, 0, 1, 1595),
     (783, 1), (770, 28, 14), (1596,), (1597,), (798, 0, 0), (1582, 1, 0)],
)  # fmt: skip
def test_cell_format_counts_cells_as_packed(lengths):
    messages = [(number, bytes(length)) for number, length in enumerate(lengths, 1)]
    assert CELL.needed(*lengths) == len(live.pack(messages)[0])


@pytest.mark.parametrize("rounds", [1, 128, 129, 300, 70000])
@pytest.mark.parametrize("report", [1, 190, 8000])
def test_sizes_equal_encoded_message_lengths(rounds, report):
    sizes, id_ = Sizes(CELL, report, rounds), bytes(wire.ID_BYTES)
    payload = bytes(wire.ID_BYTES + report + CELL.seal)
    for reports in (1, 15, 16, 100):
        hop = network_messages.Hop(rounds - 1, id_, [payload] * reports)
        assert sizes.hop(reports) == len(wire.encode(hop))
        handed = network_messages.HandIn(
            id_, list(range(rounds + GRACE_ROUNDS)), [payload] * reports
        )
        assert sizes.hand_in(reports) == len(wire.encode(handed))


def test_fitting_returns_most_reports_that_fit():
    sizes = Sizes(CELL, 1, 20)
    for cells in (1, 2, 7):
        fits = sizes.fitting(cells, sizes.hop_cells, 4096)
        assert sizes.hop_cells(fits) <= cells < sizes.hop_cells(fits + 1)
    assert Sizes(CELL, 2000, 20).fitting(1, Sizes(CELL, 2000, 20).hop_cells, 10) == 0


def test_cell_format_rejects_empty_cell():
    with pytest.raises(InvalidParameter, match="cannot hold"):
        CellFormat(14, 14, 48)


# Plans


def test_plan_uses_fewest_cells_within_budget():
    walk = Walk((regular(),), 0.0)
    wide = Sizes(CELL, 300, 8)
    for budget in (1e-6, 1e-12):
        found = plan(walk, 8, "all", 300, CELL, budget)
        assert 0 < found.overflow <= budget
        assert found.together == wide.fitting(found.per_neighbour, wide.hop_cells, walk.n)
        fewer = wide.fitting(found.per_neighbour - 1, wide.hop_cells, walk.n)
        tight = replace(found, together=fewer, held=np.full(walk.n, walk.n))
        assert tight.overflow_on(walk) > budget / 2
        less = wide.fitting(int(found.hand_in[0]) - 1, wide.hand_in_cells, walk.n)
        tight = replace(found, together=walk.n, held=np.full(walk.n, less))
        assert tight.overflow_on(walk) > budget / 2


def test_plan_on_star_gives_hub_more_hand_in_cells_except_single():
    walk = Walk((star(200),), 0.5)
    found = plan(walk, 6, "all", 1, CELL, 1e-9)
    assert found.hand_in[0] > 4 * found.hand_in[1]
    assert cells_of(found, 0, 4) == 199 * 10 * found.per_neighbour + TICKS * found.hand_in[0]
    single = plan(walk, 6, "single", 1, CELL, 1e-9)
    assert set(single.hand_in.tolist()) == {Sizes(CELL, 1, 6).hand_in_cells(1)}
    assert single.overflow <= 1e-9


def test_simulated_loads_stay_within_plan():
    graph, rng = star(30), np.random.default_rng(0)
    walk, seen = Walk((graph,), 0.5), 0
    found = plan(walk, 5, "all", 1, CELL, 0.2)
    small = replace(found, together=1, held=np.full(30, 30))
    for _ in range(400):
        at, crowded = np.arange(30), False
        for _ in range(5):
            to = np.where(at == 0, rng.integers(1, 30, 30), 0)
            to = np.where(rng.random(30) < 0.5, at, to)
            links = (at * 30 + to)[at != to]
            crowded |= bool(links.size) and np.bincount(links).max() > 1
            at = to
        seen += crowded
    assert seen / 400 <= small.overflow_on(walk)


def test_plan_refuses_reports_too_large_for_cells():
    with pytest.raises(BudgetInfeasible, match="64 cells per neighbour"):
        plan(Walk((regular(),), 0.0), 8, "all", 60_000, CELL, 1e-9)
    with pytest.raises(BudgetInfeasible, match="cap how many neighbours"):
        plan(Walk((star(3000),), 0.5), 4, "all", 3000, CELL, 1e-9)
    with pytest.raises(InvalidDelta):
        NetworkShuffle(RR(epsilon=1.0), graph=regular(), rounds=3).covered(0.0, CELL)
    with pytest.raises(InvalidParameter, match="walk for ever"):
        NetworkShuffle(RR(epsilon=1.0), graph=regular(), stationary=True).covered(DELTA, CELL)
    with pytest.raises(NotProven, match="no cover traffic"):
        covered_by(incrowd.Local(RR(epsilon=1.0), n=5), DELTA, CELL)


# Timetables


def test_ticks_are_public_and_spread_over_round(walked):
    _, _, drawn = walked
    timing = Timing(round_seconds=10.0, grace_rounds=2)
    ticks = drawn.ticks(device(7), timing)
    near = {device(v) for v in range(60) if v != 7}
    assert len(ticks) == 8 + 2 + TICKS
    for window, tick in enumerate(ticks[:10]):
        assert tick.at == pytest.approx((window + phase(7)) * 10)
        assert tick.cells == dict.fromkeys(near, drawn.per_neighbour)
    for window, tick in enumerate(ticks[10:], 10):
        assert tick.at == pytest.approx((window + phase(7)) * 10)
        assert tick.cells == {CURATOR: drawn.hand_in[7]}
    assert cells_of(drawn, 7, 2) == 59 * 10 * drawn.per_neighbour + TICKS * drawn.hand_in[7]
    assert drawn.ticks(CURATOR, timing) == []
    phases = np.sort([phase(person) for person in range(1000)])
    assert phases[0] >= 0.3
    assert phases[-1] <= 0.6
    assert np.diff(phases).max() < 0.001
    with pytest.raises(InvalidParameter, match="grace_rounds"):
        drawn.ticks(device(7), Timing(grace_rounds=0))


def test_paced_timing_repeats_nothing_before_hand_in(walked):
    timing = Timing(round_seconds=5.0, grace_rounds=3)
    paced = walked[2].paced(timing)
    assert paced.backoff.first > (8 + 3 + TICKS) * 5
    assert walked[2].paced(paced) == paced


# Guarantees


def test_covered_guarantee_against_hub_equals_curator_plus_overflow(walked):
    plain, covered, drawn = walked
    local = LocalProfile(plain.randomizer).epsilon(DELTA)
    assert plain.overflow is None
    assert plain.guarantee("curator+hub").epsilon(DELTA) == pytest.approx(local)
    curator, both = covered.guarantee(), covered.guarantee("curator+hub")
    assert covered.overflow == drawn.overflow <= SHARE * DELTA
    assert curator.epsilon(DELTA) <= both.epsilon(DELTA) <= 1.005 * curator.epsilon(DELTA)
    assert both.epsilon(DELTA) < 0.95 * local
    assert both.lower(DELTA) <= curator.lower(DELTA) <= both.epsilon(DELTA)
    assert both.view == {"curator", "hub"}
    assert "cover.md" in both.theorem
    assert not any("does not see who sends" in each for each in both.assumptions)
    assert any("timetable" in each for each in both.assumptions)
    assert covered.guarantee("hub").epsilon(DELTA) == pytest.approx(local)
    assert [each.view_name for each in guarantees(covered)] == [
        "curator", "curator+hub", "everyone",
    ]  # fmt: skip


def test_covered_guarantee_is_per_person_and_composes(walked):
    _, covered, _ = walked
    curator, both = covered.guarantee(), covered.guarantee("curator+hub")
    people = both.per_person(DELTA)
    assert people.shape == (60,)
    assert (people >= curator.per_person(DELTA) * (1 - 1e-12)).all()
    assert people.max() <= 1.01 * both.epsilon(DELTA)
    twice = both.compose(both)
    assert both.epsilon(1e-5) < twice.epsilon(1e-5) <= 2 * both.epsilon(5e-6)
    assert twice.epsilon(1e-5) >= curator.compose(curator).epsilon(1e-5) * (1 - 1e-9)


def test_covered_run_charges_overflow_of_absences(walked):
    _, covered, drawn = walked
    away = np.zeros((8, 60), bool)
    away[:7, :30] = True
    happened = covered.conditional_on(
        replace(covered.collect(np.zeros(60, int), Seeds(0)), away=away, silent=None)
    )
    assert happened.cover is drawn
    assert happened.overflow > 10 * drawn.overflow
    both = happened.guarantee("curator+hub")
    assert both.profile.chance == happened.overflow
    assert covered.subset(range(50)).cover is None


def test_covered_guarantee_with_colluders_assumes_forwarding(walked):
    both = walked[1].guarantee("curator+hub", colluders=[0, 1])
    assert both.colluders == 2
    assert any("pass on only what the walk" in each for each in both.assumptions)


def test_cover_plans_open_rounds_before_cells():
    plain = NetworkShuffle(RR(epsilon=1.0), graph=regular(200, 8), target_ratio=1.5)
    covered = plain.covered(DELTA, CELL)
    assert covered.cover.rounds == covered.rounds > 0


@pytest.mark.parametrize("randomizer", [RR(epsilon=1.0), KRR(categories=5, epsilon=2.0)])
def test_overflow_charge_equals_theorem(randomizer):
    local, chance = LocalProfile(randomizer), 1e-4
    base = incrowd.privacy.ShuffleProfile(randomizer.blanket(), 500, local, randomizer.attack())
    shifted, none = ShiftedProfile(base, randomizer, chance), ShiftedProfile(base, randomizer, 0.0)
    for epsilon in (-0.5, 0.0, 0.01, 0.2, 0.7):
        factor = math.exp(epsilon) - 1 + 2 * local.delta(epsilon)
        expected = min(local.delta(epsilon), base.delta(epsilon) + chance * factor)
        assert expected <= shifted.delta(epsilon) <= expected * (1 + 1e-9)
        assert none.delta(epsilon) <= base.delta(epsilon) * (1 + 1e-9)
    for delta in (2e-4, 1e-3, 3e-3):
        epsilon = shifted.epsilon(delta)
        assert shifted.delta(epsilon) <= delta
        assert shifted.delta(epsilon * 0.99) > delta
        assert base.epsilon(delta) <= epsilon <= local.epsilon(delta)
        assert none.epsilon(delta) == base.epsilon(delta)
        assert shifted.lower(delta) <= base.lower(delta)
    assert shifted.epsilon(1e-5) == local.epsilon(1e-5)
    gaussian = Gaussian(epsilon=1.0, delta=1e-9)
    assert ShiftedProfile(LocalProfile(gaussian), gaussian, 1e-3).epsilon(1e-6) == pytest.approx(
        LocalProfile(gaussian).epsilon(1e-6)
    )
    assert shifted.delta(800.0) == local.delta(800.0)
    assert shifted.lower(1 - 1e-9) is None
    with pytest.raises(InvalidParameter, match="negative"):
        ShiftedProfile(base, randomizer, -1.0)


# A trusted shuffler


def test_covered_shuffler_guarantee_against_hub_equals_curator():
    plain = TrustedShuffle(KRR(categories=4, epsilon=1.0), n=1000, rounds=20)
    covered = plain.covered(DELTA, CELL)
    drawn = covered.cover
    curator, both = covered.guarantee(), covered.guarantee("curator+hub")
    assert both.profile == curator.profile
    assert both.view == {"curator", "hub"}
    assert set(both.assumptions) > set(curator.assumptions)
    assert plain.guarantee("curator+hub").epsilon(DELTA) > both.epsilon(DELTA)
    assert covered.guarantee("curator+hub+shuffler").epsilon(DELTA) > both.epsilon(DELTA)
    assert "curator+hub" in [each.view_name for each in guarantees(covered)]
    payload = bytes(1 + CELL.seal)
    reports = [
        (number + 1, wire.encode(wire.Report(number, bytes(16), payload))) for number in range(20)
    ]
    assert drawn.cells >= len(live.pack(reports)[0])
    timing = Timing(round_seconds=10.0)
    ticks = drawn.ticks(device(3), timing)
    assert [tick.cells for tick in ticks] == [{SHUFFLER: drawn.cells}] * TICKS
    assert ticks[0].at < 10 < ticks[1].at
    assert drawn.ticks(SHUFFLER, timing) == []
    assert drawn.paced(timing).backoff.first == 10
    collected = covered.collect(np.zeros(1000, int), Seeds(0))
    assert covered.conditional_on(collected).cover is drawn


# Devices that keep to the timetable


class FixedSeal:
    """Adds what a seal adds, without a key."""

    def seal(self, to, plain):
        del to
        return plain + bytes(48)

    def open(self, sealed):
        return sealed[:-48]


def covered_run(protocol, drawn, values, seed, timing):
    """Real actors and real cells: who sent how many cells to whom when, and what was collected."""
    actors = {
        address: make()
        for address, make in make_actors(
            protocol, values, Seeds(seed), defaultdict(FixedSeal), drawn.paced(timing)
        ).items()
    }
    order, events, transcript = count(), [], []
    queues, parts, numbers = defaultdict(list), defaultdict(list), defaultdict(lambda: count(1))
    inboxes, wakes, collected = defaultdict(live.Reassembler), {}, []
    latency = np.random.default_rng(seed)

    def at(time, *event):
        heapq.heappush(events, (time, next(order), event))

    def carry_out(address, effects, now):
        for effect in effects:
            if isinstance(effect, Send):
                if address in (CURATOR, SHUFFLER):
                    at(now + 0.01, "message", address, effect.to, effect.body)
                else:
                    queues[address, effect.to].append(effect.body)
            elif isinstance(effect, Wake):
                wakes[address] = effect.at
                at(max(now, effect.at), "wake", address)
            elif isinstance(effect, Done) and address == CURATOR:
                collected.append(effect.output)

    for address, actor in actors.items():
        carry_out(address, actor.start(0.0), 0.0)
        for tick in drawn.ticks(address, timing):
            at(tick.at, "tick", address, tick)
    while events:
        now, _, (kind, address, *rest) = heapq.heappop(events)
        if kind == "wake":
            if wakes.get(address) is not None and wakes[address] <= now:
                wakes[address] = None
                carry_out(address, actors[address].wake(now), now)
        elif kind == "message":
            to, body = rest
            carry_out(to, actors[to].receive(Message(address, body), now), now)
        elif kind == "tick":
            for to, cells in rest[0].cells.items():
                link = address, to
                new = [(next(numbers[link]), body) for body in queues.pop(link, [])]
                parts[link] += live.pack(new)[0]
                sent, parts[link] = parts[link][:cells], parts[link][cells:]
                sent += [live.DUMMY] * (cells - len(sent))
                transcript += [(round(now, 9), address, to)] * len(sent)
                delay = 0.3 * timing.round_seconds * latency.random()
                at(now + delay, "cells", address, to, sent)
        else:
            to, sent = rest
            for cell in sent:
                for body in inboxes[address, to].feed(b"", 0, cell):
                    carry_out(to, actors[to].receive(Message(address, body), now), now)
    return transcript, collected[0], sum(map(len, parts.values()))


@pytest.mark.parametrize("mode", ["all", "single"])
def test_hub_transcript_is_independent_of_data_and_walks(mode):
    graph, timing = regular(20, 4), Timing(round_seconds=10.0, grace_rounds=2, timeout=100.0)
    protocol = NetworkShuffle(KRR(categories=3, epsilon=1.0), graph=graph, rounds=5, hand_in=mode)
    covered = protocol.covered(DELTA, CELL)
    drawn = covered.cover
    transcripts = set()
    for seed in range(8):
        values = np.random.default_rng(seed).integers(3, size=20)
        transcript, collected, left = covered_run(covered, drawn, values, seed, timing)
        transcripts.add(tuple(transcript))
        assert left == 0
        assert collected.received == 20
        assert collected.lost == 0
        assert collected.away is None
    assert len(transcripts) == 1
    assert len(transcript) == sum(cells_of(drawn, person, 2) for person in range(20))


@pytest.mark.parametrize(("settle", "harmless"), [(12, True), (1, False)])
def test_transcript_with_too_few_cells_shows_nothing_but_delays(settle, harmless):
    """A cell for a third of a report: messages are cut and wait, which settling may make up for."""
    graph, timing = regular(12, 4), Timing(round_seconds=10.0, grace_rounds=settle, timeout=100.0)
    protocol = NetworkShuffle(incrowd.OUE(categories=16_000, epsilon=1.0), graph=graph, rounds=3)
    covered = protocol.covered(0.5, CELL)
    drawn = covered.cover
    assert drawn.per_neighbour > 2
    few = replace(drawn, per_neighbour=1)
    transcripts, lost = set(), 0
    for seed in range(4):
        values = np.random.default_rng(seed).integers(3, size=12)
        transcript, collected, left = covered_run(covered, few, values, seed, timing)
        transcripts.add(tuple(transcript))
        lost += collected.lost + left
    assert len(transcripts) == 1
    assert (lost == 0) == harmless
