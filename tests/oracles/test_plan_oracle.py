"""Plans against enumeration of all that can be sent and seen, and against the printed rules."""

import math
import random
from itertools import product

import pytest
from plan_enumeration import (
    divergence,
    either_way,
    noisy_answer,
    noisy_count,
    nothing,
    outcomes,
    seen,
    truth_and_lie,
)
from scipy.stats import multinomial

from incrowd.privacy import ComposedProfile
from incrowd.privacy.pure import PureProfile
from incrowd.protocols.scrambled_query.plan.dependency import charges
from incrowd.protocols.scrambled_query.plan.model import (
    OWN,
    Cluster,
    Plan,
    Stage,
    aggregate,
    kmeans,
)
from incrowd.protocols.scrambled_query.theorems.group_privacy import GroupProfile, TogetherProfile
from incrowd.protocols.scrambled_query.theorems.mechanisms import (
    CappedScrambler,
    Flooding,
    Scrambler,
)

LN3 = math.log(3)


# Clusters on different paths of one tuple add up.


def test_tuple_in_two_clusters_exceeds_longest_path_rule():
    p, r = truth_and_lie(4, 0.4)
    joint = max(math.log(p / r) + math.log(a / b) for a, b in product((p, r), repeat=2) if a >= b)
    assert joint == pytest.approx(3.8918, abs=1e-4)
    one = Scrambler(4, 0.4, 1, 0)
    profile = aggregate([one, one], 1).profile()
    assert joint <= profile.greatest_loss < joint * 1.0001
    assert one.profile().greatest_loss == pytest.approx(1.9459, abs=1e-4)  # any single path
    assert one.profile().greatest_loss < joint


def two_sets(targets, sampling, n, dummies):
    """The joint law of two clusters with coins of their own, for either value of the victim."""
    laws = []
    for victim in (0, 1):
        one = seen(
            outcomes((victim,) + (2 % targets,) * (n - 1), targets, sampling, dummies), nothing
        )
        laws.append({(a, b): x * y for (a, x), (b, y) in product(one.items(), repeat=2)})
    return laws


@pytest.mark.parametrize(
    ("targets", "sampling", "n", "dummies"),
    [(4, 0.4, 1, 0), (2, 0.5, 3, 0), (3, 0.5, 3, 1), (3, 0.3, 4, 0), (2, 0.0, 1, 3)],
)
def test_two_grouping_sets_never_below_exact_joint_curve(targets, sampling, n, dummies):
    first, second = two_sets(targets, sampling, n, dummies)
    profile = aggregate([Scrambler(targets, sampling, n, dummies)] * 2, n).profile()
    for epsilon in (0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0):
        assert profile.delta(epsilon) >= either_way(first, second, epsilon) * (1 - 1e-9)


def test_mixed_losses_on_shared_grid_err_upwards():
    """Randomized response of very different sizes, with and without a small release."""
    large, small = (8, 0.2), (2, 0.95)
    laws = []
    for victim in (0, 1):
        law = {}
        for seen_ in product(range(8), range(2), range(2)):
            chance = 1.0
            for (targets, sampling), y in zip((large, small), seen_[:2], strict=True):
                p, r = truth_and_lie(targets, sampling)
                chance *= p if y == victim else r
            right = math.exp(0.01) / (1 + math.exp(0.01))
            law[seen_] = chance * (right if seen_[2] == victim else 1 - right)
        laws.append(law)
    parts = tuple((Scrambler(*each, 1, 0).profile(), 1) for each in (large, small))
    profile = TogetherProfile((*parts, (PureProfile(0.01), 1)))
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0, 3.4, 3.5):
        exact = either_way(*laws, epsilon)
        assert exact * (1 - 1e-9) <= profile.delta(epsilon) <= exact * 1.02 + 0.002


@pytest.mark.parametrize(
    ("targets", "sampling", "n", "dummies"), [(4, 0.4, 1, 0), (2, 0.0, 1, 3), (5, 0.7, 1, 0)]
)
def test_joint_curve_lowered_by_two_percent_is_below_exact(targets, sampling, n, dummies):
    first, second = two_sets(targets, sampling, n, dummies)
    profile = aggregate([Scrambler(targets, sampling, n, dummies)] * 2, n).profile()
    floor = divergence(first, second, 50.0)
    for delta in (0.02, 0.1, 0.3):
        if delta > floor:
            lowered = 0.98 * profile.epsilon(delta)
            assert either_way(first, second, lowered) > delta


