"""The theorem that holds against each view of a token walk.

The view and its knowledge decide (``docs/theory/token_walk.md``):

* a **peer** who sees the token whenever it comes, and not the path: every step is one of an unknown
  person, so T of them are T rounds of sampling with probability 1/(n − 1). That covers the final
  token too, and contributions that read the token.
* a peer who **knows the path** (it is public, or hub or courier tells): the protection is the noise
  of the holders in between.
* the **curator**, or anyone else, who sees the final token alone: one sum with all the noise.
* **everyone** but the victim: only the noise of each contribution.

Colluders are peers: a curator with colluders is a peer who also sees the result.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from incrowd.errors import NotProven
from incrowd.graphs.graph import Graph
from incrowd.privacy import ComposedProfile, Guarantee, LocalProfile
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.least import LeastProfile, LentProfile
from incrowd.privacy.mechanisms.local import drawing
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.sampled import SampledProfile
from incrowd.protocols.token_walk.theorems import public_path
from incrowd.protocols.token_walk.theorems.amplification_by_iteration import IteratedProfile
from incrowd.protocols.token_walk.theorems.conditional_on_path import loss_profile
from incrowd.protocols.token_walk.theorems.hidden_path import HiddenWalkProfile
from incrowd.randomizers.base import Randomizer
from incrowd.views import EVERYONE

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from incrowd.protocols.token_walk.spec import TokenWalk

_CARRIERS = frozenset({"hub", "courier", "network"})
"""Parties that know the path: they carry tokens, or watch them being carried."""
_HONEST = "the person's own device adds its contribution and its noise as described"
_UNIFORM = (
    "every holder, the first too, is drawn uniformly from all people, the holder itself included"
)
_UNSEEN = (
    "no party of this view learns from whom a token comes or where it goes; the party that carries "
    "tokens seals them only to the holders that were drawn"
)
_THERE = (
    "all people are there throughout; a run counts the fewest who were known to be there, at the "
    "end too"
)
_AWAY = "no party of this view learns who is away when"
_TIMED = "a contribution depends on the time, the token and the person's data alone"
_FIXED = "a contribution depends on the person's data alone, not on what the token holds"
_CONSTANT = (
    "the losses are convex and smooth, and every step is of the same size, at most 2 over their "
    "smoothness"
)
_UNPUBLISHED = "no party of this view is shown the result"
_PUBLIC = "the path does not depend on the data"


def contribution(randomizer: Randomizer) -> Profile:
    """Return the profile of one contribution seen alone."""
    shift = randomizer.normal_shift
    return LocalProfile(randomizer) if shift is None else GaussianProfile(shift)


def token_guarantee(walk: TokenWalk, view: frozenset[str], colluders: int) -> Guarantee:
    """Return the guarantee of a walk against this view with this number of colluding people."""
    strangers = view - _CARRIERS - EVERYONE - {"curator", "peer"}
    if strangers:
        raise NotProven(
            f"nobody in a token walk is the {' or the '.join(sorted(strangers))}: name some of "
            "curator, peer, hub, courier and network"
        )
    if view == EVERYONE:
        found = _everyone(walk)
    elif "peer" in view or colluders:
        # Colluders are peers; beside a peer they are all helpers.
        helpers = colluders if "peer" in view else colluders - 1
        final = walk.published or "curator" in view
        known = walk.path_known == "public" or bool(view & _CARRIERS)
        found = (_peer_knowing if known else _peer)(walk, helpers, final)
    else:
        found = _final(walk, known=bool(view & _CARRIERS))
    profile, theorem, assumptions = found
    if walk.tokens > 1:
        profile = ComposedProfile(((profile, walk.tokens),))
    assumptions = (_HONEST, *assumptions, *drawing(walk.randomizer))
    return Guarantee(profile, view, theorem, assumptions, colluders=colluders)


_Found = tuple[Profile, str, tuple[str, ...]]


def _peer(walk: TokenWalk, helpers: int, final: bool) -> _Found:
    one = contribution(walk.randomizer)
    profile: Profile = HiddenWalkProfile(one, walk.n, walk.steps, helpers)
    if not walk.reads:
        # Of few steps, each with little noise, the curve of a known path may be the lower one.
        profile = LeastProfile(profile, _peer_knowing(walk, helpers, final)[0])
    away = (_AWAY,) if walk.available < 1 else ()
    assumptions = (_UNIFORM, _THERE, _UNSEEN, *away, _TIMED if walk.reads else _FIXED)
    return profile, "hidden path (docs/theory/token_walk.md)", assumptions


def _peer_knowing(walk: TokenWalk, helpers: int, final: bool) -> _Found:
    shift = walk.randomizer.normal_shift
    profile: Profile
    if walk.topology == "ring":
        if final and not walk.published:
            raise NotProven(
                "a participant who is shown the result of a ring can subtract what they saw before "
                "from it: set published"
            )
        return _ring(walk, helpers)
    if shift is None or walk.broken:
        # Others' reports between two visits hide one's own; how much is not proven here. Of a
        # broken walk, carriers of tokens may have kept sums that went no further.
        return _lent(_everyone(walk))
    unseen = () if final else (_UNPUBLISHED,)
    seen = final == walk.published and walk.pair is None
    if walk.losses is not None and seen and not (walk.reads or helpers):
        profile = _capped(walk, loss_profile(walk.losses, shift))
        return profile, "realised walk (docs/theory/token_graph.md)", (_FIXED, _PUBLIC, *unseen)
    if walk.topology == "graph":
        if helpers or walk.graph is None:
            raise NotProven("colluders are not accounted for on a graph: use topology complete")
        profile = _graph_profile(walk.graph, walk.pair, shift, walk.cap, final)
        reads = _CONSTANT if walk.reads else _FIXED
        drawn = "the first holder is drawn uniformly, and each next one by the public weights"
        theorem = "public walk on a graph (docs/theory/token_graph.md)"
        return profile, theorem, (drawn, reads, *unseen)
    if walk.reads:
        if not walk.cap:
            raise NotProven(
                "steps that read the token are proven towards those who know its path only where "
                "each person's are capped: set cap, with a public path"
            )
        profile = IteratedProfile(shift, walk.n, walk.cap, helpers, final)
        theorem = "public walk of steps (docs/theory/token_graph.md)"
        return profile, theorem, (_UNIFORM, _TIMED, _CONSTANT, *unseen)
    profile = _capped(
        walk, public_path.PublicWalkProfile(shift, walk.n, walk.steps, helpers, final)
    )
    return profile, "public walk (docs/theory/token_walk.md)", (_UNIFORM, _FIXED, *unseen)


def _ring(walk: TokenWalk, helpers: int) -> _Found:
    if helpers:
        raise NotProven(
            "on a ring, the two people beside a person see every contribution between them: "
            "no guarantee holds against colluders; use topology complete"
        )
    ring, noise = walk.ring, walk.randomizer
    histogram = noise.uniform_blanket
    profile = ring.histogram_profile(noise) if histogram else ring.profile(contribution(noise))
    alone = "nobody tells another what they saw of the token"
    unseen = () if walk.published else (_UNPUBLISHED,)
    return profile, "ring (docs/theory/token_ring.md)", (_FIXED, alone, *unseen)


def _final(walk: TokenWalk, *, known: bool) -> _Found:
    shift = walk.randomizer.normal_shift
    if walk.topology == "ring":
        return _ring(walk, 0)
    theorem = "final token (docs/theory/token_walk.md)"
    own: Profile | None = None
    if shift is not None and not walk.reads and not walk.broken:
        # k²/T of a person who contributes as often as the cap allows, in a sum with T noises.
        most = loss_profile(min(walk.cap, walk.steps) ** 2 / walk.steps, shift)
        if walk.topology == "graph":
            return most, theorem, (_FIXED,)
        own = public_path.CuratorSumProfile(shift, walk.n, walk.steps)
        if walk.cap:
            own = LeastProfile(LentProfile(own), most)
    if known or walk.path_known == "public":
        if own is not None:
            return own, theorem, (_UNIFORM, _FIXED)
        # Beside the path, the final token is a part of what a peer would see.
        return _lent(_peer_knowing(walk, 0, final=True))
    # Even a view of every increment, of no participant, is one of random people's increments.
    step = SampledProfile(contribution(walk.randomizer), 1 / walk.n)
    more = RepeatedProfile(step, walk.steps)
    if own is not None:
        return LeastProfile(own, more), theorem, (_UNIFORM, _THERE, _UNSEEN, _FIXED)
    theorem = "hidden path (docs/theory/token_walk.md)"
    return LentProfile(more), theorem, (_UNIFORM, _THERE, _UNSEEN, _TIMED)


def _lent(found: _Found) -> _Found:
    """The same for a smaller view."""
    return LentProfile(found[0]), *found[1:]


def _everyone(walk: TokenWalk) -> _Found:
    one, shift = contribution(walk.randomizer), walk.randomizer.normal_shift
    theorem = "local contributions (docs/theory/token_walk.md)"
    if walk.topology == "ring":
        if walk.randomizer.uniform_blanket:
            return ComposedProfile(((one, walk.laps),)), theorem, ()
        if not walk.split_noise:
            raise NotProven(
                "on a ring where only one in n − 1 adds noise, two neighbours together see a "
                "contribution in the clear: add split_noise, or use topology complete"
            )
        return loss_profile(walk.laps * (walk.n - 1), cast(float, shift)), theorem, ()
    if walk.topology == "graph":
        if shift is not None:
            return loss_profile(walk.cap, shift), theorem, ()
        return ComposedProfile(((one, walk.cap),)), theorem, ()
    return public_path.LocalWalkProfile(one, walk.n, walk.steps, walk.cap), theorem, (_UNIFORM,)


def _capped(walk: TokenWalk, profile: Profile) -> Profile:
    if not walk.cap:
        return profile
    # Turns beyond the cap are noise alone, which the curve counts as contributions: it holds, and
    # its attacks do not.
    return LeastProfile(LentProfile(profile), _everyone(walk)[0])


@lru_cache(maxsize=16)
def _graph_profile(
    graph: Graph, pair: tuple[int, int] | None, shift: float, cap: int, published: bool
) -> Profile:
    """The profile of one pair, or of the worst; cached, since it does not depend on the steps."""
    from incrowd.protocols.token_walk.theorems.graph_walk import PairOnGraphProfile, worst_profile

    weights = weights_of(graph)
    if pair is None:
        return worst_profile(weights, shift, cap, published=published)
    return PairOnGraphProfile(weights, pair, shift, cap, published=published)


@lru_cache(maxsize=4)
def weights_of(graph: Graph) -> csr_array:
    """Return the chances of each step: Metropolis–Hastings, whose stationary law is uniform."""
    from incrowd.protocols.token_walk.theorems.graph_walk import metropolis

    return metropolis(graph)
