"""Token walks on the complete graph against exact views of small walks."""

import itertools
import math
from fractions import Fraction as F

import numpy as np
import pytest
from scipy.stats import binom

from incrowd.errors import InvalidCrowd
from incrowd.privacy import LocalProfile
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.sampled import RevealedProfile, SampledProfile
from incrowd.protocols.token_walk.theorems.cycle_moments import CycleMoments
from incrowd.protocols.token_walk.theorems.hidden_path import HiddenWalkProfile
from incrowd.protocols.token_walk.theorems.public_path import (
    CuratorSumProfile,
    LocalWalkProfile,
    PublicWalkProfile,
)
from incrowd.randomizers import KRR, RR
from tests.oracles.token_enumeration import (
    gaussian_delta,
    hockey_stick,
    known_shifts,
    mixture_delta,
    phi,
    response_views,
    squared_shift,
    worst_gaussian,
    worst_response,
)

E = F(3)
TS = [F(1, 2), F(4, 5), F(1), F(11, 10), F(3, 2), F(2), F(5, 2)]


def krr(categories):
    whole = E + categories - 1
    return [[(E if x == y else F(1)) / whole for y in range(categories)] for x in range(categories)]


def response(categories):
    return LocalProfile(KRR(categories=categories, epsilon=math.log(3) * (1 + 1e-14)))


def steps_of(one, rate, rounds):
    return RepeatedProfile(SampledProfile(one, rate), rounds)


# Path hidden, randomized response, in rational arithmetic


@pytest.mark.parametrize(
    ("categories", "n", "steps", "colluders", "published"),
    [
        (2, 3, 1, 0, True),
        (2, 3, 2, 0, True),
        (2, 3, 3, 0, False),
        (2, 3, 3, 0, True),
        (2, 4, 2, 0, True),
        (2, 4, 3, 0, False),
        (2, 4, 2, 1, True),
        (2, 5, 2, 1, True),
        (3, 3, 2, 0, True),
        (3, 3, 3, 0, False),
    ],
)
def test_hidden_responses_never_below_enumeration(categories, n, steps, colluders, published):
    observers = set(range(1 + colluders))
    truth = worst_response(krr(categories), n, steps, observers, TS, published)
    bound = HiddenWalkProfile(response(categories), n, steps, colluders)
    for t in TS:
        assert bound.delta(math.log(t)) >= float(truth[t]) * (1 - 1e-12)
    lower = bound.lower(0.05)
    if lower:
        at = F(math.exp(lower)).limit_denominator(10**9)
        own = worst_response(krr(categories), n, steps, observers, [at], published)[at]
        assert own >= F(5, 100) * (1 - F(1, 10**6))


def increments(matrix, rate, others):
    """All reports in order, by people who are never the observer: the laws for both values.

    ``others`` is what all but the victim hold at each step.
    """
    return [
        {
            seen: math.prod(
                (
                    rate * matrix[value][answer] + (1 - rate) * matrix[other][answer]
                    for answer, other in zip(seen, others, strict=True)
                ),
                start=F(1),
            )
            for seen in itertools.product(range(len(matrix)), repeat=len(others))
        }
        for value in (0, 1)
    ]


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("rate", [F(1, 2), F(1, 4)])
def test_composed_steps_bound_increments_tightly(rounds, rate):
    """The composed curve bounds whoever sees all steps, and not by much: 2 % off is too low."""
    matrix, ts = krr(2), [F(1), F(11, 10), F(6, 5), F(3, 2)]
    truth = {
        t: max(
            hockey_stick(*pair, t)
            for others in itertools.product((0, 1), repeat=rounds)
            for laws in [increments(matrix, rate, others)]
            for pair in (laws, laws[::-1])
        )
        for t in ts
    }
    bound = steps_of(response(2), float(rate), rounds)
    lowered = steps_of(response(2), 0.98 * float(rate), rounds)
    for t in ts:
        assert bound.delta(math.log(t)) >= float(truth[t]) * (1 - 1e-12)
        # Over several steps the two ends of the curve are not attained by the same data.
        most = float(truth[t]) * (1.001 if rounds == 1 else 1.35)
        assert bound.delta(math.log(t)) <= most + 1e-12
    assert rounds == 3 or any(lowered.delta(math.log(t)) < float(truth[t]) for t in ts)
    delta = float(truth[F(6, 5)]) * (1 - 1e-9)
    assert bound.epsilon(delta) >= math.log(6 / 5) * (1 - 1e-9)
    if rounds == 1:
        assert 0.98 * bound.epsilon(delta) < math.log(6 / 5)


