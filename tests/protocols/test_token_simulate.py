"""Simulated walks: their law turn by turn, what comes home, and whether intervals cover."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, chi2, chisquare, kstest

from incrowd import graphs
from incrowd.protocols.token_walk import TokenWalk, simulate
from incrowd.protocols.token_walk.accountant import weights_of
from incrowd.protocols.token_walk.theorems import conditional_on_path
from incrowd.randomizers import KRR, Gaussian, GaussianVector, Laplace
from incrowd.randomness import Seeds

RUNS = 1500
LEAST = 1e-3
QUIET = Gaussian.with_sigma(0.25)


def barbell(half):
    """Two cliques with one edge between them: a token rarely changes sides."""
    first, second = np.triu_indices(half, 1)
    rows = np.concatenate([first, first + half, [half - 1]])
    columns = np.concatenate([second, second + half, [half]])
    return graphs.from_edges(rows, columns, 2 * half)


def path_of(protocol, seed, token=0):
    return np.concatenate(list(simulate.paths(protocol, Seeds(seed), token)))


def p_value(counts, law):
    """Pearson's test of a count of outcomes against their law."""
    assert set(counts) <= {outcome for outcome, chance in law.items() if chance > 0}
    runs = sum(counts.values())
    cells = sorted((chance, counts[outcome]) for outcome, chance in law.items() if chance > 0)
    expected, observed = [0.0], [0]
    for chance, seen in cells:
        if expected[-1] >= 5:
            expected.append(0.0)
            observed.append(0)
        expected[-1] += runs * chance
        observed[-1] += seen
    return chisquare(observed, np.array(expected) * runs / np.sum(expected)).pvalue


class TestPaths:
    def test_complete_holders_are_uniform_and_independent(self):
        path = path_of(TokenWalk(QUIET, n=5, steps=50_000), 1)
        pairs = np.bincount(5 * path[:-1] + path[1:], minlength=25)
        assert chisquare(pairs).pvalue > LEAST

    def test_graph_first_holder_is_uniform(self):
        protocol = TokenWalk(QUIET, topology="graph", graph=graphs.star(5), steps=1, cap=1)
        first = [int(path_of(protocol, seed)[0]) for seed in range(RUNS)]
        assert chisquare(np.bincount(first, minlength=5)).pvalue > LEAST

    @pytest.mark.parametrize("graph", [graphs.star(5), barbell(3), graphs.ring(4)])
    def test_graph_next_holders_follow_weights(self, graph):
        protocol = TokenWalk(QUIET, topology="graph", graph=graph, steps=60_000, cap=1)
        path = path_of(protocol, 2)
        seen = np.zeros((graph.n, graph.n))
        np.add.at(seen, (path[:-1], path[1:]), 1)
        weights = weights_of(graph).toarray()
        assert not seen[weights == 0].any()

        def doubt(law):
            expected = (seen.sum(axis=1, keepdims=True) * law)[weights > 0]
            off = (seen[weights > 0] - expected) ** 2 / expected
            return chi2.sf(off.sum(), np.count_nonzero(weights) - graph.n)

        assert doubt(weights) > LEAST
        assert doubt(0.95 * weights + 0.05 * np.eye(graph.n)) < 1e-6

    def test_ring_visits_everyone_in_turn(self):
        protocol = TokenWalk(KRR(categories=3, epsilon=1.0), n=4, topology="ring", laps=3)
        assert path_of(protocol, 1).tolist() == [0, 1, 2, 3] * 3

    @pytest.mark.parametrize("where", [{}, {"topology": "graph", "graph": barbell(4), "cap": 2}])
    def test_paths_do_not_depend_on_block_size(self, where, monkeypatch):
        protocol = TokenWalk(QUIET, n=8, steps=1000, **where)
        whole = path_of(protocol, 3)
        monkeypatch.setattr(simulate, "_BLOCK", 17)
        assert path_of(protocol, 3).tolist() == whole.tolist()

    def test_tokens_walk_independently(self):
        protocol = TokenWalk(QUIET, n=50, steps=100, tokens=2)
        assert path_of(protocol, 4, 0).tolist() != path_of(protocol, 4, 1).tolist()

    def test_result_depends_on_seed_alone(self):
        protocol = TokenWalk(QUIET, n=30, steps=500, path="public")
        values = np.linspace(0, 1, 30)
        one, same, other = (simulate.collect(protocol, values, Seeds(s)) for s in (5, 5, 6))
        assert one.total == same.total != other.total
        assert one.losses == same.losses != other.losses