def test_convolving_never_exceeds_adding_up():
    one = Scrambler(20, 0.5, 600, 300)
    both = aggregate([one] * 2, 6000).profile()
    for delta in (1e-3, 1e-5, 1e-8):
        added = 2 * one.profile().epsilon(delta / 2)
        assert both.epsilon(delta) < 0.8 * added
    far = 1e-200  # no convolution certifies this
    assert both.epsilon(far) <= 2 * one.profile().epsilon(far / 2) * (1 + 1e-9)


def test_people_with_one_set_each_get_worst_curve():
    small, large = Scrambler(4, 0.5, 40, 10), Scrambler(8, 0.3, 40, 10)
    profile = aggregate([small, large], 400, sets_per_person="one").profile()
    for delta in (1e-3, 1e-6):
        assert profile.epsilon(delta) == max(
            each.profile().epsilon(delta) for each in (small, large)
        )
    assert profile.epsilon(1e-6) < aggregate([small, large], 400).profile().epsilon(1e-6)


# The chance that mixes must not be seen later.


def chained(first, second=None):
    """People, compute nodes, and nodes to which these send by what they heard."""
    return Plan(
        (
            Stage("people", "source", 6),
            Stage("scramblers", "scrambler", 1),
            Stage("compute", "compute", 2),
            Stage("later", "simple", 2),
        ),
        (
            Cluster("first", "people", "compute", first, through="scramblers"),
            Cluster("second", "compute", "later", second or first, ("first",)),
        ),
    )


def test_later_cluster_depending_on_redirection_undoes_mixing():
    routing, epsilon = Scrambler(2, 0.5, 6, 0), 0.25

    def others(real):  # what comes later depends on the others alone
        return {real[1:]: 1.0}

    hidden = [seen(outcomes((v, 0, 0, 0, 0, 0), 2, 0.5), nothing) for v in (0, 1)]
    betrayed = [seen(outcomes((v, 0, 0, 0, 0, 0), 2, 0.5), others) for v in (0, 1)]
    exact = either_way(*betrayed, epsilon)
    assert either_way(*hidden, epsilon) == pytest.approx(0.102, abs=1e-3)
    assert exact == pytest.approx(0.429, abs=1e-3)
    assert exact > 2.9 * routing.profile().delta(epsilon)  # the mixing does not cover it
    plan = chained(routing)
    assert [(each.name, each.means, each.changes) for each in charges(plan, "people")] == [
        ("first", "lies", 1),
        ("second", "mixing", 1),
    ]
    assert plan.profile().delta(epsilon) >= exact


def test_later_cluster_without_sampling_sees_tuple_move_between_two_nodes():
    plan = chained(Scrambler(2, 0.0, 6, 30), Scrambler(2, 0.5, 2, 0))
    assert [(each.name, each.means, each.changes) for each in charges(plan, "people")] == [
        ("first", "mixing", 1),
        ("second", "mixing", 2),
    ]


# k-means without a release


def lloyd(points, centroids):
    targets = [min((0, 1), key=lambda k: abs(x - centroids[k])) for x in points]
    groups = [[x for x, t in zip(points, targets, strict=True) if t == k] for k in (0, 1)]
    means = [sum(g) / len(g) if g else c for g, c in zip(groups, centroids, strict=True)]
    return targets, means


def test_kmeans_point_reroutes_everybody_in_next_round():
    here, there = ([first, 10, 10, *[4.9] * 8] for first in (1, -100))
    laws = []
    for points in (here, there):
        once, means = lloyd(points, (0, 10))
        twice, _ = lloyd(points, means)
        laws.append((once, twice))
    (once, twice), (once_, twice_) = laws
    assert once == once_
    moved = sum(a != b for a, b in zip(twice, twice_, strict=True))
    assert moved == 8
    p, r = truth_and_lie(2, 0.5)
    exact = moved * math.log(p / r)  # everyone told the truth: P/P' = (p/r)^moved
    assert exact == pytest.approx(8 * LN3)
    routing = Scrambler(2, 0.5, 1, 0)  # alone behind a scrambler: every target is seen
    plan = kmeans(routing, 11, iterations=2)
    assert plan.profile().greatest_loss >= exact
    assert 2 * routing.profile().greatest_loss == pytest.approx(2 * LN3)  # the printed rule
    assert 2 * routing.profile().greatest_loss < exact
    noisy = kmeans(routing, 11, iterations=2, release=0.5)
    assert [each.changes for each in charges(noisy, "people")] == [1, 2, 1]


