"""Losses of walks, given their paths: docs/theory/token_graph.md."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from experiments.token_losses import loss_epsilon
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.protocols.token_walk.theorems.conditional_on_path import path_losses

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


def test_loss_of_documented_example():
    losses = path_losses(EXAMPLE, 4)
    assert losses[1, 0] == pytest.approx(8 / 3)
    assert losses[1, 0] >= 8 / 3
    sigma = 4.22467888932682
    assert loss_epsilon(losses[1, 0], 1 / sigma, 1e-6) == pytest.approx(1.70097, abs=1e-5)
    # Counting the observer's own noise among those that hide, as has been done, is too little.
    assert loss_epsilon(1 / 2 + 4 / 4 + 1 / 4, 1 / sigma, 1e-6) < 1.7


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_path_losses_equal_linear_algebra(n, published):
    rng = np.random.default_rng(n)
    for _ in range(20):
        path = rng.integers(0, n, rng.integers(1, 16))
        found = path_losses(path, n, published=published)
        for v in range(n):
            for u in range(n):
                exact = exact_loss(path, n, u, v, published) if u != v else 0.0
                assert found[u, v] == pytest.approx(exact, abs=1e-9)


def test_path_losses_do_not_hold_when_contributions_read_token():
    """u, then w who adds 1 if the token is above 1/2, then v: not 1/2 as k²/m says, but k = 1."""
    sigma, step = 0.25, 1 / 400
    token, seen = np.arange(-2, 4, step), np.arange(-3, 6, 5 * step)
    moved = token + (token > 0.5)
    spread = np.exp(-(((seen[:, None] - moved) / sigma) ** 2) / 2)
    laws = [spread @ np.exp(-(((token - x) / sigma) ** 2) / 2) for x in (0.0, 1.0)]
    one, other = (law / law.sum() for law in laws)
    distance = float(np.abs(one - other).sum() / 2)
    assert distance == pytest.approx(0.953, abs=1e-3)
    loss = float(path_losses(np.array([0, 1, 2]), 3)[0, 2])
    bound, seen_alone = (2 * ndtr(math.sqrt(each) / sigma / 2) - 1 for each in (loss, 1.0))
    assert bound == pytest.approx(0.843, abs=1e-3)
    assert bound < distance <= seen_alone


def test_path_losses_of_long_path_have_expected_mean():
    n, steps = 400, 40_000
    path = np.random.default_rng(4).integers(0, n, steps, dtype=np.int32)
    losses = path_losses(path, n)
    assert np.all(np.diag(losses) == 0)
    assert losses.sum() / (n * (n - 1)) == pytest.approx(2 * steps / n**2, rel=0.05)


def test_loss_epsilon_never_below_exact():
    rng = np.random.default_rng(6)
    few, many = rng.random(20), rng.random(5000)
    for losses in (few, many):
        found = loss_epsilon(losses, 0.7, 1e-5)
        for i in range(0, losses.size, losses.size // 10):
            exact = GaussianProfile(0.7 * math.sqrt(losses[i])).lower(1e-5)
            assert exact <= found[i] <= exact * 1.0011
    assert loss_epsilon(np.array([[0.0, 1.0]]), 0.7, 1e-5).tolist()[0][0] == 0.0
    assert 0 < loss_epsilon(1e-15, 0.7, 1e-8) < 1e-4


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ([[0, 1]], "whole numbers"),
        ([0.5], "whole numbers"),
        ([0, 7], "from 0 to"),
        ([-1], "from 0"),
    ],
)
def test_path_losses_reject_invalid_path(path, text):
    with pytest.raises(InvalidParameter, match=text):
        path_losses(np.array(path), 3)


def test_losses_reject_invalid_arguments():
    with pytest.raises(InvalidParameter, match="whole numbers"):
        path_losses([[0], [1, 2]], 3)
    with pytest.raises(InvalidParameter, match="losses must be numbers"):
        loss_epsilon("a", 1.0, 1e-6)
    with pytest.raises(InvalidCrowd, match="20000 or fewer"):
        path_losses(EXAMPLE, 30_000)
    for losses, mu, text in ((-1.0, 1.0, "losses"), (1.0, 0.0, "mu")):
        with pytest.raises(InvalidParameter, match=text):
            loss_epsilon(losses, mu, 1e-6)
