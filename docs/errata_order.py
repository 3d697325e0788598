"""The generated pieces of the errata on order-private shuffling."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
from errata_claims import Claim, number, summary
from pieces import piece, table

from incrowd.protocols.order_shuffle.groupings import from_lists
from incrowd.protocols.order_shuffle.theorems.alpha import local_alpha
from incrowd.protocols.order_shuffle.theorems.preservation import tolerated
from incrowd.protocols.order_shuffle.theorems.sensitivity import (
    hamming,
    kendall,
    paper_sensitivity,
    widths,
)

ORDER = "tests/oracles/test_order_oracle.py"
SENSITIVITY = "tests/protocols/test_order_sensitivity.py"
READINGS = {
    ("items", "left to right"): (r"items", r"$\hat\sigma\circ\sigma_0^{-1}$"),
    ("positions", "left to right"): (r"positions", r"$\hat\sigma\circ\sigma_0^{-1}$"),
    ("items", "functions"): (r"items", r"$\sigma_0^{-1}\circ\hat\sigma$"),
    ("positions", "functions"): (r"positions", r"$\sigma_0^{-1}\circ\hat\sigma$"),
}


@cache
def _readings() -> dict[tuple[str, str], int]:
    """The exact α over θ of each reading, for four people and the group {1, 3} of width 1."""
    from order_enumeration import distinct_words, printed_laws, worst_ratio

    order, group = (0, 2, 3, 1), (0, 2)
    return {
        reading: round(
            math.log2(
                worst_ratio(
                    printed_laws(distinct_words(4), order, reading, Fraction(1, 2)), [group]
                )
            )
        )
        for reading in READINGS
    }


@piece
def errata_readings() -> str:
    """The exact α of the four readings of the algorithm."""
    rows = [
        [*READINGS[reading], f"{cost}θ" if cost > 1 else "θ"]
        for reading, cost in _readings().items()
    ]
    return table(["pairs of", "product", "exact α; claimed θ"], rows)


def _group_of(n: int, *members: int) -> tuple[list[int], ...]:
    alone = [[i] for i in range(n) if i + 1 not in members]
    return ([i - 1 for i in members], *alone)


@cache
def _sensitivities() -> list[tuple[str, str, int, int, int]]:
    """Order and group as printed, the width, the printed value and the exact one."""
    found = []
    for order, group in (
        ((2, 4, 6, 8, 1, 3, 5, 7), (2, 6, 8)),
        ((5, 2, 3, 8, 4, 1, 6, 7), (4, 5, 7)),
    ):
        ranks = np.argsort(np.array(order) - 1)
        grouping = from_lists(list(_group_of(8, *group)), n=8)
        width = int(widths(grouping, ranks).max())
        exact = int(kendall(grouping, ranks).max())
        names = " ".join(map(str, order)), ", ".join(map(str, group))
        found.append((*names, width, paper_sensitivity(width), exact))
    return found


@piece
def errata_sensitivity() -> str:
    """The sensitivities of the two printed examples."""
    rows = [
        [f"({order})", f"{{{group}}}", *map(str, rest)] for order, group, *rest in _sensitivities()
    ]
    return table(["reference order", "group", "width ω", "printed Δ", "exact Δ"], rows)


@cache
def _hamming() -> list[tuple[str, int, int, int]]:
    """Groups of two along (1 2 3 4): width, exact exponent by enumeration, the library's value."""
    from order_enumeration import distinct_words, moved, release_laws, worst_ratio

    laws = release_laws(distinct_words(4), (0, 1, 2, 3), moved, Fraction(1, 2))
    found = []
    for last in (2, 3, 4):
        grouping = from_lists(list(_group_of(4, 1, last)), n=4)
        exact = round(math.log2(worst_ratio(laws, [(0, last - 1)])))
        found.append((f"{{1, {last}}}", last - 1, exact, int(hamming(grouping).max())))
    return found


@piece
def errata_hamming() -> str:
    """The α of Hamming's distance for groups of growing width."""
    rows = [[group, *map(str, rest)] for group, *rest in _hamming()]
    return table(["group", "width ω", "exact α/θ", "incrowd's Δ"], rows)


@piece
def errata_lemma_inverses() -> str:
    """Two permutations that make the same release, and their inverses."""
    from order_enumeration import after, inverse

    y, first, second, sigma = ("y1", "y2", "y3"), (0, 1, 2), (1, 0, 2), (1, 2, 0)
    other = after(after(inverse(second), first), sigma)
    rows = []
    for name, start, drawn in ((r"$\sigma_1'$", first, sigma), (r"$\sigma_2'$", second, other)):
        written, back = (
            "(" + " ".join(str(i + 1) for i in each) + ")" for each in (drawn, inverse(drawn))
        )
        rows.append(
            [
                name,
                ", ".join(after(y, start)),
                written,
                ", ".join(after(after(y, start), drawn)),
                back,
            ]
        )
    return table(["", "applied to", "permutation", "gives", "inverse"], rows)


@cache
def _odds() -> tuple[Fraction, Fraction]:
    """What both reports being 0 tells about x1, and what the release adds; e^ε0 = 3."""
    E, seen = Fraction(3), {0: Fraction(0), 1: Fraction(0)}
    for x in itertools.product((0, 1), repeat=2):
        seen[x[0]] += math.prod((E if each == 0 else Fraction(1)) / (E + 1) for each in x)
    # The release of (0, 0) is certain, whatever x is.
    return seen[0] / seen[1], Fraction(1)


