"""What walks that have happened give away: docs/theory/token_graph.md."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.protocols.token_walk.theorems.conditional_on_path import (
    average_losses,
    realised_epsilon,
    realised_losses,
    realised_losses_of,
    worst_losses,
)

EXAMPLE = np.array([1, 0, 2, 1, 1, 0, 3, 1, 2, 0])


def exact_loss(path, n, u, v, published):
    """The squared shift in v's view of all tokens and its own noise, by linear algebra."""
    steps = len(path)
    upto = np.tril(np.ones((steps, steps)))
    tokens = [upto[t - 1] for t in range(1, steps) if path[t] == v]
    if published:
        tokens.append(upto[-1])
    own = [np.eye(steps)[t] for t in range(steps) if path[t] == v]
    noise = np.array([*tokens, *own])
    signal = np.array([*tokens, *np.zeros((len(own), steps))])
    if not tokens:
        return 0.0
    shift = signal @ (np.asarray(path) == u)
    return float(shift @ np.linalg.pinv(noise @ noise.T, rcond=1e-10, hermitian=True) @ shift)


def counted(path, n, v, published):
    """Contributions that v sees, one by one."""
    found, waiting = np.zeros(n), np.zeros(n)
    for x in path:
        if x == v:
            found += waiting
            waiting[:] = 0
        else:
            waiting[x] += 1
    return found + waiting if published else found


def test_the_example():
    losses = realised_losses(EXAMPLE, 4)
    assert losses[1, 0] == pytest.approx(8 / 3)
    assert losses[1, 0] >= 8 / 3
    sigma = 4.22467888932682
    assert realised_epsilon(losses[1, 0], 1 / sigma, 1e-6) == pytest.approx(1.70097, abs=1e-5)
    # Counting the observer's own noise among those that hide, as has been done, is too little.
    assert realised_epsilon(1 / 2 + 4 / 4 + 1 / 4, 1 / sigma, 1e-6) < 1.7


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_losses_are_exact(n, published):
    rng = np.random.default_rng(n)
    for _ in range(20):
        path = rng.integers(0, n, rng.integers(1, 16))
        found = realised_losses(path, n, published=published)
        for v in range(n):
            assert realised_losses_of(path, n, v, published=published) == pytest.approx(found[:, v])
            for u in range(n):
                exact = exact_loss(path, n, u, v, published) if u != v else 0.0
                assert found[u, v] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("published", [False, True])
def test_where_contributions_read_the_token(published):
    rng = np.random.default_rng(9)
    path = rng.integers(0, 6, 300)
    found = realised_losses(path, 6, published=published, reads=True)
    for v in range(6):
        assert found[:, v] == pytest.approx(counted(path, 6, v, published))
        alone = realised_losses_of(path, 6, v, published=published, reads=True)
        assert alone == pytest.approx(found[:, v])
    assert np.all(found >= realised_losses(path, 6, published=published))


def test_others_can_enlarge_what_they_read():
    """u, then w who adds 1 if the token is above 1/2, then v: not 1/2 as k²/m says, but k = 1."""
    sigma, step = 0.25, 1 / 400
    token, seen = np.arange(-2, 4, step), np.arange(-3, 6, 5 * step)
    moved = token + (token > 0.5)
    spread = np.exp(-(((seen[:, None] - moved) / sigma) ** 2) / 2)
    laws = [spread @ np.exp(-(((token - x) / sigma) ** 2) / 2) for x in (0.0, 1.0)]
    one, other = (law / law.sum() for law in laws)
    distance = float(np.abs(one - other).sum() / 2)
    assert distance == pytest.approx(0.953, abs=1e-3)
    apart = {
        reads: float(realised_losses(np.array([0, 1, 2]), 3, reads=reads)[0, 2])
        for reads in (False, True)
    }
    bound = {reads: 2 * ndtr(math.sqrt(loss) / sigma / 2) - 1 for reads, loss in apart.items()}
    assert bound[False] == pytest.approx(0.843, abs=1e-3)
    assert bound[False] < distance <= bound[True]


def test_long_paths_have_the_expected_loss():
    n, steps = 400, 40_000
    path = np.random.default_rng(4).integers(0, n, steps, dtype=np.int32)
    losses = realised_losses(path, n)
    assert np.all(np.diag(losses) == 0)
    assert losses.sum() / (n * (n - 1)) == pytest.approx(2 * steps / n**2, rel=0.05)
    assert average_losses(losses).mean() == pytest.approx(losses.sum() / (n * (n - 1)))
    assert worst_losses(losses) == pytest.approx(losses.max(axis=1))


def test_epsilon_is_rounded_up():
    rng = np.random.default_rng(6)
    few, many = rng.random(20), rng.random(5000)
    for losses in (few, many):
        found = realised_epsilon(losses, 0.7, 1e-5)
        for i in range(0, losses.size, losses.size // 10):
            exact = GaussianProfile(0.7 * math.sqrt(losses[i])).lower(1e-5)
            assert exact <= found[i] <= exact * 1.0011
    assert realised_epsilon(np.array([[0.0, 1.0]]), 0.7, 1e-5).tolist()[0][0] == 0.0
    assert 0 < realised_epsilon(1e-15, 0.7, 1e-8) < 1e-4


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ([[0, 1]], "whole numbers"),
        ([0.5], "whole numbers"),
        ([0, 7], "from 0 to"),
        ([-1], "from 0"),
    ],
)
def test_paths_that_are_refused(path, text):
    with pytest.raises(InvalidParameter, match=text):
        realised_losses(np.array(path), 3)


def test_what_else_is_refused():
    with pytest.raises(InvalidParameter, match="whole numbers"):
        realised_losses([[0], [1, 2]], 3)
    with pytest.raises(InvalidParameter, match="losses must be numbers"):
        realised_epsilon("a", 1.0, 1e-6)
    with pytest.raises(InvalidParameter, match="observer"):
        realised_losses_of(EXAMPLE, 4, 4)
    with pytest.raises(InvalidCrowd, match="realised_losses_of"):
        realised_losses(EXAMPLE, 30_000)
    for losses, mu, text in ((-1.0, 1.0, "losses"), (1.0, 0.0, "mu")):
        with pytest.raises(InvalidParameter, match=text):
            realised_epsilon(losses, mu, 1e-6)
