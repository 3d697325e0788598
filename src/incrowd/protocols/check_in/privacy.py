"""What is proven when people check in at random.

Who stays away sends the symbol *void*, so that one round is plain shuffling of the randomizer
R' = γ·R + (1 − γ)·void: everything that is proven of shuffling holds of R', with a blanket that the
void symbol makes larger. The number of people in a round is part of what the curator sees. Rounds
compose, also when what is asked in one depends on those before. See ``docs/theory/check_in.md``.

A view that includes the shuffler knows who sent what. Then only the person's own coin and the
randomizer protect: ε0 in each round in which one takes part.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from incrowd.privacy import ComposedProfile, Guarantee
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.thinned import thinned
from incrowd.protocols.check_in.parameters import CheckInParameters
from incrowd.protocols.check_in.rates import RatesProfile
from incrowd.protocols.local.privacy import drawing, local_guarantee
from incrowd.protocols.trusted_shuffle.privacy import (
    AMPLIFIED_VIEW,
    HONEST_SHUFFLER,
    SAME_RANDOMIZER,
    SOME_RANDOMIZER,
    any_randomizer,
    blanket_profile,
    clones_profile,
    colluding,
)
from incrowd.randomizers.base import Randomizer

__all__ = ["check_in_guarantee"]

_BLANKET = "checked-in blanket (docs/theory/check_in.md)"
_CLONES = "checked-in clones (docs/theory/check_in.md)"

_COUNT_IS_SEEN = "the number of participants of each round is part of the view"
_OWN_COIN = (
    "everyone decides by their own coin, independent of the data, of others and of earlier rounds"
)
_LOSS_IS_BLIND = "reports are lost at random and independently of the data, which only helps"
_ALL_THERE = "all n people are there in every round, in it or not; a run counts those who were"
_UNCOUNTED = (
    "all n people are there in every round, in it or not, which without dummies nobody can check"
)
_RATES_ARE_KNOWN = "everyone's rate is public and does not depend on the data"
_TRAFFIC = (
    "without dummies traffic shows who takes part: the rate counts against a curator who does not "
    "see it, and against nobody else"
)


def check_in_guarantee(
    randomizer: Randomizer, parameters: CheckInParameters, view: frozenset[str], colluders: int
) -> Guarantee:
    """What is proven against a view, over all rounds."""
    adaptive = parameters.adaptive
    if view != AMPLIFIED_VIEW:
        # Whoever comes most often is protected least.
        rate = max(parameters.rates, default=parameters.rate)
        alone = any_randomizer(randomizer) if adaptive else randomizer
        local = local_guarantee(thinned(alone, rate), parameters.rounds, view, colluders)
        return replace(local, assumptions=(*local.assumptions, _OWN_COIN))
    crowd = parameters.crowd - colluders
    return Guarantee(
        profile=_profile(randomizer, parameters, crowd),
        view=view,
        theorem=_CLONES if adaptive else _BLANKET,
        assumptions=(
            HONEST_SHUFFLER,
            SOME_RANDOMIZER if adaptive else SAME_RANDOMIZER,
            _COUNT_IS_SEEN,
            _OWN_COIN,
            *((_RATES_ARE_KNOWN,) if parameters.rates else ()),
            _LOSS_IS_BLIND,
            *_presence(parameters),
            *(() if parameters.dummies else (_TRAFFIC,)),
            *drawing(randomizer),
            *colluding(colluders, crowd),
        ),
        colluders=colluders,
    )


def _presence(parameters: CheckInParameters) -> tuple[str, ...]:
    """What is taken for granted of who is there; nothing where too small a crowd is dropped."""
    if not parameters.dummies:
        return (_UNCOUNTED,)
    return () if parameters.fewest else (_ALL_THERE,)


def _profile(randomizer: Randomizer, parameters: CheckInParameters, crowd: int) -> Profile:
    if parameters.rates:
        return RatesProfile(
            randomizer,
            np.array(parameters.rates),
            parameters.rounds,
            adaptive=parameters.adaptive,
            missing=parameters.n - crowd,
        )
    one_round = clones_profile if parameters.adaptive else blanket_profile
    return ComposedProfile(((one_round(randomizer, crowd, parameters.rate), parameters.rounds),))
