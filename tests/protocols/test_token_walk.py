"""What every protocol guarantees, of one that carries sums: its executions agree, and it refuses.

The shared suite speaks of reports that are handed in by rounds. A token has neither, so that its
tests are said again here of tokens, and those about delivery in ``tests/sim/test_token_faults.py``.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from contract import DELTA, RUNS, assert_as_planned, deliver_cut, executed, p_value, throw_at
from scipy.stats import binom

from experiments.token_losses import loss_epsilon
from incrowd import graphs
from incrowd.errors import InvalidCrowd, InvalidParameter, NotProven, ProtocolFailed
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.sampled import SampledProfile
from incrowd.protocols import load
from incrowd.protocols.registry import build
from incrowd.protocols.run import guarantees, make_actors
from incrowd.protocols.runtime.actor import COURIER, CURATOR, Message, device
from incrowd.protocols.settings import public_settings, settings_of, settings_type
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.roles.token import Carried
from incrowd.randomizers import KRR, OUE, RR, Gaussian, GaussianVector, Generic, Laplace, OneBit
from incrowd.randomness import Seeds
from incrowd.sim import Faults, run
from incrowd.tasks import Histogram, Mean, Sum, Vector

RESPONSE = KRR(categories=3, epsilon=1.0)
NOISE = Gaussian(epsilon=1.0, delta=1e-6)
VECTORS = GaussianVector(epsilon=1.0, delta=1e-6, dimension=3)
GRAPH = {"topology": "graph", "graph": graphs.ring(12), "steps": 40, "cap": 5}
PLACES = {
    "complete": {"n": 12, "steps": 40},
    "two tokens": {"n": 12, "steps": 4, "tokens": 2},
    "public": {"n": 12, "steps": 40, "path": "public", "cap": 5},
    "ring": {"n": 12, "topology": "ring", "laps": 3},
    "published ring": {"n": 12, "topology": "ring", "laps": 3, "published": True},
    "graph": GRAPH,
}
SPREAD = {"n": 12, "topology": "ring", "laps": 3, "split_noise": True}
everywhere = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
both = pytest.mark.parametrize("execution", ["simulate", "sim"])


def values_for(randomizer, n=12):
    if randomizer.domain == "vector":
        return np.eye(3)[np.arange(n) % 3]
    return np.arange(n) % 3 if randomizer.domain == "category" else np.linspace(0, 1, n)


class TestExecutions:
    VALUES = np.array([0, 0, 0, 1, 1, 1, 1])

    @both
    def test_histogram_follows_exact_law(self, execution):
        """Each step is one more trial: a uniform person's response."""
        protocol = TokenWalk(KRR(categories=2, epsilon=1.0), n=7, steps=8)
        ones = [
            int(executed(execution, protocol, self.VALUES, seed).total[1]) for seed in range(RUNS)
        ]

        def law(share, epsilon):
            truth = np.exp(epsilon) / (1 + np.exp(epsilon))
            return binom.pmf(np.arange(9), 8, share * truth + (1 - share) * (1 - truth))

        assert p_value(ones, law(4 / 7, 1.0)) > 1e-3
        assert p_value(ones, law(3 / 7, 1.0)) < 1e-3
        assert p_value(ones, law(1.0, 1.0)) < 1e-6

    @everywhere
    def test_guarantee_and_cost_agree_between_executions(self, place):
        protocol = TokenWalk(RESPONSE, **place)
        values = values_for(RESPONSE)
        one, other = protocol.simulate(values, seed=1), run(protocol, values, seed=1)
        assert one.result.labels == other.result.labels
        assert one.result.people == other.result.people == 12
        assert_as_planned(protocol, one, other)

    @everywhere
    @pytest.mark.parametrize("randomizer", [RESPONSE, NOISE, VECTORS], ids=lambda each: each.kind)
    def test_collected_agrees_between_executions(self, randomizer, place):
        protocol, values = TokenWalk(randomizer, **place), values_for(randomizer)
        one, other = (executed(each, protocol, values, 2) for each in ("simulate", "sim"))
        assert one.total.shape == other.total.shape
        assert one.total.dtype == other.total.dtype
        for same in ("noise", "steps", "crowd", "drawn", "correlation"):
            assert getattr(one, same) == pytest.approx(getattr(other, same))
        if not protocol.cap:
            assert one.reports == other.reports
            assert one.crowds == other.crowds == (protocol.length * place.get("tokens", 1),)
        for home in (one, other):
            estimate = home.estimate(randomizer)
            assert np.isfinite(estimate.value).all()
            assert np.all(estimate.variance > 0)

    @pytest.mark.parametrize("place", [PLACES["ring"], SPREAD], ids=["one in n − 1", "spread"])
    @both
    def test_ring_noise_has_stated_variance(self, execution, place):
        protocol, values = TokenWalk(NOISE, **place), values_for(NOISE)
        off = [
            float(executed(execution, protocol, values, seed).total) - 3 * values.sum()
            for seed in range(120)
        ]
        spread = NOISE.sigma * protocol.ring.variance**0.5
        assert np.std(off) == pytest.approx(spread, rel=0.25)

    @both
    def test_ring_laplace_noise_has_stated_variance(self, execution):
        protocol = TokenWalk(Laplace(epsilon=1.0), n=5, topology="ring", laps=2)
        home = executed(execution, protocol, np.full(5, 0.5), 1)
        assert home.noise == protocol.ring.noises == 3
        assert home.estimate(protocol.randomizer).variance == pytest.approx(3 * 2 / 100)

    @both
    def test_run_repeats_with_same_seed(self, execution):
        protocol, values = TokenWalk(NOISE, n=12, steps=30), values_for(NOISE)
        faults = Faults(loss=0.3)
        one, same, other = (executed(execution, protocol, values, s, faults) for s in (4, 4, 5))
        assert one.total == same.total != other.total
        assert one.losses == same.losses

    @pytest.mark.parametrize(
        ("randomizer", "place"),
        [
            (KRR(categories=4, epsilon=1.0), {"n": 100, "steps": 900}),
            (KRR(categories=4, epsilon=1.0), {"n": 100, "topology": "ring", "laps": 3}),
            (NOISE, {"n": 100, "steps": 900}),
            (NOISE, {"n": 100, "topology": "ring", "laps": 3, "published": True}),
        ],
    )
    def test_expected_error_equals_empirical_error(self, randomizer, place):
        protocol = TokenWalk(randomizer, **place)
        category = randomizer.domain == "category"
        values = np.arange(100) % 4 if category else np.arange(100) % 2 * 1.0
        truth = 0.25 if category else 0.5
        errors = [protocol.simulate(values, seed=seed).result.value - truth for seed in range(300)]
        assert protocol.cost().expected_error == pytest.approx(np.std(errors), rel=0.15)

    def test_cost_counts_one_message_per_lap(self):
        """On a ring everyone hands on the token once a lap; keys and envelopes come on top."""
        protocol = TokenWalk(RESPONSE, **PLACES["ring"])
        assert protocol.cost().messages_per_person == 3
        assert protocol.cost().bytes_per_person == 3 * 4 * 3
        played = run(protocol, values_for(RESPONSE), seed=1).played
        assert played.traffic[device(5)].messages >= 3

    @pytest.mark.parametrize("faults", [Faults(dropout=1.0), Faults(loss=1.0)])
    def test_run_fails_without_contribution(self, faults):
        with pytest.raises(ProtocolFailed):
            run(TokenWalk(RESPONSE, n=5, steps=5), np.zeros(5, int), faults=faults, seed=1)