def test_public_first_holder_breaks_hidden_bound():
    """Four people, one step, the victim known to begin: only its own randomizer protects."""
    p, q = F(731058578630005, 10**15), F(268941421369995, 10**15)
    matrix = [[p, q], [q, p]]
    first = worst_response(
        matrix, 4, 1, {0}, [F(1)], published=True, rate_of=lambda _, holder: F(int(holder == 3))
    )
    drawn = HiddenWalkProfile(LocalProfile(RR(epsilon=1.0)), 4, 1)
    assert float(first[F(1)]) == pytest.approx(0.4621, abs=1e-4)
    # A third of it, where the one step is not the observer's own.
    assert drawn.delta(0.0) == pytest.approx(0.4621 / 3 * 3 / 4, abs=1e-4)


# Path hidden, Gaussian sums


@pytest.mark.parametrize(
    ("n", "steps", "published"),
    [(3, 1, True), (3, 2, True), (3, 3, False), (4, 2, True), (4, 3, False), (5, 2, True)],
)
@pytest.mark.parametrize("mu", [0.5, 3.0])
def test_hidden_sums_never_below_quadrature(n, steps, published, mu):
    ts = [0.7, 1.0, 1.2, 2.0]
    truth = worst_gaussian(mu, n, steps, {0}, ts, published)
    bound = HiddenWalkProfile(GaussianProfile(mu), n, steps)
    for t in ts:
        assert bound.delta(math.log(t)) >= truth[t] * (1 - 1e-3)


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_hidden_sums_with_published_middle_never_below_quadrature(mu):
    """Three steps, visited at the second, and the end published: two sums are seen."""
    truth = worst_gaussian(mu, 3, 3, {0}, [1.0, 1.5], published=True)
    bound = HiddenWalkProfile(GaussianProfile(mu), 3, 3)
    for t in (1.0, 1.5):
        assert bound.delta(math.log(t)) >= truth[t] * (1 - 1e-3)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_composed_steps_bound_sum_increments_tightly(rounds, mu):
    rate = 0.25
    ones = list(itertools.product((0.0, mu), repeat=rounds))
    # Weights as repeated means: one in four is the victim's.
    mixed = [mean for mean in ones for _ in range(3 ** mean.count(0.0))]
    zero = [(0.0,) * rounds] * len(mixed)
    bound = steps_of(GaussianProfile(mu), rate, rounds)
    lowered = steps_of(GaussianProfile(mu), 0.98 * rate, rounds)
    low = False
    for t in (1.0, 1.05, 1.2):
        found = [mixture_delta(*pair, t) / len(mixed) for pair in ((mixed, zero), (zero, mixed))]
        assert bound.delta(math.log(t)) >= max(found) * (1 - 1e-4)
        assert bound.delta(math.log(t)) <= max(found) * (1.001 if rounds == 1 else 1.35)
        low |= lowered.delta(math.log(t)) < max(found)
    assert low or rounds > 1


def test_hidden_profile_rejects_too_few_people():
    for n, colluders in ((2, 0), (3, 1), (5, 3)):
        with pytest.raises(InvalidCrowd, match="hide each other"):
            HiddenWalkProfile(GaussianProfile(1.0), n, 10, colluders)


# Path known


SMALL = [
    (n, steps, together, published)
    for n, steps in ((2, 4), (3, 5), (4, 4), (5, 4))
    for together in (1, 2)
    for published in (False, True)
    if n > together
]


@pytest.mark.parametrize(("n", "steps", "together", "published"), SMALL)
def test_public_walk_never_below_enumeration(n, steps, together, published):
    squared = known_shifts(n, steps, n - 1, set(range(together)), published)
    for mu in (0.3, 1.0, 3.0):
        bound = PublicWalkProfile(mu, n, steps, together - 1, published)
        exact = {
            epsilon: float(
                np.mean([gaussian_delta(epsilon, mu * math.sqrt(max(w, 0.0))) for w in squared])
            )
            for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0)
        }
        for epsilon, truth in exact.items():
            assert bound.delta(epsilon) >= truth * (1 - 1e-9)
            assert bound._attack(epsilon) <= truth * (1 + 1e-9)
        target = exact[0.5]
        if target > 1e-9:
            assert bound.lower(target) <= 0.5 * (1 + 1e-3)
            assert bound.epsilon(target) >= 0.5 * (1 - 1e-9)
            assert bound.delta(0.5) <= 3 * target


