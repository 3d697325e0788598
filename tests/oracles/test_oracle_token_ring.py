"""The token ring against its exact views: docs/theory/token_ring.md."""

import itertools
import math
from collections import Counter
from fractions import Fraction as F

import numpy as np
import pytest
from enumeration import blanket_atoms, functional, krr_matrix, true_delta
from variation_ratio import exact_variation_ratio

from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.privacy import ComposedProfile, LocalProfile
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.protocols.token_walk.theorems.ring import Ring
from incrowd.randomizers import KRR, Laplace
from incrowd.randomizers._lattice import response_odds

SIGMA = 4.22467888932682
"""One contribution in [0, 1] with this noise is (1, 1e-6)-private."""


def exact_loss(scales, n, u, v, published):
    """The squared shift in v's view, in units of 1/σ²; infinite where something is seen bare.

    The view: every token that v receives, its own noise, and the final token where published.
    """
    steps = len(scales)
    upto = np.tril(np.ones((steps, steps)))
    tokens = [upto[s - 1] for s in range(1, steps) if s % n == v]
    if published:
        tokens.append(upto[-1])
    own = [np.eye(steps)[s] for s in range(steps) if s % n == v]
    signal = np.array([*tokens, *np.zeros((len(own), steps))])
    noise = np.array([*tokens, *own]) * scales
    covariance = noise @ noise.T
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
    of_u = [s for s in range(steps) if s % n == u]
    worst = 0.0
    for signs in itertools.product((-1, 1), repeat=len(of_u) - 1):
        shift = signal[:, of_u] @ np.array([1, *signs])
        if np.abs(shift - covariance @ inverse @ shift).max() > 1e-6:
            return math.inf
        worst = max(worst, float(shift @ inverse @ shift))
    return worst


def scales_of(ring):
    return np.array([ring.noise_scale(s) for s in range(ring.steps)])


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("n", [3, 4, 5, 7, 8])
@pytest.mark.parametrize("laps", [1, 2, 3, 4])
def test_ring_profile_never_below_exact_shift_of_any_pair(n, laps, published, spread):
    ring = Ring(n, laps, published, spread)
    scales = scales_of(ring)
    losses = [exact_loss(scales, n, u, v, published) for u in range(n) for v in range(n) if u != v]
    bound = ring.profile(GaussianProfile(1.0)).shift ** 2
    assert bound == pytest.approx(laps)
    assert max(losses) <= bound * (1 + 1e-9)
    assert max(losses) > 0.98 * bound, "lowered by 2 %, the bound would be too small"


def test_ring_variance_equals_sum_over_steps():
    for n, laps, published, spread in itertools.product(
        range(3, 9), range(1, 14), (False, True), (False, True)
    ):
        ring = Ring(n, laps, published, spread)
        scales = scales_of(ring)
        assert ring.noises == np.count_nonzero(scales)
        assert ring.variance == pytest.approx(float(scales @ scales))