class TestTasks:
    def test_raw_values_are_encoded_by_task(self):
        task = Histogram(categories=("yes", "no"), complete=True)
        protocol = TokenWalk(KRR(categories=2, epsilon=30.0), n=4, topology="ring", laps=2)
        column = np.array(["no", "no", "yes", "no"])
        for execution in (
            protocol.simulate(column, task=task, seed=1),
            run(protocol, column, task=task, seed=1),
        ):
            assert execution.result.labels == ("yes", "no")
            # One uniform element is among the eight reports.
            assert execution.result.value == pytest.approx([0.25, 0.75], abs=0.07)

    def test_sum_result_is_multiple_of_mean(self):
        protocol = TokenWalk(NOISE, n=200, topology="ring", laps=50)
        column = np.linspace(-3, 7, 200)
        mean, total = (
            protocol.simulate(column, task=kind(bounds=(-3, 7)), seed=1) for kind in (Mean, Sum)
        )
        assert total.result.labels == ("sum",)
        assert total.result.value == pytest.approx(200 * mean.result.value)
        assert total.result.value == pytest.approx([400], abs=60)
        low, high = total.interval
        assert low < total.result.value < high

    @pytest.mark.parametrize("spread", [False, True])
    def test_missing_numbers_count_as_middle(self, spread):
        column = np.array([0.0, np.nan, 10.0, 2.0])
        protocol = TokenWalk(NOISE, n=4, topology="ring", laps=400, split_noise=spread)
        for execution in (
            protocol.simulate(column, task=Mean(bounds=(0, 10)), seed=1),
            run(protocol, column, task=Mean(bounds=(0, 10)), seed=1),
        ):
            assert execution.result.labels == ("mean",)
            middle = (0 + 5 + 10 + 2) / 4
            assert abs(execution.result.value - middle) < 5 * execution.result.standard_error
            assert "middle of the bounds, 5" in execution.result.missing

    def test_missing_vectors_count_as_random_directions(self):
        protocol = TokenWalk(VECTORS, n=12, topology="ring", laps=500)
        rows = np.where(np.arange(12)[:, None] < 6, np.nan, np.eye(3)[[0] * 12])
        found = protocol.simulate(rows, task=Vector(dimension=3), seed=1)
        assert found.result.value == pytest.approx([0.5, 0, 0], abs=0.2)

    def test_vector_mean_is_estimated(self):
        protocol = TokenWalk(VECTORS, n=12, topology="ring", laps=500)
        found = protocol.simulate(values_for(VECTORS), task=Vector(dimension=3), seed=1)
        assert found.result.value == pytest.approx([1 / 3] * 3, abs=0.2)

    def test_task_of_another_domain_is_rejected(self):
        with pytest.raises(InvalidParameter, match="gaussian"):
            TokenWalk(RESPONSE, n=3, steps=9).simulate(np.zeros(3), task=Mean(bounds=(0, 1)))

    def test_sgd_task_has_no_values(self):
        protocol = TokenWalk(n=9, steps=9, contribution="sgd", sigma=2.0, clip=1.0)
        with pytest.raises(InvalidParameter, match="TokenSGD"):
            protocol.simulate(np.zeros(9))


