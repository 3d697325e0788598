"""What is proven: against one view, for one neighbouring relation, under named assumptions.

A :class:`Profile` is a proven curve δ(ε), with a lower curve beside it where an attack is known. A
:class:`Guarantee` says who is kept from learning, what two neighbouring data sets are, by which
theorem, and under which assumptions the curve holds. Guarantees compose only when they speak of the
same view, the same colluders and the same neighbours.

What is kept from them is a notion of its own. ``dp``: the answer of any one person. ``order``:
which person of a group gave which of the group's reports (``docs/theory/order.md``); there the ε of
the curve is called α, it needs no δ, and it holds for one grouping of people.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.display import Displayed
from incrowd.errors import InvalidParameter

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution
    from incrowd.randomizers.law import PairLaw

Notion = Literal["dp", "order"]
Neighbours = Literal["replace-one", "reports-in-group", "answers-in-group"]
"""Two data sets are neighbours when they differ in the record of one person; or, about an order, in
which person of one group gave which of its reports, or which of its answers."""


class Profile(ABC):
    """A proven curve δ(ε); every number it returns errs on the safe side."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """A δ for which (ε, δ) is proven; never below the truth. Any real ε is allowed."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """An ε for which (ε, δ) is proven; never below the truth."""

    def lower(self, delta: float) -> float | None:
        """An ε that some attack attains at this δ, or none; never above the truth."""
        del delta
        return None

    def per_person(self, delta: float) -> NDArray[np.float64] | None:
        """A proven ε for each person, where people differ; else none. The largest is the curve's.

        Each may be rounded up by a few parts in a thousand more than :meth:`epsilon`.
        """
        del delta
        return None

    def attained(self) -> Sequence[LossDistribution]:
        """Privacy losses that known attacks attain in one round, from below."""
        return ()

    @property
    def greatest_loss(self) -> float:
        """An ε beyond which δ is exactly zero; infinite when there is none."""
        return math.inf

    @property
    @abstractmethod
    def interval(self) -> float:
        """A grid spacing fine enough to compose this profile many times."""

    @property
    def components(self) -> tuple[tuple[Profile, int], ...]:
        """The curves that this one composes, each with its number of rounds: itself, once."""
        return ((self, 1),)

    @property
    def convolvable(self) -> bool:
        """Whether convolving :meth:`losses` pays: if not, (ε, δ) are added up."""
        return True

    @property
    def pure_epsilon(self) -> float | None:
        """The one ε that is stated at every δ; none where more δ buys a smaller ε."""
        return None

    @property
    def normal_shift(self) -> float | None:
        """The shift of the two normal laws whose exact curve this is; none of other curves."""
        return None

    def attack(self) -> tuple[PairLaw, ...]:
        """Laws of one report on attacked data sets, where the curve is that of one randomizer."""
        return ()

    def losses(self, interval: float) -> LossDistribution:
        """A privacy-loss distribution that dominates the curve, on a grid of this spacing."""
        from incrowd.privacy.composition import connect_the_dots

        return connect_the_dots(self.delta, interval, self.greatest_loss)


@dataclass(frozen=True, repr=False)
class Guarantee(Displayed):
    """A profile with its view, theorem, assumptions and neighbouring relation."""

    profile: Profile
    view: frozenset[str]
    theorem: str
    """The name of the bound and the page of its proof, such as ``blanket (theory/blanket)``."""
    assumptions: tuple[str, ...]
    neighbours: Neighbours = "replace-one"
    colluders: int = 0
    """How many people help the view."""
    coalition: frozenset[int] | None = None
    """Which people these are; none where the curve holds for any ``colluders`` people."""
    notion: Notion = "dp"
    groups: str = ""
    """The groups that an order is kept private in, in words."""
    digest: str = ""
    """What tells these groups from all others."""

    def epsilon(self, delta: float) -> float:
        """A proven ε at this δ, rounded up; at δ = 0 it is infinite where no pure ε is proven."""
        if delta == 0:
            return self.profile.greatest_loss
        # A curve may take seconds for one point, which the terminal, the page and JSON all state.
        if checks.delta(delta) not in self._proven:
            self._proven[delta] = self.profile.epsilon(delta)
        return self._proven[delta]

    def delta(self, epsilon: float) -> float:
        """A proven δ at this ε, rounded up."""
        return self.profile.delta(epsilon)

    def lower(self, delta: float) -> float | None:
        """The ε of the best known attack at this δ, rounded down; none where none is known."""
        if checks.delta(delta) not in self._attained:
            self._attained[delta] = self.profile.lower(delta)
        return self._attained[delta]

    @cached_property
    def _proven(self) -> dict[float, float]:
        return {}

    @cached_property
    def _attained(self) -> dict[float, float | None]:
        return {}

    def per_person(self, delta: float) -> NDArray[np.float64] | None:
        """A proven ε for each person, where people differ; none where all have the same."""
        return self.profile.per_person(delta)

    @property
    def alpha(self) -> float:
        """The α of an order, which holds without any δ."""
        if self.notion != "order":
            raise InvalidParameter(
                "only a guarantee about an order has alpha: this one has epsilon", field="alpha"
            )
        return self.profile.greatest_loss

    def compose(self, *others: Guarantee) -> Guarantee:
        """The guarantee of releasing all of these.

        What a later one asks may depend on earlier answers. Which curves are composed may not:
        whoever stops, or picks a crowd, in view of an answer states the planned ones
        (``docs/theory/stopping.md``).
        """
        from incrowd.privacy.composition import ComposedProfile

        for other in others:
            checks.instance(other, Guarantee, "what is composed", "protocol.guarantee()")
            if (other.view, other.colluders) != (self.view, self.colluders):
                raise InvalidParameter(
                    f"cannot compose guarantees for different views: {self.view_name} with "
                    f"{self.colluders} colluders, {other.view_name} with {other.colluders}"
                )
            if other.neighbours != self.neighbours:
                raise InvalidParameter(
                    "cannot compose guarantees for different neighbours: "
                    f"{self.neighbours} and {other.neighbours}"
                )
            if other.digest != self.digest or (self.notion == "order" and not self.digest):
                raise InvalidParameter(
                    "cannot compose guarantees about the order in different groups, or in groups "
                    "that are not known yet: state both for the same ones first"
                )
        everything = (self, *others)
        coalitions = {each.coalition for each in everything if each.coalition is not None}
        if len(coalitions) > 1:
            named = " and ".join(sorted(str(sorted(each)) for each in coalitions))
            raise InvalidParameter(
                f"cannot compose guarantees against different colluders, {named}: name the same "
                "people in each"
            )
        return replace(
            self,
            profile=ComposedProfile(tuple((each.profile, 1) for each in everything)),
            theorem=" ∘ ".join(dict.fromkeys(each.theorem for each in everything)),
            assumptions=tuple(dict.fromkeys(a for each in everything for a in each.assumptions)),
            # A curve that holds for any so many people holds for these.
            coalition=next(iter(coalitions), None),
        )

    @property
    def view_name(self) -> str:
        """The view as one word, such as ``curator+shuffler``."""
        first = ("curator", "peer")
        return "+".join(sorted(self.view, key=lambda party: (party not in first, party)))
