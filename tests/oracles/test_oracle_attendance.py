"""The theorem for doubtful devices against the exact δ of everything that may have happened.

``docs/theory/network_attendance.md``. The numbers of the accountant (excess, separation, unseen)
are put into the theorem with the exact δ of a trusted shuffler, and compared with the exact δ of
random environments: 3 or 4 people, up to 3 rounds, one or two doubtful, all data sets.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from incrowd.graphs import from_edges
from incrowd.protocols.network_shuffle.accountant import people_profile
from incrowd.protocols.network_shuffle.theorems.attendance import ON, Attendance
from incrowd.protocols.network_shuffle.theorems.mixing import SLACKS
from incrowd.protocols.network_shuffle.theorems.sandwich import Envelopes, measure_doubtful
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.randomizers import RR
from tests.oracles.attendance_enumeration import (
    exact_deltas,
    hidden_among,
    laws,
    mixture,
    random_attendance,
    random_environment,
    random_graph,
    shuffled_delta,
)

ODDS = math.e
TS = (0.8, 1.0, 1.2, 1.6, 2.2)
SETTLE = 4
CURVES = {t: [shuffled_delta(ODDS, m, t) for m in range(1, 5)] for t in TS}
SLACK = 1e-9


def described(seed):
    """A graph, rounds and attendance, drawn at random."""
    rng = np.random.default_rng(seed)
    n, rounds = int(rng.integers(3, 5)), int(rng.integers(1, 4))
    near = random_graph(n, rng)
    doubtful = rng.choice(n, size=int(rng.integers(1, 3)), replace=False).tolist()
    known = random_attendance(n, rounds, SETTLE, doubtful, rng)
    u, v = zip(*((a, b) for a in range(n) for b in near[a] if a < b), strict=True)
    return near, Walk((from_edges(np.array(u), np.array(v), n),)), known, rng


def claims(mixing, joined=None):
    """Entry (s, t): what the theorem allows, with these numbers."""
    found = np.empty((mixing.n, len(TS)))
    provided = 1 - mixing.separation[:, 0]
    for s in range(mixing.n):
        others = [j for j in range(mixing.n) if j != s and mixing.crowds[j] == mixing.crowds[s]]
        for at, t in enumerate(TS):
            local, best = CURVES[t][0], math.inf
            if mixing.absent[s]:
                found[s, at] = max(0.0, 1 - t)
                continue
            for level, slack in enumerate(SLACKS):
                x = mixing.excess[s, 0, level]
                whole = 1 - mixing.unseen[s] - x if joined is None else joined(x)
                weights = max(0.0, whole) * np.maximum(provided[others], 0) / (1 + slack)
                mixed = mixture(np.minimum(weights, 1.0), CURVES[t])
                best = min(best, x * local + (1 - x) * mixed)
            found[s, at] = min(best, local)
    return found


def compared(seeds, environments, measure=measure_doubtful):
    """Comparisons, how many claims are below the truth, and how tight those are that help."""
    count = below = helps = bites = 0
    for seed in seeds:
        near, walk, known, rng = described(seed)
        bound = claims(measure(walk, known.rounds, known))
        local = np.array([CURVES[t][0] for t in TS])
        for _ in range(environments):
            happened = random_environment(known, rng)
            truth = exact_deltas(laws(near, known, happened), ODDS, TS)
            count += truth.size
            below += int((truth > bound + SLACK).sum())
            hidden = bound < 0.97 * local
            helps += int(hidden.sum())
            bites += int((hidden & (truth > 0.98 * bound) & (bound > SLACK)).sum())
    return count, below, helps, bites


def envelopes(walk, known):
    """P^min and P^max, one row for each person."""
    both, n = Envelopes(walk, known), walk.n
    on_time = np.where(both.dropped, 0.0, np.eye(n))
    most, late = on_time, np.zeros((n, n))
    for number in range(known.rounds):
        most = both.upper(number, most)
        on_time, late = both.lower(number, on_time, late)
    least = np.where(known.punctual[:, None], on_time + late, 0.0)
    return least.T, np.where(known.heard[:, None], most, 0.0).T


def test_laws_when_devices_are_doubtful_lie_between_the_two_that_are_propagated():
    touched = 0
    for seed in range(2000, 2300):
        near, walk, known, rng = described(seed)
        least, most = envelopes(walk, known)
        for _ in range(4):
            happened = laws(near, known, random_environment(known, rng))
            assert (least <= happened + SLACK).all()
            assert (happened <= most + SLACK).all()
            touched += int((np.abs(happened - most) < SLACK).sum())
            touched += int((np.abs(happened - least) < SLACK).sum())
    assert touched > 1000


def test_claim_when_devices_are_doubtful_is_never_below_the_truth():
    count, below, helps, bites = compared(range(1000, 1360), 12)
    assert count >= 60_000
    assert below == 0
    assert helps > 10_000
    assert bites > 1_000, "claims that are 2 % lower must be caught where they are tight"


def test_claim_when_the_dead_count_as_crowd_is_caught(monkeypatch):
    """What may live does not surely hide anybody."""

    def lower(self, number, on_time, late):
        return self.upper(number, on_time), np.zeros_like(late)

    monkeypatch.setattr(Envelopes, "lower", lower)
    _, below, _, _ = compared(range(60), 8)
    assert below > 10


def test_claim_when_late_hops_count_as_certain_is_caught(monkeypatch):
    """All that a device held in its last round is in doubt."""
    honest = Envelopes.lower

    def lower(self, number, on_time, late):
        table = np.where(self.attendance.table >= ON - 1, ON, self.attendance.table)
        known = replace(self.attendance, table=table)
        everyone = replace(known, reported=np.ones_like(known.reported))
        return honest(replace(self, attendance=everyone), number, on_time + late, 0 * late)

    monkeypatch.setattr(Envelopes, "lower", lower)
    _, below, _, _ = compared(range(60), 8)
    assert below > 0


def test_curve_of_the_library_when_devices_are_doubtful_is_never_below_the_truth():
    """The whole way: from attendance to everybody's curve, and to that of all."""
    randomizer = RR(epsilon=1.0)
    for seed in range(12):
        near, walk, known, rng = described(seed)
        mixing = measure_doubtful(walk, known.rounds, known)
        profile = people_profile(mixing, randomizer, single=False, doubtful=True)
        bound = np.array([profile.deltas(math.log(t)) for t in TS]).T
        most = [profile.delta(math.log(t)) for t in TS]
        for _ in range(6):
            truth = exact_deltas(laws(near, known, random_environment(known, rng)), ODDS, TS)
            assert (truth <= bound + SLACK).all()
            assert (truth.max(axis=0) <= np.array(most) + SLACK).all()


def test_share_of_the_victim_when_the_report_may_be_dead_is_no_part_of_the_crowd():
    """40 people evenly on two places, the victim's report dead at one of them.

    With Z = 1 − x in place of what is surely seen, the claim is half of what an attack attains.
    """
    n, t = 40, math.exp(0.3)
    # The number of reports tells that the victim's is alive, and then it is at the first place.
    attack = 0.5 * hidden_among(n - 1, 0.5, t, ODDS)
    right = hidden_among(n - 1, 0.5, t, ODDS)
    wrong = hidden_among(n - 1, 1.0, t, ODDS)
    assert wrong < 0.005 < 0.0089 < attack <= right


def test_attendance_when_nobody_is_doubtful_gives_the_plain_laws():
    """Then both laws are the law of the walk."""
    near, walk, known, _ = described(3)
    n = walk.n
    everyone = Attendance(known.rounds, np.full_like(known.table, ON), np.ones(n, bool))
    mixing = measure_doubtful(walk, known.rounds, everyone)
    assert mixing.unseen.max() < 1e-12
    assert not mixing.absent.any()
    assert mixing.separation.shape == (n, 1)
    del near