# A release after lies


def third_target(n, targets, sampling, release):
    """All others at a third target: counts at the victim's two, and a noisy number of real tuples.

    Whoever of the others is not at the third target lied, so counts and number tell on each other.
    """
    p, r = truth_and_lie(targets, sampling)
    laws = []
    for victim in (0, 1):
        law = {}
        for a in range(n):
            for b in range(n - a):
                chance = multinomial.pmf([a, b, n - 1 - a - b], n - 1, [r, r, p])
                for y in range(3):
                    counts = (a + (y == 0), b + (y == 1))
                    real = n - 1 - a - b + (y == victim)
                    share = chance * (p if y == victim else r)
                    law.setdefault(counts, {}).setdefault(real, 0.0)
                    law[counts][real] += share
        q = math.exp(-release)
        noisy = {}
        for counts, numbers in law.items():
            for k in range(n + 1):
                inner = (1 - q) / (1 + q) if 0 < k < n else 1 / (1 + q)
                noisy[counts, k] = sum(w * inner * q ** abs(k - x) for x, w in numbers.items())
        laws.append(noisy)
    return laws


def test_traffic_and_release_costs_do_not_simply_add():
    routing, release, epsilon = Scrambler(3, 0.5, 40, 0), 2.0, 1.25
    exact = divergence(*third_target(40, 3, 0.5, release), epsilon + release)
    mixed = routing.profile().delta(epsilon)
    assert exact > 80 * mixed
    plain = ComposedProfile(((routing.profile(), 1), (PureProfile(release), 1)))
    assert plain.delta(epsilon + release) < exact  # what adding the two would guarantee
    right = aggregate([routing], 40, release_epsilon=release).profile(released=True)
    assert right.delta(epsilon + release) >= exact
    twice = TogetherProfile(((routing.profile(), 1), (PureProfile(2 * release), 1)))
    assert twice.delta(epsilon + 2 * release) <= mixed * (1 + 1e-6)


def asked(real):
    return real[1]


RELEASES = [
    noisy_count(0.7),
    noisy_answer(0.7, asked),
    noisy_answer(0.7, lambda real: sum(real) % 2 == 0),
    noisy_answer(0.7, all),
]


@pytest.mark.parametrize("release", RELEASES, ids=["count", "person", "parity", "all"])
@pytest.mark.parametrize(
    ("targets", "sampling", "n", "dummies"),
    [(2, 0.5, 3, 0), (2, 0.5, 4, 1), (3, 0.6, 3, 0), (3, 0.9, 3, 1), (2, 0.0, 2, 2)],
)
def test_traffic_and_pure_release_never_below_enumeration(targets, sampling, n, dummies, release):
    plan = aggregate([Scrambler(targets, sampling, n, dummies)], n, release_epsilon=0.7)
    profile = plan.profile(released=True)
    mixed = Scrambler(targets, sampling, n, dummies).profile()
    records = 2 if sampling else 1
    for others in product(range(targets), repeat=n - 1):
        laws = [seen(outcomes((v, *others), targets, sampling, dummies), release) for v in (0, 1)]
        for epsilon in (0.1, 0.3, 0.6, 1.0):
            beyond = epsilon + records * 0.7
            assert either_way(*laws, beyond) <= mixed.delta(epsilon) * (1 + 1e-9)
        for epsilon in (0.0, 0.4, 0.9, 1.3, 1.8):
            assert either_way(*laws, epsilon) <= profile.delta(epsilon) * (1 + 1e-9)


def test_absent_sources_and_unmatched_tuples_are_covered():
    targets, sampling, n = 3, 0.6, 3
    profile = aggregate([Scrambler(targets, sampling, n, 0)], n, release_epsilon=0.7).profile(
        released=True
    )
    release = noisy_count(0.7)
    for others in product((0, 1, 2, None), repeat=n - 1):
        laws = [seen(_with_absent((v, *others), targets, sampling), release) for v in (0, 1, None)]
        for first, second in ((0, 1), (0, 2)):
            for epsilon in (0.0, 0.4, 0.9, 1.3):
                exact = either_way(laws[first], laws[second], epsilon)
                assert exact <= profile.delta(epsilon) * (1 + 1e-9)


