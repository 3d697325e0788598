"""What a check-in guarantees: to whom, by which theorem, under which assumptions."""

import math

import numpy as np
import pytest

from incrowd import KRR, CheckIn, Generic
from incrowd.errors import InvalidCrowd, InvalidDelta, NotProven
from incrowd.protocols.check_in.theorems.heterogeneous_rates import RatesProfile
from incrowd.protocols.run import guarantees
from incrowd.randomizers import Gaussian

DELTA = 1e-6
GENERIC = Generic(epsilon=2.0)


def check_in(randomizer=GENERIC, **parameters):
    return CheckIn(randomizer, **{"n": 1000, "rate": 0.1, "rounds": 5, **parameters})


class TestCurator:
    def test_guarantee_names_theorem_and_assumptions(self):
        guarantee = check_in().guarantee()
        said = "; ".join(guarantee.assumptions)
        assert guarantee.theorem == "checked-in blanket (docs/theory/check_in.md)"
        for each in ("number of participants", "own coin", "lost at random", "permutes uniformly"):
            assert each in said
        assert "traffic" not in said

    def test_guarantee_without_dummies_names_traffic(self):
        assert "traffic" in "; ".join(check_in(dummies=False).guarantee().assumptions)

    def test_guarantee_names_presence_assumption(self):
        said = {
            name: "; ".join(check_in(**each).guarantee().assumptions)
            for name, each in {
                "counted": {},
                "uncounted": {"dummies": False},
                "enforced": {"min_participants": 0.8},
            }.items()
        }
        assert "a run counts those who were" in said["counted"]
        assert "nobody can check" in said["uncounted"]
        assert "people are there" not in said["enforced"]

    def test_adaptive_guarantee_uses_thinned_clones(self):
        fixed, adaptive = (check_in(adaptive=each).guarantee() for each in (False, True))
        assert adaptive.theorem == "checked-in clones (docs/theory/check_in.md)"
        assert "not on who they are" in "; ".join(adaptive.assumptions)
        assert fixed.epsilon(DELTA) < adaptive.epsilon(DELTA)
        # Without the coin of the rate it would be far worse.
        assert adaptive.epsilon(DELTA) < 0.3 * check_in(
            rate=1.0, adaptive=True
        ).guarantee().epsilon(DELTA)

    def test_guarantee_with_colluders_equals_smaller_crowd(self):
        found = check_in().guarantee(colluders=200)
        assert found.epsilon(DELTA) == check_in(n=800).guarantee().epsilon(DELTA)
        assert "leaving a crowd of 800" in "; ".join(found.assumptions)

    def test_guarantee_counts_least_crowd_only(self):
        assert check_in(min_participants=800).guarantee().epsilon(DELTA) == check_in(
            n=800
        ).guarantee().epsilon(DELTA)

    def test_guarantee_composes_rounds(self):
        few, many = (check_in(rounds=rounds).guarantee().epsilon(DELTA) for rounds in (5, 50))
        assert few < many < 10 * few


class TestOtherViews:
    @pytest.mark.parametrize("view", ["curator+shuffler", "curator+hub", "everyone"])
    def test_other_views_get_thinned_local_guarantee(self, view):
        guarantee = check_in(rounds=1).guarantee(view)
        local = (math.exp(2) - math.exp(1)) / (math.exp(2) + 1)
        assert guarantee.delta(1.0) == pytest.approx(0.1 * local, rel=1e-9)
        assert guarantee.epsilon(DELTA) == pytest.approx(2.0, abs=1e-4)
        assert "own coin" in "; ".join(guarantee.assumptions)
        assert "local.md" in guarantee.theorem

    def test_other_views_state_highest_rate(self):
        rates = (0.1,) * 999 + (0.5,)
        found = CheckIn(GENERIC, n=1000, rates=rates).guarantee("everyone").delta(1.0)
        assert found == CheckIn(GENERIC, n=1000, rate=0.5).guarantee("everyone").delta(1.0)

    def test_guarantees_cover_all_views(self):
        curator, *others = guarantees(check_in(KRR(categories=4, epsilon=1.0)))
        for other in others:
            assert other.epsilon(DELTA) > curator.epsilon(DELTA)
            assert other.lower(DELTA) <= other.epsilon(DELTA)


class TestDelta0:
    def test_delta0_is_charged_against_all_views(self):
        pure, impure = check_in(), check_in(Generic(epsilon=2.0, delta=1e-11))
        for view in ("curator", "everyone"):
            charged, free = impure.guarantee(view), pure.guarantee(view)
            assert charged.epsilon(DELTA) > free.epsilon(DELTA)
            assert charged.epsilon(DELTA) < 1.01 * free.epsilon(DELTA)
            assert charged.lower(DELTA) <= charged.epsilon(DELTA)

    def test_delta0_is_charged_per_round(self):
        # Alone and at twice ε0 only the two failures of the randomizer are left.
        twice = CheckIn(Generic(epsilon=2.5, delta=0.01), n=1, rate=1.0, rounds=2).guarantee()
        truth = 1 - 0.99**2
        assert truth <= twice.delta(5.0) <= truth * (1 + 1e-6)

    def test_impure_guarantee_composes_with_other_surveys(self):
        one = check_in(Generic(epsilon=2.0, delta=1e-11)).guarantee()
        both = one.compose(check_in(KRR(categories=3, epsilon=1.0)).guarantee())
        assert both.epsilon(DELTA) > one.epsilon(DELTA)

    def test_concrete_impure_randomizers_are_refused_when_adaptive(self):
        with pytest.raises(NotProven, match="generic"):
            check_in(Gaussian(epsilon=1.0, delta=1e-8), adaptive=True).guarantee()
        assert (
            check_in(Generic(epsilon=1.0, delta=1e-11), adaptive=True).guarantee().epsilon(DELTA)
            < 1
        )

    def test_impure_generic_has_no_blanket(self):
        with pytest.raises(NotProven, match="pure"):
            Generic(epsilon=1.0, delta=1e-8).blanket()

    @pytest.mark.parametrize("delta", [-0.1, 1.0])
    def test_generic_rejects_invalid_delta(self, delta):
        with pytest.raises(InvalidDelta, match="delta must be 0 or more"):
            Generic(epsilon=1.0, delta=delta)

    def test_epsilon_is_infinite_below_delta0(self):
        assert math.isinf(check_in(Generic(epsilon=1.0, delta=1e-3)).guarantee().epsilon(DELTA))


