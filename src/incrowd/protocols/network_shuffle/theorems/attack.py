"""Attack on one person: look only where their report is likely to be.

Until the walks have mixed, a report is found near its owner more often than others are. Let A be a
set of people, p the chance that the victim's report ends with one of them, and q the law of how
many other reports do. If all others hold one value, their reports are independent draws from one
law W, and what the curator sees in A alone has the exact curve

    δ(t) = Σ_m E_W[(p·q(m−1)/m · Σ_{i≤m} (a − t·b)(y_i) + (1 − p)·q(m)·(1 − t))₊],   t = e^ε,

with a and b the densities of the victim's two answers under W. Every term is non-negative, so any
part of the sum is a lower bound of the true δ: ``docs/theory/network_shuffle.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.graphs.graph import Graph
from incrowd.privacy.local import LocalProfile
from incrowd.privacy.multinomial import listing
from incrowd.privacy.search import crossing
from incrowd.protocols.network_shuffle.theorems.walk import Doubles, Walk
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.law import PairLaw

_SETS = (1, 2, 4, 8, 16, 32, 64)
_MOST_OTHERS = 40.0
"""Expected other reports beyond which a set hides the victim about as well as all."""
_MOST_ATOMS = 4
_MOST_SEEN = 80
_ROUNDING = 1e-11
"""Far more than the relative rounding of sums of products of chances."""


@dataclass(frozen=True, eq=False)
class NeighbourhoodAttack:
    """Attack on ``victim`` after these rounds, for the best of several sets A."""

    walk: Walk
    rounds: int
    victim: int
    randomizer: Randomizer

    def lower(self, delta: float) -> float | None:
        """Return the largest ε that is attained at this δ, rounded down; none when none is."""
        checks.delta(delta)
        ceiling = LocalProfile(self.randomizer).epsilon(delta)
        best: float | None = None
        for curve in self._curves:
            start = ceiling / 2 if best is None else best
            # Only an attack that does better than the best so far is worth solving for.
            if curve.delta(start if best is not None else 0.0) > delta:
                found = crossing(curve.delta, delta, max(start, ceiling / 8), ceiling, 1e-4).above
                best = found if best is None else max(best, found)
        return best

    def attained(self) -> tuple[()]:
        """Return nothing: the losses of a repeated attack are not computed."""
        return ()

    @cached_property
    def _curves(self) -> tuple[_Curve, ...]:
        laws = [law for law in self.randomizer.attack() if law.mass.size <= _MOST_ATOMS]
        ways = [way for law in laws for way in ((law,) if law.symmetric else (law, law.swapped()))]
        sets = self._sets() if ways else ()
        return tuple(_Curve.of(way, inside, others) for inside, others in sets for way in ways)

    def _sets(self) -> Iterator[tuple[float, Doubles]]:
        """For each set: the victim's chance to be inside, and the law of how many others are."""
        # Where the victim's report ends, and where a random one does.
        block = np.zeros((self.walk.n, 2))
        block[self.victim, 0], block[:, 1] = 1.0, 1 / self.walk.n
        for number in range(self.rounds):
            block = self.walk.after(number, block)
        law, common = block.T
        ratio = np.divide(law, common, out=np.zeros_like(law), where=common > 0)
        nearest = np.argsort(-ratio, kind="stable")
        for size in _SETS:
            chosen = nearest[:size]
            if size > self.walk.n or law[chosen].sum() <= 0:
                return
            chance = self._chance_to_end_in(chosen)
            inside, chance[self.victim] = float(chance[self.victim]), 0.0
            if chance.sum() > _MOST_OTHERS:
                return
            yield min(1.0, inside), _how_many(chance)

    def _chance_to_end_in(self, chosen: NDArray[np.intp]) -> Doubles:
        # Backwards in time, for everyone's report.
        chance, graphs = np.zeros(self.walk.n), self.walk.graphs
        chance[chosen] = 1.0
        for number in reversed(range(self.rounds)):
            moved = _mean_of_neighbours(graphs[number % len(graphs)], chance, self.walk.laziness)
            away = self.walk.away_in(number)
            chance = moved if away is None else np.where(away, chance, moved)
        return chance


@dataclass(frozen=True, eq=False)
class _Curve:
    """Outcomes in A that are counted: their weight, and their densities."""

    weight: Doubles
    first: Doubles
    second: Doubles
    rest: Doubles

    @staticmethod
    def of(law: PairLaw, inside: float, others: Doubles) -> _Curve:
        found = []
        # Beyond the last chance that is known, nothing may be left out of a term.
        for count, (before, now) in enumerate(pairwise([0.0, *others])):
            counts, chance = listing(law.mass, count)
            scale = inside * before / max(count, 1)
            rest = np.full(chance.size, (1 - inside) * now)
            found.append((chance, scale * (counts @ law.a), scale * (counts @ law.b), rest))
        return _Curve(*map(np.concatenate, zip(*found, strict=True)))

    def delta(self, epsilon: float) -> float:
        t = math.exp(epsilon)
        said = self.first - t * self.second + self.rest * (1 - t)
        doubt = _ROUNDING * (self.first + t * self.second + self.rest * (1 + t))
        return float(self.weight @ np.maximum(said - doubt, 0.0)) * (1 - _ROUNDING)


def _mean_of_neighbours(graph: Graph, chance: Doubles, laziness: float) -> Doubles:
    moved = graph.adjacency() @ chance / np.maximum(graph.degrees, 1)
    return np.where(graph.degrees > 0, laziness * chance + (1 - laziness) * moved, chance)


def _how_many(chance: Doubles) -> Doubles:
    mean = float(chance.sum())
    size = min(_MOST_SEEN, math.ceil(mean + 12 * math.sqrt(mean) + 12))
    law = np.zeros(size + 1)
    law[0] = 1.0
    for each in chance[chance > 0]:
        law[1:] = law[1:] * (1 - each) + law[:-1] * each
        law[0] *= 1 - each
    return law
