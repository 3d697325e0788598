"""Scramblers against everything that can be seen of them: docs/theory/scrambler.md."""

import itertools
import math
import random
from collections import Counter
from fractions import Fraction as F

import numpy as np
import pytest
from scipy.signal import convolve2d
from scipy.stats import binom
from scrambler_enumeration import (
    NONE,
    added,
    blanket_functional,
    capped_laws,
    divergence,
    flooding_law,
    greatest_ratio,
    plain_laws,
    true_capped_ratio,
    true_deltas,
)

from incrowd.privacy import LocalProfile
from incrowd.protocols.scrambled_query.bounds import BENNETT, HOEFFDING
from incrowd.protocols.scrambled_query.theorems.capped import capped_epsilon
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.protocols.scrambled_query.theorems.flooding import flooding_epsilon
from incrowd.protocols.scrambled_query.theorems.mechanisms import BlanketProfile, Flooding
from incrowd.randomizers import Generic, PairLaw

SIGMAS = (F(0), F(1, 10), F(1, 2), F(9, 10))
TS = (F(1), F(11, 10), F(3, 2), F(3), F(10))
SMALL = [(T, n) for T in (2, 3, 4, 5) for n in (1, 2, 3, 4, 5)]
LARGE = [(T, n) for T in (2, 3, 4, 5) for n in (6, 7)]


def just_below(t):
    """An ε whose exponential is no more than t."""
    return math.log(t) * (1 - 1e-15)


def check_plain(targets, n, dummies, sigma):
    profile = ScramblerProfile(targets, float(sigma), n, dummies)
    for t, truth in zip(TS, true_deltas(targets, sigma, n, dummies, TS), strict=True):
        bound = profile.delta(just_below(t))
        functional = blanket_functional(targets, sigma, n, dummies, t)
        assert truth <= functional <= bound
        assert bound <= float(functional) * (1 + 1e-9) + 1e-14
        if sigma == 0:
            assert truth == functional, "without lies the bound is the truth"


# A scrambler with uniform dummies.


@pytest.mark.parametrize(("targets", "n"), SMALL)
def test_scrambler_bound_never_below_enumeration(targets, n):
    for dummies, sigma in itertools.product(range(4), SIGMAS):
        check_plain(targets, n, dummies, sigma)


@pytest.mark.slow
@pytest.mark.parametrize(("targets", "n"), LARGE)
def test_scrambler_bound_never_below_enumeration_in_larger_groups(targets, n):
    for dummies, sigma in itertools.product(range(4), SIGMAS):
        check_plain(targets, n, dummies, sigma)


def test_scrambler_bound_lowered_by_two_percent_is_below_enumeration():
    for targets, n, dummies, sigma, t in [
        (3, 1, 2, F(1, 2), F(3, 2)),
        (4, 2, 3, F(1, 10), F(3)),
        (3, 4, 3, F(1, 2), F(11, 10)),
        (5, 3, 2, F(9, 10), F(11, 10)),
    ]:
        (truth,) = true_deltas(targets, sigma, n, dummies, [t])
        bound = ScramblerProfile(targets, float(sigma), n, dummies).delta(math.log(t))
        assert 0.98 * bound < truth <= bound * (1 + 1e-12)


def test_attack_attains_lower_bound_and_no_more():
    for targets, n, dummies, sigma in [
        (2, 3, 1, F(1, 2)),
        (3, 3, 2, F(1, 10)),
        (4, 4, 1, F(1, 2)),
        (5, 3, 3, F(9, 10)),
        (4, 3, 3, F(0)),
    ]:
        profile = ScramblerProfile(targets, float(sigma), n, dummies)
        others = (2 if targets > 2 else 1,) * (n - 1)
        laws = plain_laws(targets, sigma, others, dummies, (0, 1))
        # What is seen of two targets alone.
        first, second = (Counter() for _ in laws)
        for law, seen in zip(laws, (first, second), strict=True):
            for histogram, weight in law.items():
                seen[histogram[:2]] += weight
        for t in TS[1:]:
            truth = max(divergence(first, second, t), divergence(second, first, t))
            if not 1e-6 < truth < 1 or truth <= ((targets - 1) / targets) ** dummies * (not sigma):
                continue
            found = profile.lower(float(truth))
            assert found <= math.log(t) * (1 + 1e-12)
            assert found == pytest.approx(math.log(t), rel=1e-6)


