"""What scramblers guarantee: that it is safe, and how it behaves. docs/theory/scrambler.md"""

import itertools
import math

import mpmath
import numpy as np
import pytest

from incrowd.errors import InvalidCrowd, InvalidParameter, NotProven, NumericalFloor
from incrowd.privacy import ComposedProfile
from incrowd.privacy.pure import PureProfile
from incrowd.protocols.scrambled_query.bounds import BENNETT, HOEFFDING
from incrowd.protocols.scrambled_query.theorems.capped import capped_epsilon
from incrowd.protocols.scrambled_query.theorems.exact import _FINE, ScramblerProfile, _sums
from incrowd.protocols.scrambled_query.theorems.flooding import flooding_epsilon, telling
from incrowd.protocols.scrambled_query.theorems.mechanisms import (
    CappedScrambler,
    Flooding,
    Scrambler,
    SomeScrambler,
)
from incrowd.protocols.scrambled_query.theorems.occupancy import crowds, likely, span
from incrowd.randomizers import KRR, OUE, Redirect

SETTINGS = [
    (20, 0.5, 100, 50),
    (20, 0.1, 60, 0),
    (3, 0.3, 40, 5),
    (2, 0.5, 30, 10),
    (20, 0.0, 5, 200),
    (7, 0.9, 1, 30),
    (50, 1e-3, 200, 100),
]


def exact_delta(targets, sampling, sources, dummies, epsilon):
    """The bound in 40 digits, by the definition: no tails, no windows."""
    with mpmath.workdps(40):
        t, lie = mpmath.e ** mpmath.mpf(epsilon), mpmath.mpf(sampling)
        half, two = mpmath.mpf(1) / 2, mpmath.mpf(2) / targets
        total = mpmath.mpf(0)
        fair = [
            [mpmath.binomial(s, a) * half**s for a in range(s + 1)]
            for s in range(sources + dummies + 1)
        ]
        for m in range(sources):
            size = m + dummies + 1
            chance = mpmath.binomial(sources - 1, m) * lie**m * (1 - lie) ** (sources - 1 - m)
            if not chance:
                continue
            mean = mpmath.mpf(0)
            for s in range(size + 1) if targets > 2 else (size,):
                both = mpmath.binomial(size, s) * two**s * (1 - two) ** (size - s)
                for a in range(s, -1, -1):
                    gain = (1 - lie) * targets * (a - t * (s - a)) + size * lie * (1 - t)
                    if gain <= 0:
                        break
                    mean += both * fair[s][a] * gain
            total += chance * mean / size
        return total


@pytest.mark.parametrize(
    ("settings", "epsilons"),
    [
        ((20, 0.5, 20, 30), (0.0, 0.3, 1.2, 2.5, 3.0)),
        ((5, 0.1, 12, 20), (0.01, 1.0, 3.0)),
        ((2, 0.3, 25, 15), (0.2, 1.5, 1.7)),
        ((3, 0.0, 4, 60), (0.5, 2.0, 8.0, 300.0)),
        ((4, 0.5, 1, 90), (0.4, 1.55)),
    ],
)
def test_delta_equals_sum_in_forty_digits(settings, epsilons):
    profile = ScramblerProfile(*settings)
    for epsilon in epsilons:
        exact, found = exact_delta(*settings, epsilon), profile.delta(epsilon)
        assert exact <= found
        assert found <= float(exact) * (1 + 3e-8)


def test_tiny_deltas_keep_relative_precision():
    profile = ScramblerProfile(4, 0.5, 1, 120)
    found = [float(exact_delta(4, 0.5, 1, 120, epsilon)) for epsilon in (1.0, 1.4, 1.58)]
    assert found[-1] < 1e-30
    for epsilon, exact in zip((1.0, 1.4, 1.58), found, strict=True):
        assert exact <= profile.delta(epsilon) <= exact * (1 + 1e-7)
        assert profile.epsilon(exact) == pytest.approx(epsilon, rel=1e-8)
        assert profile.lower(exact) == pytest.approx(epsilon, rel=1e-6)
    with pytest.raises(NumericalFloor):
        profile.epsilon(1e-300)


@pytest.mark.parametrize("settings", SETTINGS)
def test_curves_decrease_and_invert_consistently(settings):
    profile = ScramblerProfile(*settings)
    epsilons = np.linspace(-6, 6, 97)
    deltas = np.array([profile.delta(float(each)) for each in epsilons])
    assert np.all(np.diff(deltas) <= 1e-15)
    t = np.exp(epsilons)
    slopes = np.diff(deltas) / np.diff(t)
    assert np.all(np.diff(slopes) >= -1e-9), "the curve is convex in e^ε"
    assert np.all(deltas >= 1 - t)
    for delta in (1e-2, 1e-4, 1e-8, 1e-12):
        found, lower = profile.epsilon(delta), profile.lower(delta)
        assert 0 <= lower <= found <= profile.greatest_loss
        if math.isfinite(found):
            assert profile.delta(found) <= delta


