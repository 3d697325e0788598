"""Order privacy against everything that can be released: docs/theory/order.md."""

import itertools
import math
import random
from fractions import Fraction as F

import numpy as np
import pytest
from order_enumeration import (
    after,
    all_words,
    chance_to_lose,
    distinct_words,
    inverse,
    inversions,
    losing_permutations,
    losing_table,
    moved,
    neighbourhoods,
    printed_displaced,
    printed_laws,
    printed_losing,
    release_law,
    release_laws,
    worst_ratio,
)

from incrowd.errors import InvalidParameter
from incrowd.privacy import Guarantee
from incrowd.privacy.pure import PureProfile
from incrowd.protocols.order_shuffle.groupings import from_lists
from incrowd.protocols.order_shuffle.samplers.kendall import conjugated
from incrowd.protocols.order_shuffle.theorems.alpha import (
    alpha_of,
    largest_posterior,
    local_alpha,
)
from incrowd.protocols.order_shuffle.theorems.preservation import (
    hamming_preservation,
    tolerated,
)
from incrowd.protocols.order_shuffle.theorems.sensitivity import hamming, kendall, paper_sensitivity

HALF, MORE = F(1, 2), F(3, 5)


def crowd(n, *groups):
    """These groups; everybody else is alone."""
    covered = set().union(*groups) if groups else set()
    return from_lists([list(g) for g in groups] + [[i] for i in range(n) if i not in covered], n=n)


def kendall_sensitivity(n, order, groups, values=None):
    return int(kendall(crowd(n, *groups), np.array(inverse(order)), values).max())


def one(n, group, values=None, order=None):
    """The sensitivity of a single group, in the order of the numbers unless told."""
    return kendall_sensitivity(n, order or tuple(range(n)), [group], values)


def within(ratio, q, sensitivity):
    """Whether the largest ratio of chances is at most e^(θ·Δ), θ = log 1/q; exact for whole Δ."""
    if isinstance(sensitivity, int):
        return ratio <= (1 / q) ** sensitivity
    return math.log(ratio) <= sensitivity * math.log(1 / q)


def cases(count, sizes, seed):
    """Random orders and overlapping groups."""
    rng = random.Random(seed)
    for _ in range(count):
        n = rng.choice(sizes)
        order = tuple(rng.sample(range(n), n))
        groups = [rng.sample(range(n), rng.randint(2, n)) for _ in range(rng.randint(1, 3))]
        yield n, order, [sorted(g) for g in groups]


def subsets(n):
    for size in range(1, n + 1):
        yield from itertools.combinations(range(n), size)


# The guarantee: α = θ·Δ, and no less.


@pytest.mark.parametrize("q", [HALF, MORE])
def test_distinct_reports_attain_kendall_exactly(q):
    for n, order, groups in cases(25, (3, 4, 5), 11):
        sensitivity = kendall_sensitivity(n, order, groups)
        ratio = worst_ratio(release_laws(distinct_words(n), order, inversions, q), groups)
        assert ratio == (1 / q) ** sensitivity
        assert not within(ratio, q, 0.98 * sensitivity)


@pytest.mark.slow
def test_distinct_reports_attain_kendall_exactly_in_larger_crowds():
    for n, order, groups in cases(6, (6,), 12):
        ratio = worst_ratio(release_laws(distinct_words(n), order, inversions, HALF), groups)
        assert ratio == 2 ** kendall_sensitivity(n, order, groups)


@pytest.mark.parametrize("q", [HALF, MORE])
def test_distinct_reports_attain_hamming_exactly(q):
    for n, order, groups in cases(25, (3, 4, 5), 13):
        sensitivity = int(hamming(crowd(n, *groups)).max())
        ratio = worst_ratio(release_laws(distinct_words(n), order, moved, q), groups)
        assert ratio == (1 / q) ** sensitivity == (1 / q) ** max(map(len, groups))
        assert not within(ratio, q, 0.98 * sensitivity)


def test_two_values_attain_half_as_much_exactly():
    for n, order, groups in cases(20, (4, 5, 6), 14):
        sensitivity = kendall_sensitivity(n, order, groups, 2)
        ratio = worst_ratio(release_laws(all_words(n, 2), order, inversions, HALF), groups)
        assert ratio == 2**sensitivity
        assert not within(ratio, HALF, 0.98 * sensitivity)