@pytest.mark.parametrize(("n", "steps", "together", "published"), SMALL)
def test_cycle_moments_are_tight(n, steps, together, published):
    """The moment of Σ k²/m is that of the linear algebra, and 2 % less is too little."""
    squared = known_shifts(n, steps, n - 1, set(range(together)), published)
    moments = CycleMoments(n, together, steps, published)
    for rate in (0.01, 0.3, 1.0, 2.5):
        truth = math.log(float(np.mean(np.exp(rate * squared))))
        assert truth <= moments.log_moment(rate) <= truth * 1.0001 + 1e-9
        assert 0.98 * moments.log_moment(rate) < truth


@pytest.mark.parametrize(("n", "steps", "rate"), [(20, 1000, 0.3), (50, 1000, 0.5), (5, 1000, 0.1)])
@pytest.mark.parametrize("published", [False, True])
def test_renewal_bound_close_to_recursion(n, steps, rate, published):
    """The bound by renewal against the recursion, for a walk that both can follow."""
    moments = CycleMoments(n, 1, steps, published)
    excess = moments.excesses(rate)
    followed = moments._followed(excess)
    renewed = [moments._renewed(excess, extended) for extended in (False, True)]
    assert followed <= min(renewed) * (1 + 1e-9)
    assert min(renewed) <= followed * 1.02 + 0.2
    # One step more than what is followed one by one.
    before = CycleMoments(n, 1, 2500, published).log_moment(rate)
    after = CycleMoments(n, 1, 2501, published).log_moment(rate)
    assert before <= after <= before * 1.03 + 0.2


def test_squared_shift_of_documented_path():
    """Σ k²/m by linear algebra for a walk written out."""
    walk = (1, 0, 2, 1, 1, 0, 3, 1, 2, 0)
    assert squared_shift(walk, 1, {0}, published=False) == pytest.approx(8 / 3)
    assert GaussianProfile(math.sqrt(8 / 3) / 4.22467888932682).epsilon(1e-6) == pytest.approx(
        1.70097, abs=1e-5
    )


def test_reading_token_breaks_public_bound():
    """One who adds more when the token is high shows the victim's value: 0.953 against 0.843."""
    sigma = 0.25
    y = np.linspace(-2.0, 3.0, 1501)
    z = np.linspace(-3.0, 5.0, 801)
    laws = []
    for x in (0.0, 1.0):
        first = np.exp(-((y - x) ** 2) / (2 * sigma**2)) * (y[1] - y[0])
        first /= sigma * math.sqrt(2 * math.pi)
        mean = y + (y > 0.5)
        kernel = np.exp(-((z[:, None] - mean) ** 2) / (2 * sigma**2))
        laws.append(kernel @ first / (sigma * math.sqrt(2 * math.pi)))
    told = float(np.maximum(laws[1] - laws[0], 0.0).sum() * (z[1] - z[0]))
    unread = gaussian_delta(0.0, math.sqrt(squared_shift((1, 2, 0), 1, {0}, False)) / sigma)
    assert told == pytest.approx(0.953, abs=2e-3)
    assert unread == pytest.approx(0.843, abs=1e-3)
    # Then only the number of contributions counts, as if each was seen.
    assert told < LocalWalkProfile(GaussianProfile(1 / sigma), 3, 3).delta(0.0) / (1 - (2 / 3) ** 3)


# Those who see the sum, and those who see all