@pytest.mark.parametrize("settings", SETTINGS)
def test_epsilon_decreases_in_sampling_sources_and_dummies(settings):
    targets, sampling, sources, dummies = settings
    here = ScramblerProfile(*settings).epsilon(1e-4)
    for more in [
        (targets, min(1.0, sampling + 0.05), sources, dummies),
        (targets, sampling, 2 * sources, dummies),
        (targets, sampling, sources, 2 * dummies + 1),
    ]:
        assert ScramblerProfile(*more).epsilon(1e-4) <= here * (1 + 1e-8)


def test_profile_with_nothing_to_hide_is_zero():
    for targets, sampling in [(1, 0.0), (1, 0.5), (7, 1.0)]:
        profile = ScramblerProfile(targets, sampling, 10, 3)
        assert profile.greatest_loss == profile.epsilon(1e-9) == profile.delta(0.0) == 0
        assert profile.delta(-1.0) == pytest.approx(1 - math.exp(-1))
        assert profile.lower(1e-9) is None
        assert profile.attained() == ()
        assert ComposedProfile(((profile, 3),)).epsilon(1e-9) == 0


def test_profile_without_sampling_has_delta_floor():
    profile = ScramblerProfile(20, 0.0, 5, 50)
    assert profile.floor == pytest.approx(0.95**50)
    assert profile.delta(1e6) == pytest.approx(0.95**50, rel=1e-9)
    assert profile.epsilon(1e-4) == profile.lower(1e-4) == math.inf
    assert profile.epsilon(0.1) < math.inf
    assert ScramblerProfile(20, 0.1, 5, 50).floor == 0
    assert ScramblerProfile(20, 0.0, 5, 179).epsilon(1e-4) == math.inf
    assert ScramblerProfile(20, 0.0, 5, 180).epsilon(1e-4) < math.inf


def test_merged_crowds_raise_epsilon_negligibly(monkeypatch):
    settings = (20, 0.5, 100_000, 20_000)
    together = ScramblerProfile(*settings).epsilon(1e-6)
    assert _sums(ScramblerProfile(*settings), 36.0, _FINE).arrays[0].size < 3000
    monkeypatch.setattr(f"{ScramblerProfile.__module__}._FINE", 0.0)
    apart = ScramblerProfile(*settings).epsilon(1e-6)
    assert apart <= together * (1 + 1e-8)
    assert together - apart < 1e-6


@pytest.mark.parametrize("targets", [2, 3, 20, 1000])
def test_profile_of_millions_of_messages_is_tight(targets):
    profile = ScramblerProfile(targets, 0.5, 10**7, 10**7)
    upper, lower = profile.epsilon(1e-8), profile.lower(1e-8)
    assert lower <= upper < 0.03
    assert upper - lower < (1e-5 if targets > 2 else 1e-4)
    assert profile.delta(upper) <= 1e-8


