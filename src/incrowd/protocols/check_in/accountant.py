"""Guarantees of people who check in at random.

People who stay away send the symbol *void*, so that one round is plain shuffling of the randomizer
R' = γ·R + (1 − γ)·void: every theorem on shuffling holds of R', with a blanket that the void symbol
makes larger. The number of people in a round is part of the curator's view. Rounds compose, also
adaptively. See ``docs/theory/check_in.md``.

A view that includes the shuffler knows who sent what. Then only the person's own coin and the
randomizer protect: ε0 in each round in which one takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.mechanisms.local import drawing, local_guarantee
from incrowd.privacy.mechanisms.shuffle import (
    AMPLIFIED_VIEW,
    FIXED_CROWDS,
    HONEST_SHUFFLER,
    SAME_RANDOMIZER,
    SOME_RANDOMIZER,
    any_randomizer,
    blanket_profile,
    clones_profile,
    colluding,
)
from incrowd.privacy.thinned import thinned
from incrowd.protocols.check_in.parameters import CheckInParameters
from incrowd.protocols.check_in.theorems.counted_reports import CountedProfile, Crowds
from incrowd.protocols.check_in.theorems.heterogeneous_rates import RatesProfile
from incrowd.randomizers.base import Randomizer

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
_COUNTED = (
    "without dummies the crowds are bounded from below by the reports that came, each of another "
    "person; the chance that this fails is part of δ"
)
_RATES_ARE_KNOWN = "everyone's rate is public and does not depend on the data"
_TRAFFIC = (
    "without dummies traffic shows who takes part: the rate counts against a curator who does not "
    "see it, and against nobody else"
)


def check_in_guarantee(
    randomizer: Randomizer,
    parameters: CheckInParameters,
    view: frozenset[str],
    colluders: int,
    *,
    counts: Sequence[int] | None = None,
    attended: bool = False,
) -> Guarantee:
    """Return the guarantee against a view, over all rounds.

    ``counts`` are the numbers of reports of a run without dummies, where nothing else is known of
    the crowds; before the run all n people are taken to be there. ``attended`` says that the least
    crowd is that of a run, rather than one below which rounds are dropped.
    """
    adaptive = parameters.adaptive
    if view != AMPLIFIED_VIEW:
        alone = _alone(randomizer, parameters)
        local = local_guarantee(alone, parameters.rounds, view, colluders)
        return replace(local, assumptions=(*local.assumptions, _OWN_COIN))
    crowd, dropped = parameters.crowd - colluders, parameters.fewest > 0
    if counts is None:
        profile = _profile(randomizer, parameters, ((crowd, parameters.rounds),))
    else:
        profile = CountedProfile(
            counts=tuple(count - colluders for count in counts),
            rate=max(parameters.rates, default=parameters.rate),
            most=crowd,
            curve=partial(_profile, randomizer, parameters),
            alone=ComposedProfile(((LocalProfile(_alone(randomizer, parameters)), len(counts)),)),
        )
    return Guarantee(
        profile=profile,
        view=view,
        theorem=_CLONES if adaptive else _BLANKET,
        assumptions=(
            HONEST_SHUFFLER,
            SOME_RANDOMIZER if adaptive else SAME_RANDOMIZER,
            _COUNT_IS_SEEN,
            _OWN_COIN,
            *((_RATES_ARE_KNOWN,) if parameters.rates else ()),
            _LOSS_IS_BLIND,
            *_presence(parameters, counts),
            *((FIXED_CROWDS,) if parameters.rounds > 1 and (attended or not dropped) else ()),
            *(() if parameters.dummies else (_TRAFFIC,)),
            *drawing(randomizer),
            *colluding(colluders, crowd),
        ),
        colluders=colluders,
    )


def _alone(randomizer: Randomizer, parameters: CheckInParameters) -> Randomizer:
    # The person who comes most often is protected least.
    rate = max(parameters.rates, default=parameters.rate)
    return thinned(any_randomizer(randomizer) if parameters.adaptive else randomizer, rate)


def _presence(parameters: CheckInParameters, counts: Sequence[int] | None) -> tuple[str, ...]:
    if not parameters.dummies:
        return (_UNCOUNTED if counts is None else _COUNTED,)
    # Rounds with too small a crowd are dropped where there is a least one.
    return () if parameters.fewest else (_ALL_THERE,)


def _profile(randomizer: Randomizer, parameters: CheckInParameters, crowds: Crowds) -> Profile:
    if parameters.rates:
        return RatesProfile(
            randomizer,
            np.array(parameters.rates),
            parameters.rounds,
            adaptive=parameters.adaptive,
            missing=parameters.n - min(crowd for crowd, _ in crowds),
        )
    one_round = clones_profile if parameters.adaptive else blanket_profile
    return ComposedProfile(
        tuple((one_round(randomizer, crowd, parameters.rate), times) for crowd, times in crowds)
    )
