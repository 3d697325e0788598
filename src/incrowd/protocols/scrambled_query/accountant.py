"""Guarantees of a scrambled query against each view, and the theorems behind them.

* An observer of the network, the hub included, sees how many messages each scrambler sends to each
  compute node: the routing of the plan protects (``docs/theory/scrambler.md``, and
  ``docs/theory/plans.md`` for a plan of several clusters).
* A scrambler sees where each of its people's messages goes: only their own sampling protects.
* Against the curator, who is given the result, there is a guarantee only when the result has noise;
  an observer who gets it too learns from both together, which with sampling is more than the sum of
  the two.
* Compute nodes read tuples in the clear, and nothing is guaranteed against them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from incrowd.errors import NotProven
from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.least import LentProfile
from incrowd.privacy.pure import PureProfile
from incrowd.protocols.scrambled_query.bounds import BENNETT, HOEFFDING
from incrowd.protocols.scrambled_query.cost import Load
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.protocols.scrambled_query.theorems.mechanisms import Scrambler

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_WATCHING = frozenset({"network", "hub"})
_SEALED = "messages are sealed and of equal size, and leave a scrambler in random order"
_ASSIGNED = "who is assigned to which scrambler, and who takes part, does not depend on the data"
_HONEST = "scramblers add their dummies and do not tell who sent what"
_RESULT = "the result is shown only with its noise; compute nodes, which read tuples, keep them"


def query_guarantee(query: ScrambledQuery, view: frozenset[str], colluders: int) -> Guarantee:
    """Return the guarantee against a view of network, hub, scrambler and curator."""
    if not view <= _WATCHING | {"scrambler", "curator"}:
        raise NotProven(
            "compute nodes read the tuples of their cells, so that nothing is proven when all "
            "parties pool what they saw: choose a view of network, hub, scrambler and curator"
        )
    sees_result = "curator" in view
    if sees_result and not query.release_epsilon:
        raise NotProven(
            "the curator is given the result as it is: set release, the ε of noise in it, for "
            "a guarantee against the curator"
        )
    # Without scramblers people tell the curator when they got through, which they do not where the
    # compute node that they sent to is silent: then the curator is as good as an observer.
    if view == {"curator"} and query.hiding != "local":
        noise, theorem = query.release_epsilon, "Laplace noise (docs/theory/plans.md)"
        return Guarantee(PureProfile(noise), view, theorem, (_RESULT,), colluders=colluders)
    if "scrambler" in view and query.hiding != "local":
        return _by_sampling_alone(query, view, colluders)
    # In the worst case as many as fit are in the victim's group; others tell nothing.
    beside = min(colluders, max(0, query.sources - 1))
    profile = query.plan.profile(released=sees_result, colluders=beside)
    if query.query is not None and query.query.narrowed:
        # A condition on the groups may leave nobody whom the attack could tell apart.
        profile = LentProfile(profile)
    told = f"{colluders} colluding people tell their tuples and where they sent them"
    assumptions = (
        *(() if query.hiding == "local" else (_HONEST,)),
        *(_SEALED, _ASSIGNED),
        *((_RESULT,) if sees_result else ()),
        *((told,) if colluders else ()),
    )
    return Guarantee(profile, view, query.plan.theorem, assumptions, colluders=colluders)


def _by_sampling_alone(query: ScrambledQuery, view: frozenset[str], colluders: int) -> Guarantee:
    """A scrambler knows where each message goes, but not which ones are redirected."""
    if query.randomizer.domain != "target":
        local: list[Profile] = [LocalProfile(query.randomizer)] * query.grouping_sets
    else:
        redirects = [query.redirect(index) for index in range(len(query.set_targets))]
        if any(math.isinf(each.epsilon) for each in redirects):
            raise NotProven(
                "without redirect_probability a scrambler sees true targets: set it, or trust "
                "the scramblers"
            )
        # An ε0 of zero tells nothing and cannot be composed.
        local = [PureProfile(each.epsilon, each.kept) for each in redirects if each.epsilon]
    if query.sets_per_person == "one":
        local = sorted(local, key=lambda each: each.greatest_loss)[-1:]
    if "curator" in view:
        local.append(PureProfile(query.release_epsilon))
    if not local:
        raise NotProven("every grouping set has one compute node: there is nothing to hide")
    (first, *others) = local
    profile = ComposedProfile(tuple((each, 1) for each in local)) if others else first
    assumptions = (_SEALED, _RESULT) if "curator" in view else (_SEALED,)
    theorem = "lies alone (docs/theory/scrambler.md)"
    return Guarantee(profile, view, theorem, assumptions, colluders=colluders)


def compared(query: ScrambledQuery, delta: float) -> dict[str, Any]:
    """Return ε0 of a message, the share of tuples that arrive, the load, and the older bounds."""
    found: dict[str, Any] = Load.of(query).described()
    if query.randomizer.domain != "target":
        return found
    redirects = [query.redirect(index) for index in range(len(query.set_targets))]
    # Of the set with the most compute nodes, where grouping sets differ.
    alone = max(redirects, key=lambda each: each.targets).epsilon
    found |= {
        "local_epsilon": None if math.isinf(alone) else alone,
        "kept": [each.kept for each in redirects],
    }
    (routing, *others) = query.routings
    if isinstance(routing, Scrambler) and not others:
        settings = (routing.targets, routing.sampling, routing.sources, routing.dummies)
        found |= {
            "hoeffding_epsilon": HOEFFDING.epsilon(*settings, delta),
            "bennett_epsilon": BENNETT.epsilon(*settings, delta),
        }
        if not routing.coins and routing.targets > 1:
            # Without sampling a target that gets no dummy at all gives its message away.
            found["delta_floor"] = ScramblerProfile(*settings).floor
    return found
