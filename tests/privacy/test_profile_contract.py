"""What every privacy curve owes, class by class: also at negative ε, also where nothing is told."""

import importlib
import inspect
import math
import pkgutil

import numpy as np
import pytest

import incrowd
from incrowd.privacy import ComposedProfile, LocalProfile, Profile, ShuffleProfile, clones_law
from incrowd.privacy import sampled as subsampling
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.greatest import GreatestProfile
from incrowd.privacy.least import LeastProfile, LentProfile
from incrowd.privacy.mixed import Crowd, MixedCrowd, MixedProfile, Option, PeopleProfile
from incrowd.privacy.near import NearProfile
from incrowd.privacy.pure import PureProfile
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.shifted import ShiftedProfile
from incrowd.protocols.check_in.theorems import heterogeneous_rates
from incrowd.protocols.check_in.theorems.counted_reports import CountedProfile
from incrowd.protocols.check_in.theorems.secure_aggregation import SummedProfile, _Rounds
from incrowd.protocols.network_shuffle import accountant as network
from incrowd.protocols.scrambled_query.theorems import group_privacy
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.protocols.scrambled_query.theorems.mechanisms import BlanketProfile
from incrowd.protocols.token_walk.theorems import public_path
from incrowd.protocols.token_walk.theorems.amplification_by_iteration import IteratedProfile
from incrowd.protocols.token_walk.theorems.graph_walk import PairOnGraphProfile, WorstPairProfile
from incrowd.protocols.token_walk.theorems.hidden_path import HiddenWalkProfile
from incrowd.randomizers import KRR, RR, Gaussian, Generic, Laplace, PairLaw
from incrowd.tasks.learning.privacy import SubsampledGaussian

BINARY = RR(epsilon=1.0)
LOCAL = LocalProfile(BINARY)
SHUFFLED = ShuffleProfile(BINARY.blanket(), 20, LOCAL, BINARY.attack())
SKEWED = ShuffleProfile(PairLaw.of([3, 1], [1, 7], [0.3, 0.1]), 20, LOCAL)
NORMAL = GaussianProfile(0.5)
RING = (np.roll(np.eye(5), 1, 0) + np.roll(np.eye(5), -1, 0)) / 2
PAIR = PairOnGraphProfile(RING, (0, 1), 0.5, 3)
ONE_CROWD = Crowd(np.arange(20), np.full((20, 1), 0.1), (20,), (1.0,))

PROFILES = [
    *(LocalProfile(each) for each in (
        BINARY, KRR(categories=5, epsilon=2.0), Gaussian(epsilon=1.0, delta=1e-5),
        Laplace(epsilon=1.0), Generic(epsilon=1.0), Generic(epsilon=1.0, delta=1e-6),
    )),
    PureProfile(1.0), PureProfile(0.0), PureProfile(1.0, tells=0.1),
    SHUFFLED, ShuffleProfile(clones_law(1.0), 50, LocalProfile(Generic(epsilon=1.0))),
    MixedCrowd(BINARY.blanket().partially_mixed(0.5), 20, LOCAL),
    MixedProfile(BINARY, (Option(0.1, SHUFFLED),)), MixedProfile(BINARY, ()),
    PeopleProfile(BINARY, (), 5), PeopleProfile(BINARY, (ONE_CROWD,), 25),
    LeastProfile(SHUFFLED, LOCAL), LentProfile(SHUFFLED), GreatestProfile((SHUFFLED, SKEWED)),
    NearProfile(SHUFFLED, 1e-6, LOCAL), ShiftedProfile(SHUFFLED, BINARY, 1e-3),
    NORMAL, GaussianProfile(1e-6),
    subsampling.SampledProfile(NORMAL, 0.1), subsampling.RevealedProfile(NORMAL, 0.1),
    RepeatedProfile(subsampling.SampledProfile(NORMAL, 0.1), 20),
    ComposedProfile(((SHUFFLED, 3),)), ComposedProfile(((PeopleProfile(BINARY, (), 5), 3),)),
    ComposedProfile(((NORMAL, 2), (LOCAL, 1))),
    CountedProfile((3, 5), 0.5, 20, lambda crowds: ComposedProfile(((SHUFFLED, 2),)), LOCAL),
    heterogeneous_rates.RevealedProfile(SHUFFLED, 0.3),
    heterogeneous_rates.RatesProfile(BINARY, np.array([0.1, 0.1, 0.2, 0.2, 0.2]), 2),
    SummedProfile(10, 0.5, 2.0), _Rounds(((SummedProfile(10, 0.5, 2.0), 2),)),
    network.CollisionProfile(1.0, 0.01), network.CollisionProfile(1.0, 0.0),
    network.SampledProfile(BINARY, 100, 60.0, 1e-6),
    ScramblerProfile(10, 0.3, 20, 50), BlanketProfile(BINARY.blanket(), 20, 10, LOCAL),
    group_privacy.GroupProfile(PureProfile(1.0), 3),
    group_privacy.TogetherProfile(((SHUFFLED, 2), (LOCAL, 1))),
    GreatestProfile((LOCAL, SHUFFLED)), group_privacy._OnGrid(SHUFFLED, 0.1),
    PAIR, WorstPairProfile((PAIR,), 0.5, 3),
    IteratedProfile(0.5, 10, 3), HiddenWalkProfile(LOCAL, 10, 20),
    public_path.CuratorSumProfile(0.5, 10, 20), public_path.PublicWalkProfile(0.5, 10, 20),
    public_path.LocalWalkProfile(NORMAL, 10, 20),
    SubsampledGaussian(0.1, 1.0),
]  # fmt: skip


