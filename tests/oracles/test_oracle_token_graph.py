"""Public walks against the exact views of linear losses: docs/theory/token_graph.md.

With linear losses a gradient does not depend on the model. Given the walk, the view of v is normal,
and a stretch of m steps with k contributions of u shows a shift of k in noise of variance m.
"""

import itertools
import math

import numpy as np
import pytest

from experiments.token_losses import first_hit
from incrowd.errors import InvalidCrowd, InvalidGraph, InvalidParameter, NumericalFloor
from incrowd.graphs import families, from_edges
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.protocols.token_walk.theorems.amplification_by_iteration import IteratedProfile
from incrowd.protocols.token_walk.theorems.gap_moments import Gap, Geometric, Runs, log_runs_alike
from incrowd.protocols.token_walk.theorems.graph_walk import (
    PairOnGraphProfile,
    WorstPairProfile,
    check_weights,
    metropolis,
    worst_profile,
)


def walks(weights, steps):
    """Every walk from a uniform start, with its chance."""
    n = len(weights)
    found = [((x,), 1 / n) for x in range(n)]
    for _ in range(steps - 1):
        found = [
            ((*walk, y), p * weights[walk[-1], y])
            for walk, p in found
            for y in range(n)
            if weights[walk[-1], y] > 0
        ]
    return found


def stretches(walk, u, observers, cap, published):
    """For each stretch that is seen: its length, and how far back each contribution lies."""
    found, start, used = [], 0, 0
    ends = [t for t, x in enumerate(walk) if x in observers]
    for end in [*ends, len(walk)] if published else ends:
        inside = [t for t in range(start, end) if walk[t] == u][: cap - used]
        used += len(inside)
        if inside:
            found.append((end - start, [end - t for t in reversed(inside)]))
        start = end + 1
    return found


def linear_loss(walk, u, observers, cap, published):
    """Σ k²/m over the stretches, each of m steps with k contributions."""
    return sum(
        len(back) ** 2 / length for length, back in stretches(walk, u, observers, cap, published)
    )


def convex_cost(gaps):
    """Squared slopes of the convex minorant of (g_k + … + g_{k−i+1}, i), from the oldest on."""
    hull = []
    for y, x in enumerate(itertools.accumulate(reversed(gaps), initial=0)):
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return sum((b[1] - a[1]) ** 2 / (b[0] - a[0]) for a, b in itertools.pairwise(hull))


def even_cost(gaps):
    return sum((2 * j - 1) / s for j, s in enumerate(itertools.accumulate(gaps), 1))


def best_cost(walk, u, observers, cap, published):
    """The cost that the proof gives to one walk."""
    return sum(
        convex_cost(np.diff([0, *back]).tolist())
        for _, back in stretches(walk, u, observers, cap, published)
    )


def log_means(found, lams, cost):
    costs = np.array([cost(walk) for walk, _ in found])
    chance = np.array([p for _, p in found])
    return [math.log(float(chance @ np.exp(lam * costs))) for lam in lams]


COMPLETE = {n: np.full((n, n), 1 / n) for n in range(2, 9)}
GRAPHS = {
    "path": metropolis(families.line(4)).toarray(),
    "star": metropolis(families.star(4)).toarray(),
    "ring": metropolis(families.ring(4)).toarray(),
    "kite": metropolis(from_edges([0, 1, 2, 2], [1, 2, 0, 3], 4)).toarray(),
}


# --- runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.05, 0.7, 3.0])
def test_runs_alike_equal_mean_over_all_gaps(lam):
    chance = np.zeros(40)
    chance[[0, 1, 4]] = 0.5, 0.3, 0.2
    found = log_runs_alike(lam, Gap(chance, 0.0), 6)
    for k in range(1, 7):
        exact = sum(
            math.prod(chance[g - 1] for g in gaps) * math.exp(lam * convex_cost(gaps))
            for gaps in itertools.product((1, 2, 5), repeat=k)
        )
        assert math.log(exact) <= found[k - 1] <= math.log(exact) * (1 + 1e-9)


@pytest.mark.parametrize("lam", [0.05, 0.7, 3.0])
def test_runs_never_below_mean_over_all_gaps(lam):
    first, gap = np.zeros(40), np.zeros(40)
    first[[1, 6]] = 0.6, 0.4
    gap[[0, 1, 4]] = 0.5, 0.3, 0.2
    found = Runs(Gap(first, 0.0), Gap(gap, 0.0), 5).log_costs(lam)
    for k in range(1, 6):
        exact = sum(
            first[g - 1]
            * math.prod(gap[h - 1] for h in rest)
            * math.exp(lam * convex_cost([g, *rest]))
            for g in (2, 7)
            for rest in itertools.product((1, 2, 5), repeat=k - 1)
        )
        assert math.log(exact) <= found[k - 1] <= 1.35 * math.log(exact)
    assert found[0] == pytest.approx(math.log(0.6 * math.exp(lam / 2) + 0.4 * math.exp(lam / 7)))