class TestContributionLaw:
    """Small walks against every path there is."""

    VALUES = np.array([0, 1, 1])
    RESPONSE = KRR(categories=2, epsilon=1.0)

    def counted(self, **parameters):
        protocol = TokenWalk(self.RESPONSE, n=3, **parameters)
        found = Counter()
        for seed in range(RUNS):
            home = simulate.collect(protocol, self.VALUES, Seeds(seed))
            assert home.total.sum() == home.noise
            found[home.reports, int(home.total[1])] += 1
        return found

    def law(self, steps, cap, paths=None):
        """The chances of (contributions, ones), path by path."""
        truth = np.e / (1 + np.e)
        law = Counter()
        chance = 1 / 3**steps if paths is None else 1 / len(paths)
        for path in paths or product(range(3), repeat=steps):
            ones, visits, reports = np.ones(1), Counter(), 0
            for holder in path:
                visits[holder] += 1
                real = visits[holder] <= cap
                reports += real
                one = (truth if self.VALUES[holder] else 1 - truth) if real else 0.5
                ones = np.convolve(ones, [1 - one, one])
            for count, share in enumerate(ones):
                law[reports, count] += chance * share
        return law

    def test_complete_histogram_follows_exact_law(self):
        counts = self.counted(steps=5)
        assert p_value(counts, self.law(5, cap=5)) > LEAST
        assert p_value(counts, self.law(5, 5, [(0, 1, 2, 0, 1)])) < LEAST

    def test_turns_beyond_cap_add_noise_alone(self):
        counts = self.counted(steps=5, cap=1, path="public")
        assert p_value(counts, self.law(5, cap=1)) > LEAST

    def test_ring_histogram_follows_exact_law(self):
        """Two laps, and the uniform elements that hide the first reports."""
        protocol = TokenWalk(self.RESPONSE, n=3, topology="ring", laps=2)
        added = protocol.ring.uniform_elements(2 / (1 + np.e))
        law = self.law(6, 6, [(0, 1, 2) * 2])
        more = Counter()
        for (reports, ones), chance in law.items():
            for extra in range(added + 1):
                more[reports, ones + extra] += chance * binom.pmf(extra, added, 0.5)
        counts = self.counted(topology="ring", laps=2)
        assert p_value(counts, more) > LEAST
        assert simulate.collect(protocol, self.VALUES, Seeds(1)).noise == 6 + added

    def test_sum_follows_exact_law(self):
        """All hold the same, so that the sum is normal."""
        protocol = TokenWalk(QUIET, n=4, steps=7)
        sums = [
            float(simulate.collect(protocol, np.full(4, 0.3), Seeds(seed)).total)
            for seed in range(500)
        ]
        scaled = (np.array(sums) - 7 * 0.3) / (QUIET.sigma * np.sqrt(7))
        assert kstest(scaled, "norm").pvalue > LEAST

    @pytest.mark.parametrize("published", [False, True])
    @pytest.mark.parametrize("spread", [False, True])
    def test_ring_noise_equals_sum_over_steps(self, published, spread):
        protocol = TokenWalk(
            QUIET, n=5, topology="ring", laps=3, published=published, split_noise=spread
        )
        ring, values = protocol.ring, np.linspace(0, 1, 5)
        variance = sum(ring.noise_scale(step) ** 2 for step in range(ring.steps))
        homes = [simulate.collect(protocol, values, Seeds(seed)) for seed in range(500)]
        scaled = np.array([float(home.total) for home in homes]) - 3 * values.sum()
        assert kstest(scaled / (QUIET.sigma * np.sqrt(variance)), "norm").pvalue > LEAST
        assert homes[0].noise == pytest.approx(variance)
        assert (homes[0].reports, homes[0].steps, homes[0].drawn) == (15, 15, False)

    def test_ring_laplace_noise_has_stated_variance(self):
        randomizer = Laplace(epsilon=2.0)
        protocol = TokenWalk(randomizer, n=5, topology="ring", laps=4)
        off = [
            float(simulate.collect(protocol, np.full(5, 0.5), Seeds(seed)).total) - 10
            for seed in range(RUNS)
        ]
        assert np.var(off) == pytest.approx(protocol.ring.noises * 2 / 4, rel=0.15)

    @pytest.mark.parametrize("steps", [6, 3])
    def test_vector_noise_alone_is_centred_normal(self, steps, monkeypatch):
        """Noise alone has no mean, in any direction."""
        monkeypatch.setattr(simulate, "_BLOCK", 8)
        randomizer = GaussianVector(epsilon=5.0, delta=1e-6, dimension=2)
        protocol = TokenWalk(randomizer, n=3, steps=steps, cap=1, path="public")
        values = np.array([[0.0, 1.0]] * 3)
        homes = [simulate.collect(protocol, values, Seeds(seed)) for seed in range(400)]
        off = np.array([home.total - home.reports * values[0] for home in homes])
        scaled = off / (randomizer.sigma * np.sqrt(steps))
        assert kstest(scaled.ravel(), "norm").pvalue > LEAST
        assert {home.noise for home in homes} == {steps}


