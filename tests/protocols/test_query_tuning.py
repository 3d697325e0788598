"""What a scrambled query costs, and the parameters that are chosen for a budget."""

import itertools

import numpy as np
import pytest

from incrowd.errors import BudgetInfeasible, InvalidParameter
from incrowd.protocols.runtime.actor import device
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.protocols.scrambled_query.cost import Load, query_messages
from incrowd.protocols.scrambled_query.plan.model import aggregate
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.protocols.scrambled_query.theorems.mechanisms import Scrambler
from incrowd.protocols.scrambled_query.tuning import Fitted, Limits, fit
from incrowd.randomizers import KRR
from incrowd.randomness import Seeds
from incrowd.sim import run
from incrowd.tasks.query import Column, Query

STEP = 1e-4


class TestLoad:
    def test_load_with_even_groups_counts_all_messages(self):
        """SF·(2n + d) + C messages for each set, and the channels and helpers that go with it."""
        query = ScrambledQuery(
            n=600,
            targets=20,
            redirect_probability=0.2,
            sources=100,
            dummies=50,
            grouping_sets=3,
            standby_scramblers=2,
        )
        load = Load.of(query)
        scramblers = 6
        assert load.messages == 3 * (scramblers * (2 * 100 + 50) + 20)
        assert load.baseline == 3 * (600 + 20)
        assert load.overhead == load.messages / load.baseline
        assert load.channels == 3 * (600 + scramblers * 20)
        assert (load.channels_per_scrambler, load.messages_per_scrambler) == (120, 250)
        assert load.channels_per_compute_node == scramblers + 1
        assert load.messages_per_compute_node == 1 + scramblers * 150 / 20
        assert (load.scramblers, load.compute_nodes) == (18, 60)
        assert load.helpers == 18 + 60 + 2 == len(query.helpers) - 1
        kept = 1 - 0.2 + 0.2 / 20
        assert load.tuples == pytest.approx((600 * kept,) * 3)
        assert load.extra_consents == pytest.approx(600 / kept - 600)

    def test_load_of_group_below_capacity_is_that_of_full_group(self):
        query = ScrambledQuery(n=250, targets=4, sources=100, dummies=7)
        assert Load.of(query).messages == 250 + 3 * 107 + 4
        assert Load.of(query).extra_consents == 0

    def test_load_with_one_set_each_counts_one_message_each(self):
        query = ScrambledQuery(
            n=605, targets=5, sources=100, dummies=10, grouping_sets=3, sets_per_person="one"
        )
        load = Load.of(query)
        # Three groups of 100 places for the 202 people of each set.
        assert load.messages == 605 + 3 * (3 * 110 + 5)
        assert load.messages == query_messages((5, 5, 5), 605, 100, 10, "one")
        assert load.baseline == 605 + 3 * 5
        assert load.scramblers == len(query.helpers) - 1 - 15
        assert sum(load.tuples) == 605
        assert query.cost().messages_per_person == 1

    def test_load_in_local_mode_counts_flooding(self):
        query = ScrambledQuery(
            n=300, targets=10, redirect_probability=0.5, dummies=3, hiding="local", grouping_sets=2
        )
        load = Load.of(query)
        assert load.messages == 2 * (300 * 4 + 10)
        assert load.channels == 2 * 300 * 4
        assert load.scramblers == load.channels_per_scrambler == load.messages_per_scrambler == 0
        assert load.channels_per_compute_node == 301
        assert load.messages_per_compute_node == 1 + 300 * 4 / 10
        assert load.helpers == 20
        # And a word to the curator for each set.
        assert query.cost().messages_per_person == 2 * (4 + 1)

    def test_load_with_few_cells_has_fewer_compute_nodes(self):
        letters = Column(name="letter", type="category", values=("a", "b", "c"), complete=True)
        digits = Column(name="digit", type="integer", low=0, high=19, complete=True)
        asked = Query(
            sql="SELECT letter, digit, COUNT(*) FROM t GROUP BY GROUPING SETS ((letter), (digit))",
            table="t",
            columns=(letters, digits),
        )
        query = ScrambledQuery(
            n=90, targets=10, redirect_probability=0.3, sources=30, dummies=5, query=asked
        )
        load = Load.of(query)
        assert load.compute_nodes == 13
        assert load.messages == query_messages((3, 10), 90, 30, 5) == 2 * (90 + 3 * 35) + 13
        assert load.messages_per_compute_node == 1 + 3 * 35 / 3
        assert load.channels_per_scrambler == 40
        # More compute nodes, fewer tuples by chance: the largest loss counts.
        assert load.tuples[0] > load.tuples[1]
        assert load.extra_consents == pytest.approx(90 / (1 - 0.3 * 0.9) - 90)

    @staticmethod
    def asking(**settings):
        """A query with two grouping sets of three cells, and the rows of everybody."""
        columns = tuple(
            Column(name=name, type="category", values=("x", "y", "z"), complete=True)
            for name in ("p", "q")
        )
        asked = Query(
            sql="SELECT p, q, COUNT(*) FROM t GROUP BY GROUPING SETS ((p), (q))",
            table="t",
            columns=columns,
        )
        if settings["hiding"] != "local":
            settings |= {"sources": 12}
        query = ScrambledQuery(
            targets=3, redirect_probability=0.4, dummies=2, query=asked, **settings
        )
        rows = np.random.default_rng(1).choice(["x", "y", "z"], (settings["n"], 2))
        return query, asked, rows

    @pytest.mark.parametrize("mode", ["scrambler", "capped", "local"])
    @pytest.mark.parametrize("answers", ["all", "one"])
    def test_load_equals_messages_sent_in_play(self, mode, answers):
        """What an observer counts in a run, the messages to scramblers and the results."""
        query, asked, rows = self.asking(n=50, hiding=mode, sets_per_person=answers)
        seen = query.collect(asked.encode(rows), Seeds(3)).traffic
        sent = sum(int(each.sum()) for each in seen)
        load = Load.of(query)
        to_scramblers = 0 if mode == "local" else load.baseline - 6
        assert load.messages == sent + to_scramblers + 6

    def test_load_of_other_reports_has_no_tuples(self):
        drawn = KRR(categories=3, epsilon=1.0)
        load = Load.of(ScrambledQuery(drawn, n=20, targets=3, sources=10, dummies=4))
        assert load.messages == 20 + 2 * 14 + 3
        assert load.tuples is load.extra_consents is None

    @pytest.mark.parametrize("mode", ["scrambler", "local"])
    @pytest.mark.parametrize("answers", ["all", "one"])
    def test_cost_per_person_equals_bytes_sent(self, mode, answers):
        query, asked, rows = self.asking(n=24, hiding=mode, sets_per_person=answers)
        sent = run(query, rows, task=asked, seed=2).played.traffic[device(5)]
        assert sent.messages == query.cost().messages_per_person
        assert sent.bytes == query.cost().bytes_per_person

    def test_described_load_is_plain_data(self):
        found = Load.of(ScrambledQuery(n=10, targets=3, sources=10)).described()
        assert found["network_load"] == 10 + 10 + 3
        assert found["tuples_expected"] == [10.0]
        assert all(isinstance(each, int | float | list) for each in found.values())