def test_two_values_attain_bound_in_all_sets_of_six():
    laws = release_laws(all_words(6, 2), tuple(range(6)), inversions, MORE)
    for group in subsets(6):
        assert worst_ratio(laws, [group]) == (1 / MORE) ** one(6, group, 2)


def test_three_values_attain_bound_in_all_sets_of_five():
    laws = release_laws(all_words(5, 3), tuple(range(5)), inversions, HALF)
    for group in subsets(5):
        assert worst_ratio(laws, [group]) == 2 ** one(5, group, 3)
    # Pairs of different values inside and all there is at the gaps would be nine.
    assert one(5, (0, 1, 3, 4), 3) == 8


@pytest.mark.slow
def test_three_values_attain_bound_in_all_sets_of_six():
    laws = release_laws(all_words(6, 3), tuple(range(6)), inversions, HALF)
    for group in subsets(6):
        assert worst_ratio(laws, [group]) == 2 ** one(6, group, 3)


def test_repeated_values_never_exceed_and_more_values_never_help():
    for n, order, groups in cases(8, (4, 5), 15):
        before = 0
        for values in (2, 3, 4):
            if values**n > 1024:
                continue
            sensitivity = kendall_sensitivity(n, order, groups, values)
            laws = release_laws(all_words(n, values), order, inversions, HALF)
            assert within(worst_ratio(laws, groups), HALF, sensitivity)
            assert before <= sensitivity <= kendall_sensitivity(n, order, groups)
            before = sensitivity