class TestConditionalGuarantee:
    def test_guarantee_equals_that_of_path(self):
        """Where everyone may know the path, what it gave away; the others what was planned."""
        protocol = TokenWalk(NOISE, n=30, steps=600, path="public")
        happened = protocol.simulate(np.zeros(30), seed=3)
        stated = {each.view_name: each for each in happened.guarantees}
        assert "realised walk" in stated["peer"].theorem
        assert stated["peer"].epsilon(DELTA) == pytest.approx(
            float(loss_epsilon(happened.collected.losses, 1 / NOISE.sigma, DELTA)), rel=1e-9
        )
        assert stated["curator"].epsilon(DELTA) == protocol.guarantee("curator").epsilon(DELTA)

    def test_hidden_path_guarantee_does_not_depend_on_path(self):
        """Else whoever reads it learns something of the path."""
        protocol = TokenWalk(NOISE, n=30, steps=600)
        happened = protocol.simulate(np.zeros(30), seed=3)
        for each in happened.guarantees:
            planned = protocol.guarantee(each.view_name)
            assert each.epsilon(DELTA) == planned.epsilon(DELTA)

    def test_blank_turns_are_not_counted_as_contributions(self):
        protocol = TokenWalk(NOISE, n=3, steps=12, path="public", cap=1)
        happened = protocol.conditional_on(protocol.collect(np.zeros(3), Seeds(1)))
        stated = happened.guarantee("peer")
        assert stated.epsilon(1e-5) <= happened.guarantee("everyone").epsilon(1e-5)
        assert stated.lower(1e-5) is None

    def test_network_view_knows_path(self):
        protocol = TokenWalk(NOISE, n=30, steps=600)
        hub, network = (protocol.guarantee(f"peer+{each}") for each in ("hub", "network"))
        assert hub.epsilon(DELTA) == network.epsilon(DELTA)

    def test_cut_walk_is_charged_all_steps_among_fewer_people(self):
        protocol = TokenWalk(RESPONSE, n=30, steps=600)
        home = Carried(
            rounds=(), sent=500, total=np.full(3, 150.0), reports=450, noise=450, steps=500,
            crowd=21, losses=None, drawn=True,
        )  # fmt: skip
        happened = protocol.conditional_on(home)
        assert (happened.n, happened.steps) == (21, 600)
        assert happened.guarantee().epsilon(DELTA) > protocol.guarantee().epsilon(DELTA)

    @pytest.mark.parametrize("missing", [{"steps": 599, "noise": 599}, {"crowd": 29}])
    def test_path_with_absences_is_not_conditioned_on(self, missing):
        """Who goes away because of a token they saw decides which losses there are."""
        protocol = TokenWalk(NOISE, n=30, steps=600, path="public")
        whole = protocol.collect(np.zeros(30), Seeds(3))
        assert "realised walk" in protocol.conditional_on(whole).guarantee("peer").theorem
        cut = protocol.conditional_on(replace(whole, **missing))
        assert "realised walk" not in cut.guarantee("peer").theorem
        planned = protocol.guarantee("peer").epsilon(DELTA)
        assert cut.guarantee("peer").epsilon(DELTA) >= planned

    def test_conditional_rejects_empty_run(self):
        home = Carried(
            rounds=(), sent=0, total=np.zeros(3), reports=0, noise=0, steps=0, crowd=9,
            losses=None, drawn=True,
        )  # fmt: skip
        with pytest.raises(ProtocolFailed, match="no token"):
            TokenWalk(RESPONSE, n=9, steps=9).conditional_on(home)
        with pytest.raises(ProtocolFailed, match="nothing to estimate"):
            home.estimate(RESPONSE)

    def test_smaller_crowd_has_own_guarantee(self):
        protocol = TokenWalk(RESPONSE, n=60, steps=120)
        played = run(protocol, np.arange(60) % 3, faults=Faults(dropout=0.5), seed=1)
        assert 0 < played.collected.crowd < 60
        happened = protocol.conditional_on(played.collected)
        assert happened.n == played.collected.crowd == played.result.people
        for stated, proven in zip(played.guarantees, guarantees(happened), strict=True):
            assert stated.view == proven.view
            assert stated.epsilon(DELTA) == proven.epsilon(DELTA)