def _curve(targets, sampling, sources, dummies):
    profile = ScramblerProfile(targets, sampling, sources, dummies)
    return np.array([profile.delta(each) for each in (0.0, 0.1, 0.5, 1.0, 2.0)])


class TestMonotonicity:
    """That the curve falls in each parameter, and that a dummy hides no less than a person."""

    SETTINGS = tuple(
        itertools.product((2, 5, 20), (0.0, 0.01, 0.2, 0.6, 1.0), (1, 2, 40), (0, 1, 30))
    )

    @pytest.mark.parametrize(("targets", "sampling", "sources", "dummies"), SETTINGS)
    def test_curve_is_monotone_in_all_settings(self, targets, sampling, sources, dummies):
        here = _curve(targets, sampling, sources, dummies) * (1 + 1e-9) + 1e-15
        more_dummies = _curve(targets, sampling, sources, dummies + 1)
        more_people = _curve(targets, sampling, sources + 1, dummies)
        more_lies = _curve(targets, min(1.0, sampling + 0.05), sources, dummies)
        assert (more_dummies <= here).all()
        assert (more_people <= here).all()
        assert (more_lies <= here).all()
        assert (more_dummies <= more_people * (1 + 1e-9) + 1e-15).all()


def _met(targets, people, found, epsilon, delta, answers="all"):
    sampling, sources, dummies = found
    routings = [Scrambler(each, sampling, sources, dummies) for each in targets]
    return aggregate(routings, people, sets_per_person=answers).profile().delta(epsilon) <= delta