def test_two_values_never_exceed_hamming_bound():
    for n, order, groups in cases(15, (3, 4, 5), 16):
        sensitivity = int(hamming(crowd(n, *groups), 2).max())
        assert sensitivity == max(len(g) // 2 * 2 for g in groups)
        for q in (HALF, F(1, 100)):
            laws = release_laws(all_words(n, 2), order, moved, q)
            assert within(worst_ratio(laws, groups), q, sensitivity)
    # With a pair that is all of the crowd it is attained.
    laws = release_laws(all_words(2, 2), (0, 1), moved, HALF)
    assert worst_ratio(laws, [(0, 1)]) == 4


def test_two_values_need_stated_alpha_as_theta_grows():
    """The exponent itself cannot be lowered: with θ large the ratio comes as close as one likes."""
    q = F(1, 10**12)
    for size in (2, 3, 4):
        laws = release_laws(all_words(size, 2), tuple(range(size)), moved, q)
        exponent = math.log(worst_ratio(laws, [range(size)])) / math.log(1 / q)
        assert 0.98 * (size // 2 * 2) < exponent <= size // 2 * 2


# The readings of the published algorithm.

READINGS = {
    ("items", "left to right"): 1,
    ("items", "functions"): 3,
    ("positions", "left to right"): 3,
    ("positions", "functions"): 5,
}


@pytest.mark.parametrize(("reading", "cost"), READINGS.items())
def test_three_of_four_readings_break_guarantee(reading, cost):
    order, group = (0, 2, 3, 1), (0, 2)
    sensitivity = one(4, group, order=order)
    assert sensitivity == paper_sensitivity(1) == 1
    laws = printed_laws(distinct_words(4), order, reading, HALF)
    ratio = worst_ratio(laws, [group])
    assert ratio == 2**cost
    assert within(ratio, HALF, sensitivity) == (reading == ("items", "left to right"))


def test_reading_that_keeps_guarantee_is_mechanism():
    for n, order, groups in cases(12, (3, 4, 5), 17):
        words = distinct_words(n)
        right = printed_laws(words, order, ("items", "left to right"), HALF)
        mine = release_laws(words, order, inversions, HALF)
        total = {sum(law.values()) for law in (*right.values(), *mine.values())}
        assert right == mine
        assert len(total) == 1
        assert worst_ratio(right, groups) == 2 ** kendall_sensitivity(n, order, groups)


def test_wrong_readings_fail_in_random_cases():
    for reading in list(READINGS)[1:]:
        failures = sum(
            not within(
                worst_ratio(printed_laws(distinct_words(n), order, reading, HALF), groups),
                HALF,
                kendall_sensitivity(n, order, groups),
            )
            for n, order, groups in cases(25, (3, 4, 5), 18)
        )
        assert failures > 0


def test_permutations_of_single_release_agree_in_inverses_only():
    """The published lemma says that they agree outside the group: they do not."""
    y = ("a", "b", "c")
    first, second, group = (0, 1, 2), (1, 0, 2), {0, 1}
    sigma = (1, 2, 0)
    other = after(after(inverse(second), first), sigma)
    assert after(after(y, first), sigma) == after(after(y, second), other)
    assert any(sigma[p] != other[p] for p in range(3) if p not in group)
    assert all(inverse(sigma)[p] == inverse(other)[p] for p in range(3) if p not in group)


def test_inverses_agree_in_general():
    rng = random.Random(19)
    for _ in range(50):
        n = 6
        group = rng.sample(range(n), 3)
        first = tuple(rng.sample(range(n), n))
        second = list(first)
        for place, image in zip(group, rng.sample(group, len(group)), strict=True):
            second[place] = first[image]
        sigma = tuple(rng.sample(range(n), n))
        other = after(after(inverse(tuple(second)), first), sigma)
        outside = [p for p in range(n) if p not in group]
        assert [inverse(sigma)[p] for p in outside] == [inverse(other)[p] for p in outside]


# Other groups, post-processing, composition, chains.


def test_sensitivity_of_other_groups_equals_enumeration():
    for n, order, _ in cases(10, (4, 5), 20):
        laws = release_laws(distinct_words(n), order, inversions, HALF)
        for other in subsets(n):
            assert worst_ratio(laws, [other]) == 2 ** one(n, other, order=order)


def test_post_processing_costs_nothing():
    for n, order, groups in cases(6, (4,), 21):
        laws = release_laws(all_words(n, 3), order, inversions, HALF)
        bound = kendall_sensitivity(n, order, groups, 3)
        for process in (sorted, lambda z: z[1:], lambda z: (z[0] + z[1],), reversed):
            seen = {}
            for y, law in laws.items():
                seen[y] = {}
                for z, weight in law.items():
                    key = tuple(process(z))
                    seen[y][key] = seen[y].get(key, 0) + weight
            assert within(worst_ratio(seen, groups), HALF, bound)


def test_conjugated_puts_reports_where_definition_does():
    for order in itertools.permutations(range(4)):
        for tau in itertools.permutations(range(4)):
            z = [None] * 4
            for k, person in enumerate(order):
                z[person] = order[tau[k]]
            assert conjugated(np.array(order), np.array(tau)).tolist() == z


def test_shuffle_along_order_is_that_of_ranks():
    for n, order, _ in cases(8, (3, 4), 22):
        for y in distinct_words(n):
            there = release_law(after(y, order), tuple(range(n)), inversions, HALF)
            here = release_law(y, order, inversions, HALF)
            assert there == {after(z, order): weight for z, weight in here.items()}


def guarantee(alpha, digest):
    """A guarantee about the order in the groups of this digest."""
    return Guarantee(
        profile=PureProfile(alpha),
        view=frozenset({"curator"}),
        theorem="",
        assumptions=(),
        neighbours="reports-in-group",
        notion="order",
        digest=digest,
    )


def test_releases_about_same_crowd_attain_sum():
    groups, order = [(0, 2), (1, 2, 3)], (2, 0, 3, 1)
    words = distinct_words(4)
    laws = [release_laws(words, order, inversions, q) for q in (HALF, MORE)]
    both = {
        y: {
            (u, v): laws[0][y][u] * laws[1][y][v]
            for u, v in itertools.product(laws[0][y], laws[1][y])
        }
        for y in words
    }
    sensitivity = kendall_sensitivity(4, order, groups)
    alphas = [alpha_of(math.log(1 / q), sensitivity) for q in (HALF, MORE)]
    digest = crowd(4, *groups).digest
    first, second = (guarantee(alpha, digest) for alpha in alphas)
    total = first.compose(second).alpha
    assert F(total) >= sum(map(F, alphas))
    ratio = worst_ratio(both, groups)
    assert ratio == F(10, 3) ** sensitivity
    assert math.log(ratio) == pytest.approx(total, rel=1e-14)
    assert math.log(ratio) > 0.98 * total


def test_guarantees_for_different_groups_do_not_add_up():
    """Two shuffles of α = log 2 each, and yet the first one's pair has a ratio of 2^6."""
    first, second = crowd(4, (0, 1)), crowd(4, (0, 2))
    words, ranks = distinct_words(4), np.array(inverse((0, 2, 3, 1)))
    assert kendall(first, np.arange(4)).max() == kendall(second, ranks).max() == 1
    ratio = 1
    for order in ((0, 1, 2, 3), (0, 2, 3, 1)):
        ratio *= worst_ratio(release_laws(words, order, inversions, HALF), [(0, 1)])
    assert ratio == 2**6
    with pytest.raises(InvalidParameter, match="different groups"):
        guarantee(math.log(2), first.digest).compose(guarantee(math.log(2), second.digest))


def test_chain_of_groups_attains_sum_of_steps():
    q = HALF
    laws = release_laws(distinct_words(3), (0, 1, 2), inversions, q)
    start, end = (0, 1, 2), (1, 2, 0)
    steps = [one(3, (0, 1)), one(3, (1, 2))]
    ratio = max(F(laws[start][z], laws[end][z]) for z in laws[start])
    assert ratio == 2 ** sum(steps) > 2 ** max(steps)
    total = math.fsum(alpha_of(math.log(2), each) for each in steps)
    assert math.log(ratio) <= total <= math.log(ratio) * (1 + 1e-14)


# The randomizer.

ODDS = F(3)


def response(x, y):
    """The chance of k-ary response, times odds + k − 1 for each report."""
    return math.prod(int(ODDS) if a == b else 1 for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize(("values", "costs"), [(2, (0, 2, 2, 4, 4)), (3, (0, 2, 3, 4, 5))])
def test_local_alpha_equals_enumeration(values, costs):
    for size, cost in enumerate(costs, start=1):
        words = all_words(size, values)
        laws = {x: {y: response(x, y) for y in words} for x in words}
        assert worst_ratio(laws, [range(size)]) == ODDS**cost
        assert local_alpha(1.0, size, values) == cost
        assert alpha_of(1.0, cost) == cost
    assert local_alpha(1.0, 5) == 5


def test_order_of_true_values_has_better_of_both_guarantees():
    gentle, values, size = F(9, 10), 3, 3
    order, group = (2, 0, 1), (0, 1, 2)
    words = all_words(size, values)
    sensitivity = one(size, group, values, order)
    for q in (gentle, F(1, 1000)):
        shuffled = release_laws(words, order, inversions, q)
        laws = {
            x: {z: sum(response(x, y) * shuffled[y].get(z, 0) for y in words) for z in words}
            for x in words
        }
        alpha = alpha_of(math.log(1 / q), sensitivity)
        bound = min(alpha, local_alpha(math.log(ODDS), size, values))
        assert math.log(worst_ratio(laws, [group])) <= bound
    # The second shuffle hardly changes anything: the randomizer is all that counts.
    assert bound == local_alpha(math.log(ODDS), size, values) < alpha
    assert math.log(worst_ratio(laws, [group])) > 0.98 * bound


# What it means for who infers.


def joint(prior, words, laws):
    """The chance of (x, y, z), as whole numbers times a constant."""
    for x, weight in prior.items():
        for y in words:
            for z, chance in laws[y].items():
                yield x, y, z, weight * response(x, y) * chance


def conditioned(y, group):
    inside = tuple(sorted(y[i] for i in group))
    return inside, tuple(each for i, each in enumerate(y) if i not in group)


@pytest.mark.parametrize("seed", range(4))
def test_log_odds_of_a_value_change_by_at_most_alpha(seed):
    """With any prior: here values are as dependent as they come."""
    rng = random.Random(seed)
    words, group, order = all_words(3, 2), (0, 2), (0, 1, 2)
    prior = {x: rng.randint(1, 9) * (50 if x[0] == x[2] else 1) for x in words}
    laws = release_laws(words, order, inversions, HALF)
    seen, before = {}, {}
    for x, y, z, weight in joint(prior, words, laws):
        known = conditioned(y, group)
        seen[known, z, x[0]] = seen.get((known, z, x[0]), 0) + weight
        before[known, x[0]] = before.get((known, x[0]), 0) + weight
    alpha = alpha_of(math.log(2), one(3, group, 2))
    greatest = F(1)
    for known, z, a in seen:
        b = 1 - a
        if not seen.get((known, z, b)):
            continue
        change = F(seen[known, z, a], seen[known, z, b]) / F(before[known, a], before[known, b])
        greatest = max(greatest, change)
        assert math.log(change) <= alpha
        ahead = F(before[known, a], before[known, a] + before[known, b])
        now = F(seen[known, z, a], seen[known, z, a] + seen[known, z, b])
        assert now <= F(largest_posterior(math.nextafter(float(ahead), 1), alpha))
    assert greatest > 1


def test_unconditional_odds_can_change_by_more_than_alpha():
    """As printed, with odds that know nothing of the reports, the two sides are not equal."""
    words, group = all_words(2, 2), (0, 1)
    laws = release_laws(words, (0, 1), inversions, HALF)
    prior = dict.fromkeys(words, 1)
    known = ((0, 0), ())
    seen = {0: 0, 1: 0}
    of_value = {0: 0, 1: 0}
    for x, y, z, weight in joint(prior, words, laws):
        if conditioned(y, group) == known and z == (0, 0):
            seen[x[0]] += weight
        of_value[x[0]] += weight
    # Both reports are 0, so that the release is certain: nothing is learnt from it …
    assert laws[0, 0].keys() == {(0, 0)}
    # … but beside odds without the reports it looks as if all that they tell came from it.
    assert F(seen[0], seen[1]) / F(of_value[0], of_value[1]) == ODDS


# What stays.


@pytest.mark.parametrize("n", [4, 6])
def test_preservation_never_below_enumeration(n):
    for size in range(1, n):
        for losses in range(size):
            truth = chance_to_lose(n, range(size), losses, HALF)
            found = hamming_preservation(n, size, F(size - losses, size), math.log(2))
            assert found == pytest.approx(float(truth), rel=1e-12, abs=0)
            # As a double log 2 is a little less, which is the chance of a weaker shuffle.
            assert F(found) >= truth
            if truth:
                assert 0.98 * found < truth


def check_counts(n):
    for size in range(1, n + 1):
        table = losing_table(n, size)
        for losses in range(size):
            truth = [
                sum(table.get((h, lost), 0) for lost in range(losses + 1, size + 1))
                for h in range(n + 1)
            ]
            assert losing_permutations(n, size, losses) == tuple(truth)
            assert not any(truth[: 2 * losses + 2])


@pytest.mark.parametrize("n", range(1, 8))
def test_permutations_that_lose_are_counted_exactly(n):
    check_counts(n)


@pytest.mark.slow
def test_permutations_that_lose_are_counted_exactly_among_eight():
    check_counts(8)


def test_published_count_is_too_large():
    truth, printed = losing_permutations(6, 3, 0), [printed_losing(6, 3, 0, h) for h in range(7)]
    assert truth == (0, 0, 9, 36, 126, 252, 261)
    assert printed == [0, 0, 9, 54, 216, 558, 711]
    # The recursion for those that are not at home is right; what multiplies it is not.
    for marked, free in itertools.product(range(6), repeat=2):
        homes = itertools.permutations(range(marked + free))
        if marked + free < 8:
            count = sum(all(sigma[i] != i for i in range(marked)) for sigma in homes)
            assert printed_displaced(marked, free) == count


def test_published_number_of_losses_is_too_large_by_one():
    """A share of 0.75 of ten is eight, so that two may be lost and not three."""
    assert tolerated(10, 0.75) == 2
    assert math.ceil((1 - 0.75) * 10) == 3
    truth = chance_to_lose(6, range(3), tolerated(3, 0.5), HALF)
    assert chance_to_lose(6, range(3), math.ceil(0.5 * 3), HALF) < truth
    assert F(hamming_preservation(6, 3, 0.5, math.log(2))) >= truth


def test_neighbourhoods_equal_definition():
    words = all_words(3, 2)
    classes = neighbourhoods(words, (0, 1))
    assert sorted(map(len, classes)) == [1, 1, 1, 1, 2, 2]
    assert sum(map(len, classes)) == len(words)