class TestStatistics:
    def plain(self, path, n, published):
        """The largest sum of k²/m of any pair; the result is seen."""
        worst = 0.0
        for observer, victim in product(range(n), repeat=2):
            if observer == victim:
                continue
            total, k, m = 0.0, 0, 0
            for holder in [*path, observer] if published else path:
                if holder == observer:
                    total += k * k / m if m else 0.0
                    k, m = 0, 0
                else:
                    k, m = k + (holder == victim), m + 1
            worst = max(worst, total)
        return worst

    @pytest.mark.parametrize("published", [False, True])
    def test_losses_equal_losses_of_path(self, published):
        protocol = TokenWalk(QUIET, n=6, steps=80, tokens=2, path="public", published=published)
        home = simulate.collect(protocol, np.zeros(6), Seeds(1))
        paths = [path_of(protocol, 1, token).tolist() for token in (0, 1)]
        assert home.losses == pytest.approx(max(self.plain(path, 6, published) for path in paths))

    def test_losses_are_none_for_long_walks_and_histograms(self, monkeypatch):
        protocol = TokenWalk(KRR(categories=3, epsilon=1.0), n=6, steps=50, path="public")
        assert simulate.collect(protocol, np.zeros(6, int), Seeds(1)).losses is None
        monkeypatch.setattr(conditional_on_path, "_MOST_WORK", 100)
        protocol = TokenWalk(QUIET, n=6, steps=50, path="public")
        assert simulate.collect(protocol, np.zeros(6), Seeds(1)).losses is None

    def test_losses_are_none_for_hidden_path(self):
        protocol = TokenWalk(QUIET, n=6, steps=50)
        assert simulate.collect(protocol, np.zeros(6), Seeds(1)).losses is None

    def test_absent_people_are_counted_as_asked(self):
        values = np.zeros(5)
        protocol = TokenWalk(QUIET, n=5, steps=20, available=0.25)
        homes = [simulate.collect(protocol, values, Seeds(seed)) for seed in range(400)]
        assert {(home.reports, home.steps) for home in homes} == {(20, 20)}
        assert np.mean([home.sent for home in homes]) == pytest.approx(80, rel=0.05)
        there = simulate.collect(TokenWalk(QUIET, n=5, steps=20), values, Seeds(0))
        assert (there.sent, there.total) == (20, homes[0].total)

    def test_correlation_never_below_variance_of_any_mean(self):
        """Exactly, by powers of the weights; and it is nearly met by what mixes most slowly."""
        graph = barbell(4)
        weights = weights_of(graph).toarray()
        _, vectors = np.linalg.eigh(weights)
        functions = [vectors[:, -2], np.arange(8) % 2 - 0.5, np.eye(8)[3] - 1 / 8, vectors[:, 0]]
        for steps in (1, 2, 3, 10, 1000):
            bound = simulate.correlation(graph, steps)
            for f in functions:
                moved, total = f.copy(), f @ f
                for k in range(1, steps):
                    moved = weights @ moved
                    total += 2 * (1 - k / steps) * (f @ moved)
                assert total / (f @ f) <= bound * (1 + 1e-12)
                if steps == 1000 and f is functions[0]:
                    assert total / (f @ f) > 0.9 * bound

    def test_correlation_of_large_graphs_matches_dense(self, monkeypatch):
        graph = barbell(20)
        exact = simulate._second_eigenvalue(graph)
        monkeypatch.setattr(simulate, "_DENSE", 10)
        assert exact - 1e-12 <= simulate._second_eigenvalue(graph) <= exact + 1e-4

    def test_correlation_is_one_for_independent_draws(self):
        protocol = TokenWalk(QUIET, n=6, steps=80)
        assert simulate.collect(protocol, np.zeros(6), Seeds(1)).correlation == 1
        assert simulate.correlation(graphs.complete(6), 80) == pytest.approx(1)


