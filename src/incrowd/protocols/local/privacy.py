"""What is proven when reports are not mixed: the randomizer's own promise, once per round.

Whoever sees a report, and whatever else they know, the report was drawn by an ε0-randomizer; a
person who sends one fresh report per round releases a composition of them. No other person can make
this worse, so it holds against every view, with any number of colluders, and is the cap of every
other protocol's guarantee. See ``docs/theory/local.md``.
"""

from __future__ import annotations

from incrowd import checks
from incrowd.errors import InvalidCrowd
from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile
from incrowd.randomizers.base import Randomizer

__all__ = ["THEOREM", "check_colluders", "drawing", "local_guarantee"]

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


def check_colluders(colluders: int, n: int) -> int:
    """A number of colluding people that leaves at least the victim."""
    count = checks.integer(colluders, "colluders", 0)
    if n - count < 1:
        raise InvalidCrowd(
            f"{count} colluders leave nobody of {n} people to protect: "
            "there must be at most n − 1 of them"
        )
    return count