class TestGuarantees:
    @everywhere
    def test_guarantees_list_views_in_order(self, place):
        protocol = TokenWalk(RESPONSE, **place)
        stated = guarantees(protocol)
        assert stated[0].view == frozenset({"peer"})
        assert stated[-1].view_name == "everyone"
        found = [each.epsilon(DELTA) for each in stated]
        assert found[0] <= found[1] <= found[-1]

    def test_everyone_view_is_local_contributions(self):
        everyone = TokenWalk(NOISE, n=100, steps=1).guarantee("everyone", colluders=99)
        assert "local" in everyone.theorem
        assert everyone.epsilon(1e-6) <= 1.0
        with pytest.raises(InvalidCrowd, match="colluders"):
            TokenWalk(NOISE, n=100, steps=1).guarantee("everyone", colluders=100)
        with pytest.raises(InvalidParameter, match="unknown view"):
            TokenWalk(NOISE, n=100, steps=1).guarantee("nobody")

    def test_ring_without_split_noise_has_no_everyone_guarantee(self):
        protocol = TokenWalk(NOISE, **PLACES["ring"])
        with pytest.raises(NotProven, match="split_noise"):
            protocol.guarantee("everyone")
        with pytest.raises(NotProven, match="colluders"):
            protocol.guarantee("peer", colluders=1)
        assert "everyone" not in [each.view_name for each in guarantees(protocol)]
        assert guarantees(TokenWalk(NOISE, **SPREAD))[-1].view_name == "everyone"

    def test_epsilon_grows_with_colluders(self):
        protocol = TokenWalk(NOISE, n=100, steps=1000)
        alone, helped = (protocol.guarantee("peer", colluders=c).epsilon(DELTA) for c in (0, 50))
        assert alone < helped


