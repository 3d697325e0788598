"""The generated pieces of the errata on network shuffling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from errata_claims import Claim, number, summary, table_of, times
from pieces import piece, table

from incrowd.graphs import from_edges
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.randomizers import Generic
from incrowd.report.format import count, down, plain, small, up

NETWORK = "tests/oracles/test_oracle_paper_network.py"
FACEBOOK = (22_470, 5.0064)
"""The number of people and Γ that the paper prints for its Facebook graph."""


@dataclass(frozen=True)
class Collision:
    """Σ P² above Σ π² on ten triangles that share a vertex: exact, as printed, as it is right."""

    start: str
    rounds: int
    exact: float
    printed: float
    right: float


@cache
def _collisions() -> tuple[Collision, ...]:
    from experiments.paper_network_shuffle import paper_collision

    leaves = np.arange(1, 21)
    graph = from_edges(np.append(np.zeros(20, int), leaves[::2]), np.append(leaves, leaves[1::2]))
    walk, pi, gap = graph.transition().toarray(), graph.stationary(), graph.spectral_gap()
    rest, spread = pi @ pi, max(0.0, float(np.sum(pi**3) - (pi @ pi) ** 2))
    found = []
    for name, start, rounds in (("leaf", 1, 1), ("hub", 0, 10), ("hub", 0, 20)):
        law = np.linalg.matrix_power(walk, rounds)[start]
        far, decay = 1 / pi[start] - 1, (1 - gap) ** rounds
        right = 2 * decay * math.sqrt(far * spread) + decay**2 * pi.max() * far
        # The difference of two sums would lose the digits that matter after 20 rounds.
        excess = float((law - pi) @ (law + pi))
        found.append(Collision(name, rounds, excess, paper_collision(0.0, gap, rounds), right))
    return (*found, Collision("rest", 0, float(rest), float(rest), float(rest)))


@piece
def errata_collision() -> str:
    """The collision probability above its limit: exact, as printed, as it is right."""
    *found, rest = _collisions()
    rows = [
        [
            c.start,
            str(c.rounds),
            *map(number, (c.exact, c.printed, c.right)),
            times(c.exact / c.printed),
        ]
        for c in found
    ]
    head = ["start", "rounds", "exact", "printed", "right", "exact over printed"]
    return f"Excess of $\\sum P^2$ over $\\sum\\pi^2={number(rest.exact)}$:\n\n{table(head, rows)}"


@piece
def errata_count_norm() -> str:
    """The norm of the counts: printed, right, and how often the printed one is exceeded."""
    from experiments.paper_network_shuffle import paper_count_norm

    rows = []
    for n, at in ((2, 0.95), (2000, 0.9), (2000, 0.95)):
        printed, pairs = paper_count_norm(n, 1 / n, at), math.comb(n, 2)
        # ‖L‖² = n + 2·(pairs that meet), and pairs meet pairwise independently.
        mean, variance = n + 2 * pairs / n, 4 * pairs * (1 / n) * (1 - 1 / n)
        below = mean - printed**2
        # Two people have ‖L‖² = 2 or 4. For more, Cantelli's inequality.
        exceeds = 1.0 if printed**2 < n else 1 - variance / (variance + below**2)
        right = math.sqrt(mean) + math.sqrt(n * math.log(1 / at))
        rows.append([count(n), *map(number, (at, printed, math.sqrt(mean), right)), down(exceeds)])
    head = ["n", "allowed δ", "printed", "√E‖L‖²", "right", "printed is exceeded with chance ≥"]
    return table(head, rows)


@dataclass(frozen=True)
class Pendant:
    """What both theorems claim for a victim at the edge of a complete graph, and the exact δ."""

    m: int
    epsilon0: float
    every: float
    every_delta: float
    single: float
    single_delta: float


@cache
def _pendants() -> tuple[Pendant, ...]:
    from network_enumeration import (
        pendant_delta,
        pendant_gap,
        pendant_single_delta,
        pendant_stationary_collision,
    )

    from experiments.paper_network_shuffle import (
        paper_all_stationary,
        paper_collision,
        paper_single,
    )

    found = []
    for m, epsilon0 in ((10**5, 0.5), (10**7, 1.0)):
        collision = paper_collision(pendant_stationary_collision(m), pendant_gap(m), 1)
        every = paper_all_stationary(epsilon0, m + 1, collision, 1e-6, 1e-6)
        single = paper_single(epsilon0, collision, 1e-6)
        E = math.exp(epsilon0)
        found.append(
            Pendant(
                m,
                epsilon0,
                every,
                pendant_delta(m, E, math.exp(every)),
                single,
                pendant_single_delta(m, E, math.exp(single)),
            )
        )
    return tuple(found)


@piece
def errata_pendant() -> str:
    """What Theorem 5.3 claims of a victim at the edge of a complete graph, and the exact δ."""
    rows = [
        [count(p.m), plain(p.epsilon0), plain(p.every), small(2e-6), down(p.every_delta)]
        for p in _pendants()
    ]
    return table(["m", "ε0", "claimed ε", "claimed δ", "exact δ at that ε"], rows)


@piece
def errata_pendant_single() -> str:
    """The same of Theorem 5.5, and its formula with the victim's own walk."""
    from experiments.paper_network_shuffle import paper_single

    rows = [
        [
            count(p.m),
            *map(plain, (p.epsilon0, p.single)),
            small(1e-6),
            down(p.single_delta),
            plain(paper_single(p.epsilon0, 1.0, 1e-6)),
        ]
        for p in _pendants()
    ]
    head = ["m", "ε0", "claimed ε", "claimed δ", "δ at least", "formula with $\\sum P^2=1$"]
    return table(head, rows)


