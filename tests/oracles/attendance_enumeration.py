"""Exact δ of a few people whose reports walk while devices come and go, by enumeration.

An *environment* says what every device really did: in which rounds it moved what it held, which of
the hops that may be lost were, and whether what ended at a doubtful device was seen. Given the
environment a report's fate is a function of its path, so that all paths are run through, each with
its chance; and the law of what the curator sees is that of independent reports, each at a place or
dead, with the bits of binary randomized response. Nothing here uses the library's accountants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import comb

import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.network_shuffle.theorems.attendance import (
    AWAY,
    EITHER,
    LEFT,
    ON,
    UNKNOWN,
    Attendance,
    from_record,
)

Doubles = NDArray[np.float64]
LAST = 4
"""Who misses one of the last windows, as many as this, hands in no reports."""


# What may be known, and what may have happened


def random_graph(n: int, rng: np.random.Generator) -> list[list[int]]:
    """The neighbours of everybody on a connected graph."""
    while True:
        pairs = [(u, v) for u in range(n) for v in range(u) if rng.random() < 0.7]
        near: list[list[int]] = [[] for _ in range(n)]
        for u, v in pairs:
            near[u].append(v)
            near[v].append(u)
        reached, todo = {0}, [0]
        while todo:
            for other in near[todo.pop()]:
                if other not in reached:
                    reached.add(other)
                    todo.append(other)
        if len(reached) == n:
            return [sorted(each) for each in near]


def random_attendance(
    n: int, rounds: int, settle: int, doubtful: Sequence[int], rng: np.random.Generator
) -> Attendance:
    """One or two doubtful devices of every kind, and punctual ones that are away at times."""
    windows = rounds + settle + 1
    table = np.full((windows, n), ON, np.int8)
    reported = np.ones(n, bool)
    for person in range(n):
        if person not in doubtful:
            if rng.random() < 0.3:
                missed = np.flatnonzero(rng.random(windows - LAST) < 0.3)
                table[:, person] = from_record(missed.tolist(), windows)
            continue
        reported[person] = False
        kind = rng.choice(["record", "hub", "hub", "left", "unknown"])
        if kind == "record":
            missed = [
                windows - 1 - int(rng.integers(LAST)),
                *np.flatnonzero(rng.random(rounds) < 0.4),
            ]
            table[:, person] = from_record(sorted(set(map(int, missed))), windows)
        elif kind == "hub":
            table[:, person] = rng.choice([ON, ON, ON, EITHER, AWAY], size=windows)
            last = int(rng.integers(-1, windows))
            table[last + 1 :, person] = AWAY
            reported[person] = last == windows - 1 and rng.random() < 0.5
            if reported[person]:
                table[-LAST:, person] = rng.choice([ON, EITHER], size=LAST)
                table[-2, person] = EITHER
        elif kind == "left":
            table[:, person] = LEFT
            if rng.random() < 0.7:
                table[rounds:, person] = AWAY
        else:
            table[:, person] = UNKNOWN
    return Attendance(rounds, table, reported)


@dataclass(frozen=True, eq=False)
class Environment:
    """What really happened, in one of the ways that the attendance allows."""

    moved: NDArray[np.bool_]
    """``moved[r, v]``: in round r, v moved what it held."""
    on: NDArray[np.bool_]
    """``on[k, v]``: v was on throughout window k."""
    seen: NDArray[np.bool_]
    """``seen[v]``: what ended at v was seen."""
    salt: int
    """Decides which hops in doubt arrive, by the path so far."""
    chance: float


def random_environment(known: Attendance, rng: np.random.Generator) -> Environment:
    """Anything that agrees with what is known."""
    rounds, (windows, n) = known.rounds, known.table.shape
    moved, on = np.zeros((rounds, n), bool), known.table == ON
    seen = known.punctual | (known.heard & (rng.random(n) < 0.7))
    for person in range(n):
        codes = known.table[:, person]
        if codes[0] == LEFT:
            last = int(rng.integers(-1, windows))
            moved[:, person] = np.arange(rounds) <= last
            on[:, person] = np.arange(windows) < last
            # Who left before the end, and comes back, hands in no reports.
            seen[person] &= last == windows - 1
            continue
        unsure = (codes == EITHER) | (codes == UNKNOWN)
        acted = np.where(unsure, rng.random(windows) < 0.5, codes != AWAY)
        moved[:, person] = acted[:rounds]
    return Environment(
        moved, on, seen, int(rng.integers(2**31)), float(rng.choice([0, 0.3, 0.7, 1]))
    )


def laws(near: list[list[int]], known: Attendance, happened: Environment) -> Doubles:
    """Row j: where j's report was seen; what is missing from one is dead."""
    n, sure = len(near), known.punctual
    found = np.zeros((n, n))
    for owner in range(n):
        # A report: where it is, its path, whether it is late, and the chance of that.
        alive = [(owner, (owner,), False, 1.0)]
        if known.rounds and not happened.moved[0, owner]:
            alive = []  # It was dropped.
        for number in range(known.rounds):
            after = []
            for at, path, late, mass in alive:
                if not happened.moved[number, at] or not near[at]:
                    after.append((at, (*path, at), late, mass))
                    continue
                for to in near[at]:
                    way = (*path, to)
                    prompt = bool(happened.on[number + 1, at] and happened.on[number + 1, to])
                    certain = (sure[at] and sure[to]) or (prompt and not late)
                    if certain or _arrives(way, happened):
                        after.append((to, way, late or not prompt, mass / len(near[at])))
            alive = after
        for at, _, _, mass in alive:
            if happened.seen[at]:
                found[owner, at] += mass
    return found


