"""Cover traffic for a walk: as many cells to every neighbour in every round, whatever moves.

The cells of the plan depend on the graph, the rounds and the size of a report, never on where
reports go; so a hub's view is public. It fails where more reports move from one person to another
in one round, or are held by one person at the end, than the cells have room for: they then wait,
unseen, and may come too late. The number that move from i to j in round r is a sum of independent
indicators, one per report, whose mean comes from propagating a vector of ones; by Hoeffding's
theorem of 1956 its tail beyond mean + 1 is at most that of the binomial law with the same mean. The
sum over all edges, rounds and people bounds the chance that anything ever waits.
Proofs: ``docs/theory/cover.md``.

Invariant: every probability here is rounded up.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import BudgetInfeasible, InvalidParameter
from incrowd.graphs.graph import Graph
from incrowd.graphs.propagate import relative_error
from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.shifted import ShiftedProfile
from incrowd.protocols.network_shuffle import accountant
from incrowd.protocols.network_shuffle.messages import MOST_TOGETHER, HandIn, Hop, Passed
from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.simulate import Handing
from incrowd.protocols.network_shuffle.theorems.walk import Bools, Doubles, Walk
from incrowd.protocols.runtime import cover, wire
from incrowd.protocols.runtime.actor import CURATOR, Address, device, is_device, person_of
from incrowd.protocols.runtime.context import GRACE_ROUNDS, Timing
from incrowd.randomizers.base import Randomizer

MOST_CELLS: Final = 64
"""More cells than this per neighbour and round are refused; a power of two."""
_MOST_HANDED_IN = 4096
SHARE: Final = 1e-3
"""Share of δ that the chance of running out of room may be."""

_COLLUDERS_FORWARD = "colluders tell all they see, but pass on only what the walk brings them"
_ANSWERS = 2
"""Answers to one neighbour in one tick: one is the rule, and delivery times may add another."""
_ROUND = 1e-8
_FLOOR = 1e-300
_TERMS = 60


class Loads(NamedTuple):
    """Random numbers of reports, one per entry: sums of independent indicators."""

    most: Doubles
    """Most indicators that can be one."""
    mean: Doubles
    """Expected number, rounded up."""
    times: Doubles
    """Number of links with this load."""


def hop_loads(walk: Walk, rounds: int) -> Iterator[Loads]:
    """Return the reports from each person to each one of their neighbours, round by round."""
    for number, (law, reach) in zip(range(rounds), _before(walk, rounds), strict=False):
        graph, moving = _moving(walk, number)
        share = np.where(moving, (1 - walk.laziness) / np.maximum(graph.degrees, 1), 0.0)
        rows = np.repeat(np.arange(walk.n), graph.degrees)
        loops = np.bincount(rows[rows == graph.indices], minlength=walk.n)
        links = np.where(moving, graph.degrees - loops, 0).astype(np.float64)
        yield Loads(reach, law * share * _up(walk, rounds), links)


def hand_in_loads(walk: Walk, rounds: int) -> Loads:
    """Return the reports that everyone holds at the end."""
    *_, (law, reach) = _before(walk, rounds)
    return Loads(reach, law * _up(walk, rounds), np.ones(walk.n))


def _before(walk: Walk, rounds: int) -> Iterator[tuple[Doubles, Doubles]]:
    # Before each round, and after the last: expected reports, and how many can be there at all.
    law, reach = np.ones((walk.n, 1)), np.ones(walk.n)
    for number in range(rounds):
        yield law[:, 0], reach
        law = walk.after(number, law)
        if reach.min() < walk.n:
            graph, moving = _moving(walk, number)
            kept = np.where(moving & (walk.laziness == 0), 0.0, reach)
            arrived = graph.adjacency() @ np.where(moving, reach, 0.0)
            reach = np.minimum(kept + arrived, walk.n)
    yield law[:, 0], reach


def _moving(walk: Walk, number: int) -> tuple[Graph, Bools]:
    graph, away = walk.graphs[number % len(walk.graphs)], walk.away_in(number)
    able = graph.degrees > 0
    return graph, able if away is None else able & ~away


def _up(walk: Walk, rounds: int) -> float:
    return 1 + 2 * relative_error(walk.together, rounds)


def tail(least: int | NDArray[np.int64], loads: Loads) -> Doubles:
    """Bound the chance of at least this many reports, for each load."""
    at_least = np.broadcast_to(np.asarray(least, np.int64), loads.mean.shape)
    possible, near = at_least <= loads.most, at_least < loads.mean + 1
    found = np.where(near & possible, 1.0, 0.0)
    inside = ~near & possible & (loads.mean > 0)
    if inside.any():
        found[inside] = _binomial(at_least[inside], loads.most[inside], loads.mean[inside])
    return found


def _binomial(least: NDArray[np.int64], trials: Doubles, mean: Doubles) -> Doubles:
    """P(Binomial(trials, mean/trials) ≥ least), rounded up; ``least`` is above the mean.

    The first term by logarithms, the others by their falling ratios; the rest is at most a
    geometric series.
    """
    chance = mean / trials
    # One number stands for both, as few pairs are different.
    pairs, at = np.unique(trials + 1j * least, return_inverse=True)
    ways = np.array([_log_choose(int(each.real), int(each.imag)) for each in pairs])[at]
    first = ways + least * np.log(chance) + (trials - least) * np.log1p(-chance)
    odds = chance / (1 - chance)
    total, term, reached = np.ones_like(mean), np.ones_like(mean), least.astype(np.float64)
    for _ in range(_TERMS):
        term = term * (trials - reached) / (reached + 1) * odds
        reached = reached + 1
        total += term
        if (term <= 1e-17 * total).all():
            break
    ratio = (trials - reached) / (reached + 1) * odds
    total += term * np.maximum(ratio, 0.0) / (1 - ratio)
    return np.minimum(1.0, np.maximum(np.exp(first) * total, _FLOOR) * (1 + _ROUND))


def _log_choose(n: int, k: int) -> float:
    # A sum of logarithms keeps more digits than Γ.
    few = np.arange(min(k, n - k), dtype=np.float64)
    return math.fsum(np.log((n - few) / (few + 1)).tolist())


def _overfull(together: int, walk: Walk, rounds: int) -> float:
    return sum(_summed(together + 1, loads) for loads in hop_loads(walk, rounds))


def _summed(at_least: int | NDArray[np.int64], loads: Loads) -> float:
    return float(np.sum(loads.times * tail(at_least, loads))) * (1 + _ROUND)


@dataclass(frozen=True)
class Sizes:
    """Cells that messages take, and reports that fit into cells, by exact sizes."""

    cells: cover.CellFormat
    report_bytes: int
    rounds: int

    @cached_property
    def _one(self) -> tuple[int, int, int]:
        """Bytes of a payload as it is written, and of a hop and a hand-in with one."""
        id_, sealed = bytes(wire.ID_BYTES), wire.ID_BYTES + self.report_bytes + self.cells.seal
        hop = Hop(max(0, self.rounds - 1), id_, [bytes(sealed)])
        hand_in = HandIn(id_, list(range(self.rounds + GRACE_ROUNDS)), [bytes(sealed)])
        return tuple(len(wire.encode(each)) for each in (bytes(sealed), hop, hand_in))  # type: ignore[return-value]

    def hop(self, reports: int) -> int:
        """Return the bytes of a hop with these reports, in the last round."""
        return self._one[1] + self._more(reports)

    def hand_in(self, reports: int) -> int:
        """Return the bytes of handing in these reports after missing every round and settle one."""
        return self._one[2] + self._more(reports)

    def _more(self, reports: int) -> int:
        # Longer lists begin with more bytes.
        head = 0 if reports < 2**4 else 2 if reports < 2**16 else 4
        return (reports - 1) * self._one[0] + head

    def hop_cells(self, reports: int) -> int:
        """Return the cells of a tick: the hop, and answers that go the same way, in any order."""
        answers = [len(wire.encode(Passed(bytes(wire.ID_BYTES))))] * _ANSWERS
        orders = ([*answers[:at], self.hop(reports), *answers[at:]] for at in range(_ANSWERS + 1))
        return max(self.cells.needed(*order) for order in orders)

    def hand_in_cells(self, reports: int) -> int:
        """Return the cells of handing in."""
        return self.cells.needed(self.hand_in(reports))

    def fitting(self, cells: int, needed: Callable[[int], int], most: int) -> int:
        """Return the most reports whose message needs no more than these cells; may be 0."""
        return bisect.bisect_right(range(1, most + 1), cells, key=needed)


@dataclass(frozen=True, eq=False)
class NetworkCover(cover.CoverPlan):
    """Cells to every neighbour in every window, and to the curator at the end."""

    walk: Walk
    rounds: int
    handing: Handing
    per_neighbour: int
    """Cells from anyone to each of their neighbours, in every window."""
    together: int
    """Reports that fit into those."""
    hand_in: NDArray[np.int64]
    """Cells from each person to the curator, at each of the hand-in ticks."""
    held: NDArray[np.int64]
    """Reports that fit into those."""
    overflow: float

    def overflow_on(self, walk: Walk) -> float:
        """Return the same bound with these cells for another walk, such as one with absences."""
        waiting = _overfull(self.together, walk, self.rounds)
        if self.handing == "all":  # With ``single`` everyone hands in one report.
            waiting += _summed(self.held + 1, hand_in_loads(walk, self.rounds))
        return min(1.0, waiting * (1 + _ROUND))

    def ticks(self, address: Address, timing: Timing) -> list[cover.Tick]:
        if not is_device(address):
            return []
        if timing.grace_rounds < 1:
            raise InvalidParameter(
                "cover needs grace_rounds of at least 1: the last answers must come before hand-in",
                field="cover",
            )
        person = person_of(address)
        clock, at = Clock.of(self.rounds, timing), cover.phase(person) * timing.round_seconds
        near = self.walk.together.neighbours(person).tolist()
        contacts = {device(other): self.per_neighbour for other in near if other != person}
        windows = range(self.rounds + timing.grace_rounds) if contacts else range(0)
        last = {CURATOR: int(self.hand_in[person])}
        return [
            *(cover.Tick(clock.opens(number) + at, contacts) for number in windows),
            *(cover.Tick(clock.hand_in + turn * timing.round_seconds + at, last)
              for turn in range(cover.TICKS)),
        ]  # fmt: skip

    def paced(self, timing: Timing) -> Timing:
        """Repeat nothing before everyone has handed in: transports repeat cells."""
        windows = self.rounds + timing.grace_rounds + cover.TICKS + 1
        return cover.with_pause(timing, windows * timing.round_seconds)


def plan(
    walk: Walk,
    rounds: int,
    handing: Handing,
    report_bytes: int,
    cells: cover.CellFormat,
    budget: float,
) -> NetworkCover:
    """Find the fewest cells with which the chance of overflow is within the budget.

    Half of the budget is for reports on their way, an equal part of the other half for what each
    person holds at the end.
    """
    sizes = Sizes(cells, report_bytes, rounds)

    def together(count: int) -> int:
        return sizes.fitting(count, sizes.hop_cells, min(walk.n, MOST_TOGETHER))

    def enough(count: int) -> bool:
        fits = together(count)
        return fits > 0 and _overfull(fits, walk, rounds) * (1 + _ROUND) <= budget / 2

    low, high = 0, 1
    while not enough(high):
        if high == MOST_CELLS:
            raise BudgetInfeasible(
                f"cover would take more than {MOST_CELLS} cells per neighbour and round, where "
                f"one report takes {sizes.hop_cells(1)}: choose a randomizer with smaller reports, "
                "or give everyone random peers so that fewer reports go the same way",
                field="cover",
            )
        low, high = high, 2 * high
    # The last doubling is enough, so that only the numbers before it are tried.
    count = low + 1 + bisect.bisect_left(range(low + 1, high), True, key=enough)
    hand_in, held = _hand_in_cells(walk, rounds, handing, sizes, budget / 2)
    drawn = NetworkCover(walk, rounds, handing, count, together(count), hand_in, held, 0.0)
    return replace(drawn, overflow=drawn.overflow_on(walk))


def _hand_in_cells(
    walk: Walk, rounds: int, handing: Handing, sizes: Sizes, budget: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    # For each person: the fewest cells that are enough, and the reports that fit into them.
    cells = np.full(walk.n, sizes.hand_in_cells(1), np.int64)
    held = np.ones(walk.n, np.int64)
    if handing == "single":
        return cells, held
    loads, each, count = hand_in_loads(walk, rounds), budget / walk.n, int(cells[0])

    def over(people: NDArray[np.intp], fits: int) -> NDArray[np.intp]:
        # A little of the budget is kept for rounding up the sum.
        chances = tail(fits + 1, Loads(*(row[people] for row in loads)))
        return people[chances * (1 + 4 * _ROUND) > each]

    left = np.arange(walk.n)
    never = over(left, sizes.fitting(_MOST_HANDED_IN, sizes.hand_in_cells, walk.n))
    if never.size:
        raise BudgetInfeasible(
            f"with cover person {never[0]} would hand in more than {_MOST_HANDED_IN} cells "
            f"({loads.mean[never[0]]:.0f} reports expected): cap how many neighbours anyone has"
        )
    while left.size:
        fits = sizes.fitting(count, sizes.hand_in_cells, walk.n)
        cells[left], held[left] = count, fits
        left, count = over(left, fits), count + 1
    return cells, held


def covered_guarantee(curator: Guarantee, randomizer: Randomizer, overflow: float) -> Guarantee:
    """Return the guarantee against curator and hub together, from that against the curator."""
    more = (_COLLUDERS_FORWARD,) if curator.colluders else ()
    profile = ShiftedProfile(curator.profile, randomizer, overflow)
    return cover.against_hub(curator, profile, *more, without=accountant.NO_TRAFFIC)