def test_best_cost_never_above_other_spreads():
    rng = np.random.default_rng(5)
    for _ in range(300):
        gaps = rng.integers(1, 12, rng.integers(1, 7)).tolist()
        best = convex_cost(gaps)
        assert len(gaps) ** 2 / sum(gaps) <= best + 1e-12
        assert best <= min(even_cost(gaps), len(gaps)) + 1e-12
        assert best <= convex_cost(gaps[1:]) + 1 / gaps[0] + 1e-12 if gaps[1:] else True
        assert convex_cost([g + 1 for g in gaps]) <= best


def test_convolution_agrees_with_recursive_filter():
    rate = Geometric(0.11, 700)
    same = Gap(rate.chance, rate.beyond)
    assert log_runs_alike(2.0, same, 9) == pytest.approx(log_runs_alike(2.0, rate, 9), rel=1e-9)
    # A short horizon charges what lies beyond it.
    short = log_runs_alike(2.0, Geometric(0.11, 12), 9)
    assert np.all(short >= log_runs_alike(2.0, rate, 9) - 1e-9)


# --- everyone may be next -----------------------------------------------------------------------


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("cap", [1, 2, 3, 5])
@pytest.mark.parametrize(("n", "steps", "colluders"), [(2, 11, 0), (3, 8, 0), (4, 6, 0), (4, 6, 1)])
def test_moments_never_below_enumeration_of_walks(n, steps, colluders, cap, published):
    found, observers = walks(COMPLETE[n], steps), set(range(1, 2 + colluders))
    profile = IteratedProfile(1.0, n, cap, colluders, published)
    lams = (0.02, 0.3, 1.5)
    bounds = [profile.log_moment(lam) for lam in lams]
    for cost in (linear_loss, best_cost):
        exact = log_means(found, lams, lambda w, c=cost: c(w, 0, observers, cap, published))
        assert np.all(np.array(exact) <= bounds)


@pytest.mark.parametrize("n", [2, 5, 50])
@pytest.mark.parametrize("lam", [0.01, 0.3, 2.0])
def test_moment_of_one_contribution_is_exact(n, lam):
    s = np.arange(1, 60 * n)
    exact = math.log(float(np.sum((1 / n) * (1 - 1 / n) ** (s - 1) * np.exp(lam / s))))
    bound = IteratedProfile(1.0, n, 1).log_moment(lam)
    assert exact <= bound
    assert exact > 0.98 * bound, "lowered by 2 %, the bound would be too small"


def test_printed_divergence_of_one_contribution_is_too_small():
    """n = 2, α = 2, σ = 5L: the first step on which v can have the token is 1, not 0."""
    found = IteratedProfile(2 / 5, 2, 1).divergence(2.0)
    assert found == pytest.approx(0.112201, abs=1e-6)
    assert 4 * 2 * math.log(2) / (5**2 * 2) == pytest.approx(0.110904, abs=1e-6)
    n = 1000
    s = np.arange(1, 100 * n)
    mean = float(np.sum((1 / n) * (1 - 1 / n) ** (s - 1) / s))
    assert mean == pytest.approx(math.log(n) / (n - 1), rel=1e-6)
    assert mean > math.log(n) / n


def test_divergences_of_contributions_do_not_add_up():
    """n = 2, 20 contributions, α = 2, σ = 10L: those between two visits of v come in one sum."""
    lam, cap = 2 * 1 * 0.2**2 / 2, 20
    after = np.arange(1, 200)
    moment = [1.0]
    for m in range(1, cap + 1):
        last = float(np.sum(0.5**after * np.exp(lam * m**2 / (m - 1 + after))))
        runs = sum(0.5**k * math.exp(lam * k) * moment[m - k] for k in range(1, m))
        moment.append(runs + 0.5 ** (m - 1) * last)
    exact, found = math.log(moment[cap]), IteratedProfile(0.2, 2, cap).divergence(2.0)
    assert exact == pytest.approx(0.784, abs=1e-3)
    assert exact <= found
    assert exact > 0.98 * found, "lowered by 2 %, the bound would be too small"
    printed = 4 * cap * 2 * math.log(2) / (10**2 * 2)
    assert printed == pytest.approx(0.5545, abs=1e-4)
    assert printed < exact
    assert linear_loss((0, 0, 1), 0, {1}, 9, False) == 2 > 1 / 2 + 1