def _with_absent(true, targets, sampling):
    """Whoever has no target sends a uniform message without a tuple."""
    here = [t for t in true if t is not None]
    found = {}
    for counts, real, chance in outcomes(tuple(here), targets, sampling, len(true) - len(here)):
        flags = iter(real)
        who = tuple(False if t is None else next(flags) for t in true)
        found[counts, who] = found.get((counts, who), 0.0) + chance
    return [(h, who, chance) for (h, who), chance in found.items()]


def test_capped_scrambler_before_release_pays_local_epsilon():
    plan = aggregate([CappedScrambler(3, 0.5, 10, 2)], 10, release_epsilon=0.5)
    (lies, noise) = charges(plan, "people", released=True)
    assert (lies.means, noise.changes) == ("lies", 1)
    exact = CappedScrambler(3, 0.5, 10, 2).local_epsilon + 0.5
    assert plan.profile(released=True).greatest_loss == pytest.approx(exact)


def test_flooding_pays_for_release_once():
    targets, sampling, dummies, release = 3, 0.6, 1, 0.7
    p, r = truth_and_lie(targets, sampling)
    count, laws = noisy_count(release), []
    for victim in (0, 1):
        law = {}
        for sent in range(targets):
            chance = p if sent == victim else r
            for extra in range(targets):
                if extra == sent:
                    continue
                shown = tuple(sorted((sent, extra)))
                for value, share in count((sent == victim,)).items():
                    key = (shown, value)
                    law[key] = law.get(key, 0.0) + chance / (targets - 1) * share
        laws.append(law)
    plan = aggregate([Flooding(targets, sampling, dummies)], 5, release_epsilon=release)
    profile = plan.profile(released=True)
    assert [each.changes for each in charges(plan, "people", released=True)] == [1, 1]
    for epsilon in (0.0, 0.3, 0.8, 1.2, 1.5):
        assert profile.delta(epsilon) >= either_way(*laws, epsilon) * (1 - 1e-9)
    alone = Flooding(targets, sampling, dummies).profile()
    assert profile.greatest_loss == pytest.approx(alone.greatest_loss + release)
    # Less than both would be wrong: the traffic alone has a loss of the first, and all of it here.
    assert either_way(*laws, alone.greatest_loss) > 0


# Several messages of one cluster


@pytest.mark.parametrize("size", [2, 3])
def test_group_profile_never_below_enumeration(size):
    targets, sampling, n, dummies = 2, 0.5, 4, 2
    rest = (0,) * (n - size)
    laws = [seen(outcomes((v,) * size + rest, targets, sampling, dummies), nothing) for v in (0, 1)]
    group = GroupProfile(Scrambler(targets, sampling, n, dummies).profile(), size)
    for epsilon in (-0.5, 0.0, 0.3, 0.8, 1.5, 2.0, 3.0):
        assert group.delta(epsilon) >= either_way(*laws, epsilon) * (1 - 1e-9)
    for delta in (0.3, 0.05, 1e-3):
        assert either_way(*laws, group.epsilon(delta)) <= delta
    # One message's worth would not do.
    assert either_way(*laws, 0.5) > Scrambler(targets, sampling, n, dummies).profile().delta(0.5)


def test_group_profile_is_tight_for_visible_message():
    group = GroupProfile(PureProfile(LN3, 0.75), 4)
    assert group.greatest_loss == 4 * LN3
    exact = 0.75**4 - math.exp(0.98 * group.epsilon(1e-12)) * 0.25**4
    assert exact > 1e-12


# What a stage hears from several sides


def test_record_in_two_clusters_of_one_release_counts_twice():
    routing = Scrambler(2, 0.5, 10, 0)
    plan = Plan(
        (
            Stage("people", "source", 10),
            Stage("mix", "scrambler", 1),
            Stage("compute", "compute", 2, release=0.3),
            Stage("result", "result"),
        ),
        (
            Cluster("a", "people", "compute", routing, (OWN,), "mix"),
            Cluster("b", "people", "compute", routing, (OWN,), "mix"),
            Cluster("out", "compute", "result"),
        ),
    )
    found = charges(plan, "people", released=True)
    assert [each.changes for each in found if each.means == "noise"] == [4]
    found = charges(plan, "people", released=True, mixed=False)
    assert [each.changes for each in found if each.means == "noise"] == [2]


