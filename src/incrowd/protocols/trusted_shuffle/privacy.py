"""What is proven when a trusted shuffler forgets who said what.

The curator sees the multiset of n reports. Two theorems, one function each:

* :func:`blanket_profile`: one fixed randomizer for all. Part of every other person's report is
  drawn from a common law, the blanket, and hides the victim's. See ``docs/theory/blanket.md``.
* :func:`clones_profile`: randomizers that may differ per person, or depend on the reports before
  them. Each other person is a clone of the victim with probability e^−ε0 ("Hiding Among the
  Clones", Feldman, McMillan and Talwar). See ``docs/theory/clones.md``.

Neither is ever above what the randomizer promises alone. A colluder knows and reveals their own
report, so m of them leave a crowd of n − m. A view that includes the shuffler knows who sent each
report, so only the randomizer protects.
"""

from __future__ import annotations

from functools import lru_cache

from incrowd.errors import NotProven
from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile, ShuffleProfile, clones_law
from incrowd.privacy.guarantee import Profile
from incrowd.protocols.local.privacy import drawing, local_guarantee
from incrowd.randomizers import Generic
from incrowd.randomizers.base import Randomizer

__all__ = ["blanket_profile", "clones_profile", "shuffle_guarantee"]

_BLANKET = "privacy blanket (docs/theory/blanket.md)"
_CLONES = "clones (docs/theory/clones.md)"

_HONEST_SHUFFLER = "the shuffler permutes uniformly and does not collude with the view"
_SAME_RANDOMIZER = "every other person uses the same randomizer honestly"
_SOME_RANDOMIZER = "every other person uses some randomizer with the same epsilon honestly"
_FREE_PARTICIPATION = "who takes part does not depend on the data"
_ALL_ARRIVE = "all n reports of a round arrive; a run restates the promise for those that did"

_AMPLIFIED_VIEW = frozenset({"curator"})


@lru_cache(maxsize=32)
def blanket_profile(randomizer: Randomizer, crowd: int) -> Profile:
    """One round with the same randomizer for everyone in a crowd of this size."""
    return ShuffleProfile(
        randomizer.blanket(), crowd, LocalProfile(randomizer), randomizer.attack()
    )


@lru_cache(maxsize=32)
def clones_profile(randomizer: Randomizer, crowd: int) -> Profile:
    """One round in which each person may use another randomizer with the same ε0."""
    return ShuffleProfile(
        clones_law(randomizer.epsilon),
        crowd,
        LocalProfile(any_randomizer(randomizer)),
        randomizer.attack(),
    )


def any_randomizer(randomizer: Randomizer) -> Randomizer:
    """What stands for every randomizer with the ε0 of this one; refuses those with a δ0."""
    if randomizer.delta > 0:
        raise NotProven(
            f"adaptive shuffling is proven for pure randomizers only, and {randomizer.kind} has "
            f"delta = {randomizer.delta:g}: choose another randomizer or adaptive = false"
        )
    return Generic(epsilon=randomizer.epsilon)


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
    if view != _AMPLIFIED_VIEW:
        alone = any_randomizer(randomizer) if adaptive else randomizer
        return local_guarantee(alone, rounds, view, colluders)
    crowd = n - colluders
    one_round = clones_profile if adaptive else blanket_profile
    assumptions = [
        _HONEST_SHUFFLER,
        _SOME_RANDOMIZER if adaptive else _SAME_RANDOMIZER,
        _FREE_PARTICIPATION,
        _ALL_ARRIVE,
        *drawing(randomizer),
    ]
    if colluders:
        assumptions.append(
            f"{colluders} colluding people reveal their own reports, leaving a crowd of {crowd}"
        )
    return Guarantee(
        profile=ComposedProfile(((one_round(randomizer, crowd), rounds),)),
        view=view,
        theorem=_CLONES if adaptive else _BLANKET,
        assumptions=tuple(assumptions),
        colluders=colluders,
    )