def test_likely_counts_err_upwards():
    for draws, chance in [(1, 0.5), (40, 0.1), (1000, 0.5), (10**6, 1e-5), (5, 0.0), (5, 1.0)]:
        first, found, slack = likely(draws, chance, 40.0)
        low, high = span(draws, chance, 40.0)
        assert (first, first + found.size - 1) == (low, high)
        for count in {low, (low + high) // 2, high}:
            with mpmath.workdps(40):
                rest = (1 - mpmath.mpf(chance)) ** (draws - count)
                exact = mpmath.binomial(draws, count) * mpmath.mpf(chance) ** count * rest
            here = float(found[count - low])
            assert float(exact) * (1 - slack) <= here <= float(exact) * (1 + slack + 1e-12) + 1e-300
        blocks = crowds(draws, chance, 40.0, 3)
        assert blocks.chance.sum() >= 1 - 1e-12
        merged = crowds(draws, chance, 40.0).merged(8)
        assert merged.least.size <= 10
        assert merged.least[0] == low
        assert merged.chance.sum() >= 1 - 1e-12


# Several sets of one query.


@pytest.mark.parametrize(
    "settings", [(20, 0.5, 100, 50), (20, 0.1, 100, 0), (5, 0.3, 40, 10), (20, 0.0, 1, 300)]
)
@pytest.mark.parametrize("rounds", [2, 4])
def test_composition_is_close_to_finer_grid(settings, rounds):
    profile = ScramblerProfile(*settings)
    found = ComposedProfile(((profile, rounds),)).epsilon(1e-4)
    fine = profile.losses(profile.interval / 8).to_dp_accounting().self_compose(rounds)
    finer = float(fine.get_epsilon_for_delta(1e-4))
    assert finer - 1e-9 <= found <= finer + 1e-4
    assert ComposedProfile(((profile, rounds),)).lower(1e-4) <= found


def test_losses_keep_infinite_mass():
    profile = ScramblerProfile(20, 0.0, 5, 100)
    losses = profile.losses(profile.interval)
    assert losses.infinite == pytest.approx(0.95**100, rel=1e-6)
    assert losses.infinite >= 0.95**100
    assert ComposedProfile(((profile, 2),)).epsilon(1e-3) == math.inf
    both = 1 - (1 - 0.95**100) ** 2
    assert math.isfinite(ComposedProfile(((profile, 2),)).epsilon(both * 1.1))


def test_losses_dominate_curve():
    for settings in SETTINGS[:5]:
        profile = ScramblerProfile(*settings)
        losses = profile.losses(profile.interval)
        grid = losses.interval * (losses.first + np.arange(losses.mass.size))
        for place in range(0, grid.size, max(1, grid.size // 40)):
            exact = profile.delta(float(grid[place]))
            assert losses.heights()[place] >= exact * (1 - 1e-6) - 1e-13


def test_profiles_of_different_sizes_compose():
    parts = [ScramblerProfile(T, 0.4, 200, 100) for T in (1, 2, 5, 20)]
    total = ComposedProfile(tuple((each, 1) for each in parts)).epsilon(1e-4)
    assert parts[-1].epsilon(1e-4) < total < sum(each.epsilon(2.5e-5) for each in parts)


# Older bounds.


def test_older_bounds_are_above_exact_curve():
    for settings, epsilon in itertools.product(SETTINGS[:6], (0.2, 0.7, 1.1)):
        exact = ScramblerProfile(*settings).delta(epsilon)
        assert BENNETT.delta(*settings, epsilon) >= exact
        assert HOEFFDING.delta(*settings, epsilon) >= exact


def test_older_bounds_at_extreme_settings_are_exact():
    assert HOEFFDING.epsilon(1, 0.5, 10, 5, 1e-4) == BENNETT.epsilon(5, 1.0, 10, 5, 1e-4) == 0
    assert HOEFFDING.epsilon(20, 0.0, 10, 5, 1e-4) is None
    alone = Redirect(targets=20, redirect_probability=0.1).epsilon
    assert BENNETT.epsilon(20, 0.1, 100, 0, 1e-4) == alone
    assert BENNETT.delta(20, 0.1, 100, 0, alone) == 0
    many = BENNETT.epsilon(20, 0.5, 10**7, 10**7, 1e-6)
    assert ScramblerProfile(20, 0.5, 10**7, 10**7).epsilon(1e-6) < many < 0.003


# Capped scramblers, and none.


def test_capped_epsilon_at_extreme_settings_is_exact():
    assert capped_epsilon(5, 1.0, 10, 5) == capped_epsilon(1, 0.3, 10, 5) == 0
    assert capped_epsilon(5, 0.0, 10, 5) == math.inf
    assert capped_epsilon(3, 0.0, 10, 20) == capped_epsilon(3, 0.4, 10, 20) == 0
    assert capped_epsilon(3, 0.4, 10, 0) == pytest.approx(math.log(1 + 0.6 * 3 / 0.4))
    with pytest.raises(NotProven, match="at most sources − 1 = 9"):
        capped_epsilon(3, 0.4, 10, 10)
    with pytest.raises(InvalidParameter, match="at most"):
        capped_epsilon(3, 0.4, 10, 21)


def test_capped_epsilon_with_many_dummies_keeps_precision():
    values = [capped_epsilon(20, 0.5, 10**5, d) for d in (0, 10, 10**3, 10**5 - 1)]
    assert values == sorted(values, reverse=True)
    assert 2.85 < values[-1] < values[0] == Redirect(targets=20, redirect_probability=0.5).epsilon


def test_flooding_epsilon_at_extreme_settings_is_exact():
    assert flooding_epsilon(5, 0.0, 4) == flooding_epsilon(5, 1.0, 0) == 0
    assert flooding_epsilon(1, 0.0, 0) == telling(1, 0.0, 0) == 0
    assert flooding_epsilon(5, 0.0, 3) == math.inf
    assert flooding_epsilon(20, 0.5, 0) == pytest.approx(math.log(21))
    with pytest.raises(InvalidParameter, match="at most targets − 1 = 4"):
        flooding_epsilon(5, 0.5, 5)


def test_pure_profile_has_exact_curve():
    worst, known = PureProfile(1.0), PureProfile(1.0, 0.3)
    assert worst.lower(1e-3) is None
    # The guarantee is pure; what the attack attains falls with δ, along the curve.
    assert known.epsilon(1e-3) == worst.epsilon(1e-3) == 1
    assert known.delta(known.lower(1e-3)) == pytest.approx(1e-3, rel=1e-6)
    assert known.delta(0.0) < worst.delta(0.0)
    assert known.delta(1.0) == 0
    assert worst.delta(0.0) == pytest.approx((math.e - 1) / (math.e + 1))
    assert worst.delta(-2.0) == pytest.approx(1 - math.exp(-2))
    assert PureProfile(0.0).epsilon(1e-9) == 0
    assert ComposedProfile(((known, 2),)).epsilon(1e-9) == pytest.approx(2, rel=1e-3)
    with pytest.raises(InvalidParameter):
        PureProfile(-1.0)


# The four mechanisms.


def test_mechanisms_describe_themselves():
    for each in [
        Scrambler(20, 0.5, 100, 50),
        CappedScrambler(20, 0.5, 100, 50),
        Flooding(20, 0.5, 2),
        SomeScrambler(KRR(categories=5, epsilon=1.0), 100, 50),
    ]:
        assert each.theorem.endswith("(docs/theory/scrambler.md)")
        assert each.coins
        assert "\n" not in each.words()
        assert each.profile().epsilon(1e-4) <= each.local_epsilon
    for each in [Scrambler(20, 0.0, 9, 3), CappedScrambler(1, 0.5, 9, 3), Flooding(1, 0.5, 0)]:
        assert not each.coins
    assert Scrambler(20, 0.0, 9, 3).local_epsilon == math.inf


def test_colluders_count_as_absent_sources():
    assert Scrambler(20, 0.5, 100, 50).profile(30) == ScramblerProfile(20, 0.5, 70, 50)
    krr = SomeScrambler(KRR(categories=5, epsilon=1.0), 40, 10)
    assert krr.profile(10).epsilon(1e-3) > krr.profile().epsilon(1e-3)
    assert Flooding(20, 0.5, 2).profile(3) == Flooding(20, 0.5, 2).profile()
    with pytest.raises(NotProven, match="colluders"):
        CappedScrambler(20, 0.5, 100, 50).profile(1)
    with pytest.raises(InvalidCrowd, match="leave nobody"):
        Scrambler(20, 0.5, 10, 50).profile(10)


def test_mechanisms_without_sampling_are_not_proven():
    with pytest.raises(NotProven, match="set sampling"):
        CappedScrambler(20, 0.0, 100, 50).profile()
    with pytest.raises(NotProven, match="targets − 1 = 19"):
        Flooding(20, 0.0, 3).profile()
    assert Flooding(20, 0.0, 19).profile().epsilon(1e-9) == 0
    assert CappedScrambler(3, 0.0, 4, 8).profile().epsilon(1e-9) == 0


def test_mechanisms_reject_invalid_settings():
    for make in (
        lambda: Scrambler(0, 0.5, 10, 1),
        lambda: Scrambler(5, 1.5, 10, 1),
        lambda: Scrambler(5, 0.5, 0, 1),
        lambda: Scrambler(5, 0.5, 10, -1),
        lambda: CappedScrambler(3, 0.5, 10, 21),
        lambda: Flooding(3, 0.5, 3),
        lambda: SomeScrambler(KRR(categories=5, epsilon=1.0), 0, 1),
    ):
        with pytest.raises(InvalidParameter):
            make()


def test_blanket_profile_of_redirect_equals_exact_sum():
    lies = Redirect(targets=20, redirect_probability=0.5)
    for sources, dummies in [(100, 50), (300, 0), (5000, 1000)]:
        exact = ScramblerProfile(20, 0.5, sources, dummies).epsilon(1e-4)
        found = SomeScrambler(lies, sources, dummies).profile().epsilon(1e-4)
        assert exact * (1 - 1e-5) <= found <= exact * 1.002


def test_blanket_profile_epsilon_decreases_with_dummies():
    oue = OUE(categories=5, epsilon=1.0)
    plain = SomeScrambler(oue, 200, 0).profile()
    more = SomeScrambler(oue, 200, 100).profile()
    assert more.epsilon(1e-4) < plain.epsilon(1e-4) < 1
    assert more.delta(-0.5) >= 1 - math.exp(-0.5)
    assert more.delta(1.0) == 0
    assert more.lower(1e-4) is None
    with pytest.raises(NumericalFloor):
        more.epsilon(1e-300)