def test_releases_after_same_redirection_count_as_one():
    routing = Scrambler(2, 0.5, 3, 0)
    plan = Plan(
        (
            Stage("people", "source", 3),
            Stage("mix", "scrambler", 1),
            Stage("compute", "compute", 2),
            Stage("left", "simple", 1, release=0.4),
            Stage("right", "simple", 1, release=0.4),
            Stage("result", "result"),
        ),
        (
            Cluster("sent", "people", "compute", routing, (OWN,), "mix"),
            Cluster("a", "compute", "left"),
            Cluster("b", "compute", "right"),
            Cluster("c", "left", "result"),
            Cluster("d", "right", "result"),
        ),
    )
    found = charges(plan, "people", released=True)
    assert [(each.name, each.changes, each.swaps) for each in found[1:]] == [
        ("left", 2, {"sent"}),
        ("right", 2, {"sent"}),
    ]
    # Each compute node sends on how many real tuples it has: both releases tell of all.
    one = noisy_count(0.4)

    def both(real):
        law = one(real)
        return {(a, b): x * y for (a, x), (b, y) in product(law.items(), repeat=2)}

    profile = plan.profile(released=True)
    for others in product(range(2), repeat=2):
        laws = [seen(outcomes((v, *others), 2, 0.5), both) for v in (0, 1)]
        for epsilon in (0.0, 0.4, 0.8, 1.2, 1.6):
            assert either_way(*laws, epsilon) <= profile.delta(epsilon) * (1 + 1e-9)
    mixed = TogetherProfile(((routing.profile(), 1), (PureProfile(4 * 0.4), 1)))
    lies = TogetherProfile(((PureProfile(routing.local_epsilon), 1), (PureProfile(0.4), 2)))
    for epsilon in (0.5, 1.0, 1.5):
        best = min(mixed.delta(epsilon), lies.delta(epsilon))
        assert profile.delta(epsilon) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.3])
def test_release_bound_lowered_by_two_percent_is_below_exact(delta):
    """Alone behind a scrambler, what is seen is a message and whether it was real, with noise."""
    laws = [seen(outcomes((v,), 4, 0.4), noisy_answer(0.7, all)) for v in (0, 1)]
    profile = aggregate([Scrambler(4, 0.4, 1, 0)], 1, release_epsilon=0.7).profile(released=True)
    found = profile.epsilon(delta)
    assert either_way(*laws, found) <= delta
    assert either_way(*laws, 0.98 * found) > delta


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("targets", "sampling", "n"), [(2, 0.5, 3), (2, 0.3, 4), (3, 0.5, 3), (2, 0.7, 4)]
)
def test_pure_release_of_victims_record_never_below_enumeration(targets, sampling, n, seed):
    """Answers whose log-odds change by at most ε_c with each record: absent, there, or another."""
    rng = random.Random(seed)
    release = rng.choice((0.3, 0.7, 1.5))
    states = list(product((None, 0, 1), *[(None, 0)] * (n - 1)))
    hills = [(rng.choice(states), rng.choice((-1, 1)), rng.randint(-n, n)) for _ in range(3)]
    level = sum(height for _, _, height in hills) / len(hills)

    def answers(victim):
        def law(real):
            state = tuple((victim if k == 0 else 0) if r else None for k, r in enumerate(real))
            odds = max(
                sign * sum(a != b for a, b in zip(state, top, strict=True)) + height
                for top, sign, height in hills
            )
            yes = 1 / (1 + math.exp(-release * (odds - level)))
            return {True: yes, False: 1 - yes}

        return law

    mixed = Scrambler(targets, sampling, n, 0).profile()
    profile = aggregate([Scrambler(targets, sampling, n, 0)], n, release_epsilon=release).profile(
        released=True
    )
    for others in product(range(targets), repeat=n - 1):
        laws = [seen(outcomes((v, *others), targets, sampling), answers(v)) for v in (0, 1)]
        for epsilon in (0.05, 0.3, 0.7):
            exact = either_way(*laws, epsilon + 2 * release)
            assert exact <= mixed.delta(epsilon) * (1 + 1e-9)
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            assert either_way(*laws, epsilon) <= profile.delta(epsilon) * (1 + 1e-9)