@pytest.mark.parametrize(("n", "steps"), [(2, 4), (3, 4), (5, 4)])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_curator_and_local_profiles_match_binomial_average(n, steps, mu):
    local = LocalWalkProfile(GaussianProfile(mu), n, steps)
    curator = CuratorSumProfile(mu, n, steps)
    capped = LocalWalkProfile(GaussianProfile(mu), n, steps, cap=2)
    chance = [math.comb(steps, k) * (n - 1) ** (steps - k) / n**steps for k in range(steps + 1)]
    for epsilon in (0.0, 0.3, 1.0):
        for profile, shift in (
            (local, lambda k: mu * math.sqrt(k)),
            (curator, lambda k: k * mu / math.sqrt(steps)),
            (capped, lambda k: mu * math.sqrt(min(k, 2))),
        ):
            truth = sum(p * gaussian_delta(epsilon, shift(k)) for k, p in enumerate(chance))
            assert truth <= profile.delta(epsilon) <= truth * (1 + 1e-8)
            delta = min(max(truth, 1e-6), 0.9)
            assert profile.lower(delta) <= profile.epsilon(delta)
    mixed = [
        (k * mu / math.sqrt(steps),)
        for k in range(steps + 1)
        for _ in range(round(chance[k] * n**steps))
    ]
    token = mixture_delta(mixed, [(0.0,)] * len(mixed), math.exp(0.3)) / len(mixed)
    assert curator._attack(0.3) <= token * (1 + 1e-4)
    assert curator._attack(0.3) >= 0.98 * token


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_local_profile_of_responses_never_below_enumeration(rounds):
    """Binary response, each step the victim's with probability 1/n, and this is known."""
    n, matrix = 3, krr(2)
    bound = LocalWalkProfile(response(2), n, rounds)
    capped = LocalWalkProfile(response(2), n, rounds, cap=1)
    revealed = RepeatedProfile(RevealedProfile(response(2), 0.98 / n), rounds)
    low = False
    for t in (F(1), F(3, 2), F(5, 2)):
        truth = F(0)
        for k in range(rounds + 1):
            first, second = increments(matrix, F(1), (0,) * k)[::-1]
            chance = math.comb(rounds, k) * F(n - 1) ** (rounds - k) / F(n) ** rounds
            truth += chance * hockey_stick(second, first, t)
        assert bound.delta(math.log(t)) >= float(truth) * (1 - 1e-12)
        assert capped.delta(math.log(t)) <= bound.delta(math.log(t))
        low |= revealed.delta(math.log(t)) < float(truth)
    assert low


# What is printed


def group_mixture_delta(n, m, sigma, epsilon):
    """δ of Σ_k Bin(k; m, 1/n)·N(k/(σ√m), 1) against N(0, 1), by its threshold."""
    k = np.arange(60)
    chance, shift = binom.pmf(k, m, 1 / n), k / (sigma * math.sqrt(m))

    def ratio(x):
        return float(chance @ np.exp(shift * x - shift**2 / 2)) - math.exp(epsilon)

    low, high = -50.0, 200.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if ratio(middle) > 0 else (middle, high)
    told = sum(float(p) * phi(float(s) - high) for p, s in zip(chance, shift, strict=True))
    return told - math.exp(epsilon) * phi(-high)


@pytest.mark.parametrize(("n", "truth"), [(20, 7.9e-5), (100, 3.2e-5), (1000, 9.2e-6)])
def test_printed_cycle_is_no_bound(n, truth):
    """Sampling with replacement with the curve of one record where that of a group is needed."""
    sigma, m = 4.22467888932682, n
    printed = math.log1p((1 - (1 - 1 / n) ** m) * math.expm1(1 / math.sqrt(m)))
    found = group_mixture_delta(n, m, sigma, printed)
    assert found == pytest.approx(truth, rel=0.02)
    assert found > 5e-6
    # The composed curve of those m steps holds.
    bound = steps_of(GaussianProfile(1 / sigma), 1 / n, m)
    assert bound.delta(printed) >= found


def test_printed_number_of_visits_is_exceeded_too_often():
    n = steps = 1000
    printed = steps / n + math.sqrt(3 * steps / n * math.log(1e6))
    assert binom.sf(math.ceil(printed) - 1, steps, 1 / n) > 9e-6


def test_printed_composition_is_no_bound():
    """√k·ε·(e^c − 1) where k·c·(e^c − 1) is meant: randomized response exceeds it."""
    n, epsilon, k, delta = 10, 1.0, 1000, 1e-6
    c = 3 * epsilon / math.sqrt(n)
    printed = math.sqrt(2 * k * math.log(1 / delta)) * c + math.sqrt(k) * epsilon * math.expm1(c)
    meant = math.sqrt(2 * k * math.log(1 / delta)) * c + k * c * math.expm1(c)
    truth = RepeatedProfile(RevealedProfile(LocalProfile(RR(epsilon=c)), 1.0), k).epsilon(delta)
    chance = 1 / (1 + math.exp(-c))
    likely = binom.sf((printed / c + k) / 2 + 1, k, chance)
    assert likely > 0.99
    assert printed < 0.6 * truth
    assert truth < meant


def test_enumerated_views_have_total_probability_one():
    """What is listed carries all the probability."""
    law = response_views(krr(2), (0, 0, 1), 2, {0}, False)
    assert sum(law.values()) == 1