def test_absent_sources_do_not_raise_enumerated_delta():
    for targets, n, dummies, sigma in [
        (2, 3, 1, F(1, 2)),
        (3, 3, 1, F(0)),
        (3, 3, 2, F(1, 10)),
        (4, 2, 2, F(1, 2)),
    ]:
        profile = ScramblerProfile(targets, float(sigma), n, dummies)
        plain = true_deltas(targets, sigma, n, dummies, TS)
        with_none = true_deltas(targets, sigma, n, dummies, TS, nones=True)
        assert with_none == plain, "a mixture of inputs is never worse than the worst of them"
        for t, truth in zip(TS, with_none, strict=True):
            assert truth <= profile.delta(just_below(t))


def test_colluders_reduce_crowd_as_enumerated():
    targets, sigma, n, dummies = 3, F(1, 2), 4, 1
    bound = ScramblerProfile(targets, float(sigma), n - 1, dummies)
    for others in itertools.combinations_with_replacement(range(targets), n - 2):
        laws = plain_laws(targets, sigma, others, dummies, (0, 1))
        for t in TS:
            # Who knows one message sees the rest, whatever that message is.
            assert divergence(*laws, t) <= bound.delta(just_below(t))


def test_blanket_profile_never_below_enumeration():
    rng = random.Random(5)
    for _ in range(4):
        rows = [[F(rng.randint(2, 9)) for _ in range(3)] for _ in range(3)]
        rows = [[each / sum(row) for each in row] for row in rows]
        blanket = [min(column) for column in zip(*rows, strict=True)]
        gamma = sum(blanket)
        n, dummies = 3, 2
        scale = math.lcm(*(each.denominator for row in [*rows, blanket] for each in row))
        whole = [[int(each * scale) for each in row] for row in rows]
        base = {(0, 0, 0): 1}
        for _ in range(dummies):
            base = added(base, [int(each * scale) for each in blanket])
        local = LocalProfile(Generic(epsilon=5.0))
        for x0, x1 in itertools.permutations(range(3), 2):
            a = [float(rows[x0][y] / blanket[y]) for y in range(3)]
            b = [float(rows[x1][y] / blanket[y]) for y in range(3)]
            law = PairLaw.of(a, b, [float(each) for each in blanket])
            profile = BlanketProfile(law, n, dummies, local)
            assert float(gamma) == pytest.approx(law.gamma)
            for others in itertools.combinations_with_replacement(range(3), n - 1):
                crowd = base
                for each in others:
                    crowd = added(crowd, whole[each])
                first, second = added(crowd, whole[x0]), added(crowd, whole[x1])
                for t in (F(11, 10), F(3, 2)):
                    truth = divergence(first, second, t)
                    assert truth <= profile.delta(just_below(t)) * (1 + 1e-12)


# A scrambler that caps.


def printed_capped(true, other, n, dummies):
    """The printed formula, with either convention of lies."""
    k = np.arange(dummies + 1)
    weight = np.array(
        [math.comb(dummies, j) * math.comb(n - 1, j) * (true / other) ** j for j in k.tolist()]
    )
    beside = k * other**2 / true
    return math.log(float(weight @ (true + beside)) / float(weight @ (other + beside)))


def check_capped(targets, n, sigma):
    for dummies in range(n):
        ratio = true_capped_ratio(targets, sigma, n, dummies)
        found = capped_epsilon(targets, float(sigma), n, dummies)
        assert found == pytest.approx(math.log(ratio), abs=1e-9)
        assert found >= math.log(ratio) * (1 - 1e-15)
        if dummies and targets > 2:
            other = float(sigma) / targets
            printed = printed_capped(1 - float(sigma) + other, other, n, dummies)
            assert printed < math.log(ratio) - 1e-6, "the printed formula is too small"


@pytest.mark.parametrize(("targets", "n"), SMALL)
def test_capped_epsilon_equals_enumeration(targets, n):
    for sigma in SIGMAS[1:]:
        check_capped(targets, n, sigma)


@pytest.mark.slow
@pytest.mark.parametrize(("targets", "n"), LARGE)
def test_capped_epsilon_equals_enumeration_in_larger_groups(targets, n):
    for sigma in SIGMAS[1:]:
        check_capped(targets, n, sigma)