@piece
def errata_odds() -> str:
    """Both sides of the printed equality of odds."""
    told, added = _odds()
    rows = [
        ["left: likelihood ratio of the release", number(abs(math.log(added)))],
        [
            "right, as printed: from prior odds to those given release and reports",
            number(math.log(told)),
        ],
        ["right, with odds given the reports on both sides", number(abs(math.log(added)))],
    ]
    return table(["side", "absolute logarithm"], rows)


@cache
def _losing() -> tuple[list[int], list[int]]:
    from order_enumeration import losing_permutations, printed_losing

    return [printed_losing(6, 3, 0, h) for h in range(2, 7)], list(losing_permutations(6, 3, 0)[2:])


@piece
def errata_losing() -> str:
    """The number of permutations that lose somebody, as printed and by listing."""
    printed, right = _losing()
    rows = [["printed, without the last “!”", *map(str, printed)], ["exact", *map(str, right)]]
    return table(["h", *(str(h) for h in range(2, 7))], rows)


@cache
def _losses() -> tuple[Fraction, Fraction]:
    """δ with the printed number of losses and with the right one: n = 6, |S| = 3, η = 1/2."""
    from order_enumeration import chance_to_lose

    allowed = (math.ceil(0.5 * 3), tolerated(3, 0.5))
    printed, right = (chance_to_lose(6, range(3), each, Fraction(1, 2)) for each in allowed)
    return printed, right


@piece
def errata_losses() -> str:
    """How many losses are tolerated, and what that does to δ."""
    printed, right = _losses()
    ten = math.ceil((1 - 0.75) * 10), tolerated(10, 0.75)
    rows = [
        ["losses tolerated, $\\lvert S\\rvert=10$, η = 3/4", *map(str, ten)],
        [
            "δ, n = 6, $\\lvert S\\rvert=3$, η = 1/2, θ = log 2",
            *map(number, map(float, (printed, right))),
        ],
    ]
    return table(["", "with the printed k", "with the right k"], rows)


@cache
def _local() -> list[tuple[int, int, int, int]]:
    """Size of a group, and ε-multiples: printed, for two values, for three."""
    return [
        (size, size, round(local_alpha(1.0, size, 2)), round(local_alpha(1.0, size, 3)))
        for size in range(1, 6)
    ]


@piece
def errata_local_alpha() -> str:
    """What randomizing alone guarantees about the order."""
    head = ["people in the group", "Lemma 5.2", "two values, exact", "three values, exact"]
    rows = [
        [str(size), *(f"{each}ε" if each else "0" for each in rest)] for size, *rest in _local()
    ]
    return table(head, rows)


@piece
def errata_order() -> str:
    """The claims on order-private shuffling."""
    worst = max(_readings().values())
    (_, _, _, first, exact), (_, _, _, bound, second) = _sensitivities()
    return summary(
        [
            Claim(
                "Algorithm 1, line 8; Definition 5.1",
                r"$\sigma^*=\sigma_0^{-1}\hat\sigma$, Kendall's distance of permutations",
                r"$\hat\sigma\circ\sigma_0^{-1}$ and pairs of items: one reading of four",
                f"claimed α = θ; up to {worst}θ in the other readings",
                f"{ORDER}::test_three_of_four_readings_break_guarantee",
            ),
            Claim(
                "Section 2.3, Property 2",
                r"$\Delta=\frac{\omega(\omega+1)}2$",
                r"$\Delta\le\frac{\omega(\omega+1)}2$: safe; the exact value is smaller",
                f"{first} printed, {exact} exact; {bound} and {second}",
                f"{SENSITIVITY}::test_published_examples",
            ),
            Claim(
                "Property 2",
                "the sensitivity of a rank distance grows with the width",
                "not that of Hamming's distance",
                "width 1 to 3: α = {}θ for all".format(
                    " or ".join(sorted({str(row[2]) for row in _hamming()}))
                ),
                f"{ORDER}::test_distinct_reports_attain_hamming_exactly",
            ),
            Claim(
                "Lemma 5.3",
                r"$\sigma_1'\approx_G\sigma_2'$",
                "their inverses agree outside the group; Property 1 survives",
                "three people: they differ at place 3, outside {1, 2}",
                f"{ORDER}::test_permutations_of_single_release_agree_in_inverses_only",
            ),
            Claim(
                "Section 2.2, equality",
                r"prior odds $\Pr[x_i=a]/\Pr[x_i=b]$",
                "odds given the reports that the observer knows",
                f"0 on the left, {number(math.log(_odds()[0]))} on the right",
                f"{ORDER}::test_unconditional_odds_can_change_by_more_than_alpha",
            ),
            Claim(
                "Theorem 5.6, $c_h$",
                r"with $\binom{i+j}j$ and a limit $\max(l,\lfloor h/2\rfloor)$",
                r"without; $\min(l,n-l,\lfloor h/2\rfloor)$",
                f"h = 6: {_losing()[0][-1]} printed, {_losing()[1][-1]} exact",
                f"{ORDER}::test_published_count_is_too_large",
            ),
            Claim(
                "Theorem 5.6, $k$",
                r"$k=\lceil(1-\eta)l\rceil$",
                r"$k=\lfloor(1-\eta)l\rfloor$",
                "δ {} with the printed k, {} with the right one".format(
                    *map(number, map(float, _losses()))
                ),
                f"{ORDER}::test_published_number_of_losses_is_too_large_by_one",
            ),
            Claim(
                "Lemma 5.2",
                r"$k\varepsilon$ for groups of up to $k$",
                r"right; with two values $2\lfloor k/2\rfloor\varepsilon$",
                f"five people: {_local()[-1][1]}ε printed, {_local()[-1][2]}ε for two values",
                f"{ORDER}::test_local_alpha_equals_enumeration",
            ),
        ]
    )
