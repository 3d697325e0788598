"""Quantiles of a number: encoding, the limits at small and large errors, and their coverage."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from scipy.stats import binom

import incrowd as ic
from incrowd import sim
from incrowd.errors import EmptyData, InvalidParameter
from incrowd.randomizers import KRR, OLH, OUE, Channel, Hierarchical, Laplace, OneOf
from incrowd.randomizers.base import ABSENT
from incrowd.randomness import Seeds
from incrowd.report.json import describe_errors
from incrowd.tasks import TASKS, Collected, Quantiles
from incrowd.tasks.parts import answered

INCOME = Quantiles(bounds=(0, 100), bins=64)
RUNS = 1000


def column(shape: str, n: int, rng: np.random.Generator) -> np.ndarray:
    drawn = {
        "skewed": lambda: np.minimum(rng.lognormal(2.5, 1.0, n), 100),
        "uniform": lambda: rng.uniform(0, 100, n),
        "ties": lambda: rng.choice([10.0, 20.0, 20.0, 50.0, 90.0], n),
    }[shape]()
    drawn[rng.random(n) < 0.08] = math.nan
    return drawn


def covered(task, values, randomizer, runs, seed, confidence=0.95):
    """How often each row of the answer covers the truth, over seeded runs."""
    rng, codes, truth = np.random.default_rng(seed), task.encode(values), task.truth(values)
    hits = np.zeros(len(task.labels), int)
    for _ in range(runs):
        collected = Collected((randomizer.randomize(codes, rng),), sent=len(codes))
        answer = task.estimate(collected, randomizer, confidence)
        hits += (answer.low <= truth) & (truth <= answer.high)
    return hits


CASES = [
    (shape, n, randomizer)
    for shape in ("skewed", "uniform", "ties")
    for n, randomizer in (
        (2_000, KRR(epsilon=3.0, categories=65)),
        (12_000, OUE(epsilon=1.0, categories=65)),
        (2_000, Hierarchical(epsilon=3.0, categories=65)),
        (12_000, Hierarchical(epsilon=1.0, categories=65)),
    )
]


@pytest.mark.parametrize(
    ("shape", "n", "randomizer"), CASES, ids=lambda each: getattr(each, "kind", each)
)
def test_limits_cover_the_truth_at_least_as_often_as_stated(shape, n, randomizer):
    values = column(shape, n, np.random.default_rng(17))
    hits = covered(INCOME, values, randomizer, RUNS, seed=n)
    assert hits.min() >= binom.ppf(1e-4, RUNS, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["skewed", "uniform", "ties"])
@pytest.mark.parametrize("n", [2_000, 12_000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 6.0])
def test_limits_of_a_tree_and_flat_cover_the_truth_sweep(shape, n, epsilon):
    task = Quantiles(bounds=(0, 100), bins=64, probabilities=(0.05, 0.25, 0.5, 0.75, 0.95))
    values = column(shape, n, np.random.default_rng(19))
    tree = Hierarchical(epsilon=epsilon, categories=65)
    for randomizer in (tree, KRR(epsilon=epsilon, categories=65)):
        hits = covered(task, values, randomizer, RUNS, seed=n)
        assert hits.min() >= binom.ppf(1e-5, RUNS, 0.95)


def test_limits_lowered_by_a_fifth_would_not_cover_the_share_without_an_answer():
    """The check of coverage can fail: at a smaller confidence it does."""
    values = column("uniform", 2_000, np.random.default_rng(17))
    krr = KRR(epsilon=3.0, categories=65)
    hits = covered(INCOME, values, krr, RUNS, seed=2_000, confidence=0.88)
    assert hits[-1] < binom.ppf(1e-4, RUNS, 0.95)


class TestTask:
    def test_labels_name_quarters_and_others_by_per_cent(self):
        task = Quantiles(bounds=(0, 1), probabilities=(0.1, 0.25, 0.5, 0.75, 0.999))
        assert task.labels == (
            *("10 %", "lower quarter", "median", "upper quarter", "99.9 %"),
            "no answer",
        )
        assert Quantiles(bounds=(0, 1), complete=True).labels[-1] == "upper quarter"

    def test_encode_sorts_numbers_into_bins_and_clips(self):
        task = Quantiles(bounds=(0, 10), bins=5)
        texts = np.array(
            ["-3", "0", "1.99", "2", "9.99", "10", "1e9", "inf", "-inf", "", "x", "nan"]
        )
        assert task.encode(texts).tolist() == [0, 0, 0, 1, 4, 4, 4, 4, 0, 5, 5, 5]
        complete = Quantiles(bounds=(0, 10), bins=5, complete=True)
        assert complete.encode(["3", ""]).tolist() == [1, ABSENT]

    def test_truth_is_the_exact_quantile_of_those_who_answered(self):
        task = Quantiles(bounds=(0, 10), bins=5, probabilities=(0.1, 0.5, 0.75))
        found = task.truth(["1", "2", "3", "40", "", "x"])
        assert found.tolist() == pytest.approx([1, 2, 3, 1 / 3])
        assert np.isnan(task.truth(["", ""])[:3]).all()
        assert task.truth(np.arange(1, 11))[0] == 1

    def test_gaps_count_missing_and_outside(self):
        found = INCOME.gaps(np.array(["1", "", "300", "old"]))
        assert (found.missing, found.outside, found.first) == (1, 2, 3)

    def test_task_survives_round_trip(self):
        table = msgspec.to_builtins(INCOME)
        assert msgspec.convert(table, TASKS.load(table["kind"])) == INCOME
        assert msgspec.json.decode(msgspec.json.encode(INCOME), type=Quantiles) == INCOME

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"bounds": (1, 0)}, "bounds must be two finite numbers"),
            ({"bins": 1}, "bins must be a whole number ≥ 2"),
            ({"bins": 5000}, "bins must be at most 1000"),
            ({"probabilities": ()}, "probabilities must rise"),
            ({"probabilities": (0.5, 0.25)}, "probabilities must rise"),
            ({"probabilities": (0.0, 0.5)}, "probabilities must rise"),
            ({"probabilities": 0.5}, "probabilities must be a list"),
            ({"complete": 1}, "complete must be"),
        ],
    )
    def test_wrong_question_is_refused_in_one_line(self, wrong, message):
        with pytest.raises(InvalidParameter, match=message):
            Quantiles(**{"bounds": (0, 1), **wrong})

    @pytest.mark.parametrize(
        ("randomizer", "message"),
        [
            (KRR(epsilon=1.0, categories=64), "65 outcomes in all, but krr has 64"),
            (OLH(epsilon=1.0, categories=65), "use krr, oue, sue, hierarchical or channel"),
            (Laplace(epsilon=1.0), "needs a randomizer of the domain 'category'"),
        ],
    )
    def test_randomizer_that_does_not_fit_is_refused(self, randomizer, message):
        with pytest.raises(InvalidParameter, match=message):
            INCOME.require(randomizer)

    def test_column_without_rows_is_refused(self):
        with pytest.raises(EmptyData):
            INCOME.encode([])

    def test_domains_state_the_bounds(self):
        (domain,) = INCOME.domains("income").values()
        assert (domain.kind, domain.low, domain.high) == ("number", 0, 100)


class TestAnswer:
    def test_estimate_without_noise_is_within_a_bin_of_the_truth(self):
        values = column("skewed", 20_000, np.random.default_rng(3))
        sharp = KRR(epsilon=20.0, categories=65)
        run = ic.Local(sharp, n=20_000).simulate(values, task=INCOME, seed=1)
        truth = INCOME.truth(values)
        assert np.abs(run.result.value[:3] - truth[:3]).max() <= 100 / 64
        assert (run.result.high - run.result.low)[:3].max() <= 3 * 100 / 64

    def test_quantiles_without_any_answer_are_the_bounds(self):
        krr = KRR(epsilon=3.0, categories=65)
        reports = krr.randomize(np.full(3000, 64), np.random.default_rng(2))
        answer = INCOME.estimate(Collected((reports,), sent=3000), krr)
        assert (answer.low[:3] == 0).all()
        assert (answer.high[:3] > 95).all()
        assert answer.low[3] <= 1 <= answer.high[3]

    def test_one_report_leaves_wide_limits(self):
        for randomizer in (
            KRR(epsilon=1.0, categories=65),
            Hierarchical(epsilon=1.0, categories=65),
        ):
            reports = randomizer.randomize(np.array([7]), np.random.default_rng(2))
            answer = INCOME.estimate(Collected((reports,), sent=1), randomizer)
            assert np.isfinite(answer.value).all()
            assert (answer.low <= answer.value).all()
            assert (answer.value <= answer.high).all()

    def test_certainty_needs_all_of_the_bounds(self):
        krr = KRR(epsilon=3.0, categories=65)
        reports = krr.randomize(np.arange(500) % 64, np.random.default_rng(2))
        answer = INCOME.estimate(Collected((reports,), sent=500), krr, confidence=1.0)
        assert (answer.low[:3] == 0).all()
        assert (answer.high[:3] == 100).all()

    def test_complete_column_has_no_row_for_missing_answers(self):
        task = Quantiles(bounds=(0, 100), bins=16, complete=True)
        values = np.random.default_rng(5).uniform(0, 100, 4000)
        run = ic.Local(OUE(epsilon=3.0, categories=16), n=4000).simulate(values, task=task, seed=2)
        truth = task.truth(values)
        assert len(run.result.value) == 3
        assert ((run.result.low <= truth) & (truth <= run.result.high)).all()

    def test_quantiles_by_a_channel_of_ones_own(self):
        task = Quantiles(bounds=(0, 4), bins=4, complete=True)
        weights = 0.5 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
        channel = Channel(weights / weights.sum(axis=1, keepdims=True))
        values = [0.5, 1.5, 1.5, 2.5, 3.5] * 2000
        run = ic.TrustedShuffle(channel, n=10_000).simulate(values, task=task, seed=4)
        assert (
            (run.result.low <= task.truth(values)) & (task.truth(values) <= run.result.high)
        ).all()

    @pytest.mark.parametrize("mode", ["simulate", "actors"])
    @pytest.mark.parametrize(
        "randomizer", [KRR(epsilon=4.0, categories=65), Hierarchical(epsilon=4.0, categories=65)]
    )
    def test_shuffled_survey_of_texts_answers(self, mode, randomizer):
        values = [f"{each:.1f}" if each % 9 else "" for each in np.linspace(0, 100, 301)]
        protocol = ic.TrustedShuffle(randomizer, n=301)
        if mode == "simulate":
            run = protocol.simulate(values, task=INCOME, seed=7)
        else:
            run = sim.run(protocol, values, task=INCOME, seed=7)
        truth = INCOME.truth(values)
        answer = INCOME.estimate(run.collected, randomizer, confidence=0.99999)
        assert ((answer.low <= truth) & (truth <= answer.high)).all()
        assert run.guarantees[0].epsilon(1e-6) < 4

    @pytest.mark.parametrize(
        "protocol",
        [
            ic.CheckIn(KRR(epsilon=5.0, categories=17), n=400, rate=0.3, rounds=3),
            ic.CheckIn(Hierarchical(epsilon=5.0, categories=17), n=400, rate=0.3, rounds=3),
            ic.NetworkShuffle(
                KRR(epsilon=5.0, categories=17),
                graph=ic.graphs.random_regular(400, 8, np.random.default_rng(3)),
                rounds=20,
                hand_in="single",
            ),
            ic.TokenWalk(KRR(epsilon=5.0, categories=17), n=400, steps=2000),
            ic.TokenWalk(KRR(epsilon=5.0, categories=17), n=400, topology="ring", laps=2),
        ],
        ids=["check-in", "check-in-tree", "network", "token", "ring"],
    )
    def test_other_protocols_cover_the_truth(self, protocol):
        task = Quantiles(bounds=(0, 100), bins=16)
        values = column("uniform", 400, np.random.default_rng(3))
        truth, missed = task.truth(values), 0
        for seed in range(40):
            result = protocol.simulate(values, task=task, seed=seed).result
            missed += (result.low > truth) | (truth > result.high)
        assert missed.max() <= binom.isf(1e-4, 40, 0.05)


TENTHS = tuple(np.arange(1, 10) / 10)
EVEN = Quantiles(bounds=(-20, 180), bins=64, probabilities=TENTHS)


def expected_error(task, protocol):
    """Expected error of a protocol's answer, as a survey's check states it."""
    (error,) = describe_errors(protocol, [task])
    return error


def root_mean_square(numbers):
    return math.sqrt(float(np.mean(np.square(numbers))))


class TestExpectedError:
    @pytest.mark.parametrize(
        ("protocol", "runs"),
        [
            (ic.Local(KRR(epsilon=4.0, categories=65), n=2_000), 30),
            (ic.Local(OUE(epsilon=2.0, categories=65), n=2_000), 30),
            (ic.TrustedShuffle(Hierarchical(epsilon=4.0, categories=65), n=2_000, rounds=2), 30),
            (ic.TrustedShuffle(Hierarchical(epsilon=1.0, categories=65), n=2_000), 30),
            (ic.CheckIn(KRR(epsilon=6.0, categories=65), n=2_000, rate=0.3, rounds=2), 10),
        ],
        ids=["krr", "oue", "tree", "tree-noisy", "check-in"],
    )
    def test_expected_error_of_even_data_equals_the_simulated_one(self, protocol, runs):
        values = np.linspace(-20, 180, 2_000)
        encoded, truth = EVEN.encode(values), EVEN.truth(values)
        stated, away = [], []
        for seed in range(runs):
            answer = EVEN.estimate(protocol.collect(encoded, Seeds(seed)), protocol.randomizer)
            stated.append(answer.standard_error[:9])
            away.append(answer.value[:9] - truth[:9])
        expected = expected_error(EVEN, protocol)
        assert expected == pytest.approx(root_mean_square(stated), rel=0.15)
        # Half a bin is in it, and an estimate is not off by more.
        assert root_mean_square(away) < expected

    def test_expected_error_is_at_least_half_a_bin_and_at_most_half_the_range(self):
        sharp = ic.Local(KRR(epsilon=20.0, categories=65), n=10**6)
        assert 0.5 <= expected_error(EVEN, sharp) / (200 / 64) < 0.6
        blind = ic.Local(KRR(epsilon=0.01, categories=65), n=10)
        assert 90 < expected_error(EVEN, blind) <= 100

    def test_expected_error_of_a_question_that_some_draw_is_that_of_their_reports(self):
        task = Quantiles(bounds=(0, 100), bins=16, probabilities=TENTHS)
        krr = KRR(epsilon=3.0, categories=17)
        drawn = OneOf(parts=(krr, krr), probabilities=(0.2, 0.8))
        protocol = ic.TrustedShuffle(drawn, n=4_000)
        values = np.tile(task.encode(np.linspace(0, 100, 4_000)), (2, 1)).T
        stated = []
        for seed in range(10):
            parts = answered(protocol.collect(values, Seeds(seed)), drawn)
            stated.append([task.estimate(*each).standard_error[:9] for each in parts])
        seen = [root_mean_square(each) for each in np.swapaxes(stated, 0, 1)]
        assert describe_errors(protocol, (task, task)) == pytest.approx(seen, rel=0.15)


class TestNoise:
    def test_variants_are_joint_randomizers_and_trees_smaller_than_the_bins(self):
        few = Quantiles(bounds=(0, 1), bins=6)
        assert few.variants(Hierarchical) == ({"branching": 4},)
        assert few.variants(KRR) == ({},)
        assert few.variants(OLH) == ()

    def test_noise_orders_randomizers_as_simulations_do(self):
        values = np.random.default_rng(3).uniform(0, 100, 4000)
        codes, rng = INCOME.encode(values), np.random.default_rng(4)
        seen = {}
        for randomizer in (
            KRR(epsilon=2.0, categories=65),
            OUE(epsilon=2.0, categories=65),
            *(Hierarchical(epsilon=2.0, categories=65, branching=each) for each in (4, 8)),
        ):
            sums = []
            for _ in range(200):
                found = randomizer.estimate(randomizer.randomize(codes, rng)).value
                answered = found[:64].sum()
                sums.append(np.cumsum(found)[:63] - answered * np.arange(1, 64) / 64)
            spread = math.sqrt(float(np.var(sums, axis=0).mean()) * 4000)
            assert INCOME.noise(randomizer) == pytest.approx(spread, rel=0.15)
            seen[spread] = INCOME.noise(randomizer)
        ordered = [seen[each] for each in sorted(seen)]
        assert ordered == sorted(ordered)