def test_capped_epsilon_with_absent_sources_never_below_enumeration():
    for targets, n, dummies, sigma in [(3, 3, 2, F(1, 2)), (2, 4, 2, F(1, 10)), (4, 2, 1, F(1, 2))]:
        ratio = true_capped_ratio(targets, sigma, n, dummies, nones=True)
        found = capped_epsilon(targets, float(sigma), n, dummies)
        assert found == pytest.approx(math.log(ratio), abs=1e-9)


def test_capped_scrambler_has_stated_worst_output():
    targets, n, dummies, sigma = 4, 5, 3, F(1, 2)
    first, second = capped_laws(targets, sigma, (2,) * (n - 1), dummies, (0, 1))
    worst = greatest_ratio(first, second)
    assert worst == F(first[(n, 0, dummies, 0)], second[(n, 0, dummies, 0)])
    assert worst == true_capped_ratio(targets, sigma, n, dummies)


def test_capped_scrambler_filling_all_targets_reveals_nothing():
    first, second = capped_laws(3, F(1, 2), (1,), 4, (0, 2))
    assert set(first) == set(second) == {(2, 2, 2)}
    assert capped_epsilon(3, 0.5, 2, 4) == 0


@pytest.mark.parametrize(
    ("sigma", "dummies", "printed", "exact_b", "exact_a"),
    [
        (0.1, 50, 4.8882, 5.1359, 5.1931),
        (0.5, 50, 1.8127, 2.9000, 3.0037),
        (0.1, 99, 4.7136, 5.0712, 5.1299),
        (0.5, 99, 1.4886, 2.7529, 2.8604),
    ],
)
def test_printed_capped_epsilon_is_below_enumeration(sigma, dummies, printed, exact_b, exact_a):
    n, targets = 100, 20
    assert printed_capped(1 - sigma, sigma / (targets - 1), n, dummies) == pytest.approx(
        printed, abs=5e-5
    )
    assert capped_epsilon(targets, sigma, n, dummies) == pytest.approx(exact_a, abs=5e-5)
    # A lie that never hits the true target by chance: as often as ours hits another.
    same = sigma * targets / (targets - 1)
    assert capped_epsilon(targets, same, n, dummies) == pytest.approx(exact_b, abs=5e-5)
    assert printed < exact_b < exact_a


def test_flooding_beats_capped_scrambler_for_same_dummies():
    assert capped_epsilon(20, 0.5, 100, 99) > 2.86 > flooding_epsilon(20, 0.5, 1)
    assert flooding_epsilon(20, 0.5, 1) == pytest.approx(math.log(11))


# Sources alone.


@pytest.mark.parametrize("targets", [2, 3, 4, 5, 6])
def test_flooding_epsilon_equals_enumeration(targets):
    for dummies, sigma in itertools.product(range(targets), SIGMAS[1:]):
        first, second = (flooding_law(targets, sigma, dummies, true) for true in (0, 1))
        assert sum(first.values()) == 1
        ratio = max(first[key] / second[key] for key in first)
        found = flooding_epsilon(targets, float(sigma), dummies)
        assert found == pytest.approx(math.log(ratio), abs=1e-12)
        assert found >= math.log(ratio) * (1 - 1e-15)
        profile = Flooding(targets, float(sigma), dummies).profile()
        for t in TS:
            truth = sum(max(F(0), first[key] - t * second[key]) for key in first)
            assert float(truth) == pytest.approx(profile.delta(math.log(t)), abs=1e-12)
            assert truth <= profile.delta(just_below(t))
        # One without a target is a mixture of all.
        nobody = flooding_law(targets, sigma, dummies, NONE)
        assert max(nobody[key] / second[key] for key in nobody) <= ratio


def test_flooding_in_fixed_order_exceeds_bound():
    sigma, targets = F(1, 2), 5
    first, other = F(3, 5), F(1, 10)
    assert math.log(first / other) == pytest.approx(flooding_epsilon(targets, float(sigma), 0))
    assert flooding_epsilon(targets, float(sigma), 2) < math.log(first / other) / 1.5


# What is printed of Hoeffding's and Bennett's bounds, and of samples.