def _arrives(way: tuple[int, ...], happened: Environment) -> bool:
    """Whether a hop in doubt arrived: an arbitrary function of the path so far."""
    return np.random.default_rng((happened.salt, *way)).random() < happened.chance


# What the curator sees


@lru_cache
def _views(n: int) -> tuple[NDArray[np.intp], int]:
    """For every combination of the n reports' outcomes, which multiset it is."""
    outcomes = 2 * n + 1  # A bit at a place, or dead.
    power = np.array([*((n + 1) ** item for item in range(2 * n)), 0])
    keys = power
    for _ in range(n - 1):
        keys = np.add.outer(keys, power)
    _, inverse = np.unique(keys.reshape(-1), return_inverse=True)
    assert len(inverse) == outcomes**n
    return inverse, int(inverse.max()) + 1


def exact_deltas(ends: Doubles, odds: float, ts: Sequence[float]) -> Doubles:
    """Entry (s, t): the largest δ of s at e^ε = t, over all data sets and both directions."""
    n = len(ends)
    inverse, views = _views(n)
    truth, lie = odds / (odds + 1), 1 / (odds + 1)
    rows = np.empty((n, 2, 2 * n + 1))
    for person, bit in product(range(n), (0, 1)):
        rows[person, bit, :n] = ends[person] * (truth if bit == 0 else lie)
        rows[person, bit, n : 2 * n] = ends[person] * (truth if bit == 1 else lie)
        rows[person, bit, 2 * n] = 1 - ends[person].sum()
    seen = {}
    for bits in product((0, 1), repeat=n):
        joint = rows[0, bits[0]]
        for person in range(1, n):
            joint = np.multiply.outer(joint, rows[person, bits[person]]).reshape(-1)
        seen[bits] = np.bincount(inverse, joint, views)
    found = np.zeros((n, len(ts)))
    for bits, first in seen.items():
        for person in range(n):
            other = (*bits[:person], 1 - bits[person], *bits[person + 1 :])
            for at, t in enumerate(ts):
                stick = np.maximum(first - t * seen[other], 0).sum()
                found[person, at] = max(found[person, at], stick)
    return found


# The bound, from the numbers that an accountant claims


def shuffled_delta(odds: float, m: int, t: float) -> float:
    """The exact δ of binary response behind a trusted shuffler of m reports."""
    return float(exact_deltas(_together(m), odds, [t])[0, 0])


def _together(m: int) -> Doubles:
    ends = np.zeros((m, m))
    ends[:, 0] = 1.0
    return ends


def mixture(weights: Sequence[float], curve: Sequence[float]) -> float:
    """The mean of ``curve[K]``, K the number of successes in trials with these chances."""
    law = np.ones(1)
    for weight in weights:
        law = np.convolve(law, [1 - weight, weight])
    return float(law @ np.asarray(curve[: len(law)]))


# One large case: a report that is seen with a random number of others, who hold the other value


def hidden_among(others: int, chance: float, t: float, odds: float) -> float:
    """δ of a report that is seen together with those of Bin(others, chance) people.

    All of them hold one value, the victim holds it or the other one, and the view is how many
    reports there are and how many of them are ones. The larger of the two directions.
    """
    return max(
        hidden_one_way(others, chance, t, odds, differs=differs) for differs in (True, False)
    )


def hidden_one_way(others: int, chance: float, t: float, odds: float, *, differs: bool) -> float:
    """The same in one direction: how much likelier views are if the victim ``differs``, or not."""
    truth, lie = odds / (odds + 1), 1 / (odds + 1)
    yes, no = (truth, lie) if differs else (lie, truth)
    total = 0.0
    for k in range(others + 1):
        weight = comb(others, k) * chance**k * (1 - chance) ** (others - k)
        crowd = np.array([comb(k, y) * lie**y * truth ** (k - y) for y in range(k + 1)])
        first, second = (
            np.append(crowd * (1 - one), 0.0) + np.append(0.0, crowd * one) for one in (yes, no)
        )
        total += weight * float(np.maximum(first - t * second, 0.0).sum())
    return total


def place_attack(hers: float, others: Sequence[float], t: float, odds: float) -> float:
    """δ from one place alone: the victim's report is there with one chance, each other's with its.

    All others hold one value; the view is how many reports are there, and how many of them ones.
    """
    truth, lie = odds / (odds + 1), 1 / (odds + 1)
    law = np.ones(1)
    for chance in others:
        law = np.convolve(law, [1 - chance, chance])[: _MOST + 2]
    law = np.append(law, 0.0)  # Hers may come on top of all others.
    found = 0.0
    for yes, no in ((truth, lie), (lie, truth)):
        total = 0.0
        for m in range(min(len(law), _MOST)):
            crowd = np.array([comb(m, y) * lie**y * truth ** (m - y) for y in range(m + 1)])
            fewer = np.array([comb(m - 1, y) * lie**y * truth ** (m - 1 - y) for y in range(m)])
            with_her = [
                np.append(fewer * (1 - one), 0.0) + np.append(0.0, fewer * one) if m else 0 * crowd
                for one in (yes, no)
            ]
            there = hers * (law[m - 1] if m else 0.0)
            first, second = (there * each + (1 - hers) * law[m] * crowd for each in with_her)
            total += float(np.maximum(first - t * second, 0.0).sum())
        found = max(found, total)
    return found


_MOST = 40
"""Places that hold more reports than this are left out, which lowers the attack."""
