"""Shuffled reports: how tight the bounds are, beside what papers offer and what attacks attain.

    python -m experiments.shuffle [--quick --out DIRECTORY]

Every ε that is called a bound is rounded up; every ε and δ of an attack is rounded down, and is
attained: a real mechanism on a real data set. δ is 1e−6 unless a table says otherwise. Formulas of
papers:

* clones 2021 (Feldman, McMillan, Talwar, "Hiding Among the Clones"): ``clones_law`` of
  ``incrowd.privacy``, evaluated exactly. It also covers randomizers that differ between people or
  adapt to earlier reports, which the other columns do not.
* Bennett (Balle, Bell, Gascón, Nissim, "The Privacy Blanket of the Shuffle Model"):
  :func:`paper_bennett`.
* variation ratio (Wang and others, "Privacy Amplification via Shuffling: Unified, Simplified, and
  Tightened"): :func:`paper_variation_ratio`. **Not a bound**: it is below the truth for three or
  more categories (``docs/theory/variation_ratio.md``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from experiments import shuffle_figures as figures
from experiments.common import Experiment, Table
from incrowd.privacy import ComposedProfile, LocalProfile, Profile, ShuffleProfile, functional
from incrowd.privacy.mechanisms.shuffle import blanket_profile, clones_profile
from incrowd.privacy.search import crossing
from incrowd.randomizers import (
    KRR,
    OLH,
    OUE,
    RR,
    SUE,
    Gaussian,
    Generic,
    HadamardResponse,
    Laplace,
    OneBit,
    PairLaw,
    PrivUnit,
    Randomizer,
)
from incrowd.report.format import count, down, percent, round_down, small, up

DELTA = 1e-6
CATEGORIES = 16
GAUSSIAN_DELTA = 1e-8

VARIATION_RATIO_CASES = (
    (1_000, 8.0, 16),
    (1_000, 8.0, 128),
    (10_000, 8.0, 16),
    (10_000, 8.0, 128),
    (1_000, 4.0, 128),
    (1_000, 4.0, 16),
)


@dataclass(frozen=True)
class Size:
    """How much to compute."""

    crowds: tuple[int, ...]
    epsilons: tuple[float, ...]
    categories: tuple[int, ...]
    rounds: tuple[int, ...]
    round_crowds: tuple[int, ...]
    variation_ratio_cases: tuple[tuple[int, float, int], ...]
    curves: figures.Resolution


FULL = Size(
    crowds=(10**3, 10**4, 10**5, 10**6, 10**7, 10**9),
    epsilons=(0.5, 1.0, 2.0, 4.0, 8.0),
    categories=(16, 128),
    rounds=(1, 10, 100, 1000),
    round_crowds=(10**4, 10**3),
    variation_ratio_cases=VARIATION_RATIO_CASES,
    curves=figures.Resolution(
        per_decade=8,
        fewest=10,
        points=42,
        greatest=8.0,
        rounds=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    ),
)
QUICK = Size(
    crowds=(10**4, 10**9),
    epsilons=(1.0, 4.0),
    categories=(16,),
    rounds=(1, 10),
    round_crowds=(10**4,),
    variation_ratio_cases=VARIATION_RATIO_CASES[3:],
    curves=figures.Resolution(per_decade=1, fewest=10**4, points=6, greatest=2.0, rounds=(1, 10)),
)


def paper_variation_ratio(epsilon: float, categories: int) -> PairLaw:
    """UNSOUND for three or more categories: the variation-ratio formula for k-RR, as a law.

    The formula compares the counts of zeros and ones only: the victim's report is 0 with chance
    E/z, 1 with chance 1/z (or the reverse) and hidden otherwise; another person's is 0 or 1 with
    chance 1/z each. Over n draws of the others' law its density ratios are those of (a, b) = (E, 1)
    at a zero, (1, E) at a one, and the ratio of the two chances of being hidden elsewhere: so the
    engine of the sound bounds evaluates it too.
    """
    odds = math.exp(epsilon)
    rare = 1 / (odds + categories - 1)
    hidden = (categories - 2) * rare / (1 - 2 * rare)
    return PairLaw.of([odds, 1.0, hidden], [1.0, odds, hidden], [rare, rare, 1 - 2 * rare])


def paper_bennett(law: PairLaw, n: int, epsilon: float) -> float:
    """The δ of the blanket with Bennett's inequality in place of the exact expectation.

    With γ the mass of the blanket and L = γ·G one term of the sum, −a = E[L], b = max L and
    c = E[L²], the positive part of m terms is at most b/log(1 + u)·exp(−m·(c/b²)·φ(u)) in
    expectation, where u = a·b/c and φ(u) = (1 + u)·log(1 + u) − u. The number of terms is
    binomial, (n, γ).
    """
    a, gamma = math.expm1(epsilon), law.gamma
    terms = gamma * (law.a - math.exp(epsilon) * law.b)
    b, c = float(terms.max()), float(law.mass @ terms**2) / gamma
    if a == 0 or b <= 0:
        return 1.0 if a == 0 else 0.0
    u = a * b / c
    per_term = -(c / b**2) * ((1 + u) * math.log1p(u) - u)
    crowd = math.exp(n * math.log1p(gamma * math.expm1(per_term)))
    return b / math.log1p(u) * crowd / (gamma * n)


def bennett_epsilon(randomizer: Randomizer, n: int) -> float:
    law, cap = randomizer.blanket(), randomizer.epsilon
    return crossing(lambda e: paper_bennett(law, n, e), DELTA, cap / math.sqrt(n), cap).within


@dataclass(frozen=True)
class Enclosure:
    """What is proven and what an attack attains, at one δ."""

    bound: float
    attack: float

    @property
    def cells(self) -> list[str]:
        """Bound, attack, and how far the first is above the second."""
        return [up(self.bound), down(self.attack), percent(self.bound / self.attack - 1)]


ENCLOSURE = ("bound", "attack", "gap")


def enclose(randomizer: Randomizer, n: int, delta: float = DELTA) -> Enclosure:
    profile = blanket_profile(randomizer, n)
    attack = profile.lower(delta)
    if attack is None:
        raise LookupError(f"no attack is known on {randomizer.kind}")
    return Enclosure(profile.epsilon(delta), attack)


def generic_table(size: Size) -> Table:
    rows = []
    for n in size.crowds:
        for epsilon in size.epsilons:
            randomizer = Generic(epsilon=epsilon)
            found = enclose(randomizer, n)
            clones = clones_profile(randomizer, n).epsilon(DELTA)
            saved = percent(1 - found.bound / clones)
            rows.append([count(n), f"{epsilon:g}", *found.cells, up(clones), saved])
    return Table(
        "Any ε0-randomizer, shuffled",
        f"The central ε at δ = {small(DELTA)} when n people use one pure ε0-randomizer, whichever "
        "it is. Attack: the strongest known one on a concrete randomizer and data set; no bound "
        "can be below it. Clones 2021: Feldman, McMillan and Talwar, evaluated exactly; it holds "
        "for adaptive randomizers too. Saved: by how much our ε is smaller.",
        ("n", "ε0", *ENCLOSURE, "clones 2021", "saved"),
        rows,
    )


def krr_table(size: Size) -> Table:
    rows = []
    for n in size.crowds:
        for epsilon in size.epsilons:
            generic = up(blanket_profile(Generic(epsilon=epsilon), n).epsilon(DELTA))
            for k in size.categories:
                randomizer = KRR(epsilon=epsilon, categories=k)
                bennett = up(bennett_epsilon(randomizer, n))
                cells = enclose(randomizer, n).cells
                rows.append([count(n), f"{epsilon:g}", str(k), *cells, bennett, generic])
    return Table(
        "k-ary randomized response, shuffled",
        f"The central ε at δ = {small(DELTA)}. Attack: all others hold one third category; the "
        "bound and the attack enclose the truth. Bennett: the same blanket with the inequality of "
        "Balle, Bell, Gascón and Nissim in place of the exact expectation. Generic: what holds for "
        "every ε0-randomizer.",
        ("n", "ε0", "k", *ENCLOSURE, "Bennett", "generic"),
        rows,
    )


def laplace_table(size: Size) -> Table:
    rows = []
    for n in size.crowds:
        for epsilon in size.epsilons:
            randomizer = Laplace(epsilon=epsilon)
            bennett = up(bennett_epsilon(randomizer, n))
            rows.append([count(n), f"{epsilon:g}", *enclose(randomizer, n).cells, bennett])
    return Table(
        "Laplace noise on [0, 1], shuffled",
        f"The central ε at δ = {small(DELTA)}. Attack: the strongest of a few data sets in which "
        "all others hold one value. The gap is open: a better attack or a better bound may exist. "
        "Bennett: as for k-ary response.",
        ("n", "ε0", *ENCLOSURE, "Bennett"),
        rows,
    )


def every_randomizer(epsilon: float) -> dict[str, Randomizer]:
    """One randomizer of each kind, by the name that a table shows."""
    k = CATEGORIES
    return {
        "generic": Generic(epsilon=epsilon),
        "binary response": RR(epsilon=epsilon),
        f"k-ary response, k = {k}": KRR(epsilon=epsilon, categories=k),
        f"optimized unary encoding, k = {k}": OUE(epsilon=epsilon, categories=k),
        f"symmetric unary encoding, k = {k}": SUE(epsilon=epsilon, categories=k),
        f"Hadamard response, k = {k}": HadamardResponse(epsilon=epsilon, categories=k),
        f"optimized local hashing, k = {k}": OLH(epsilon=epsilon, categories=k),
        "one bit for a mean": OneBit(epsilon=epsilon),
        "Laplace noise": Laplace(epsilon=epsilon),
        f"Gaussian noise, δ0 = {small(GAUSSIAN_DELTA)}": Gaussian(
            epsilon=epsilon, delta=GAUSSIAN_DELTA
        ),
        f"PrivUnit, {k} dimensions": PrivUnit(epsilon=epsilon, dimension=k),
    }


def randomizers_table(size: Size) -> Table:
    del size  # cheap enough at every size
    n, epsilon = 10**4, 1.0
    rows = [
        [name, *enclose(randomizer, n).cells]
        for name, randomizer in every_randomizer(epsilon).items()
    ]
    return Table(
        f"Every randomizer, {count(n)} people, ε0 = {epsilon:g}",
        f"The central ε at δ = {small(DELTA)}, from each randomizer's own law, and the strongest "
        "attack known on it.",
        ("randomizer", *ENCLOSURE),
        rows,
    )


def rounds_table(size: Size) -> Table:
    epsilon = 1.0
    shuffled = (
        ("generic", Generic(epsilon=epsilon)),
        (f"k-ary response, k = {CATEGORIES}", KRR(epsilon=epsilon, categories=CATEGORIES)),
    )
    rows = [
        [name, count(n), *_over_rounds(blanket_profile(randomizer, n), size.rounds)]
        for n in size.round_crowds
        for name, randomizer in shuffled
    ]
    alone = _over_rounds(LocalProfile(Generic(epsilon=epsilon)), size.rounds)
    return Table(
        f"Many rounds, ε0 = {epsilon:g} in each",
        f"The central ε at δ = {small(DELTA)} after this many rounds, which may be chosen "
        "adaptively, by convolution of privacy losses; in brackets what an attack attains. Last "
        "line: without shuffling.",
        (
            "randomizer",
            "n",
            *(f"{count(rounds)} round{'s' * (rounds > 1)}" for rounds in size.rounds),
        ),
        [*rows, ["generic, not shuffled", "–", *alone]],
    )


def _over_rounds(profile: Profile, rounds: Sequence[int]) -> list[str]:
    cells = []
    for times in rounds:
        composed = ComposedProfile(((profile, times),))
        attack = composed.lower(DELTA)
        cells.append(f"{up(composed.epsilon(DELTA))} ({down(attack) if attack else '–'})")
    return cells


def variation_ratio_table(size: Size) -> Table:
    rows = []
    for n, epsilon, k in size.variation_ratio_cases:
        randomizer = KRR(epsilon=epsilon, categories=k)
        claim = ShuffleProfile(paper_variation_ratio(epsilon, k), n, LocalProfile(randomizer))
        claimed = claim.epsilon(DELTA)
        attained = max(functional(law, n, claimed).lower for law in randomizer.attack())
        bound = blanket_profile(randomizer, n).epsilon(DELTA)
        setting = [count(n), f"{epsilon:g}", str(k)]
        found = [_scientific(attained), f"{round_down(attained / DELTA, 3):,g} ×"]
        rows.append([*setting, up(claimed, 5), *found, up(bound, 5)])
    return Table(
        "The variation-ratio formula guarantees too much",
        "k-ary randomized response. Claimed ε: what the formula of Wang and others certifies at "
        f"δ = {small(DELTA)}. True δ there: attained when all others hold one third category, so "
        "the claim is false. Bound: our ε at the same δ, which is proven.",
        ("n", "ε0", "k", "claimed ε", "true δ there, at least", "guaranteed δ exceeded", "bound"),
        rows,
    )


def _scientific(attained: float) -> str:
    return f"{round_down(attained):.3e}".replace("e-0", "e-")


EXPERIMENT = Experiment(
    "experiments.shuffle",
    {
        "shuffle_generic.md": generic_table,
        "shuffle_krr.md": krr_table,
        "shuffle_laplace.md": laplace_table,
        "shuffle_randomizers.md": randomizers_table,
        "shuffle_rounds.md": rounds_table,
        "shuffle_variation_ratio.md": variation_ratio_table,
        "shuffle_epsilon_vs_n.svg": lambda size: figures.epsilon_vs_n(size.curves),
        "shuffle_epsilon_vs_eps0.svg": lambda size: figures.epsilon_vs_eps0(size.curves),
        "shuffle_profile.svg": lambda size: figures.profile(size.curves),
        "shuffle_rounds.svg": lambda size: figures.rounds(size.curves),
    },
    FULL,
    QUICK,
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