def concrete(base):
    for cls in base.__subclasses__():
        yield from concrete(cls)
        if not inspect.isabstract(cls) and cls.__module__.startswith("incrowd"):
            yield cls


def test_profile_contract_covers_all_profile_classes():
    for module in pkgutil.walk_packages(incrowd.__path__, "incrowd."):
        if not module.name.startswith("incrowd.live") and "__main__" not in module.name:
            importlib.import_module(module.name)
    missing = set(concrete(Profile)) - {type(each) for each in PROFILES}
    assert not {each for each in missing if not each.__subclasses__()}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda each: type(each).__name__)
def test_delta_at_negative_epsilon_never_below_perfect_privacy(profile):
    """A mechanism that tells nothing has δ(ε) = (1 − e^ε)₊, and none has less."""
    for epsilon in (-8.0, -1.0, -0.5, -0.01, -1e-9):
        assert profile.delta(epsilon) >= -math.expm1(epsilon) * (1 - 1e-15), epsilon


@pytest.mark.parametrize("profile", PROFILES, ids=lambda each: type(each).__name__)
def test_profile_interval_is_positive_and_finite(profile):
    assert 0 < profile.interval < math.inf


def test_people_profile_without_crowds_composes():
    nobody = ComposedProfile(((PeopleProfile(BINARY, (), 5), 4),))
    assert nobody.epsilon(1e-6) == pytest.approx(0.0, abs=1e-9)
    assert nobody.delta(-0.5) >= -math.expm1(-0.5) * (1 - 1e-15)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda each: type(each).__name__)
def test_profile_properties_agree_with_curve(profile):
    if profile.pure_epsilon is not None:
        assert profile.greatest_loss == profile.pure_epsilon
        assert all(profile.epsilon(delta) == profile.pure_epsilon for delta in (1e-9, 0.3))
    if profile.normal_shift is not None:
        twin = GaussianProfile(profile.normal_shift)
        assert all(profile.delta(epsilon) == twin.delta(epsilon) for epsilon in (-1.0, 0.0, 1.0))
    rounds = sum(times for _, times in profile.components)
    assert rounds > 1 or profile.components == ((profile, 1),)


def test_composition_flattens_components():
    inner = ComposedProfile(((NORMAL, 2), (LOCAL, 1)))
    assert dict(ComposedProfile(((inner, 3), (LOCAL, 1))).parts) == {NORMAL: 6, LOCAL: 4}


def test_joint_profile_adds_parts_that_do_not_convolve():
    group = group_privacy.GroupProfile(SHUFFLED, 2)
    assert group_privacy.TogetherProfile(((group, 1), (LOCAL, 1)))._convolved is None
    assert group_privacy.TogetherProfile(((SHUFFLED, 1), (LOCAL, 1)))._convolved is not None


def test_dominated_curve_keeps_pure_epsilon():
    assert LentProfile(PureProfile(1.0)).pure_epsilon == 1.0
    assert LentProfile(LOCAL).pure_epsilon is None
