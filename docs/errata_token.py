"""The generated pieces of the errata on token walks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
from errata_claims import Claim, number, summary, table_of
from pieces import piece, table
from scipy.stats import binom

from incrowd.privacy import LocalProfile
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.sampled import RevealedProfile
from incrowd.protocols.token_walk.theorems.amplification_by_iteration import IteratedProfile
from incrowd.protocols.token_walk.theorems.ring import Ring
from incrowd.randomizers import KRR, RR
from incrowd.report.format import count, plain, small, up

SIGMA = 4.22467888932682
"""Gaussian noise with which one contribution in [0, 1] is (1, 1e-6)-private."""
RING = "tests/oracles/test_oracle_token_ring.py"
HIDDEN = "tests/oracles/test_oracle_token_hidden.py"
GRAPH = "tests/oracles/test_oracle_token_graph.py"
TABLES = "tests/experiments/test_token_experiments.py"


@cache
def _tails() -> tuple[float, float, int, float, float]:
    """Squared shifts of a published ring without and with the last noise, and bare tails.

    Then the δ of a published histogram without uniform elements at the end, and the one with them.
    """
    from test_oracle_token_ring import exact_loss, scales_of, worst_ring_delta

    bare = sum(
        not scales_of(Ring(n, laps))[(laps - 1) * n + v + 1 :].any()
        for n, laps in itertools.product(range(3, 9), range(1, 14))
        for v in range(n - 1)
    )
    krr, ring = KRR(categories=2, epsilon=math.log(3)), Ring(3, 1, published=True)
    hidden = ring.uniform_elements(krr.blanket().gamma)
    return (
        exact_loss(scales_of(Ring(3, 2)), 3, 2, 1, published=True),
        exact_loss(scales_of(Ring(3, 2, published=True)), 3, 2, 1, published=True),
        bare,
        float(worst_ring_delta(krr, 3, 1, Fraction(5, 4), hidden, 0)),
        ring.histogram_profile(krr).delta(math.log(5 / 4)),
    )


@piece
def errata_ring_tail() -> str:
    """What a published result shows without noise at the end."""
    without, with_noise, bare, open_end, closed = _tails()
    rows = [
        [
            "sum, three people, two laps: squared shift $\\Delta^2/\\sigma^2$ seen by person 2 of "
            "person 3",
            number(without),
            number(with_noise),
        ],
        [
            "histogram, three people, one lap, two values, e^ε0 = 3: δ at e^ε = 5/4",
            number(open_end),
            number(closed),
        ],
        ["triples of 3 to 8 people, 1 to 13 laps and an observer with a bare tail", str(bare), "0"],
    ]
    return table(["published result", "as printed", "with noise at the end"], rows)


@piece
def errata_noises() -> str:
    """The number of noises on a ring."""
    grid = list(itertools.product(range(2, 9), range(1, 14)))
    low = sum(laps * n // (n - 1) < Ring(n, laps).noises for n, laps in grid if n > 2)
    rows = [
        [str(n), str(laps), str(laps * n // (n - 1)), str(Ring(n, laps).noises)]
        for n, laps in ((3, 1), (100, 1), (5, 2), (5, 4))
    ]
    text = f"Of {len(grid)} rings of 2 to 8 people and 1 to 13 laps, {low} have one noise more."
    return f"{table(['n', 'K', 'printed', 'exact'], rows)}\n\n{text}"


@cache
def _spread(n: int) -> float:
    """The real ε of one lap with noise σ/√n each; ε = 1 was asked for."""
    return GaussianProfile(math.sqrt(n / (n - 1)) / SIGMA).epsilon(1e-6)


@piece
def errata_spread() -> str:
    """The ε of noise that is spread as printed."""
    return table(
        ["n", "asked for", "ε of one block"], [[str(n), "1", up(_spread(n))] for n in (3, 10)]
    )


@cache
def _laps() -> tuple[float, float]:
    """Ten laps: by the printed composition, and exactly."""
    from experiments.paper_token_walk import advanced_composition

    return advanced_composition(1.0, 10, 1e-6), Ring(50, 10).profile(
        GaussianProfile(1 / SIGMA)
    ).epsilon(1e-6)


@piece
def errata_ring_composition() -> str:
    """Ten laps by the printed composition and exactly."""
    printed, exact = _laps()
    return table(["laps", "printed ε", "exact ε at δ = 1e-6"], [["10", plain(printed), up(exact)]])


@cache
def _cycles() -> list[tuple[int, float, float]]:
    """People and steps n = m, the ε of equation (10), and the δ that it has."""
    from test_oracle_token_hidden import group_mixture_delta

    found = []
    for n in (20, 100, 1000):
        printed = math.log1p((1 - (1 - 1 / n) ** n) * math.expm1(1 / math.sqrt(n)))
        found.append((n, printed, group_mixture_delta(n, n, SIGMA, printed)))
    return found


@piece
def errata_cycle() -> str:
    """The exact δ at the ε of equation (10)."""
    rows = [[count(n), plain(e), small(1e-6), plain(d, 2)] for n, e, d in _cycles()]
    return table(["n = m", "printed ε", "claimed δ", "exact δ"], rows)


@cache
def _visits() -> tuple[float, float]:
    from experiments.paper_token_walk import paper_visits

    most = paper_visits(1000, 1000, 1e-6)
    return most, float(binom.sf(math.floor(most), 1000, 1e-3))


@piece
def errata_visits() -> str:
    """The printed number of visits, and how often there are more."""
    most, chance = _visits()
    least = math.ceil(3 * math.log(1e6))
    rows = [
        ["printed $N_v$ for $T=n=1000$, $\\hat\\delta=10^{-6}$", plain(most)],
        ["chance of more visits than that", plain(chance, 2)],
        ["steps per person from which the Chernoff form holds", str(least)],
    ]
    return table(["", ""], rows)


@cache
def _composed() -> tuple[float, float, float]:
    """A thousand uses of binary response with c = 3/√10: printed, exact, as it is right."""
    from experiments.paper_token_walk import advanced_composition

    n, k, delta = 10, 1000, 1e-6
    c = 3 / math.sqrt(n)
    printed = math.sqrt(2 * k * math.log(1 / delta)) * c + math.sqrt(k) * math.expm1(c)
    truth = RepeatedProfile(RevealedProfile(LocalProfile(RR(epsilon=c)), 1.0), k).epsilon(delta)
    return printed, truth, advanced_composition(c, k, delta)


@piece
def errata_composition() -> str:
    """The printed composition beside exact values and the one that is meant."""
    from experiments.paper_token_walk import (
        advanced_composition,
        paper_theorem_3,
        paper_theorem_6,
        paper_visits,
    )

    rows = [["1,000 uses of binary response", *(plain(x) for x in _composed())]]
    for name, theorem, factor, n in (
        ("Theorem 3, n = 20", paper_theorem_3, 3.0, 20),
        ("Theorem 3, n = 10,000", paper_theorem_3, 3.0, 10_000),
        ("Theorem 6, n = 4,000", paper_theorem_6, 21 * math.sqrt(math.log(4e6)), 4000),
    ):
        cycles = paper_visits(n, 100 * n, 1e-6) + 100
        meant = advanced_composition(factor / math.sqrt(n), cycles, 1e-6)
        rows.append([name, plain(theorem(n, 100 * n, 1.0, 1e-6).epsilon), "–", plain(meant)])
    return table(["", "printed", "exact", "the composition that is meant"], rows)


@cache
def _program() -> tuple[float, float, float]:
    """Figure 1(a) at ten thousand people: by the program, by the text, exactly."""
    from experiments.paper_token_walk import code_figure_1a, paper_local

    rows = {row["n"]: row for row in table_of("token_sum")}
    return (
        code_figure_1a(10_000, 10**6, 1.0, 1e-6, local=True),
        paper_local(10_000, 10**6, 1.0, 1e-6).epsilon,
        float(rows["10,000"]["local, exact"]),
    )


@piece
def errata_program() -> str:
    """What the program behind Figure 1 computes, and what the text says."""
    from experiments.paper_token_walk import code_pair_losses

    alone = np.array([1.0, 1.0, 2**-0.5])
    off, right = (
        code_pair_losses(np.array([0, 1, 0]), 2, alone, 1e-7, off_by_one=each)[0, 1]
        for each in (True, False)
    )
    by_code, by_text, exact = _program()
    rows = [
        ["Figure 1(a), local curve at n = 10,000", plain(by_code), plain(by_text), plain(exact)],
        ["Figure 1(b), walk $v,u,v$, both contributions known", plain(off), plain(right), "–"],
    ]
    return table(["", "program", "by the text", "exact"], rows)


@cache
def _one_contribution() -> tuple[float, float]:
    """Two people, α = 2, σ = 5L: Lemma 1 and the exact divergence."""
    return 4 * 2 * math.log(2) / (5**2 * 2), IteratedProfile(2 / 5, 2, 1).divergence(2.0)


@piece
def errata_one_contribution() -> str:
    """Lemma 1 for one contribution, beside the exact divergence."""
    printed, exact = _one_contribution()
    n = 1000
    s = np.arange(1, 100 * n)
    mean = float(np.sum((1 / n) * (1 - 1 / n) ** (s - 1) / s))
    rows = [
        ["$D_2$ of one contribution, $n=2$, $\\sigma=5L$", number(printed, 6), number(exact, 6)],
        ["mean of $1/s$, $n=1000$", number(math.log(n) / n, 6), number(mean, 6)],
    ]
    return table(["", "printed", "exact"], rows)


@cache
def _contributions() -> tuple[float, float, float]:
    """Lemma 1 for 20 contributions, n = 2, α = 2, σ = 10L; exact for linear losses; proven."""
    lam, cap = 2 * 0.2**2 / 2, 20
    after = np.arange(1, 200)
    moment = [1.0]
    for m in range(1, cap + 1):
        last = float(np.sum(0.5**after * np.exp(lam * m**2 / (m - 1 + after))))
        runs = sum(0.5**k * math.exp(lam * k) * moment[m - k] for k in range(1, m))
        moment.append(runs + 0.5 ** (m - 1) * last)
    printed = 4 * cap * 2 * math.log(2) / (10**2 * 2)
    return printed, math.log(moment[cap]), IteratedProfile(0.2, 2, cap).divergence(2.0)


@piece
def errata_contributions() -> str:
    """Lemma 1 for several contributions, beside the exact divergence."""
    from test_oracle_token_graph import linear_loss

    printed, exact, proven = _contributions()
    seen = linear_loss((0, 0, 1), 0, {1}, 9, False)
    rows = [
        [
            "walk $u,u,v$: coefficient of $2\\alpha L^2/\\sigma^2$",
            plain(1 / 2 + 1),
            plain(seen),
            "–",
        ],
        [
            "$D_2$ of 20 contributions, $n=2$, $\\sigma=10L$",
            plain(printed),
            plain(exact),
            up(proven),
        ],
    ]
    return table(["", "printed", "exact", "proven"], rows)


@piece
def errata_token() -> str:
    """The claims on token walks."""
    sums = {row["n"]: row for row in table_of("token_sum")}
    return summary(
        [
            Claim(
                "Algorithms 1 and 2, a published result",
                "noise every $n-1$ steps, from the first",
                "and at the last step, if the result is shown",
                f"three people, two laps: a squared shift of {number(_tails()[0])}",
                f"{RING}::test_published_ring_without_last_noise_reveals_values",
            ),
            Claim(
                "Theorem 1, utility",
                r"$\lfloor Kn/(n-1)\rfloor$ noises",
                r"$\lceil Kn/(n-1)\rceil$",
                f"one lap of 100: 1 printed, {Ring(100, 1).noises} exact",
                f"{RING}::test_printed_number_of_noises_is_too_small",
            ),
            Claim(
                "Remark 1",
                r"$\sigma_{loc}/\sqrt n$ each",
                r"$\sigma_{loc}/\sqrt{n-1}$",
                f"n = 3: ε = {up(_spread(3))} where 1 was asked for",
                f"{RING}::test_printed_spread_is_too_thin",
            ),
            Claim(
                "Theorem 1, privacy",
                "advanced composition over $K$ laps",
                "safe; exact for Gaussian noise",
                f"ten laps: {plain(_laps()[0])} printed, {up(_laps()[1])} exact",
                f"{RING}::test_printed_composition_is_loose",
            ),
            Claim(
                "Equation (10)",
                r"$\delta$ of one record, sampled with replacement",
                r"the curve of a group of $k$ for one who is drawn $k$ times",
                f"n = m = 20: δ = {plain(_cycles()[0][2], 2)} where 1e-6 is claimed",
                f"{HIDDEN}::test_printed_cycle_is_no_bound",
            ),
            Claim(
                "Theorem 3, $N_v$",
                r"$\frac Tn+\sqrt{\frac{3T}n\ln\frac1{\hat\delta}}$",
                r"the same for $T\ge3n\ln\frac1{\hat\delta}$; else the binomial quantile",
                f"T = n = 1000: exceeded with chance {plain(_visits()[1], 2)}, not 1e-6",
                f"{HIDDEN}::test_printed_number_of_visits_is_exceeded_too_often",
            ),
            Claim(
                "Appendix D, last display; Theorem 6",
                r"$\sqrt k\,\varepsilon(e^{\varepsilon_c}-1)$",
                r"$k\,\varepsilon_c(e^{\varepsilon_c}-1)$",
                f"{plain(_composed()[0])} printed, {plain(_composed()[1])} exact",
                f"{HIDDEN}::test_printed_composition_is_no_bound",
            ),
            Claim(
                "Section 4.1, comparison",
                r"improves on local privacy from $n\ge20$",
                "on a loose bound of it; on its exact value only from larger crowds on",
                "n = 100: {} printed, {} local, exact".format(
                    sums["100"]["printed"], sums["100"]["local, exact"]
                ),
                f"{TABLES}::TestResults::test_sum_results_are_ordered",
            ),
            Claim(
                "Figure 1, the program",
                r"$\frac{3T}2$ in the number of visits; own noise counted",
                r"$\frac{3T}n$; only the noise of others",
                "local curve: {} by program, {} by the text".format(*map(plain, _program()[:2])),
                f"{TABLES}::TestPaperFormulas::test_paper_code_counts_ever_more_visits",
            ),
            Claim(
                "Lemma 1, one contribution",
                r"mean of $1/s$ is $\frac{\ln n}n$",
                r"$\frac{\ln n}{n-1}$",
                "n = 2: {} printed, {} exact".format(*(number(x, 6) for x in _one_contribution())),
                f"{GRAPH}::test_printed_divergence_of_one_contribution_is_too_small",
            ),
            Claim(
                "Lemma 1, several contributions",
                "divergences add up",
                "those before one visit are seen in one model",
                "20 contributions: {} printed, {} exact".format(*map(plain, _contributions()[:2])),
                f"{GRAPH}::test_divergences_of_contributions_do_not_add_up",
            ),
        ]
    )
