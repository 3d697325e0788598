"""Where a message goes: its law, its privacy, and that it survives being written down."""

import math
from fractions import Fraction as F

import msgspec
import numpy as np
import pytest
from scipy.stats import chi2

from incrowd.errors import InvalidParameter, UnknownCategory
from incrowd.privacy import LocalProfile
from incrowd.randomizers import KRR, Redirect


def exact_law(targets, sampling):
    """The chance of the true target, and of each other one, as they are drawn."""
    lie = F(math.ceil(F(sampling) * 2**53), 2**53)
    return 1 - lie + lie / targets, lie / targets


@pytest.mark.parametrize("sampling", [0.0, 1e-9, 0.1, 1 / 3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("targets", [1, 2, 3, 20])
def test_redirect_law_equals_exact_fractions(targets, sampling):
    redirect = Redirect(targets=targets, redirect_probability=sampling)
    true, other = exact_law(targets, sampling)
    assert sampling <= redirect.drawn_probability <= sampling + 2.0**-53
    assert redirect.kept == pytest.approx(float(true), rel=1e-15)
    if targets == 1 or sampling == 1:
        assert redirect.epsilon == 0
    elif sampling == 0:
        assert redirect.epsilon == math.inf
    else:
        ratio = F(true / other)
        assert redirect.epsilon == pytest.approx(math.log(ratio), rel=1e-13)
        assert F(math.exp(redirect.epsilon)) >= ratio * (1 - F(2) ** -50), "rounded up"


@pytest.mark.parametrize(("targets", "sampling"), [(2, 0.3), (3, 0.5), (5, 0.9), (20, 0.1), (4, 1)])
def test_redirect_blanket_and_attacks_have_exact_law(targets, sampling):
    redirect = Redirect(targets=targets, redirect_probability=sampling)
    true, other = (float(each) for each in exact_law(targets, sampling))
    law = redirect.blanket()
    assert law.gamma == pytest.approx(redirect.drawn_probability)
    assert law.symmetric
    assert law.a.max() == pytest.approx(true / other)
    assert law.mass[np.argmax(law.a)] == pytest.approx(other if sampling < 1 else 1 / targets)
    for attack in redirect.attack():
        assert attack.gamma == pytest.approx(1)


def test_redirect_local_delta_equals_exact_fractions():
    for targets, sampling in [(2, 0.3), (5, 0.5), (20, 0.1), (3, 1.0), (1, 0.5)]:
        redirect = Redirect(targets=targets, redirect_probability=sampling)
        true, other = exact_law(targets, sampling)
        for t in (F(1, 20), F(1, 2), F(1), F(3, 2), F(10), F(400)):
            gains = [true - t * other, other - t * true] if targets > 1 else []
            gains += [(1 - t) * other] * (targets - 2) if targets > 1 else [1 - t]
            truth = float(sum(max(F(0), each) for each in gains))
            found = redirect.local_delta(math.log(t))
            assert truth - 1e-15 <= found <= truth + 1e-14


def test_redirect_local_delta_equals_krr():
    redirect = Redirect(targets=4, redirect_probability=0.5)
    other = KRR(categories=4, epsilon=redirect.epsilon)
    for epsilon in (-1.0, 0.0, 0.5, 1.5):
        assert redirect.local_delta(epsilon) == pytest.approx(other.local_delta(epsilon), rel=1e-9)


def test_redirect_without_sampling_hides_nothing():
    redirect = Redirect(targets=5, redirect_probability=0)
    assert redirect.local_delta(1000.0) == 1
    assert LocalProfile(redirect).epsilon(1e-6) == math.inf
    with pytest.raises(InvalidParameter, match="redirect_probability must be above 0"):
        redirect.blanket()
    values = np.arange(5).repeat(3)
    assert np.array_equal(redirect.randomize(values, np.random.default_rng(1)), values)


def test_redirect_draws_have_exact_law(rng):
    targets, sampling, people = 5, 0.4, 200_000
    redirect = Redirect(targets=targets, redirect_probability=sampling)
    sent = redirect.randomize(np.full(people, 3), rng)
    assert sent.dtype == np.uint8
    true, other = (float(each) for each in exact_law(targets, sampling))
    expected = people * np.array([other, other, other, true, other])
    seen = np.bincount(sent, minlength=targets)
    assert float(((seen - expected) ** 2 / expected).sum()) < chi2.ppf(1 - 1e-6, targets - 1)


@pytest.mark.parametrize("sampling", [0.0, 1e-12, 0.1, 1 / 3, 1.0])
@pytest.mark.parametrize("targets", [1, 2, 300])
def test_redirect_survives_encoding(targets, sampling):
    redirect = Redirect(targets=targets, redirect_probability=sampling)
    for module in (msgspec.json, msgspec.msgpack):
        same = module.decode(module.encode(redirect), type=Redirect)
        assert same == redirect
        assert same.epsilon == redirect.epsilon
    assert msgspec.to_builtins(redirect)["kind"] == "redirect"
    assert redirect.report_bytes == (2 if targets == 300 else 1)


def test_redirect_refuses_invalid_parameters():
    for sampling in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="redirect_probability"):
            Redirect(targets=3, redirect_probability=sampling)
    with pytest.raises(InvalidParameter, match="targets"):
        Redirect(targets=0, redirect_probability=0.5)
    with pytest.raises(InvalidParameter, match="epsilon follows from redirect_probability"):
        Redirect(targets=3, redirect_probability=0.5, epsilon=1.0)
    with pytest.raises(UnknownCategory):
        Redirect(targets=3, redirect_probability=0.5).randomize(
            np.array([3]), np.random.default_rng(1)
        )