def test_printed_number_of_noises_is_too_small():
    grid = list(itertools.product(range(2, 9), range(1, 14)))
    wrong = [(n, laps) for n, laps in grid if laps * n // (n - 1) != -(-laps * n // (n - 1))]
    assert (len(wrong), len(grid)) == (60, 91)
    for n, laps in wrong:
        assert Ring(n, laps).noises == laps * n // (n - 1) + 1
    assert Ring(100, 1).noises == 2


def test_published_ring_without_last_noise_reveals_values():
    unprotected = Ring(3, 2)
    assert exact_loss(scales_of(unprotected), 3, 2, 1, published=True) == math.inf
    assert exact_loss(scales_of(Ring(3, 2, published=True)), 3, 2, 1, published=True) <= 2 + 1e-9
    bare = 0
    for n, laps in itertools.product(range(3, 9), range(1, 14)):
        scales = scales_of(Ring(n, laps))
        bare += sum(not scales[(laps - 1) * n + v + 1 :].any() for v in range(n - 1))
    assert bare == 125


@pytest.mark.parametrize(("n", "truth"), [(3, 1.2447), (10, 1.0585)])
def test_printed_spread_is_too_thin(n, truth):
    """σ/√n for each, as printed, forgets that the observer knows their own noise."""
    printed = np.full(3 * n, 1 / math.sqrt(n))
    printed[0] = 1.0
    loss = exact_loss(printed, n, 0, 1, published=False)
    assert loss - 1 == pytest.approx(2 * n / (n - 1))
    one = GaussianProfile(math.sqrt(n / (n - 1)) / SIGMA)
    assert one.epsilon(1e-6) == pytest.approx(truth, abs=1e-4)
    assert Ring(n, 3, split_noise=True).profile(GaussianProfile(1.0)).shift ** 2 < loss


def test_printed_composition_is_loose():
    assert GaussianProfile(1 / SIGMA).epsilon(1e-6) == pytest.approx(1.0, abs=1e-6)
    found = Ring(50, 10).profile(GaussianProfile(1 / SIGMA)).epsilon(1e-6)
    assert found == pytest.approx(3.5247, abs=1e-4)


def test_other_noise_composes_and_rejects_spread():
    one = LocalProfile(Laplace(epsilon=0.5))
    assert Ring(5, 3).profile(one) == ComposedProfile(((one, 3),))
    with pytest.raises(InvalidParameter, match="only Gaussian noise can be spread"):
        Ring(5, 3, split_noise=True).profile(one)
    with pytest.raises(InvalidCrowd):
        Ring(2, 3)
    with pytest.raises(InvalidParameter, match="step must be below"):
        Ring(3, 1).noise_scale(3)


# --- histograms ---------------------------------------------------------------------------------


def block_law(matrix, values, uniform):
    """The law of the counts of one report of each value and some uniform elements."""
    k = len(matrix)
    law = {(0,) * k: F(1)}
    for row in [*(matrix[x] for x in values), *([[F(1, k)] * k] * uniform)]:
        after = Counter()
        for counts, chance in law.items():
            for y in range(k):
                one_more = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                after[one_more] += chance * row[y]
        law = after
    return law


def view_law(matrix, n, laps, v, data, start, end):
    """The exact law of what v sees; ``data[s]`` is the value of step s, ``end`` None if unseen."""
    visits = [s for s in range(laps * n) if s % n == v]
    blocks, before = [], 0
    for j, s in enumerate(visits):
        blocks.append(block_law(matrix, data[before:s], start if j == 0 and v else 0))
        before = s + 1
    if end is not None:
        blocks.append(block_law(matrix, data[before:], end if v < n - 1 else 0))
    return {
        tuple(c for c, _ in outcome): math.prod((p for _, p in outcome), start=F(1))
        for outcome in itertools.product(*(law.items() for law in blocks))
    }


def worst_ring_delta(krr, n, laps, t, start, end):
    k = krr.categories
    matrix = krr_matrix(k, F(response_odds(krr.epsilon, k)))
    worst = F(0)
    for u, v in itertools.permutations(range(n), 2):
        others = [s for s in range(laps * n) if s % n not in (u, v)]
        # All laps alike suffice to be a lower bound; the victim changes in every lap.
        for held in itertools.product(range(k), repeat=n - 2):
            data = [0] * (laps * n)
            for i, s in enumerate(others):
                data[s] = held[i % (n - 2)]
            laws = []
            for x in (0, 1):
                own = [x if s % n == u else y for s, y in enumerate(data)]
                laws.append(view_law(matrix, n, laps, v, own, start, end))
            for p, q in (laws, laws[::-1]):
                worst = max(worst, sum(max(F(0), p[o] - t * q.get(o, 0)) for o in p))
    return worst


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize(
    ("n", "laps", "k"), [(3, 1, 2), (3, 1, 3), (3, 2, 2), (4, 1, 2), (4, 2, 2)]
)
def test_ring_histogram_never_below_enumeration(n, laps, k, published):
    krr = KRR(categories=k, epsilon=math.log(3))
    ring = Ring(n, laps, published)
    hidden = ring.uniform_elements(krr.blanket().gamma)
    profile = ring.histogram_profile(krr)
    for t in (F(1), F(5, 4), F(2)):
        exact = worst_ring_delta(krr, n, laps, t, hidden, hidden if published else None)
        bound = profile.delta(math.log(t))
        assert float(exact) <= bound
        if laps == 1:
            assert float(exact) > 0.98 * bound, "the first report has the uniform elements alone"


def test_published_ring_histogram_needs_uniform_elements_at_end():
    krr, t = KRR(categories=2, epsilon=math.log(3)), F(5, 4)
    ring = Ring(3, 1, published=True)
    hidden = ring.uniform_elements(krr.blanket().gamma)
    bare = worst_ring_delta(krr, 3, 1, t, hidden, 0)
    assert float(bare) > 1.2 * ring.histogram_profile(krr).delta(math.log(t))
    assert float(bare) == pytest.approx(krr.local_delta(math.log(t)), rel=1e-9)


def test_counting_others_with_their_mean_is_no_bound():
    """Four values, six others at a third one: forgetting how many are uniform is too little."""
    E, t, matrix = F(3), F(6, 5), krr_matrix(4, F(3))
    exact = true_delta(matrix, 0, 1, [2] * 6, t)
    mean, blanket = exact_variation_ratio(4, E, 7, t), functional(blanket_atoms(matrix, 0, 1), 7, t)
    assert float(mean) == pytest.approx(0.108447, abs=1e-6)
    assert float(blanket) == pytest.approx(0.108533, abs=1e-6)
    assert float(exact) == pytest.approx(0.108511, abs=1e-6)
    assert mean < exact <= blanket
    krr = KRR(categories=4, epsilon=math.log(3))
    ring = Ring(8, 2).histogram_profile(krr)
    block = next(part for part, _ in ring.parts if part.n == 7)
    assert block.delta(math.log(t)) >= float(exact)


def test_ring_histogram_composes_whole_blocks():
    krr = KRR(categories=4, epsilon=1.0)
    parts = dict(Ring(100, 5).histogram_profile(krr).parts)
    assert sorted((part.n, times) for part, times in parts.items()) == [
        (Ring(100, 5).uniform_elements(krr.blanket().gamma) + 1, 1),
        (99, 4),
    ]
    short = next(part for part in parts if part.n != 99)
    assert short.law.gamma == pytest.approx(1.0)
