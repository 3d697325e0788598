"""The generated pieces of the errata on shuffled check-in."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

from errata_claims import Claim, number, summary, table_of
from pieces import piece, table

from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.privacy.renyi import shuffled_gaussian_renyi
from incrowd.randomizers import Generic
from incrowd.report.format import count, down, plain, up

CHECK_IN = "tests/oracles/test_oracle_paper_check_in.py"
GAUSSIAN = "tests/oracles/test_oracle_gaussian.py"
CHECK_IN_TABLES = "tests/experiments/test_check_in_experiments.py"


@cache
def _closed_form() -> tuple[float, float, float]:
    """Equation (8) for 140 reports at ε0 = 8, what an attack attains, and what is proven."""
    from check_in_enumeration import paper_shuffle_epsilon

    profile = blanket_profile(Generic(epsilon=8.0), 140)
    return paper_shuffle_epsilon(8.0, 140, 1e-4), profile.lower(1e-4), profile.epsilon(1e-4)


@piece
def errata_closed_form() -> str:
    """Where the closed form for shuffling may be used, and what it gives elsewhere."""
    formula, attained, proven = _closed_form()
    needed = [math.ceil(16 * math.exp(e) * math.log(2 / 1e-4)) for e in (2.0, 8.0)]
    rows = [
        ["reports that the condition asks for at ε0 = 2, δ = 1e-4", count(needed[0])],
        ["the same at ε0 = 8", count(needed[1])],
        ["equation (8) for 140 reports at ε0 = 8", plain(formula)],
        ["an attack attains", down(attained)],
        ["proven", up(proven)],
    ]
    return table(["", ""], rows)


@cache
def _theorem_1() -> tuple[tuple[float, float], tuple[float, float]]:
    """ε and δ without β of Theorem 1 as printed, and as its proof has them."""
    from check_in_enumeration import paper_shuffle_epsilon, paper_theorem_1

    epsilon0, n, people, delta, delta0 = 2.0, 10_000, 100, 1e-4, 1e-8
    shuffled = paper_shuffle_epsilon(epsilon0, people, delta)
    share = people / n
    others = (1 + math.exp(-epsilon0) / 2) * people * delta0
    return paper_theorem_1(epsilon0, n, people, delta, delta0), (
        math.log1p(share * math.expm1(shuffled)),
        share * (delta + (math.exp(shuffled) + 1) * others),
    )


@piece
def errata_check_in_theorem_1() -> str:
    """Theorem 1 as printed and by its proof."""
    printed, proven = _theorem_1()
    rows = [
        [name, *map(number, pair)]
        for name, pair in zip(("as printed", "by its proof"), (printed, proven), strict=True)
    ]
    return table(["", "ε", "δ without β"], rows)


@cache
def _zeta() -> tuple[float, float, float, float, float]:
    """Order-2 divergences of two small check-ins: the truth beside two printed forms.

    First with the printed ζ, then without the empty round.
    """
    from check_in_enumeration import paper_zeta_power, renyi, view_law
    from enumeration import krr_matrix

    from experiments.check_in_published import renyi_divergence

    def worst(E: Fraction, rate: Fraction, people: int) -> float:
        R = krr_matrix(2, E)
        return max(
            renyi(*(view_law(R, (x, *rest), [rate] * people) for x in (0, 1)), 2)
            for rest in itertools.product((0, 1), repeat=people - 1)
        )

    n, E, rate = 3, Fraction(11, 10), Fraction(1, 2)
    moment = float((1 - rate) ** n)
    for k in range(1, n + 1):
        zeta = paper_zeta_power(math.log(E), worst(E, Fraction(1), k), 2)
        chance = math.comb(n, k) * float(rate**k * (1 - rate) ** (n - k))
        moment += chance * (1 + (k / n) ** 2 * zeta)
    seldom = Fraction(1, 10)
    whole = math.exp(renyi_divergence(math.log(3), n, float(seldom), 2))
    without = math.log(whole - float((1 - seldom) ** n))
    return (
        worst(E, rate, n),
        math.log(moment),
        renyi_divergence(math.log(E), n, float(rate), 2),
        worst(Fraction(3), seldom, n),
        without,
    )


@piece
def errata_zeta() -> str:
    """Rényi divergences of three people: two printed forms beside the truth."""
    truth, printed, right, other, without = _zeta()
    rows = [
        ["printed ζ", "e^ε0 = 1.1, γ = 1/2", *map(number, (printed, truth, right))],
        ["sum from k = 1", "e^ε0 = 3, γ = 1/10", *map(number, (without, other)), "with k = 0"],
    ]
    return table(["slip", "three people", "printed form", "exact divergence", "right form"], rows)


@cache
def _gaussian_curve() -> tuple[float, float]:
    from experiments.paper_check_in import paper_gaussian_delta

    return paper_gaussian_delta(8.0, 0.5), GaussianProfile(2.0).delta(8.0)


@piece
def errata_gaussian_curve() -> str:
    """The printed Gaussian curve beside the exact one."""
    from experiments.paper_check_in import paper_gaussian_delta

    printed, exact = _gaussian_curve()
    rows = [["0.5", "1", number(printed), number(exact)]]
    for sensitivity in (1, 2):
        there = GaussianProfile(sensitivity / 0.86).delta(8.0)
        rows.append(
            ["0.86", str(sensitivity), number(paper_gaussian_delta(8.0, 0.86)), number(there)]
        )
    return table(["σ", "sensitivity", "printed δ(8)", "exact δ(8)"], rows)


@cache
def _partition_sums() -> list[tuple[int, float, float, float]]:
    """Order, Algorithm 2 as printed, the corrected sum, and the recursion of the library."""
    from gaussian_partitions import exact_renyi

    from experiments.paper_check_in import paper_partition_sum

    orders = [2, 4, 8]
    ours = shuffled_gaussian_renyi(orders, n=7, sigma=0.86)
    return [
        (order, paper_partition_sum(order, 7, 0.86), float(exact_renyi(order, 7, 0.86)), float(own))
        for order, own in zip(orders, ours, strict=True)
    ]


@piece
def errata_partition_sum() -> str:
    """Algorithm 2 as printed, as it is right, and the recursion."""
    rows = [[str(order), *map(number, rest)] for order, *rest in _partition_sums()]
    return table(["λ", "Algorithm 2 as printed", "corrected sum", "incrowd"], rows)


@cache
def _distributed() -> list[tuple[int, int, float, float, float, float]]:
    """Order, people, rate, σ, and the divergence as printed and as it is right."""
    from experiments.check_in_published import distributed_renyi
    from experiments.paper_check_in import paper_distributed_renyi

    found = []
    for order, n, rate, sigma in ((2, 10, 0.01, 2.0), (2, 3, 0.1, 2.0), (3, 10, 0.5, 1.0)):
        (right,) = distributed_renyi([order], n=n, rate=rate, sigma=sigma)
        printed = paper_distributed_renyi(order, n, rate, sigma)
        found.append((order, n, rate, sigma, printed, float(right)))
    return found


@piece
def errata_distributed() -> str:
    """Theorem 4 as printed and as it is right."""
    rows = [
        [str(order), str(n), *map(number, rest[:3]), up(rest[3])]
        for order, n, *rest in _distributed()
    ]
    return table(["λ", "n", "γ", "σ", "printed", "right (an upper bound)"], rows)


@piece
def errata_check_in() -> str:
    """The claims on shuffled check-in."""
    lemma, table2 = table_of("check_in_lemma")[0], table_of("check_in_table2")
    rounds = table_of("check_in_distributed")[0]
    formula, attained, _ = _closed_form()
    return summary(
        [
            Claim(
                "Lemma 1",
                r"$(\varepsilon,\delta)$-DP implies this Rényi level",
                "the level is the least that is possible: the converse holds",
                f"order 2: {lemma['lemma, δ = 1e-8']} printed, {lemma['true']} true",
                f"{CHECK_IN}::test_printed_conversion_understates_randomized_response",
            ),
            Claim(
                "Table 2",
                "twelve values of ε",
                "three are below what an attack attains",
                (
                    f"ε0 = 2, γ = 0.01: {table2[0]['approach 2'].removesuffix(' ✗')} printed, "
                    f"{table2[0]['attack']} attained"
                ),
                f"{CHECK_IN}::test_published_figures_are_below_the_truth",
            ),
            Claim(
                "Equation (8) in Table 2",
                "used for about 100 or 10 reports",
                r"needs $16e^{\varepsilon_0}\log(2/\delta)$ reports, as its own text says",
                f"140 reports, ε0 = 8: {plain(formula)} by formula, {down(attained)} attained",
                f"{CHECK_IN}::test_closed_form_outside_range_is_below_attack",
            ),
            Claim(
                "Theorem 1",
                r"$\delta_l$ with $e^{\varepsilon_l}$; $e^{\varepsilon_0}$ below the fraction",
                r"$e^{\varepsilon'}$ before subsampling; $e^{\varepsilon_0}+1$",
                "δ {} printed, {} by the proof; ε {} and {}".format(
                    *(number(pair[i]) for i in (1, 0) for pair in _theorem_1())
                ),
                f"{CHECK_IN}::test_theorem_1_differs_from_its_proof",
            ),
            Claim(
                "Definition 5, proof of Theorem 2",
                r"bounds on $\zeta(j)$; a sum from $k=1$",
                r"bounds on $\zeta(j)^j$; from $k=0$, as the statement has it",
                f"order 2: {number(_zeta()[1])} printed, {number(_zeta()[0])} exact",
                f"{CHECK_IN}::test_theorem_2_with_the_printed_zeta_is_below_the_truth",
            ),
            Claim(
                "Section 4, Gaussian profile",
                r"$\delta(\varepsilon)\le1.25\,e^{-\varepsilon^2\sigma^2/2}$",
                "the exact curve",
                "ε = 8, σ = 0.5: {} printed, {} exact".format(*map(number, _gaussian_curve())),
                f"{GAUSSIAN}::test_printed_gaussian_curve_is_below_exact",
            ),
            Claim(
                "Algorithm 2",
                "a sum over partitions, returned as it is",
                r"$1/2\sigma^2$, $(n-r)!$ and $\log(\cdot)/(\lambda-1)$ added",
                "λ = {}, n = 7: {} printed, {} right".format(
                    _partition_sums()[0][0], *map(number, _partition_sums()[0][1:3])
                ),
                f"{GAUSSIAN}::test_printed_algorithm_differs_from_partitions",
            ),
            Claim(
                "Theorem 4",
                "a sum from $k=1$; the logarithm closed early",
                "from $k=0$; the bracket at the end",
                f"n = 10, γ = 0.01: a divergence of {number(_distributed()[0][4])}",
                "tests/protocols/test_distributed_check_in.py"
                "::test_printed_renyi_form_is_below_truth",
            ),
            Claim(
                "Figure 5",
                "a random crowd has a much smaller ε than a fixed one",
                "by the same accounting a larger one",
                (
                    f"one round: {rounds['check-in, Rényi']} random, "
                    f"{rounds['fixed crowd, Rényi']} fixed"
                ),
                f"{CHECK_IN_TABLES}::test_random_crowd_is_not_more_private_than_fixed",
            ),
            Claim(
                "Appendix D.1",
                "privacy-loss distributions are not applicable",
                "the dominating pair has three counts, and composes",
                (f"ε0 = 2, γ = 0.01: {table2[0]['bound']} composed, {table2[0]['Rényi']} by Rényi"),
                f"{CHECK_IN_TABLES}::test_bounds_reproduce_independent_computation",
            ),
        ]
    )