@pytest.mark.parametrize("published", [False, True])
def test_curve_never_below_mean_of_exact_curves(published):
    found, mu, cap = walks(COMPLETE[3], 8), 1.2, 3
    profile = IteratedProfile(mu, 3, cap, published=published)
    losses = {}
    for walk, p in found:
        loss = round(linear_loss(walk, 0, {1}, cap, published), 12)
        losses[loss] = losses.get(loss, 0.0) + p
    for epsilon in (-1.0, 0.0, 0.5, 1.0, 3.0, 6.0):
        exact = losses.get(0.0, 0.0) * max(0.0, -math.expm1(epsilon))
        for loss, p in losses.items():
            if loss:
                exact += p * GaussianProfile(mu * math.sqrt(loss)).bracket(epsilon).lower
        assert exact <= profile.delta(epsilon)
    assert profile.delta(profile.epsilon(1e-5)) == pytest.approx(1e-5, rel=0.1)


@pytest.mark.parametrize(
    ("epsilon", "cap", "sigma", "target"),
    [
        (1, 10, 7.479, 9.027),
        (1, 20, 8.098, 9.430),
        (1, 30, 8.547, 9.589),
        (10, 10, 1.0935, 1.2947),
        (10, 20, 1.1762, 1.3530),
        (10, 30, 1.2353, 1.3760),
    ],
)
def test_iterated_noise_meets_budget_tightly(epsilon, cap, sigma, target):
    """2000 people, δ = 1e-6, L = 1; ``target`` is what equal shares need on few orders."""
    assert IteratedProfile(2 / sigma, 2000, cap).epsilon(1e-6) <= epsilon
    assert IteratedProfile(2 / (0.99 * sigma), 2000, cap).epsilon(1e-6) > epsilon
    assert sigma < target


def test_iterated_profile_is_ordered_by_cap_publication_and_colluders():
    few, many = IteratedProfile(0.1, 50, 64), IteratedProfile(0.1, 50, 65)
    assert few.epsilon(1e-6) < many.epsilon(1e-6) < 1.02 * few.epsilon(1e-6)
    shown = IteratedProfile(0.1, 50, 65, published=True)
    assert many.epsilon(1e-6) < shown.epsilon(1e-6) < 1.02 * many.epsilon(1e-6)
    helped = IteratedProfile(0.1, 50, 65, colluders=10)
    assert many.epsilon(1e-6) < helped.epsilon(1e-6) < helped.alone.epsilon(1e-6)
    everyone = IteratedProfile(0.5, 3, 4, colluders=1)
    assert everyone.epsilon(1e-6) <= everyone.alone.epsilon(1e-6)
    loud = IteratedProfile(900.0, 5, 1)
    assert loud.epsilon(1e-6) == loud.alone.epsilon(1e-6)
    assert loud.delta(1.0) == 1.0


def test_losses_dominate_curve():
    profile = IteratedProfile(0.3, 100, 5)
    composed = profile.losses(profile.interval).to_dp_accounting()
    found = float(composed.get_epsilon_for_delta(1e-6))
    assert profile.epsilon(1e-6) <= found <= 1.01 * profile.epsilon(1e-6)
    # To first order each contribution costs (ln n + 1)/n or a little more.
    assert 40 * profile.interval == pytest.approx(0.3 * math.sqrt(5 * 5.5 / 100), rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((1.0, 1, 1), InvalidCrowd),
        ((1.0, 5, 1, 4), InvalidCrowd),
        ((0.0, 5, 1), InvalidParameter),
        ((1.0, 5, 0), InvalidParameter),
    ],
)
def test_iterated_profile_rejects_invalid_arguments(arguments, error):
    with pytest.raises(error):
        IteratedProfile(*arguments)


def test_divergence_rejects_invalid_order():
    with pytest.raises(InvalidParameter, match="order must be above 1"):
        IteratedProfile(1.0, 5, 1).divergence(1.0)
    with pytest.raises(NumericalFloor, match="too large"):
        IteratedProfile(1.0, 5, 1).divergence(1e4)


# --- any graph ----------------------------------------------------------------------------------


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_pair_moments_never_below_enumeration_of_walks(name, published):
    weights = GRAPHS[name]
    found, lams = walks(weights, 6), (0.05, 0.8)
    for u, v in itertools.permutations(range(len(weights)), 2):
        for cap in (1, 3):
            profile = PairOnGraphProfile(weights, (u, v), 1.0, cap, published)
            exact = log_means(found, lams, lambda w: best_cost(w, u, {v}, cap, published))  # noqa: B023
            assert np.all(np.array(exact) <= [profile.log_moment(lam) for lam in lams])


