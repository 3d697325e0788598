"""What the paper on token walks prints, and what its code computes, for comparison only.

*Privacy Amplification by Decentralization*, by Edwige Cyffers and Aurélien Bellet. Its Theorems 3
and 6 charge a person who contributes several times between two visits of an observer as if once,
compose with a term that is too small, and count visits by a tail bound outside of its range. What
holds instead is proven in ``docs/theory/token_walk.md``. The library never uses a formula of this
module, and nothing that is computed here is a guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Stated",
    "advanced_composition",
    "code_figure_1a",
    "code_kairouz",
    "code_pair_losses",
    "mended_theorem_3",
    "mended_theorem_6",
    "paper_local",
    "paper_theorem_3",
    "paper_theorem_6",
    "paper_visits",
]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Stated:
    """An ε and the δ at which it is stated."""

    epsilon: float
    delta: float


def advanced_composition(epsilon: float, times: float, delta: float) -> float:
    """The ε of so many uses, by advanced composition with slack ``delta``; this one holds."""
    spread = math.sqrt(2 * times * math.log(1 / delta)) * epsilon
    return spread + times * epsilon * math.expm1(epsilon)


def _printed_composition(cycle: float, epsilon: float, times: float, delta: float) -> float:
    """The last display of Appendix D, and of Theorem 6: its second term is too small."""
    spread = math.sqrt(2 * times * math.log(1 / delta)) * cycle
    return spread + math.sqrt(times) * epsilon * math.expm1(cycle)


def _composition(epsilon: float, times: float, delta: float) -> float:
    """Advanced composition, or the sum of all ε where that is smaller."""
    return min(advanced_composition(epsilon, times, delta), epsilon * times)


def paper_visits(n: float, steps: float, delta: float) -> float:
    """N_v: "nobody is visited more often", a Chernoff bound.

    It holds for T ≥ 3n·ln(1/δ̂) only, a condition that is not printed: at T = n = 1000 and
    δ̂ = 10⁻⁶ more than 7.44 visits have probability 10⁻⁵.
    """
    return steps / n + math.sqrt(3 * steps / n * math.log(1 / delta))


def paper_theorem_3(n: int, steps: int, epsilon: float, delta: float) -> Stated:
    """The full formula at the end of Appendix D, all its δs the same.

    The second term reads √k·ε·(e^c − 1) where advanced composition needs k·c·(e^c − 1), with
    c = 3ε/√n: too small as soon as k > n/9.
    """
    k = paper_visits(n, steps, delta) + steps / n
    cycle = 3 * epsilon / math.sqrt(n)
    return Stated(_printed_composition(cycle, epsilon, k, delta), k * delta + 2 * delta)


def mended_theorem_3(n: int, steps: int, epsilon: float, delta: float) -> Stated:
    """The same with the composition as it must be. What goes into it is not proven either."""
    k = paper_visits(n, steps, delta) + steps / n
    cycle = 3 * epsilon / math.sqrt(n)
    return Stated(_composition(cycle, k, delta), k * delta + 2 * delta)


def code_figure_1a(n: int, steps: int, epsilon: float, delta: float, *, local: bool) -> float:
    """What the authors' program plots in Figure 1(a), "random contribution".

    Its number of visits is T/n + √(3T/2·ln(1/δ)): T/2 in place of T/n. That grows with √n although
    everyone contributes a hundred times on average, so both curves bend upwards. Its composition is
    the right one, and the sum of all ε where that is smaller.
    """
    visits = steps / n + math.sqrt(3 * steps / 2 * math.log(1 / delta))
    one, times = (epsilon, visits) if local else (3 * epsilon / math.sqrt(n), visits + steps / n)
    return _composition(one, times, delta)


def paper_local(n: int, steps: int, epsilon: float, delta: float) -> Stated:
    """The paper's comparison: N_v contributions, each seen, by advanced composition."""
    visits = paper_visits(n, steps, delta)
    return Stated(advanced_composition(epsilon, visits, delta), visits * delta + 2 * delta)


def paper_theorem_6(n: int, steps: int, epsilon: float, delta: float) -> Stated:
    """Histograms, as printed; with the same slip in the second term as Theorem 3.

    Needs n ≥ 14²·ln(4/δ) and ε ≤ 1.
    """
    k = paper_visits(n, steps, delta) + steps / n
    cycle = 21 * epsilon * math.sqrt(math.log(4 / delta) / n)
    return Stated(_printed_composition(cycle, epsilon, k, delta), k * delta + 2 * delta)


def mended_theorem_6(n: int, steps: int, epsilon: float, delta: float) -> Stated:
    """The same with the composition as it must be. What goes into it is not proven either."""
    k = paper_visits(n, steps, delta) + steps / n
    cycle = 21 * epsilon * math.sqrt(math.log(4 / delta) / n)
    return Stated(_composition(cycle, k, delta), k * delta + 2 * delta)


def code_pair_losses(
    path: NDArray[np.int64], n: int, alone: FloatArray, delta: float, *, off_by_one: bool = True
) -> FloatArray:
    """The ε of all pairs on one path as Figures 1(b) and 3 compute it: rows observe columns.

    ``alone[m]`` is the ε that a cycle of m contributions has for somebody who is known to be in it;
    whoever is not known to be is charged as if sampled. A cycle is as long as the time between two
    visits, which counts the observer's own contribution, whose noise the observer knows: two steps
    for the walk v, u, v, in which one noise protects u. Without ``off_by_one`` that is mended. Only
    the holders right after and right before a visit are known to be in a cycle; who contributed
    there a second time in between is not charged for it, and what follows the last visit is not
    charged at all.
    """
    found = np.zeros((n, n))
    for observer in range(n):
        visits = np.flatnonzero(path == observer)
        # The first holder is known to all, and counts as the one whom everybody sent to first.
        begins = np.append(0 if observer == path[0] else -1, visits)
        visits = visits[visits > 0]
        begins = begins[: visits.size] if observer != path[0] else begins[1 : visits.size + 1]
        size = visits - (np.maximum(begins, 0) if off_by_one else begins + 1)
        inside = size > 0
        visits, begins, size = visits[inside], begins[inside], size[inside]
        if not visits.size:
            continue
        sampled = np.log1p(-np.expm1(size * math.log1p(-1 / n)) * np.expm1(alone[size]))
        losses = np.repeat(sampled[:, None], n, axis=1)
        known = np.zeros(losses.shape)
        cycles = np.arange(visits.size)
        for spotted in (path[visits - 1], path[begins + 1]):
            np.add.at(known, (cycles, spotted), 1)
        losses = np.where(known > 0, known * alone[size][:, None], losses)
        found[observer] = code_kairouz(losses, visits.size * delta)
        found[observer, observer] = 0.0
    return found


def code_kairouz(losses: FloatArray, delta: float) -> FloatArray:
    """The heterogeneous composition that the authors' program uses, along the first axis.

    From "The Composition Theorem for Differential Privacy" (Kairouz, Oh, Viswanath); it holds for
    pure ε, and the δs of Gaussian contributions are not charged.
    """
    first = (losses * np.tanh(losses / 2)).sum(axis=0)
    squares = (losses**2).sum(axis=0)
    if delta >= 1:
        return np.asarray(losses.sum(axis=0))
    spread = np.minimum(math.log(1 / delta), np.log(math.e + np.sqrt(squares) / delta))
    return np.asarray(np.minimum(losses.sum(axis=0), first + np.sqrt(2 * squares * spread)))