def summed(targets, sigma, size, epsilon):
    """The chance that L₁ + … + L_N is positive, and the first two moments of that part."""
    t = math.exp(epsilon)
    seen = np.arange(size + 1)
    chance, mean, square = 0.0, 0.0, 0.0
    both = binom.pmf(seen, size, 2 / targets)
    for total in seen[both > 1e-30].tolist():
        a = np.arange(total + 1)
        gain = (1 - sigma) * targets * (a - t * (total - a)) + size * sigma * (1 - t)
        weight = both[total] * binom.pmf(a, total, 0.5) * (gain > 0)
        chance += float(weight.sum())
        mean += float(weight @ gain)
        square += float(weight @ gain**2)
    return chance, mean, square


def printed_bennett(targets, sigma, size, epsilon):
    a, t = math.expm1(epsilon), math.exp(epsilon)
    most = (1 - sigma) * targets - sigma * a
    c = sigma * (2 - sigma) * a**2 + (1 - sigma) ** 2 * targets * (1 + t * t)
    u = a * most / c
    phi = (1 + u) * math.log1p(u) - u
    corrected = most / math.log1p(u) * math.exp(-size * c / most**2 * phi)
    return corrected / (a * size), corrected


@pytest.mark.parametrize(
    ("size", "sigma", "epsilon", "exact", "printed", "corrected"),
    [(300, 0.3, 0.3, 5.357, 0.438, 45.9), (1000, 0.5, 0.2, 0.938, 0.0432, 9.57)],
)
def test_printed_bennett_form_is_below_exact_mean(size, sigma, epsilon, exact, printed, corrected):
    _, mean, _ = summed(20, sigma, size, epsilon)
    assert mean == pytest.approx(exact, rel=2e-3)
    assert printed_bennett(20, sigma, size, epsilon) == pytest.approx(
        (printed, corrected), rel=2e-3
    )
    assert printed < exact < corrected
    # One source among dummies: our corrected form is the bound that is coded.
    assert BENNETT.delta(20, sigma, 1, size - 1, epsilon) == pytest.approx(
        min(1.0, printed_bennett(20, sigma, size, epsilon)[1] / size), rel=1e-7
    )


def likelihoods(total, among, neither, true, other):
    """Of A among ``total`` at the victim's two targets, for either of its inputs."""
    a = np.arange(total + 1)
    at_first = np.outer(binom.pmf(a - 1, total - 1, 0.5), among[total - 1])
    at_second = np.outer(binom.pmf(a, total - 1, 0.5), among[total - 1])
    same = np.outer(binom.pmf(a, total, 0.5), neither[total])
    return true * at_first + other * at_second + same, other * at_first + true * at_second + same


def exact_pair(targets, sigma, n, dummies, t):
    """The exact δ of one pair of neighbours: all others are at a third target.

    Seen are the counts of the victim's two targets, and of the third; the rest are alike. Without
    lies the third says nothing, and a row is summed over it.
    """
    other = sigma / targets
    true = 1 - sigma + other
    # Row: how many messages of others and dummies are at the two; column: at the third.
    if sigma:
        among = np.zeros((0, 0))
        for size, two, third in [(n - 1, 2 * other, true), (dummies, 0.1, 0.05)]:
            count = np.arange(size + 1)
            law = binom.pmf(count, size, two)[:, None] * binom.pmf(
                count[None, :], size - count[:, None], third / (1 - two)
            )
            among = convolve2d(among, law) if among.size else law
        among = np.pad(among, ((0, 1), (0, 1)))
        neither = other * np.roll(among, 1, axis=1) + (1 - true - 2 * other) * among
    else:
        among = binom.pmf(np.arange(dummies + 2), dummies, 2 / targets)[:, None]
        neither = np.zeros_like(among)
    found = 0.0
    for total in range(1, among.shape[0]):
        if among[total - 1].sum() > 1e-20:
            first, second = likelihoods(total, among, neither, true, other)
            found += float(np.maximum(first - t * second, 0.0).sum())
    return found


@pytest.mark.parametrize(
    ("sigma", "n", "dummies", "printed", "exact"),
    [
        (0.7, 60, 60, 0.5313, 1.16e-4),
        (0.0, 5, 300, 0.8923, 2.39e-3),
        (0.0, 5, 1000, 0.3425, 4.45e-3),
    ],
)
def test_printed_bennett_form_states_violated_epsilon(sigma, n, dummies, printed, exact):
    targets = 20
    hidden = np.arange(n) if sigma else np.zeros(1, np.int64)
    weight = binom.pmf(hidden, n - 1, sigma)
    delta = sum(
        chance * printed_bennett(targets, sigma, m + dummies + 1, printed + 1e-4)[0]
        / (m + dummies + 1)
        for m, chance in zip(hidden.tolist(), weight.tolist(), strict=True)
    )  # fmt: skip
    assert delta <= 1e-4, "the printed form claims this"
    found = exact_pair(targets, sigma, n, dummies, math.exp(printed))
    assert found == pytest.approx(exact, rel=5e-3)
    assert found > 1.1e-4
    assert ScramblerProfile(targets, sigma, n, dummies).delta(printed) >= found


