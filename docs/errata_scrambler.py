"""The generated pieces of the errata on scramblers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

from errata_claims import Claim, summary
from pieces import piece, table

from incrowd.protocols.scrambled_query.theorems.capped import capped_epsilon
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.protocols.scrambled_query.theorems.flooding import flooding_epsilon
from incrowd.report.format import count, plain, up

SCRAMBLER = "tests/oracles/test_scrambler_oracle.py"
PLAN = "tests/oracles/test_plan_oracle.py"


@cache
def _paths() -> tuple[float, float]:
    """The loss along one path, and the joint one of two clusters on a tuple: T = 4, σ = 0.4."""
    from plan_enumeration import truth_and_lie

    p, r = truth_and_lie(4, 0.4)
    return math.log(p / r), max(
        math.log(p / r) + math.log(a / b) for a, b in itertools.product((p, r), repeat=2)
    )


@piece
def errata_paths() -> str:
    """The loss along one path, and the joint one."""
    single, joint = _paths()
    return table(["largest sum along a path", "joint loss"], [[plain(single), plain(joint)]])


@cache
def _coins() -> tuple[float, float, float]:
    """δ(0.25) of six people's traffic; with the others' coins seen later; the cluster's bound."""
    from plan_enumeration import either_way, nothing, outcomes, seen

    def others(real: tuple[bool, ...]) -> dict[tuple[bool, ...], float]:
        return {real[1:]: 1.0}

    found = [
        either_way(*(seen(outcomes((v, 0, 0, 0, 0, 0), 2, 0.5), also) for v in (0, 1)), 0.25)
        for also in (nothing, others)
    ]
    return (*found, ScramblerProfile(2, 0.5, 6, 0).delta(0.25))


@piece
def errata_coins() -> str:
    """The δ of traffic alone, and with the coins of others seen later."""
    hidden, betrayed, bound = _coins()
    head = ["traffic alone", "bound of the cluster", "with the others' coins seen later"]
    return table(head, [[plain(hidden), up(bound), plain(betrayed)]])


@piece
def errata_flooding() -> str:
    """The ε of dummies in random and in fixed order."""
    rows = [
        ["one message, no dummy", up(flooding_epsilon(5, 0.5, 0))],
        ["two dummies, in random order (Theorem 2)", up(flooding_epsilon(5, 0.5, 2))],
        ["two dummies, the first message first", up(flooding_epsilon(5, 0.5, 0))],
    ]
    return table(["five targets, σ = 1/2", "ε"], rows)


@cache
def _capped() -> tuple[Fraction, Fraction]:
    """The e^ε of two sources, three targets and one dummy, σ = 1/3: printed, and by listing."""
    from scrambler_enumeration import true_capped_ratio
    from test_scrambler_oracle import printed_capped

    # The true target with 2/3 and each other one with 1/6: lies go to all targets in the oracle.
    printed = math.exp(printed_capped(2 / 3, 1 / 6, 2, 1))
    return Fraction(printed).limit_denominator(100), true_capped_ratio(3, Fraction(1, 2), 2, 1)


@piece
def errata_capped() -> str:
    """Theorem 3 beside the exact ε."""
    from experiments.paper_scrambled_query import paper_theorem_3

    small_case = _capped()
    logs = [f"{plain(math.log(each))} (log {each})" for each in small_case]
    rows = [["2", "3", "1", "1/3", *logs]]
    for sigma, dummies in ((0.1, 50), (0.5, 50), (0.1, 99), (0.5, 99)):
        # A lie that never hits the true target by chance, as Theorem 3 has it.
        same = capped_epsilon(20, sigma * 20 / 19, 100, dummies)
        claimed = paper_theorem_3(20, sigma, 100, dummies)
        rows.append(["100", "20", str(dummies), plain(sigma), plain(claimed), up(same)])
    return table(["n", "T", "d", "σ", "printed ε", "exact ε"], rows)