@cache
def _stationary() -> list[tuple[float, float, float, float]]:
    """ε0, and ε as printed, with Lemma 5.1 corrected, and as a trusted shuffler has it."""
    from experiments.paper_network_shuffle import paper_all_stationary, paper_stationary_collision

    n, irregularity = FACEBOOK
    collision = paper_stationary_collision(n, irregularity)
    # The missing 1/n of Lemma 5.1, put into Σ P².
    mended = collision + 1 / (n - 1)
    return [
        (
            epsilon0,
            paper_all_stationary(epsilon0, n, collision, 1e-6, 1e-6),
            paper_all_stationary(epsilon0, n, mended, 1e-6, 1e-6),
            blanket_profile(Generic(epsilon=epsilon0), n).epsilon(2e-6),
        )
        for epsilon0 in (0.2, 0.5, 1.0, 1.5, 2.0)
    ]


@piece
def errata_stationary() -> str:
    """Theorem 5.3 at its limit beside the trusted shuffler."""
    rows = [
        [plain(epsilon0), up(printed), up(mended), up(ours)]
        for epsilon0, printed, mended, ours in _stationary()
    ]
    head = ["ε0", "Theorem 5.3", "with Lemma 5.1 corrected", "trusted shuffler"]
    n, irregularity = FACEBOOK
    size = f"{count(n)} people and Γ = {irregularity}, as printed for the Facebook graph"
    return f"The ε at a total δ of {small(2e-6)}, with {size}:\n\n{table(head, rows)}"


def _simplified(epsilon0: float) -> tuple[float, float]:
    from experiments.paper_network_shuffle import paper_single_approximate, paper_single_simplified

    arguments = (epsilon0, 1e-3, 1e-6)
    return paper_single_simplified(*arguments), paper_single_approximate(*arguments)


@piece
def errata_simplified() -> str:
    """The short form of Theorem 5.5 beside the long one."""
    rows = []
    for epsilon0 in (0.05, 0.125, 0.2, 0.5, 1.0):
        short, full = _simplified(epsilon0)
        rows.append([plain(epsilon0), plain(short), plain(full), plain(full / short)])
    return table(["ε0", "short form", "full form", "full over short"], rows)


def _largest_gamma() -> str:
    row = max(table_of("network_gamma"), key=lambda each: float(each["printed"]))
    return f"{row['graph']}: {row['printed']} printed, {row['Γ']} from the graph"


@piece
def errata_network() -> str:
    """The claims on network shuffling."""
    friends, first, at_one = _collisions()[1], _pendants()[0], _stationary()[2]
    return summary(
        [
            Claim(
                "Equation (7)",
                r"$\sum_iP_i^2\le\sum_i\pi_i^2+(1-\alpha)^{2t}$",
                r"with a cross term in $(1-\alpha)^t$; as printed on regular graphs",
                (
                    f"excess {number(friends.exact)}, allowed {number(friends.printed)} "
                    f"({times(friends.exact / friends.printed)})"
                ),
                f"{NETWORK}::test_collision_bound_fails_on_a_graph_of_friends",
            ),
            Claim(
                "Lemma 5.1",
                r"$\lVert L\rVert_2\le\sqrt{(n^2-n)\sum P^2}+\sqrt{n\log(1/\delta)}$",
                r"$n+(n^2-n)\sum P^2$ under the first root",
                "two people, δ = 0.95: always exceeded",
                f"{NETWORK}::test_count_norm_fails_for_two_people",
            ),
            Claim(
                "Theorem 5.3, finitely many rounds",
                r"$\varepsilon$ from $\sum P^2$ by equation (7)",
                "each person's own walk, with the crowd that it has met",
                (
                    f"claimed ({plain(first.every)}, {small(2e-6)}); "
                    f"exact δ there {down(first.every_delta)}"
                ),
                f"{NETWORK}::test_printed_all_mode_bound_is_below_truth",
            ),
            Claim(
                "Theorem 5.3, stationary",
                r"$\varepsilon$ of order $e^{3\varepsilon_0}\sqrt{\Gamma/n}$",
                "the ε of a trusted shuffler, on every graph",
                f"ε0 = 1: {up(at_one[1])} printed, {up(at_one[3])} proven",
                "tests/oracles/test_oracle_network_enumeration.py"
                "::test_equal_laws_give_trusted_shuffler",
            ),
            Claim(
                "Theorems 5.5 and 5.6",
                r"$\sum P^2$ by equation (7), or “of any user”",
                r"the same formula with the largest exact $\sum P^2$",
                (
                    f"claimed ({plain(first.single)}, {small(1e-6)}); "
                    f"δ there at least {down(first.single_delta)}"
                ),
                f"{NETWORK}::test_printed_all_mode_bound_is_below_truth",
            ),
            Claim(
                "Theorem 5.5, short form",
                r"for $\varepsilon_0\le1$",
                r"for $\varepsilon_0\le\frac18$",
                (
                    "ε0 = 1: too small by a factor of "
                    + plain(_simplified(1.0)[1] / _simplified(1.0)[0], 2)
                ),
                f"{NETWORK}::test_simplified_bound_fails_beyond_an_eighth",
            ),
            Claim(
                "Table 4",
                r"$\Gamma$ of its graphs",
                r"$\Gamma=n\sum\pi^2$ with $\pi$ from all edges of a person",
                _largest_gamma(),
                "tests/experiments/test_experiments_network_shuffle.py"
                "::test_published_gamma_equals_one_sided_count",
            ),
        ]
    )