def test_printed_hoeffding_sign_makes_bound_negative():
    epsilon, sigma, targets, size = 0.5, 0.5, 20, 300
    a = 1 - math.exp(epsilon)
    b = (1 - sigma) * targets * (1 + math.exp(epsilon)) - 2 * sigma * a
    assert b**2 / (4 * a) * math.exp(-2 * size * a**2 / b**2) < 0
    assert HOEFFDING.delta(targets, sigma, 1, size - 1, epsilon) > 0


def test_older_bounds_that_rise_again_return_first_crossing():
    settings = (20, 0.1, 600, 300)
    first = BENNETT.epsilon(*settings, 1e-4)
    assert first == pytest.approx(2.3101, abs=1e-4)
    assert BENNETT.delta(*settings, 5.0) > 1e-4, "from above one would stop at ε0"


def test_clone_reduction_with_neither_outcome_is_below_exact_delta():
    # (A + 1, B), (A, B + 1) or (A, B) with A + B of two targets: what the attack looks at.
    targets, sigma, t = 3, F(1, 2), F(math.e)
    (truth,) = true_deltas(targets, sigma, 2, 0, [t])
    first, second = plain_laws(targets, sigma, (2,), 0, (0, 1))
    naive = divergence(first, second, t)
    assert float(truth) == pytest.approx(0.14241, abs=1e-5)
    assert float(naive) == pytest.approx(0.13029, abs=1e-5)
    assert truth <= ScramblerProfile(targets, 0.5, 2, 0).delta(just_below(t))


def test_monte_carlo_of_five_thousand_samples_is_inconclusive():
    for sigma, size, epsilon in [(0.0, 301, 1.4379), (0.5, 350, 0.5), (0.1, 1010, 0.5458)]:
        chance, mean, square = summed(20, sigma, size, epsilon)
        assert 2e-5 < mean / size < 3e-4
        assert chance < 2e-3
        error = math.sqrt((square / mean**2 - 1) / 5000)
        assert error > 0.3, "a third of the value, where a thousandth is claimed"


# Reference values, T = 20 and δ = 1e-4: σ, sources, dummies; Hoeffding, Bennett, exact.