class TestRates:
    def test_equal_rates_match_single_rate(self):
        same = CheckIn(GENERIC, n=1000, rates=(0.1,) * 1000, rounds=5).guarantee()
        assert same.epsilon(DELTA) == check_in().guarantee().epsilon(DELTA)
        assert "everyone's rate is public" in "; ".join(same.assumptions)

    def test_per_person_epsilon_grows_with_rate(self):
        rates = (0.05,) * 500 + (0.1,) * 500
        guarantee = CheckIn(GENERIC, n=1000, rates=rates, rounds=5).guarantee()
        each = guarantee.per_person(DELTA)
        assert each.shape == (1000,)
        assert each[0] < each[-1] == guarantee.epsilon(DELTA)
        assert guarantee.profile.person(0).epsilon(DELTA) == each[0]
        with pytest.raises(InvalidCrowd, match="person 1000"):
            guarantee.profile.person(1000)

    def test_band_may_exclude_low_rates(self):
        """A few who hardly ever come must not spoil the blanket of all others."""
        rates = (1e-6,) * 10 + (0.1,) * 990
        found = CheckIn(GENERIC, n=1000, rates=rates, rounds=5).guarantee().epsilon(DELTA)
        assert found == pytest.approx(check_in(n=990).guarantee().epsilon(DELTA), rel=1e-9)

    def test_rate_one_hides_among_rate_one(self):
        rates = (0.1,) * 500 + (1.0,) * 500
        guarantee = CheckIn(GENERIC, n=1000, rates=rates).guarantee()
        plain = CheckIn(GENERIC, n=500, rate=1.0).guarantee()
        assert guarantee.epsilon(DELTA) <= plain.epsilon(DELTA) * (1 + 1e-6)

    def test_missing_people_match_colluders_and_least_crowd(self):
        rates = (0.05,) * 500 + (0.1,) * 500
        full, fewer = (
            CheckIn(GENERIC, n=1000, rates=rates, min_participants=least).guarantee()
            for least in (0, 900)
        )
        assert full.epsilon(DELTA) < fewer.epsilon(DELTA)
        assert fewer.epsilon(DELTA) == full_of(rates, missing=100).epsilon(DELTA)
        collude = CheckIn(GENERIC, n=1000, rates=rates).guarantee(colluders=100)
        assert collude.epsilon(DELTA) == fewer.epsilon(DELTA)

    def test_rates_profile_without_band_is_local(self):
        profile = RatesProfile(GENERIC, np.array([0.1, 0.5]), 1, missing=1)
        assert profile.bands == ()
        assert profile.delta(1.0) == check_in(n=9, rate=0.5, rounds=1).guarantee("everyone").delta(
            1.0
        )

    def test_levels_round_rates_outwards(self):
        rates = np.random.default_rng(3).uniform(0.01, 0.1, 5000)
        profile = RatesProfile(GENERIC, rates, 1)
        assert len(profile.levels) <= 16
        assert sum(count for *_, count in profile.levels) == 5000
        each = profile.per_person(DELTA)
        order = np.argsort(rates)
        assert (np.diff(each[order]) >= 0).all()
        assert each.max() == profile.epsilon(DELTA)
        everyone_fast = check_in(n=5000, rate=0.1, rounds=1).guarantee().epsilon(DELTA)
        assert profile.epsilon(DELTA) > everyone_fast  # others who come less hide less

    def test_rates_profile_charges_delta0(self):
        rates = (0.05,) * 500 + (1.0,) * 500
        pure, impure = (
            CheckIn(Generic(epsilon=2.0, delta=delta0), n=1000, rates=rates, rounds=2).guarantee()
            for delta0 in (0.0, 1e-11)
        )
        assert pure.epsilon(DELTA) < impure.epsilon(DELTA) < 1.05 * pure.epsilon(DELTA)

    def test_rates_profile_composes_with_another_survey(self):
        rates = (0.05,) * 500 + (0.1,) * 500
        one = CheckIn(GENERIC, n=1000, rates=rates, rounds=5).guarantee()
        both = one.compose(check_in().guarantee())
        assert one.epsilon(DELTA) < both.epsilon(DELTA) < 2 * one.epsilon(DELTA)


def full_of(rates, missing):
    return RatesProfile(GENERIC, np.array(rates), 1, missing=missing)