@pytest.mark.parametrize("name", GRAPHS)
def test_pair_moment_of_one_contribution_is_exact(name):
    weights = GRAPHS[name]
    for u, v in itertools.permutations(range(len(weights)), 2):
        chance, at = [], np.eye(len(weights))[u]
        for _ in range(6000):
            at = weights @ at
            chance.append(at[v])
            at[v] = 0.0
        s = np.arange(1, len(chance) + 1)
        assert first_hit(weights, v)[u] == pytest.approx(float(np.sum(chance / s)), rel=1e-9)
        exact = math.log(float(np.sum(chance * np.exp(0.5 / s))))
        found = PairOnGraphProfile(weights, (u, v), 1.0, 1).log_moment(0.5)
        assert exact * (1 - 1e-12) <= found <= exact * 1.0001
        assert exact > 0.98 * found, "lowered by 2 %, the bound would be too small"


@pytest.mark.parametrize(("n", "cap", "mu"), [(4, 1, 1.0), (8, 6, 0.5), (20, 80, 0.2)])
def test_pair_on_complete_graph_agrees_with_iterated_profile(n, cap, mu):
    same = IteratedProfile(mu, n, cap)
    found = PairOnGraphProfile(np.full((n, n), 1 / n), (0, n - 1), mu, cap)
    for lam in (0.01, 0.5, 3.0):
        assert found.log_moment(lam) == pytest.approx(same.log_moment(lam), rel=1e-5)
    assert found.epsilon(1e-6) == pytest.approx(same.epsilon(1e-6), rel=1e-6)


def test_first_hit_complete_graph_has_closed_form():
    found = first_hit(np.full((8, 8), 1 / 8), 0)
    assert found[0] == 0
    assert found[1:] == pytest.approx(math.log(8) / 7)
    assert found[1] == pytest.approx(0.29706, abs=1e-5)


def test_pair_epsilon_falls_with_distance():
    weights = metropolis(families.ring(20))
    found = [PairOnGraphProfile(weights, (0, v), 0.5, 3).epsilon(1e-6) for v in (1, 2, 5, 10)]
    assert found == sorted(found, reverse=True)
    shown = PairOnGraphProfile(weights, (0, 10), 0.5, 3, published=True)
    assert found[-1] < shown.epsilon(1e-6) <= shown.alone.epsilon(1e-6)


def test_pair_moment_grows_slowly_beyond_longest_run():
    weights = np.full((4, 4), 0.25)
    few = PairOnGraphProfile(weights, (0, 1), 0.05, 64, published=True)
    many = PairOnGraphProfile(weights, (0, 1), 0.05, 66, published=True)
    for lam in (0.001, 0.01):
        assert few.log_moment(lam) < many.log_moment(lam) < 1.1 * few.log_moment(lam)


def test_worst_profile_equals_worst_pair():
    weights = metropolis(families.ring(12))
    worst = worst_profile(weights, 0.5, 4)
    assert isinstance(worst, WorstPairProfile)
    assert len(worst.pairs) == 6
    pairs = [PairOnGraphProfile(weights, (0, v), 0.5, 4).epsilon(1e-6) for v in range(1, 12)]
    assert worst.epsilon(1e-6) == pytest.approx(max(pairs), rel=1e-9)
    large = worst_profile(metropolis(families.ring(40)), 0.5, 4)
    assert large == GaussianProfile(0.5 * 2 * (1 + 2.0**-51))
    many = families.erdos_renyi(20, 0.4, np.random.default_rng(3)).largest_component()
    assert isinstance(worst_profile(metropolis(many), 0.5, 4), GaussianProfile)


@pytest.mark.parametrize(
    ("weights", "error", "text"),
    [
        (np.eye(3), InvalidGraph, "3 parts"),
        ([[0.0, 1.0], [1.0, 0.0]], InvalidGraph, "alternates"),
        ([[0.5, 0.5], [0.4, 0.6]], InvalidParameter, "symmetric"),
        ([[0.5, 0.4], [0.4, 0.5]], InvalidParameter, "add up to 1"),
        ([[1.5, -0.5], [-0.5, 1.5]], InvalidParameter, "negative"),
        ([[1.0]], InvalidParameter, "square"),
    ],
)
def test_pair_rejects_invalid_weights(weights, error, text):
    with pytest.raises(error, match=text):
        PairOnGraphProfile(np.array(weights), (0, 1), 1.0, 2)


def test_pair_rejects_invalid_pair():
    weights = metropolis(families.ring(5))
    for pair, text in (((0, 0), "two different"), ((0, 5), "not one of")):
        with pytest.raises(InvalidParameter, match=text):
            PairOnGraphProfile(weights, pair, 1.0, 2)
    with pytest.raises(InvalidParameter, match="mu must be above 0"):
        PairOnGraphProfile(weights, (0, 1), 0.0, 2)
    assert metropolis(families.star(6)).sum(axis=1) == pytest.approx(1.0)
    # Averaging, unlike a walk, may go back and forth between two sides.
    assert check_weights(np.array([[0.0, 1.0], [1.0, 0.0]]), walk=False).shape == (2, 2)