@cache
def _negative() -> tuple[float, float]:
    from experiments.paper_scrambled_query import paper_theorem_4_delta
    from incrowd.protocols.scrambled_query.bounds import HOEFFDING

    return paper_theorem_4_delta(1.0, 20, 0.3, 100, 50), HOEFFDING.delta(20, 0.3, 100, 50, 1.0)


@piece
def errata_negative() -> str:
    """Theorem 4 as printed and with the sign mended."""
    printed, right = _negative()
    exact = ScramblerProfile(20, 0.3, 100, 50).delta(1.0)
    head = ["δ as printed", "with $a=e^\\varepsilon-1$, at most 1", "exact sum"]
    return table(head, [[plain(printed), up(right), up(exact)]])


@cache
def _means() -> list[tuple[int, float, float, float, float, float]]:
    """N, σ, ε; the mean of the positive part, printed and corrected bounds on it."""
    from test_scrambler_oracle import printed_bennett, summed

    found = []
    for size, sigma, epsilon in ((300, 0.3, 0.3), (1000, 0.5, 0.2)):
        _, mean, _ = summed(20, sigma, size, epsilon)
        found.append((size, sigma, epsilon, mean, *printed_bennett(20, sigma, size, epsilon)))
    return found


@cache
def _violated() -> list[tuple[float, int, int, float, float]]:
    """σ, n, d; the ε that the printed form gives at δ = 1e-4, and an exact δ there."""
    from test_scrambler_oracle import exact_pair

    from experiments.paper_scrambled_query import paper_bennett_epsilon

    found = []
    for sigma, n, dummies in ((0.7, 60, 60), (0.0, 5, 300), (0.0, 5, 1000)):
        claimed = paper_bennett_epsilon(20, sigma, n, dummies, 1e-4)
        if claimed is not None:
            exact = exact_pair(20, sigma, n, dummies, math.exp(claimed))
            found.append((sigma, n, dummies, claimed, exact))
    return found


@piece
def errata_bennett() -> str:
    """Bennett's bound as printed and as it is right, beside the mean."""
    rows = [
        [str(size), *map(plain, (sigma, epsilon, mean, printed, right))]
        for size, sigma, epsilon, mean, printed, right in _means()
    ]
    return table(["N", "σ", "ε", "exact mean", "printed", "right"], rows)


@piece
def errata_bennett_epsilon() -> str:
    """The exact δ at the ε of the printed Bennett bound."""
    rows = [
        [plain(sigma), str(n), count(d), plain(claimed), "0.0001", plain(exact, 3)]
        for sigma, n, d, claimed, exact in _violated()
    ]
    return table(["σ", "n", "d", "ε by the printed form", "claimed δ", "exact δ of a pair"], rows)


@cache
def _samples() -> list[tuple[float, int, float, float, float, float]]:
    """σ, N, ε; δ, the chance of a positive sample, the relative error of 5,000 samples."""
    from test_scrambler_oracle import summed

    found = []
    for sigma, size, epsilon in ((0.0, 301, 1.4379), (0.5, 350, 0.5), (0.1, 1010, 0.5458)):
        chance, mean, square = summed(20, sigma, size, epsilon)
        error = math.sqrt((square / mean**2 - 1) / 5000)
        found.append((sigma, size, epsilon, mean / size, chance, error))
    return found


@piece
def errata_samples() -> str:
    """The relative error of 5,000 samples."""
    rows = [
        [plain(sigma), count(size), plain(epsilon), plain(d, 2), plain(chance, 2), plain(error, 2)]
        for sigma, size, epsilon, d, chance, error in _samples()
    ]
    head = ["σ", "N", "ε", "δ", "chance of a positive sample", "relative standard error"]
    return table(head, rows)


@cache
def _kmeans() -> tuple[list[list[float]], int, float, float]:
    """Centroids after a round for both data sets, messages that move, printed and exact loss."""
    from plan_enumeration import truth_and_lie
    from test_plan_oracle import lloyd

    centroids, targets = [], []
    for first in (1, -100):
        points = [first, 10, 10, *[4.9] * 8]
        _, means = lloyd(points, (0, 10))
        centroids.append(means)
        targets.append(lloyd(points, means)[0])
    moved = sum(a != b for a, b in zip(*targets, strict=True))
    p, r = truth_and_lie(2, 0.5)
    return centroids, moved, 2 * math.log(p / r), moved * math.log(p / r)


