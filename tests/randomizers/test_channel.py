"""A channel of one's own: its realised law, its ε0, its laws of pairs, and its estimate."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import permutations

import mpmath
import msgspec
import numpy as np
import pytest
from scipy.stats import chi2

import incrowd as ic
from incrowd.errors import EmptyData, FileUnreadable, InvalidEpsilon, InvalidParameter
from incrowd.privacy import ShuffleProfile
from incrowd.privacy.local import LocalProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.randomizers import KRR, Channel, HadamardResponse, read_matrix
from incrowd.randomizers._pairs import MOST_LAWS, attack_laws, envelope, pair_laws

SKEWED = ((0.7, 0.2, 0.1), (0.25, 0.5, 0.25), (0.1, 0.3, 0.6))
TWO = ((0.9, 0.1), (0.3, 0.7))


def krr_matrix(k: int, epsilon: float) -> np.ndarray:
    top = math.exp(epsilon)
    return (np.eye(k) * (top - 1) + 1) / (top + k - 1)


def random_channel(rng: np.random.Generator, inputs: int, outputs: int) -> np.ndarray:
    weights = np.exp(rng.uniform(-1.2, 1.2, (inputs, outputs)))
    return weights / weights.sum(axis=1, keepdims=True)


def geometric(k: int, ratio: float) -> np.ndarray:
    weights = ratio ** np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    return weights / weights.sum(axis=1, keepdims=True)


def stop_loss(law, t: float, c: float) -> float:
    """E(G − c)₊ with the missing mass at G = 0."""
    value = np.append(law.a - t * law.b, 0.0)
    mass = np.append(law.mass, 1 - law.mass.sum())
    return float(mass @ np.maximum(value - c, 0))


class TestRealisedLaw:
    @pytest.mark.parametrize("matrix", [SKEWED, TWO, krr_matrix(7, 1.3), geometric(9, 0.4)])
    def test_rows_have_one_sum_and_differ_from_the_matrix_by_rounding(self, matrix):
        law = Channel(matrix).law
        assert {int(total) for total in law.counts.sum(axis=1)} == {law.total}
        np.testing.assert_allclose(law.chances, matrix, rtol=1e-12)

    def test_permuted_rows_are_realised_as_permutations(self):
        rows = Channel(krr_matrix(6, 0.7)).law.counts
        assert len({tuple(sorted(row.tolist())) for row in rows}) == 1

    def test_rows_that_miss_one_by_rounding_are_normalised(self):
        low = Channel([[0.75, 0.25 - 4e-10], [0.25, 0.75]])
        assert low.law.chances.sum(axis=1) == pytest.approx([1, 1], abs=1e-15)

    def test_epsilon_is_the_logarithm_of_the_largest_ratio_rounded_up(self):
        channel = Channel(SKEWED)
        columns = channel.law.counts.T.tolist()
        top = max(Fraction(max(column), min(column)) for column in columns)
        assert channel.epsilon == pytest.approx(math.log(top), rel=1e-15)
        # In 80 digits the double is above, and its second predecessor is not.
        with mpmath.workdps(80):
            exact = mpmath.log(mpmath.mpf(top.numerator) / top.denominator)
            assert mpmath.mpf(channel.epsilon) >= exact
            below = math.nextafter(math.nextafter(channel.epsilon, 0), 0)
            assert mpmath.mpf(below) < exact

    def test_draws_have_the_law_of_their_row(self, rng):
        channel, n = Channel(SKEWED), 40_000
        for x, row in enumerate(SKEWED):
            counts = np.bincount(channel.randomize(np.full(n, x), rng), minlength=3)
            expected = n * np.array(row)
            assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-5, 2)

    def test_outputs_that_no_input_has_are_never_drawn(self, rng):
        channel = Channel([[0.5, 0.0, 0.5], [0.25, 0.0, 0.75]])
        assert not np.isin(1, channel.randomize(np.arange(1000) % 2, rng))
        assert channel.epsilon == pytest.approx(math.log(2), rel=1e-12)
        assert channel.estimate(np.array([0, 2, 2])).value.sum() == pytest.approx(1)


class TestDescription:
    def test_matrix_may_be_an_array_or_lists(self):
        assert Channel(np.array(TWO)) == Channel([list(row) for row in TWO]) == Channel(TWO)
        assert ic.Channel(TWO).categories == 2

    @pytest.mark.parametrize("matrix", [SKEWED, krr_matrix(5, 2.0)])
    def test_channel_survives_round_trip(self, matrix):
        channel = Channel(matrix)
        table = msgspec.to_builtins(channel)
        assert table["epsilon"] == channel.epsilon
        assert msgspec.convert(table, Channel) == channel
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(channel), type=Channel) == channel
        assert msgspec.convert({"kind": "channel", "matrix": table["matrix"]}, Channel) == channel
        assert hash(channel) == hash(msgspec.structs.replace(channel))

    def test_stated_epsilon_below_the_derived_one_is_refused(self):
        derived = Channel(TWO).epsilon
        assert Channel(TWO, epsilon=derived + 1).epsilon == derived
        with pytest.raises(InvalidEpsilon, match=r"epsilon must be left out or at least 1\.94"):
            Channel(TWO, epsilon=derived * (1 - 1e-9))

    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            ("text", "must be a list of rows of probabilities"),
            ([0.5, 0.5], "must be a list of rows of probabilities"),
            ([[0.5, 0.5]], "at least two inputs, got 1"),
            ([[1.0], [1.0]], "2 to 4096 columns, got 2 and 1"),
            ([[0.5, 0.5], [1.0]], "row 1 has 2, row 2 1"),
            ([[0.5, 0.5], [0.5, 0.6]], "row 2 sums to 1.1"),
            ([[0.5, 0.5], [1.5, -0.5]], "row 2, column 1 is 1.5"),
            ([[0.5, 0.5], [0.5, math.nan]], "row 2, column 2 is nan"),
            ([[0.5, 0.5], [0.5, "x"]], "row 2, column 2 is 'x'"),
            ([[0.5, 0.5], [0.0, 1.0]], "row 2, column 1 is 0.0 beside 0.5 in row 1"),
            ([[0.5, 0.5], [0.5, 0.5]], "all are equal"),
            (np.full((65, 2), 0.5), "2 to 64 rows"),
        ],
    )
    def test_matrix_that_is_no_channel_is_refused_in_one_line(self, matrix, message):
        with pytest.raises(InvalidParameter) as caught:
            Channel(matrix)
        assert message in str(caught.value)
        assert str(caught.value).startswith("matrix ")
        assert "\n" not in str(caught.value)

    def test_matrix_beyond_the_largest_epsilon_is_refused(self):
        with pytest.raises(InvalidEpsilon, match="at most 30"):
            Channel([[1 - 1e-15, 1e-15], [1e-15, 1 - 1e-15]])


class TestFiles:
    def test_csv_and_json_are_read_alike(self, tmp_path):
        csv, plain = tmp_path / "m.csv", tmp_path / "m.json"
        csv.write_text("\ufeff0.9,0.1\n0.3, 0.7\n\n")
        plain.write_text(json.dumps(TWO))
        assert read_matrix(csv) == read_matrix(plain) == TWO

    @pytest.mark.parametrize(
        ("text", "kind", "message"),
        [
            ("a,b\n0.5,0.5\n", InvalidParameter, "line 1: 'a' is not a number"),
            ("0.5,0.5\n0.5,\n", InvalidParameter, "line 2: '' is not a number"),
            ("[[0.5, 0.5]", InvalidParameter, "not valid JSON"),
            ("0.5,0.5\n0.2,0.2\n", InvalidParameter, "row 2 sums to 0.4"),
            ("\n", EmptyData, "the file is empty"),
        ],
    )
    def test_wrong_file_is_refused_with_its_place(self, tmp_path, text, kind, message):
        path = tmp_path / "m.csv"
        path.write_text(text)
        with pytest.raises(kind) as caught:
            read_matrix(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert message in str(caught.value)

    def test_absent_file_is_unreadable(self, tmp_path):
        with pytest.raises(FileUnreadable, match="cannot read the matrix"):
            read_matrix(tmp_path / "none.csv")


class TestLaws:
    def test_krr_matrix_has_the_laws_of_krr(self):
        krr, channel = KRR(epsilon=1.5, categories=5), Channel(krr_matrix(5, 1.5))
        assert len(channel.blankets()) == 1
        known = krr.blanket()
        for found in (channel.blanket(), envelope(channel.law)):
            assert found.symmetric
            order, other = np.lexsort((found.b, found.a)), np.lexsort((known.b, known.a))
            np.testing.assert_allclose(found.a[order], known.a[other], rtol=1e-9)
            np.testing.assert_allclose(found.mass[order], known.mass[other], rtol=1e-9)
        for n in (2, 100, 10_000):
            found, known = (blanket_profile(each, n) for each in (channel, krr))
            assert found.epsilon(1e-6) == pytest.approx(known.epsilon(1e-6), rel=1e-5)
            assert found.lower(1e-6) == pytest.approx(known.lower(1e-6), rel=1e-4)

    def test_hadamard_matrix_has_one_law_for_all_pairs(self):
        """A little below that of ``hadamard``, whose blanket misses the column of all ones."""
        hadamard = HadamardResponse(epsilon=1.0, categories=3)
        top = math.e
        signs = [[(x & y).bit_count() % 2 for y in range(4)] for x in (1, 2, 3)]
        matrix = np.where(np.array(signs), 1.0, top) / (2 * (top + 1))
        channel = Channel(matrix)
        assert len(channel.blankets()) == 1
        found, known = (blanket_profile(each, 500).epsilon(1e-6) for each in (channel, hadamard))
        assert 0.98 * known < found <= known

    def test_envelope_dominates_all_pairs_in_convex_order(self, rng):
        for inputs, outputs in ((2, 2), (3, 4), (5, 3), (4, 9)):
            channel = Channel(random_channel(rng, inputs, outputs))
            above = envelope(channel.law)
            assert above.symmetric
            assert above.gamma == pytest.approx(channel.law.least.sum() / channel.law.total)
            for law in pair_laws(channel.law):
                for t in (0.0, 0.3, 1.0, 1.7, 4.0):
                    for c in np.linspace(-6, 6, 49):
                        larger = stop_loss(above, t, c) * (1 + 1e-12) + 1e-14
                        assert stop_loss(law, t, c) <= larger
                        assert stop_loss(law.swapped(), t, c) <= larger

    def test_envelope_is_a_pair_where_one_is_opposed_and_extreme(self):
        """The ends of a truncated geometric channel that keeps its order."""
        channel = Channel(geometric(2, 0.3))
        assert envelope(channel.law).mirrors(pair_laws(channel.law)[0])

    def test_many_different_pairs_are_accounted_by_the_envelope(self, rng):
        channel = Channel(random_channel(rng, 9, 5))
        assert math.comb(9, 2) > MOST_LAWS
        assert pair_laws(channel.law) is None
        (only,) = channel.blankets()
        assert only is channel.blanket()
        assert blanket_profile(channel, 300).epsilon(1e-6) < channel.epsilon

    def test_pairs_are_never_worse_than_the_envelope(self, rng):
        channel = Channel(random_channel(rng, 4, 4))
        cap = LocalProfile(channel)
        alone = ShuffleProfile(channel.blanket(), 200, cap).epsilon(1e-5)
        assert blanket_profile(channel, 200).epsilon(1e-5) <= alone * (1 + 1e-6)

    @pytest.mark.parametrize("epsilon", [-2.0, -0.3, 0.0, 0.4, 1.5])
    def test_local_curve_is_the_largest_divergence_of_two_rows(self, epsilon):
        t = math.exp(epsilon)
        exact = max(
            sum(max(0.0, p - t * q) for p, q in zip(SKEWED[x0], SKEWED[x1], strict=True))
            for x0, x1 in permutations(range(3), 2)
        )
        found = Channel(SKEWED).local_delta(epsilon)
        assert exact <= found * (1 + 1e-12)
        assert found == pytest.approx(max(exact, 1 - t), abs=1e-13)

    def test_attacks_are_exact_laws_of_total_mass_one(self, rng):
        laws = attack_laws(Channel(random_channel(rng, 4, 6)).law)
        assert 1 <= len(laws) <= 4
        for law in laws:
            assert law.mass.sum() == pytest.approx(1, abs=1e-12)


class TestEstimate:
    def test_estimate_equals_that_of_krr(self, rng):
        krr, channel = KRR(epsilon=1.0, categories=4), Channel(krr_matrix(4, 1.0))
        reports = krr.randomize(np.minimum(rng.geometric(0.5, 3000) - 1, 3), rng)
        found, known = channel.estimate(reports), krr.estimate(reports)
        np.testing.assert_allclose(found.value, known.value, rtol=1e-9)
        np.testing.assert_allclose(found.variance, known.variance, rtol=1e-9)

    def test_covariance_is_that_of_many_runs(self, rng):
        channel, values = Channel(SKEWED), np.repeat([0, 1, 2], [500, 200, 300])
        runs = [channel.joint_estimate(channel.randomize(values, rng)) for _ in range(2000)]
        seen = np.cov(np.array([run.value for run in runs]).T)
        stated = np.mean([run.covariance for run in runs], axis=0)
        np.testing.assert_allclose(seen, stated, atol=0.12 * np.abs(stated).max())

    def test_rows_that_cannot_be_told_apart_are_named(self, rng):
        mixed = tuple((p + q) / 2 for p, q in zip(SKEWED[0], SKEWED[2], strict=True))
        channel = Channel((SKEWED[0], mixed, SKEWED[2]))
        assert blanket_profile(channel, 100).epsilon(1e-6) < channel.epsilon
        reports = channel.randomize(np.arange(30) % 3, rng)
        with pytest.raises(InvalidParameter, match="rows 1, 2 and 3 cannot be told apart"):
            channel.estimate(reports)
        equal = Channel((SKEWED[0], SKEWED[1], SKEWED[0]))
        with pytest.raises(InvalidParameter, match="rows 1 and 3 cannot be told apart"):
            equal.estimate(reports)


@pytest.mark.parametrize("matrix", [SKEWED, TWO, krr_matrix(4, 2.0)])
def test_survey_of_a_channel_estimates_the_truth(matrix):
    channel = Channel(matrix)
    k = channel.categories
    names = tuple("abcd"[:k])
    column = list(np.array(names)[np.arange(4000) % k])
    task = ic.Histogram(categories=names, complete=True)
    run = ic.TrustedShuffle(channel, n=4000).simulate(column, task=task, seed=3)
    z = (run.result.value - 1 / k) / run.result.standard_error
    assert np.abs(z).max() < 4.5
    epsilon, lower = (getattr(run.guarantees[0], each)(1e-6) for each in ("epsilon", "lower"))
    assert 0 < lower <= epsilon < channel.epsilon


def test_large_channel_is_accounted_within_seconds(rng):
    channel = Channel(random_channel(rng, 64, 4096))
    assert channel.blanket().gamma < 1
    assert blanket_profile(channel, 10_000).delta(channel.epsilon / 4) <= 1
