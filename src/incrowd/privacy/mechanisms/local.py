"""What is proven when reports are not mixed: the randomizer's own guarantee, once per round.

Whoever sees a report, and whatever else they know, the report was drawn by an ε0-randomizer; a
person who sends one fresh report per round releases a composition of them. No other person can make
this worse, so it holds against every view, with any number of colluders, and is the cap of every
other protocol's guarantee. See ``docs/theory/local.md``.
"""

from __future__ import annotations

from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile
from incrowd.randomizers.base import Randomizer

THEOREM = "local randomizer (docs/theory/local.md)"

_HONEST_DEVICE = "the person's own device runs the randomizer as described"


def local_guarantee(
    randomizer: Randomizer, rounds: int, view: frozenset[str], colluders: int
) -> Guarantee:
    """ε0 per round, composed over the rounds, against any view."""
    return Guarantee(
        profile=ComposedProfile(((LocalProfile(randomizer), rounds),)),
        view=view,
        theorem=THEOREM,
        assumptions=(_HONEST_DEVICE, *drawing(randomizer)),
        colluders=colluders,
    )


def drawing(randomizer: Randomizer) -> tuple[str, ...]:
    """What is taken for granted about how the randomizer draws."""
    return (randomizer.assumption,) if randomizer.assumption else ()