ON_RING_GRAPH = {"graph": graphs.ring(5), "steps": 5, "topology": "graph", "cap": 1}


class TestValidation:
    @pytest.mark.parametrize("n", [4, 6])
    def test_run_rejects_crowd_of_another_size(self, n):
        protocol = TokenWalk(RESPONSE, n=5, steps=5)
        for execute in (protocol.simulate, lambda values, seed: run(protocol, values, seed=seed)):
            with pytest.raises(InvalidCrowd, match=f"n = 5 people but got {n}"):
                execute(np.zeros(n, int), seed=1)

    @pytest.mark.parametrize(
        ("randomizer", "wrong", "says"),
        [
            (RESPONSE, {"n": 2, "steps": 3}, "at least 3"),
            (RESPONSE, {"n": 2.5, "steps": 3}, "whole"),
            (RESPONSE, {"n": 5}, "steps must be at least 1"),
            (RESPONSE, {"n": 5, "steps": 5, "laps": 5}, "laps are for a ring"),
            (RESPONSE, {"n": 5, "topology": "ring"}, "laps"),
            (RESPONSE, {"n": 5, "topology": "ring", "laps": 1, "steps": 5}, "not for a ring"),
            (RESPONSE, {"n": 5, "topology": "ring", "laps": 1, "path": "hidden"}, "hidden"),
            (RESPONSE, {"n": 5, "topology": "ring", "laps": 1, "split_noise": True}, "gaussian"),
            (RESPONSE, {"n": 5, "steps": 5, "cap": 2}, "public path"),
            (RESPONSE, {"n": 5, "steps": 5, "available": 0}, "available"),
            (RESPONSE, {"n": 5, "steps": 5, "tokens": 0}, "tokens"),
            (RESPONSE, {"n": 5, "steps": 2 * 10**9}, "at most"),
            (RESPONSE, {"n": 5, "steps": 5, "contribution": "sum"}, "do not go together"),
            (RESPONSE, {"n": 5, "steps": 5, "topology": "graph", "cap": 1}, "graph must be given"),
            (RESPONSE, {"graph": graphs.ring(5), "steps": 5, "topology": "graph"}, "cap"),
            (NOISE, ON_RING_GRAPH | {"n": 6}, "has 5"),
            (Laplace(epsilon=1.0), {"n": 5, "steps": 5}, "ring"),
            (OUE(categories=5, epsilon=1.0), {"n": 5, "steps": 5}, "krr"),
            (OneBit(epsilon=1.0), {"n": 5, "steps": 5}, "gaussian"),
            (RR(epsilon=1.0), {"n": 5, "steps": 5}, "krr"),
            (Generic(epsilon=1.0), {"n": 5, "steps": 5}, "generic"),
            (None, {"n": 5, "steps": 5}, "sigma"),
            (NOISE, {"n": 5, "steps": 5, "sigma": 2.0}, "both state the noise"),
            (RESPONSE, {"n": 5, "steps": 5, "sigma": 2.0}, "both state the noise"),
            (NOISE, {"n": 5, "steps": 5, "path": "Public"}, "path must be one of auto, hidden"),
            (NOISE, {"n": 5, "steps": 5, "topology": "star"}, "topology must be one of complete"),
            (
                NOISE,
                {"n": 5, "steps": 5, "contribution": "mean"},
                "contribution must be one of auto, sum",
            ),
            (NOISE, {"graph": graphs.ring(5), "steps": 5}, "graph needs topology graph"),
            (NOISE, {"graph": "ring:5", "steps": 5, "topology": "graph"}, "must be a Graph"),
            (NOISE, ON_RING_GRAPH | {"pair": 5}, "two different people, got 5"),
            (NOISE, ON_RING_GRAPH | {"pair": (1, 2, 3)}, "two different people"),
        ],
    )
    def test_invalid_settings_are_rejected(self, randomizer, wrong, says):
        with pytest.raises((InvalidCrowd, InvalidParameter), match=says):
            TokenWalk(randomizer, **wrong)

    def test_sgd_without_cap_has_no_public_path_guarantee(self):
        protocol = TokenWalk(n=9, steps=9, contribution="sgd", sigma=2.0, clip=1.0)
        assert [each.view_name for each in guarantees(protocol)] == ["peer", "curator", "everyone"]

    def test_protocol_is_registered_and_made_from_parameters(self):
        cls = load("token-walk")
        assert cls is TokenWalk
        made = build(cls, {"n": 9, "steps": 20}, RESPONSE)
        public = public_settings(made)
        assert settings_of(made) == settings_of(TokenWalk(RESPONSE, n=9, steps=20))
        written = msgspec.json.encode(public)
        assert msgspec.json.decode(written, type=settings_type(cls)) == public


