"""What is proven when a trusted shuffler forgets who said what.

The curator sees the multiset of n reports. Two theorems, one function each:

* :func:`blanket_profile`: one fixed randomizer for all. Part of every other person's report is
  drawn from a common law, the blanket, and hides the victim's. See ``docs/theory/blanket.md``.
* :func:`clones_profile`: people are shuffled first, and the randomizer may depend on the place of a
  report and on the reports before it, but not on whose it is. Each other person is a clone of the
  victim with probability e^−ε0 ("Hiding Among the Clones", Feldman, McMillan and Talwar). See
  ``docs/theory/clones.md``.

Neither is ever above what the randomizer guarantees alone. A colluder knows and reveals their own
report, so m of them leave a crowd of n − m. A view that includes the shuffler knows who sent each
report, so only the randomizer protects.

A generic randomizer with a δ0 is close to a pure one, and a crowd of them to a crowd of pure ones
(:func:`distance`); that is charged. See ``docs/theory/check_in.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from incrowd.errors import NotProven
from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile, ShuffleProfile, clones_law
from incrowd.privacy.greatest import greatest
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.mechanisms.local import drawing, local_guarantee
from incrowd.privacy.near import NearProfile
from incrowd.privacy.thinned import thinned
from incrowd.randomizers import Generic
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.law import PairLaw

_BLANKET = "privacy blanket (docs/theory/blanket.md)"
_CLONES = "clones (docs/theory/clones.md)"

HONEST_SHUFFLER = "the shuffler permutes uniformly and does not collude with the view"
SAME_RANDOMIZER = "every other person uses the same randomizer honestly"
SOME_RANDOMIZER = (
    "every other person honestly uses the randomizer of their place in the shuffled order, which "
    "may depend on the reports before it but not on who they are"
)
_FREE_PARTICIPATION = "who takes part does not depend on the data"
FIXED_CROWDS = "who is there in a round depends on nothing that earlier rounds gave"
"""Else whoever sees a round could pick the crowd of the next: ``docs/theory/stopping.md``."""
_ALL_ARRIVE = "all n reports of a round arrive; a run restates the guarantee for those that did"

AMPLIFIED_VIEW = frozenset({"curator"})


@lru_cache(maxsize=32)
def blanket_profile(randomizer: Randomizer, crowd: int, rate: float = 1.0) -> Profile:
    """One round with the same randomizer for everyone in a crowd of this size.

    ``rate`` is the chance of each person, the victim included, to take part in it.
    """
    return _crowd_profile(randomizer, crowd, rate, adaptive=False)


@lru_cache(maxsize=32)
def clones_profile(randomizer: Randomizer, crowd: int, rate: float = 1.0) -> Profile:
    """One round in which each place in the shuffled order may have another ε0-randomizer."""
    return _crowd_profile(randomizer, crowd, rate, adaptive=True)


def _crowd_profile(randomizer: Randomizer, crowd: int, rate: float, *, adaptive: bool) -> Profile:
    laws = _pair_laws(randomizer, adaptive)
    alone = any_randomizer(randomizer) if adaptive else randomizer
    attacks = thinned(randomizer, rate).attack()

    def crowd_of(same: Randomizer) -> Profile:
        cap = LocalProfile(thinned(same, rate))
        first, *others = (law.subsampled(rate) for law in laws)
        # Attacks bound the crowd, not one pair: once is enough.
        parts = [ShuffleProfile(first, crowd, cap, attacks)]
        return greatest([*parts, *(ShuffleProfile(law, crowd, cap) for law in others)])

    return near_pure(
        alone,
        crowd_of,
        LocalProfile(thinned(alone, rate)),
        distance(alone, crowd, adaptive=adaptive) * rate,
    )


def _pair_laws(randomizer: Randomizer, adaptive: bool) -> tuple[PairLaw, ...]:
    """The same as :func:`victim_law`, or smaller ones the largest of which holds for each pair."""
    if adaptive:
        return (victim_law(randomizer, adaptive),)
    return (randomizer.pure() or randomizer).blankets()


def victim_law(randomizer: Randomizer, adaptive: bool) -> PairLaw:
    """The law of the victim's report among those of the others, without any δ0."""
    if adaptive:
        return clones_law(randomizer.epsilon)
    return (randomizer.pure() or randomizer).blanket()


def near_pure(
    randomizer: Randomizer,
    crowd_of: Callable[[Randomizer], Profile],
    alone: Profile,
    far: float,
) -> Profile:
    """The curve of a crowd of this randomizer; with a δ0, that of the pure one, charged."""
    pure = randomizer.pure()
    return crowd_of(randomizer) if pure is None else NearProfile(crowd_of(pure), far, alone)


def any_randomizer(randomizer: Randomizer) -> Generic:
    """What stands for every randomizer with the ε0 of this one; refuses those with a δ0."""
    if randomizer.delta > 0 and randomizer.pure() is None:
        raise NotProven(
            f"adaptive shuffling is proven for pure randomizers only, and {randomizer.kind} has "
            f"delta = {randomizer.delta:g}: choose adaptive = false, or the generic randomizer "
            "with the same epsilon and delta",
            field="adaptive",
        )
    return Generic(epsilon=randomizer.epsilon, delta=randomizer.delta)


def distance(randomizer: Randomizer, crowd: int, *, adaptive: bool) -> float:
    """How far, in total variation, a crowd of (ε0, δ0)-randomizers is from one of pure ones.

    δ0/(E + 1) for the victim, and for everyone else δ0/E to be a clone, twice that to hold up the
    blanket. Rounded up.
    """
    top = math.exp(randomizer.epsilon)
    each = (1 if adaptive else 2) / top
    return randomizer.delta * (1 / (top + 1) + (crowd - 1) * each) * (1 + 2.0**-48)


def colluding(colluders: int, crowd: int) -> tuple[str, ...]:
    """What is said of colluders, if there are any."""
    if not colluders:
        return ()
    return (f"{colluders} colluding people reveal their own reports, leaving a crowd of {crowd}",)


def shuffle_guarantee(
    randomizer: Randomizer,
    *,
    n: int,
    rounds: int,
    adaptive: bool,
    view: frozenset[str],
    colluders: int,
) -> Guarantee:
    """What is proven against a view, over all rounds."""
    if view != AMPLIFIED_VIEW:
        alone = any_randomizer(randomizer) if adaptive else randomizer
        return local_guarantee(alone, rounds, view, colluders)
    crowd = n - colluders
    one_round = clones_profile if adaptive else blanket_profile
    return Guarantee(
        profile=ComposedProfile(((one_round(randomizer, crowd), rounds),)),
        view=view,
        theorem=_CLONES if adaptive else _BLANKET,
        assumptions=(
            HONEST_SHUFFLER,
            SOME_RANDOMIZER if adaptive else SAME_RANDOMIZER,
            _FREE_PARTICIPATION,
            _ALL_ARRIVE,
            *((FIXED_CROWDS,) if rounds > 1 else ()),
            *drawing(randomizer),
            *colluding(colluders, crowd),
        ),
        colluders=colluders,
    )