@piece
def errata_kmeans() -> str:
    """Two rounds of k-means on eleven points, one of which is replaced."""
    centroids, moved, printed, exact = _kmeans()
    rows = [
        [f"centroids after round one, first point at {first}", ", ".join(map(plain, means))]
        for first, means in zip((1, "−100"), centroids, strict=True)
    ]
    rows += [
        ["messages of eleven that go elsewhere in round two", str(moved)],
        ["ε as printed, two rounds", plain(printed)],
        ["exact loss when everybody told the truth", plain(exact)],
    ]
    return table(["", ""], rows)


@piece
def errata_scrambler() -> str:
    """The claims on scramblers."""
    first_alone, mixed = (flooding_epsilon(5, 0.5, d) for d in (0, 2))
    return summary(
        [
            Claim(
                "Theorem 1",
                "the largest sum of ε along a path",
                "the sum over all clusters that a tuple can change",
                "{} printed, {} joint".format(*map(plain, _paths())),
                f"{PLAN}::test_tuple_in_two_clusters_exceeds_longest_path_rule",
            ),
            Claim(
                "Theorem 1, coins seen later",
                "amplified ε of a cluster, whatever follows",
                "only if nothing seen later depends on who was redirected",
                "δ(0.25): {} alone, {} with what follows".format(*map(plain, _coins()[:2])),
                f"{PLAN}::test_later_cluster_depending_on_redirection_undoes_mixing",
            ),
            Claim(
                "Theorem 2",
                r"$\ln\bigl(1+\frac{(1-\sigma)T}{\sigma(d+1)}\bigr)$ for $d\ge1$",
                "right, also for $d=0$, if messages leave in random order",
                f"in a fixed order {up(first_alone)}, not {up(mixed)}",
                f"{SCRAMBLER}::test_flooding_in_fixed_order_exceeds_bound",
            ),
            Claim(
                "Theorem 3",
                r"weights $\binom dk$, terms $k\,R_{lie}^2/(1-\sigma)$",
                r"weights of capped dummies, $\frac k{n-k}$ for $k$",
                "two sources: e^ε = {} printed, {} exact".format(*_capped()),
                f"{SCRAMBLER}::test_printed_capped_epsilon_is_below_enumeration",
            ),
            Claim(
                "Theorem 4",
                r"$a=1-e^\varepsilon$",
                r"$a=e^\varepsilon-1$",
                f"a δ of {plain(_negative()[0])}",
                f"{SCRAMBLER}::test_printed_hoeffding_sign_makes_bound_negative",
            ),
            Claim(
                "Lemma 3, Bennett's inequality",
                r"a factor $\frac1{a(m+d)}$",
                "without it",
                "mean {} where {} is the printed bound".format(*map(plain, _means()[0][3:5])),
                f"{SCRAMBLER}::test_printed_bennett_form_is_below_exact_mean",
            ),
            Claim(
                "Section IV-C, Monte Carlo",
                "5,000 samples: relative error below 1/1000",
                "a third and more; the sum is exact without samples",
                "relative error {} to {}".format(
                    *(plain(f(row[5] for row in _samples()), 2) for f in (min, max))
                ),
                f"{SCRAMBLER}::test_monte_carlo_of_five_thousand_samples_is_inconclusive",
            ),
            Claim(
                "Section V, k-means",
                r"$\varepsilon=I\cdot\max_i\varepsilon_i$",
                r"with noisy centroids $I\cdot(\varepsilon_i+2\varepsilon_c)$",
                "{} printed, {} exact".format(*map(plain, _kmeans()[2:])),
                f"{PLAN}::test_kmeans_point_reroutes_everybody_in_next_round",
            ),
        ]
    )