def _everything(targets, people, limits, most):
    """All groups and dummies within the limits, by the messages they take."""
    widest = min(people, limits.max_connections - max(targets))
    tried = itertools.product(range(1, widest + 1), range(most + 1))
    priced = ((query_messages(targets, people, *each), *each) for each in tried)
    return sorted(
        each for each in priced if limits.max_messages is None or each[0] <= limits.max_messages
    )


class TestFit:
    @pytest.mark.parametrize(
        ("targets", "people", "epsilon", "limits", "most"),
        [
            ((4,), 23, 1.0, Limits(max_connections=12), 90),
            ((4,), 23, 1.0, Limits(max_connections=27, max_messages=60), 20),
            ((4,), 24, 1.5, Limits(max_connections=12, max_messages=75), 20),
            ((3,), 30, 1.0, Limits(max_connections=50, max_messages=63), 5),
            ((3,), 30, 1.0, Limits(max_connections=13, max_messages=64), 5),
            ((4,), 17, 2.0, Limits(max_connections=9, max_messages=50), 12),
            ((5, 2), 16, 3.0, Limits(max_connections=15, max_messages=90), 20),
            # More scramblers than are needed: groups that divide everybody evenly cost less.
            ((2,), 21, 3.0, Limits(max_connections=19, max_messages=44), 3),
            ((2,), 16, 3.0, Limits(max_connections=8, max_messages=38), 6),
            ((4,), 36, 3.0, Limits(max_connections=12, max_messages=84), 12),
        ],
    )
    def test_fit_equals_exhaustive_search(self, targets, people, epsilon, limits, most):
        delta = 1e-2
        found = fit(targets, people, epsilon=epsilon, delta=delta, limits=limits)
        chosen = (found.redirect_probability, found.sources, found.dummies)
        every = _everything(targets, people, limits, most)
        routings = [Scrambler(each, *chosen) for each in targets]
        assert aggregate(routings, people).profile().epsilon(delta) == found.epsilon <= epsilon
        assert _met(targets, people, chosen, epsilon, delta)
        messages = query_messages(targets, people, found.sources, found.dummies)
        assert messages in {each[0] for each in every}
        for tried in every:
            if tried[0] >= messages:
                break
            assert not _met(
                targets, people, (found.redirect_probability, *tried[1:]), epsilon, delta
            )
        if found.redirect_probability:
            less = round(found.redirect_probability - STEP, 4)
            shapes = [each[1:] for each in every]
            assert not any(_met(targets, people, (less, *one), epsilon, delta) for one in shapes)

    def test_fit_without_limits_has_no_sampling(self):
        found = fit((20,), 10_000, epsilon=1.0, delta=1e-4)
        assert found.redirect_probability == 0
        assert found.sources + 20 <= 1000
        own = ScramblerProfile(20, 0.0, found.sources, found.dummies)
        assert own.epsilon(1e-4) == pytest.approx(found.epsilon)
        assert ScramblerProfile(20, 0.0, found.sources, found.dummies - 1).epsilon(1e-4) > 1.0

    def test_fit_with_load_limit_uses_sampling(self):
        found = fit((20,), 10_000, epsilon=1.0, delta=1e-4, limits=Limits(max_messages=22_000))
        assert 0 < found.redirect_probability < 1
        assert query_messages((20,), 10_000, found.sources, found.dummies) <= 22_000
        protocol = ScrambledQuery(
            n=10_000, targets=20, redirect_probability=found.redirect_probability,
            sources=found.sources, dummies=found.dummies,
        )  # fmt: skip
        assert protocol.guarantee("network").epsilon(1e-4) <= 1.0

    def test_fit_for_million_people_keeps_budget(self):
        few = fit((20,), 10**6, epsilon=1.0, delta=1e-6, limits=Limits(max_messages=2_300_000))
        assert few.redirect_probability > 0
        assert few.epsilon <= 1.0
        assert fit((20,), 10**6, epsilon=0.5, delta=1e-6).redirect_probability == 0

    def test_fit_shares_budget_among_sets(self):
        one = fit((20,), 2000, epsilon=1.0, delta=1e-4)
        four = fit((20,) * 4, 2000, epsilon=1.0, delta=1e-4)
        either = fit((20,) * 4, 2000, epsilon=1.0, delta=1e-4, sets_per_person="one")
        assert one.dummies < four.dummies < 16 * one.dummies
        assert either.dummies == one.dummies

    def test_guarantee_without_sampling_and_dummies_is_void(self):
        bare = ScrambledQuery(n=50, targets=4, sources=50, grouping_sets=3).guarantee("network")
        assert bare.epsilon(1e-4) == np.inf
        assert bare.delta(5.0) == 1

    def test_fit_with_single_targets_needs_nothing(self):
        assert fit((1, 1), 50, epsilon=0.1, delta=1e-6) == Fitted(
            redirect_probability=0.0, sources=50, dummies=0, epsilon=0.0
        )

    def test_fit_refusal_names_nearest_epsilon(self):
        limits = Limits(max_messages=21_000, max_extra_people=0.05)
        with pytest.raises(BudgetInfeasible) as refused:
            fit((20,), 10_000, epsilon=0.5, delta=1e-4, limits=limits)
        told = str(refused.value)
        assert "\n" not in told
        assert "raise max_messages (now 21,000) or max_extra_people (now 0.05)" in told
        nearest = float(told.split("the least epsilon at this delta is ")[1].split(";")[0])
        found = fit((20,), 10_000, epsilon=nearest, delta=1e-4, limits=limits)
        assert 1 / (1 - found.redirect_probability * 0.95) - 1 <= 0.05
        with pytest.raises(BudgetInfeasible):
            fit((20,), 10_000, epsilon=nearest * 0.999, delta=1e-4, limits=limits)

    def test_fit_refusal_says_when_no_epsilon_works(self):
        """Without lies a compute node that gets no dummy gives its only message away."""
        limits = Limits(max_messages=230, max_extra_people=0.0)
        with pytest.raises(
            BudgetInfeasible, match=r"none is, .*; raise max_messages .* or max_extra_people"
        ):
            fit((20,), 100, epsilon=1.0, delta=1e-4, limits=limits)

    def test_fit_rejects_limits_without_room(self):
        with pytest.raises(BudgetInfeasible, match="max_connections must be at least 21"):
            fit((20,), 100, epsilon=1.0, delta=1e-4, limits=Limits(max_connections=20))
        with pytest.raises(BudgetInfeasible, match="max_messages must be at least 220"):
            fit((20,), 100, epsilon=1.0, delta=1e-4, limits=Limits(max_messages=219))
        assert (
            fit((20,), 100, epsilon=1.0, delta=1e-4, limits=Limits(max_messages=220)).dummies == 0
        )
        with pytest.raises(InvalidParameter, match="max_extra_people"):
            fit((20,), 100, epsilon=1.0, delta=1e-4, limits=Limits(max_extra_people=-1))
        with pytest.raises(InvalidParameter, match="grouping set"):
            fit((), 100, epsilon=1.0, delta=1e-4)


