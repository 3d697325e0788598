"""What an order-private shuffle guarantees, to whom, and what takes the guarantee away."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

import incrowd as ic
from incrowd import sim
from incrowd.blocks import values_of
from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.protocols.capabilities import check_live
from incrowd.protocols.order_shuffle import groupings
from incrowd.protocols.order_shuffle.mechanism import Mechanism
from incrowd.protocols.order_shuffle.orders.reference import given_order
from incrowd.protocols.run import guarantees
from incrowd.protocols.runtime.cover import CellFormat
from incrowd.randomizers import KRR, Gaussian, Generic, Unstated
from incrowd.tasks import Placed

VIEWS = ("curator", "curator+hub", "curator+shuffler", "everyone")
PAIRS = groupings.from_lists([[0, 2], [1]])


def shuffle(randomizer=None, grouping=PAIRS, **settings):
    settings = {"alpha": 2.0} | settings
    return ic.OrderShuffle(
        randomizer or ic.KRR(categories=2, epsilon=1.0), groups=grouping, **settings
    )


def placed(who, unread=0, **more):
    who = np.asarray(who)
    at = np.arange(len(who) - unread)
    reports = np.zeros(len(at), np.uint8)
    return Placed(rounds=(reports,), sent=len(who), who=who, at=at, **more)


class TestViews:
    def test_curator_is_held_off_by_shuffle_and_all_views_by_randomizer(self):
        protocol = shuffle()
        about = {view: protocol.order_guarantee(view) for view in VIEWS}
        assert about["curator"].alpha <= 2
        assert about["curator"].neighbours == "reports-in-group"
        for view in VIEWS[1:]:
            assert about[view].alpha == 2.0  # two people of two answers, at ε0 = 1 each
            assert about[view].neighbours == "answers-in-group"
        assert {each.notion for each in guarantees(protocol)} == {"dp", "order"}

    def test_cover_holds_off_a_hub_that_helps(self):
        covered = shuffle().covered(1e-6, CellFormat(capacity=900, record=4, seal=60))
        with_hub = covered.order_guarantee("curator+hub")
        assert with_hub.alpha == covered.order_guarantee("curator").alpha
        assert "cover" in with_hub.theorem

    def test_answers_have_the_epsilon_of_the_randomizer_against_everyone(self):
        for view in VIEWS:
            assert shuffle().guarantee(view).epsilon(1e-9) == pytest.approx(1.0, rel=1e-6)

    def test_unstated_randomizer_gives_no_guarantee_of_answers(self):
        protocol = shuffle(Unstated())
        assert math.isinf(protocol.guarantee().profile.greatest_loss)
        assert protocol.order_guarantee("everyone") is None
        assert protocol.order_guarantee().alpha <= 2

    def test_guarantee_before_places_are_known_is_planned_alpha(self):
        plan = ic.OrderShuffle(ic.KRR(categories=2, epsilon=1.0), n=50, alpha=0.5, radius=1.0)
        assert plan.order_guarantee().alpha == 0.5
        assert plan.order_guarantee("everyone").alpha == 50.0
        by_theta = ic.OrderShuffle(ic.KRR(categories=2, epsilon=1.0), n=50, theta=0.5, radius=1.0)
        assert by_theta.order_guarantee() is None


class TestComposition:
    def test_releases_about_the_same_groups_add_up(self):
        one = shuffle(alpha=1.0).order_guarantee()
        both = one.compose(shuffle(alpha=0.25).order_guarantee())
        assert both.alpha == pytest.approx(1.25)
        assert both.alpha >= Fraction(one.alpha) + Fraction(0.25) - Fraction(1, 10**12)
        assert both.notion == "order"

    @pytest.mark.parametrize(
        "other",
        [
            shuffle(grouping=groupings.from_lists([[0, 1], [2]])).order_guarantee(),
            shuffle().guarantee(),
            shuffle().order_guarantee("everyone"),
        ],
    )
    def test_releases_about_other_groups_do_not_add_up(self, other):
        with pytest.raises(InvalidParameter, match="cannot compose"):
            shuffle().order_guarantee().compose(other)

    def test_releases_about_unknown_groups_do_not_add_up(self):
        plan = ic.OrderShuffle(ic.KRR(categories=2, epsilon=1.0), n=9, alpha=1.0, radius=1.0)
        with pytest.raises(InvalidParameter, match="not known"):
            plan.order_guarantee().compose(plan.order_guarantee())

    def test_only_an_order_has_an_alpha(self):
        with pytest.raises(InvalidParameter, match="epsilon"):
            _ = shuffle().guarantee().alpha


def exact_alpha(mechanism, marks):
    """The true α over θ, where the people outside the pair {0, 2} have reports of their own."""
    order = mechanism.order.people.tolist()
    ranks = mechanism.order.ranks.tolist()

    def law(word):
        found = {}
        for tau in permutations(range(len(word))):
            released = [None] * len(word)
            for person in range(len(word)):
                released[person] = word[order[tau[ranks[person]]]]
            inversions = sum(tau[i] > tau[j] for j in range(len(word)) for i in range(j))
            key = tuple(released)
            found[key] = found.get(key, 0) + Fraction(1, 2) ** inversions
        return found

    one, other = law((0, marks, 1)), law((1, marks, 0))
    return max(math.log2(one[key] / other[key]) for key in one)


class TestFewValues:
    def test_two_answers_halve_what_has_to_be_shuffled(self):
        plain, few = shuffle().mechanism, shuffle(few_values=True).mechanism
        assert (plain.sensitivity, few.sensitivity) == (1, 1)
        triple = groupings.from_lists([[0, 1, 2, 3]])
        assert shuffle(grouping=triple).mechanism.sensitivity == 6
        assert shuffle(grouping=triple, few_values=True).mechanism.sensitivity == 4

    def test_marked_report_removes_gain_of_few_values(self):
        # Person 1 stands between the two of the group, and their report can be told from others.
        mechanism = Mechanism(PAIRS, given_order([0, 1, 2]), "kendall", 2, target=None, fixed=1.0)
        assert exact_alpha(mechanism, 0) == mechanism.alpha == 2.0
        assert exact_alpha(mechanism, "mark") == mechanism.marked_alpha == 3.0
        assert mechanism.alpha_for(PAIRS) == 2.0
        assert mechanism.alpha_for(PAIRS, marked=True) == 3.0

    def test_colluders_and_unreadable_reports_are_charged_as_marked(self):
        protocol = ic.OrderShuffle(
            ic.KRR(categories=2, epsilon=9.0),
            groups=PAIRS,
            order=[0, 1, 2],
            alpha=2.0,
            few_values=True,
        )
        assert protocol.order_guarantee().alpha == 2.0
        assert protocol.order_guarantee(colluders=1).alpha == 3.0
        assert protocol.conditional_on(placed([0, 1, 2])).order_guarantee().alpha == 2.0
        assert 3.0 in values_of(protocol.diagnostics(0.0, protocol.guarantee(), 1))["group_alpha"]
        happened = protocol.conditional_on(placed([0, 1, 2], unread=1))
        assert happened.order_guarantee().alpha == 3.0
        assert 3.0 in values_of(happened.diagnostics(0.0, happened.guarantee()))["group_alpha"]

    def test_marked_reports_do_not_matter_without_few_values(self):
        protocol = ic.OrderShuffle(ic.KRR(categories=2, epsilon=9.0), groups=PAIRS, alpha=2.0)
        for happened in (protocol, protocol.conditional_on(placed([0, 1, 2], unread=1))):
            assert happened.order_guarantee(colluders=1).alpha <= 2.0


class TestAttendance:
    def test_given_theta_guarantees_no_less_to_fewer_people(self):
        rng = np.random.default_rng(5)
        for _ in range(40):
            n = int(rng.integers(5, 12))
            groups = [rng.choice(n, int(rng.integers(2, 5)), replace=False) for _ in range(n)]
            grouping = groupings.from_lists(
                [*map(list, groups), list(range(n))[:2], *([k] for k in range(n))]
            )
            planned = shuffle(grouping=grouping, alpha=None, theta=1.0)
            who = np.sort(rng.choice(n, n - 2, replace=False))
            happened = planned.conditional_on(placed(who))
            assert happened.order_guarantee().alpha <= planned.order_guarantee().alpha

    def test_release_of_nobody_is_refused(self):
        with pytest.raises(ProtocolFailed, match="none"):
            shuffle().conditional_on(placed([]))

    def test_given_theta_is_for_single_machine(self):
        with pytest.raises(InvalidParameter, match="give alpha"):
            check_live(shuffle(alpha=None, theta=0.1))
        check_live(shuffle(alpha=None, theta=0.1, distance="hamming"))

    def test_given_theta_assumes_full_attendance_before_run(self):
        """Among the others an order is found anew, and it can be worse than what is left."""
        task = ic.Release(categories=("a", "b"), groups="near")
        values = task.encode(
            np.array([["a", "e;d;a"], ["a", "b;d;c"], ["a", "c;b;d"], *(["a", x] for x in "eac")])
        )
        asked = ic.OrderShuffle(KRR(categories=2, epsilon=1.0), n=6, theta=0.1).bound_to(task)
        before = asked.prospective(values).order_guarantee()
        assert any("everybody comes" in each for each in before.assumptions)
        worst = max(
            asked.subset(range(5)).prospective(np.delete(values, away)).order_guarantee().alpha
            for away in range(6)
        )
        assert worst > before.alpha
        sure = ic.OrderShuffle(KRR(categories=2, epsilon=1.0), n=6, alpha=1.0).bound_to(task)
        assert not any("comes" in x for x in sure.prospective(values).order_guarantee().assumptions)

    @pytest.mark.parametrize(
        "randomizer", [Gaussian(epsilon=1.0, delta=1e-6), Generic(epsilon=1.0, delta=1e-6)]
    )
    def test_only_a_pure_randomizer_protects_an_order(self, randomizer):
        """However far apart two values of a Gaussian are, no ratio bounds them."""
        found = ic.OrderShuffle(randomizer, groups=groupings.from_lists([[0, 1, 2]]), alpha=1.0)
        assert found.local_alpha == math.inf
        assert found.order_guarantee("everyone") is None
        assert found.order_guarantee().alpha <= 1

    def test_doubles_are_for_simulations(self):
        with pytest.raises(InvalidParameter, match="exact"):
            check_live(shuffle(exact=False))
        assert any("doubles" in each for each in shuffle(exact=False).order_guarantee().assumptions)

    def test_people_alone_are_told_so(self):
        alone = shuffle(grouping=groupings.from_lists([[0], [1], [2]]))
        assert alone.order_guarantee() is None
        assert alone.order_guarantee("everyone") is None
        assert {each.notion for each in guarantees(alone)} == {"dp"}
        told = values_of(alone.shuffled())
        assert told["median_alpha"] is None
        assert "alone" in told["shuffled"]
        assert alone.mechanism.sources(np.random.default_rng(1)).tolist() == [0, 1, 2]

    @pytest.mark.parametrize("distance", ["kendall", "hamming"])
    def test_huge_alpha_moves_nobody(self, distance):
        found = shuffle(alpha=1e9, distance=distance).mechanism
        assert found.sources(np.random.default_rng(1)).tolist() == [0, 1, 2]
        assert found.alpha <= 1e9

    def test_impossible_places_become_origin_in_all_executions(self):
        task = ic.Release(categories=("a", "b"), coordinates=("lat", "lon"))
        protocol = ic.OrderShuffle(
            ic.KRR(categories=3, epsilon=1.0), n=3, alpha=1.0, radius=1.0, metric="haversine"
        )
        rows = np.array([["a", "50", "10"], ["b", "95", "10"], ["a", "", "x"]])
        for execution in (
            protocol.simulate(rows, task=task, seed=1),
            sim.run(protocol, rows, task=task, seed=1),
        ):
            assert execution.collected.points.tolist() == [[50, 10], [0, 0], [0, 0]]


class TestGroups:
    def test_grouping_of_other_people_is_refused(self):
        with pytest.raises(InvalidParameter, match="grouping"):
            shuffle(grouping=np.zeros((3, 2)))
        with pytest.raises(InvalidCrowd, match="3 people, but n = 5"):
            shuffle(n=5)

    def test_people_alone_are_counted(self):
        some = groupings.from_lists([[0, 1], [2], [3]])
        assert shuffle(grouping=some).mechanism.alone == 2
        found = values_of(shuffle(grouping=some).shuffled())
        assert found["people_alone"] == 2
        assert found["group_alpha"].count(None) == 2
        assert found["median_alpha"] == max(each for each in found["group_alpha"] if each)

    def test_plan_is_foreseen_in_groups_of_its_data(self):
        task = ic.Release(categories=("a", "b"), coordinates=("x",))
        plan = ic.OrderShuffle(
            ic.KRR(categories=2, epsilon=1.0), n=4, alpha=1.0, radius=1.0
        ).bound_to(task)
        values = task.encode(np.array([["a", "0"], ["b", "1"], ["a", "5"], ["a", "9"]]))
        assert plan.order_guarantee("everyone").alpha == 4.0
        assert plan.prospective(values).order_guarantee("everyone").alpha == 2.0

    @pytest.mark.parametrize(
        ("settings", "columns", "said"),
        [
            ({"method": "hilbert"}, ("x",), "hilbert needs"),
            ({"method": "strips", "shape": "square"}, ("x", "y"), "strips needs"),
            ({"method": "label"}, ("x", "y"), "label needs"),
            ({"shape": "square"}, ("x", "y", "z"), "one or two"),
            ({"metric": "haversine"}, ("x",), "two coordinates"),
        ],
    )
    def test_impossible_draw_is_refused_before_answers(self, settings, columns, said):
        task = ic.Release(categories=("a", "b"), coordinates=columns)
        plan = ic.OrderShuffle(
            ic.KRR(categories=2, epsilon=1.0), n=4, alpha=1.0, radius=1.0, **settings
        )
        with pytest.raises(InvalidParameter, match=said):
            plan.bound_to(task)

    def test_hamming_looks_for_no_order(self):
        assert shuffle(distance="hamming").mechanism.order.method == "any"

    def test_colluders_undo_few_values_before_groups_are_known(self):
        plan = ic.OrderShuffle(
            ic.KRR(categories=2, epsilon=1.0), n=40, alpha=1.0, radius=1.0, few_values=True
        )
        assert any("categories" in each for each in plan.order_guarantee().assumptions)
        assert plan.order_guarantee(colluders=5) is None

    def test_randomizer_alone_guarantees_nothing_without_people(self):
        nobody = ic.OrderShuffle(ic.KRR(categories=2, epsilon=1.0), alpha=1.0, radius=1.0)
        assert nobody.order_guarantee("everyone") is None
        assert len(guarantees(nobody)) == 5