class TestActors:
    def cast(self):
        return make_actors(
            TokenWalk(KRR(categories=3, epsilon=1.0), n=3, steps=6), np.arange(3), Seeds(3)
        )

    def test_actors_exist_for_all_addresses(self):
        assert set(self.cast()) == {device(0), device(1), device(2), COURIER, CURATOR}

    def test_malformed_bytes_change_nothing(self):
        cast = self.cast()
        for address, make in cast.items():
            actor = make()
            actor.start(0.0)
            before = actor.state()
            throw_at(actor, [*cast, "stranger", ""])
            assert actor.receive(Message(next(iter(cast)), bytes(1 << 16)), 0.5) == []
            assert actor.state() == before, address

    def test_truncated_and_extended_messages_change_nothing(self):
        seen = deliver_cut(self.cast())
        assert (COURIER, CURATOR) in seen
        assert any(sender.startswith("device") for sender, _ in seen)


class TestBrokenWalk:
    """Steps that came to nothing leave less noise in the result than there were steps."""

    PROTOCOL = TokenWalk(Gaussian(epsilon=1.0, delta=1e-6), n=20, steps=200)

    def happened(self, lost):
        home = self.PROTOCOL.collect(np.linspace(0, 1, 20), Seeds(3))
        return self.PROTOCOL.conditional_on(
            replace(home, reports=200 - lost, noise=200.0 - lost, losses=None)
        )

    def test_complete_run_is_not_broken(self):
        assert not self.happened(0).broken
        for view in ("curator", "curator+hub", "peer+hub"):
            whole, planned = self.happened(0).guarantee(view), self.PROTOCOL.guarantee(view)
            assert whole.epsilon(1e-6) == planned.epsilon(1e-6)

    @pytest.mark.parametrize("view", ["curator+hub", "peer+hub"])
    def test_path_view_of_broken_walk_equals_everyone(self, view):
        lost = self.happened(1)
        alone = lost.guarantee("everyone").epsilon(1e-6)
        assert lost.guarantee(view).epsilon(1e-6) == alone
        assert lost.guarantee(view).lower(1e-6) is None

    def test_curator_view_of_broken_walk_equals_sampled_steps(self):
        found = self.happened(150).guarantee("curator").epsilon(1e-6)
        noise = GaussianProfile(1 / self.PROTOCOL.randomizer.sigma)
        steps = RepeatedProfile(SampledProfile(noise, 1 / 20), 200)
        assert found == steps.epsilon(1e-6)


@pytest.mark.parametrize("view", ["curator+peer", "curator+hub+peer"])
def test_ring_peer_with_curator_requires_published(view):
    secret, open_ = (
        TokenWalk(Gaussian(epsilon=1.0, delta=1e-6), n=9, laps=2, topology="ring", published=each)
        for each in (False, True)
    )
    assert open_.guarantee(view).epsilon(1e-6) > 0
    with pytest.raises(NotProven, match="published"):
        secret.guarantee(view)
    with pytest.raises(NotProven, match="published"):
        secret.guarantee("curator", colluders=1)
