"""Guarantees of people who check in at random.

People who stay away send the symbol *void*, so that one round is plain shuffling of the randomizer
R' = γ·R + (1 − γ)·void: every theorem on shuffling holds of R', with a blanket that the void symbol
makes larger. The number of people in a round is part of the curator's view. Rounds compose, also
adaptively. See ``docs/theory/check_in.md``.

A view that includes the shuffler knows who sent what. Then only the person's own coin and the
randomizer protect: ε0 in each round in which one takes part.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.mechanisms import shuffle
from incrowd.privacy.mechanisms.local import drawing, local_guarantee
from incrowd.privacy.thinned import thinned
from incrowd.protocols.check_in.theorems.counted_reports import CountedProfile, Crowds
from incrowd.protocols.check_in.theorems.heterogeneous_rates import RatesProfile
from incrowd.randomizers.base import Randomizer

if TYPE_CHECKING:
    from incrowd.protocols.check_in.spec import CheckIn

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


def check_in_guarantee(protocol: CheckIn, view: frozenset[str], colluders: int) -> Guarantee:
    """Return what is proven against a view, over all rounds.

    Where only the reports of a run without dummies were counted, nothing else is known of the
    crowds; before the run all n people are taken to be there.
    """
    randomizer, counts = protocol.randomizer, protocol.counts
    adaptive = protocol.adaptive
    if view != shuffle.AMPLIFIED_VIEW:
        local = local_guarantee(_alone(protocol), protocol.rounds, view, colluders)
        return replace(local, assumptions=(*local.assumptions, _OWN_COIN))
    crowd = protocol.crowd - colluders
    insisted = protocol.fewest > 0 and not protocol.attended
    if counts is None:
        profile = _profile(protocol, ((crowd, protocol.rounds),))
    else:
        profile = CountedProfile(
            counts=tuple(count - colluders for count in counts),
            rate=max(protocol.rates, default=protocol.rate),
            most=crowd,
            curve=partial(_profile, protocol),
            alone=ComposedProfile(((LocalProfile(_alone(protocol)), len(counts)),)),
        )
    return Guarantee(
        profile=profile,
        view=view,
        theorem=_CLONES if adaptive else _BLANKET,
        assumptions=(
            shuffle.HONEST_SHUFFLER,
            shuffle.SOME_RANDOMIZER if adaptive else shuffle.SAME_RANDOMIZER,
            _COUNT_IS_SEEN,
            _OWN_COIN,
            *((_RATES_ARE_KNOWN,) if protocol.rates else ()),
            _LOSS_IS_BLIND,
            *_presence(protocol),
            *((shuffle.FIXED_CROWDS,) if protocol.rounds > 1 and not insisted else ()),
            *(() if protocol.dummies else (_TRAFFIC,)),
            *drawing(randomizer),
            *shuffle.colluding(colluders, crowd),
        ),
        colluders=colluders,
    )


def _alone(protocol: CheckIn) -> Randomizer:
    # The person who comes most often is protected least.
    rate = max(protocol.rates, default=protocol.rate)
    drawn = protocol.randomizer
    return thinned(shuffle.any_randomizer(drawn) if protocol.adaptive else drawn, rate)


def _presence(protocol: CheckIn) -> tuple[str, ...]:
    """What is taken for granted of who is there; nothing where too small a crowd is dropped."""
    if not protocol.dummies:
        return (_UNCOUNTED if protocol.counts is None else _COUNTED,)
    return () if protocol.fewest else (_ALL_THERE,)


def _profile(protocol: CheckIn, crowds: Crowds) -> Profile:
    if protocol.rates:
        return RatesProfile(
            protocol.randomizer,
            np.array(protocol.rates),
            protocol.rounds,
            adaptive=protocol.adaptive,
            missing=protocol.n - min(crowd for crowd, _ in crowds),
        )
    one_round = shuffle.clones_profile if protocol.adaptive else shuffle.blanket_profile
    drawn, rate = protocol.randomizer, protocol.rate
    return ComposedProfile(tuple((one_round(drawn, crowd, rate), times) for crowd, times in crowds))