def test_fit_rejects_given_settings_outside_budget_or_limits():
    with pytest.raises(BudgetInfeasible, match=r"it is 2\.087"):
        fit([8], 1000, epsilon=0.5, delta=1e-6, redirect_probability=0.1, dummies=5)
    with pytest.raises(BudgetInfeasible, match="max_messages would be"):
        fit([8], 1000, epsilon=0.5, delta=1e-6, sources=10, limits=Limits(max_messages=3000))
    with pytest.raises(BudgetInfeasible, match="max_connections would be"):
        fit([8], 1000, epsilon=0.5, delta=1e-6, sources=600, limits=Limits(max_connections=500))
    with pytest.raises(BudgetInfeasible, match="max_extra_people would be"):
        fit(
            [8],
            1000,
            epsilon=0.5,
            delta=1e-6,
            sources=500,
            dummies=5,
            limits=Limits(max_extra_people=0.1),
        )
    found = fit([8], 1000, epsilon=0.5, delta=1e-6, sources=500, dummies=50)
    assert (found.sources, found.dummies) == (500, 50)
    # The least lies that do: a step less does not.
    with pytest.raises(BudgetInfeasible):
        fit([8], 1000, epsilon=0.5, delta=1e-6, sources=500, dummies=50,
            redirect_probability=found.redirect_probability - 1e-4)  # fmt: skip