LOCAL = None
TABLE = [
    (0.1, 100, 0, LOCAL, LOCAL, 4.580486),
    (0.1, 100, 50, LOCAL, LOCAL, 3.198925),
    (0.1, 100, 300, LOCAL, LOCAL, 1.157602),
    (0.1, 100, 1000, LOCAL, 0.7617, 0.545849),
    (0.1, 300, 0, LOCAL, LOCAL, 3.701725),
    (0.1, 300, 50, LOCAL, LOCAL, 2.996793),
    (0.1, 300, 300, LOCAL, LOCAL, 1.107501),
    (0.1, 300, 1000, LOCAL, 0.7513, 0.539553),
    (0.1, 600, 0, LOCAL, LOCAL, 3.230236),
    (0.1, 600, 50, LOCAL, LOCAL, 2.714347),
    (0.1, 600, 300, LOCAL, 2.3101, 1.043875),
    (0.1, 600, 1000, LOCAL, 0.7363, 0.530481),
    (0.3, 100, 0, LOCAL, LOCAL, 2.386351),
    (0.3, 100, 50, LOCAL, LOCAL, 1.754622),
    (0.3, 100, 300, LOCAL, 1.3008, 0.775620),
    (0.3, 100, 1000, LOCAL, 0.5450, 0.399756),
    (0.3, 300, 0, LOCAL, LOCAL, 1.683062),
    (0.3, 300, 50, LOCAL, LOCAL, 1.315984),
    (0.3, 300, 300, LOCAL, 1.1101, 0.702710),
    (0.3, 300, 1000, 3.1676, 0.5257, 0.387062),
    (0.3, 600, 0, LOCAL, LOCAL, 1.129310),
    (0.3, 600, 50, LOCAL, 2.2340, 0.968413),
    (0.3, 600, 300, LOCAL, 0.9329, 0.621918),
    (0.3, 600, 1000, 2.5520, 0.5000, 0.369949),
    (0.5, 100, 0, LOCAL, LOCAL, 1.348726),
    (0.5, 100, 50, LOCAL, LOCAL, 0.984765),
    (0.5, 100, 300, LOCAL, 0.7396, 0.497142),
    (0.5, 100, 1000, 1.3901, 0.3621, 0.268390),
    (0.5, 300, 0, LOCAL, 1.6343, 0.797774),
    (0.5, 300, 50, LOCAL, 1.1735, 0.680252),
    (0.5, 300, 300, LOCAL, 0.6208, 0.432078),
    (0.5, 300, 1000, 1.2958, 0.3428, 0.255008),
    (0.5, 600, 0, LOCAL, 0.8329, 0.543099),
    (0.5, 600, 50, LOCAL, 0.7418, 0.497974),
    (0.5, 600, 300, 2.5759, 0.5135, 0.367764),
    (0.5, 600, 1000, 1.1842, 0.3186, 0.238008),
    (0.9, 100, 0, 0.8250, 0.2805, 0.173045),
    (0.9, 100, 50, 0.6305, 0.2069, 0.135251),
    (0.9, 100, 300, 0.3508, 0.1085, 0.075624),
    (0.9, 100, 1000, 0.1984, 0.0589, 0.041807),
    (0.9, 300, 0, 0.4317, 0.1360, 0.093305),
    (0.9, 300, 50, 0.3921, 0.1224, 0.084705),
    (0.9, 300, 300, 0.2840, 0.0863, 0.060852),
    (0.9, 300, 1000, 0.1824, 0.0538, 0.038248),
    (0.9, 600, 0, 0.2927, 0.0892, 0.062762),
    (0.9, 600, 50, 0.2786, 0.0846, 0.059659),
    (0.9, 600, 300, 0.2291, 0.0686, 0.048648),
    (0.9, 600, 1000, 0.1640, 0.0481, 0.034171),
]
WITHOUT_LIES = [
    (50, None, None, math.inf),
    (180, None, None, 2.7917),
    (181, None, None, 2.6870),
    (300, None, None, 1.4379),
    (1000, None, 0.8897, 0.6261),
    (3000, 1.8861, 0.4295, 0.3281),
]


@pytest.mark.parametrize(("sigma", "n", "dummies", "hoeffding", "bennett", "exact"), TABLE)
def test_epsilons_equal_reference_values(sigma, n, dummies, hoeffding, bennett, exact):
    profile = ScramblerProfile(20, sigma, n, dummies)
    found = profile.epsilon(1e-4)
    assert found == pytest.approx(exact, abs=1e-6)
    alone = profile.greatest_loss
    for bound, expected in [(HOEFFDING.epsilon, hoeffding), (BENNETT.epsilon, bennett)]:
        older = bound(20, sigma, n, dummies, 1e-4)
        assert older == pytest.approx(alone if expected is LOCAL else expected, abs=1e-4)
        assert older > found
    lower = profile.lower(1e-4)
    assert lower <= found
    assert lower > 0.84 * found


@pytest.mark.parametrize(("dummies", "hoeffding", "bennett", "exact"), WITHOUT_LIES)
def test_epsilons_without_sampling_equal_reference_values(dummies, hoeffding, bennett, exact):
    profile = ScramblerProfile(20, 0.0, 7, dummies)
    assert profile.epsilon(1e-4) == pytest.approx(exact, abs=5e-5)
    assert profile.lower(1e-4) == pytest.approx(profile.epsilon(1e-4), rel=1e-8)
    for bound, expected in [(HOEFFDING.epsilon, hoeffding), (BENNETT.epsilon, bennett)]:
        older = bound(20, 0.0, 7, dummies, 1e-4)
        assert older is None if expected is None else older == pytest.approx(expected, abs=1e-4)


def test_printed_bennett_column_is_below_exact_column():
    """At this ε the printed form claims 1e-4; the bound that is met to a few percent says 4e-3."""
    assert ScramblerProfile(20, 0.1, 600, 1000).delta(0.2937) == pytest.approx(4.0e-3, rel=0.03)
    assert ScramblerProfile(20, 0.1, 600, 1000).lower(2e-3) > 0.2937