GRAPH = {"topology": "graph", "graph": barbell(8), "steps": 4000, "cap": 4000}
COVERED = {
    "complete": {"n": 16, "steps": 150},
    "ring": {"n": 16, "topology": "ring", "laps": 5},
    "published ring": {"n": 16, "topology": "ring", "laps": 5, "published": True},
    "graph": GRAPH,
    "capped": {"n": 16, "steps": 150, "cap": 8, "path": "public"},
}


class TestIntervals:
    """95 % limits hold in 400 runs at least as often as 95 % would, by luck 1 in 1000."""

    SEEDS = 400
    FEWEST = int(binom.ppf(1e-3, SEEDS, 0.95))

    def covered(self, randomizer, values, truth, setting, correlated=True):
        protocol = TokenWalk(randomizer, **setting)
        hits = np.zeros(truth.shape)
        for seed in range(self.SEEDS):
            home = simulate.collect(protocol, values, Seeds(seed))
            if not correlated:
                object.__setattr__(home, "correlation", 1.0)
            low, high = home.estimate(randomizer).interval(0.95)
            hits += (low <= truth) & (truth <= high)
        return hits

    @pytest.fixture(autouse=True)
    def _paths_alone(self, monkeypatch):
        monkeypatch.setattr(conditional_on_path, "_MOST_WORK", 0)

    @pytest.mark.parametrize("setting", COVERED.values(), ids=COVERED)
    def test_mean_interval_covers(self, setting):
        values = np.repeat([0.0, 1.0], 8)
        hits = self.covered(QUIET, values, np.array(0.5), setting)
        assert hits >= self.FEWEST

    @pytest.mark.parametrize("setting", COVERED.values(), ids=COVERED)
    def test_histogram_interval_covers(self, setting):
        values = np.repeat([0, 1, 2], [6, 6, 4])
        response = KRR(categories=3, epsilon=2.0)
        hits = self.covered(response, values, np.array([6, 6, 4]) / 16, setting)
        assert np.all(hits >= self.FEWEST)

    def test_intervals_without_correlation_do_not_cover(self):
        values = np.repeat([0.0, 1.0], 8)
        hits = self.covered(QUIET, values, np.array(0.5), GRAPH, correlated=False)
        assert hits < 0.8 * self.SEEDS
