"""What can be set about a shuffled check-in."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.settings import RoundParameters, parameter

_ROUND = 2.0**-50


class CheckInParameters(RoundParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of :class:`incrowd.protocols.check_in.CheckIn`."""

    rate: Annotated[
        float,
        parameter("the chance that a person takes part in a round, above 0 and up to 1",
                  solve="max", most=1.0, default=""),
    ] = 0.0  # fmt: skip
    rounds: Annotated[int, parameter("rounds, each with a fresh random crowd", solve="max")] = 1
    least: Annotated[
        float,
        parameter(
            "the smallest crowd to count on, as a number of people or a share of them (below 1): a "
            "round in which fewer are heard of is dropped unread",
            default="all n, and no round is dropped",
        ),
    ] = 0
    dummies: Annotated[
        bool,
        parameter("who stays away sends an equal dummy, so that traffic does not show it"),
    ] = True
    adaptive: Annotated[
        bool,
        parameter(
            "the randomizer may depend on a report's place in the shuffled round and on those "
            "before it, never on whose it is"
        ),
    ] = False
    rates: Annotated[
        tuple[float, ...],
        parameter("a file with each person's own rate, one per line, in place of one for all"),
    ] = ()

    def __post_init__(self) -> None:
        """Refuse rates that are no chances, and rounds or crowds that are none."""
        RoundParameters.__post_init__(self)
        for name in ("dummies", "adaptive"):
            checks.instance(getattr(self, name), bool, name, "True")
        if len(self.rates):
            if self.rate:
                raise InvalidParameter(
                    "rates are in place of one rate for all: give only one of them", field="rates"
                )
            if len(self.rates) != self.n:
                raise InvalidCrowd(
                    f"rates has {len(self.rates)} entries for n = {self.n} people: give one each",
                    field="rates",
                )
            own = tuple(
                checks.rate(each, f"rates (of person {person})", "rates")
                for person, each in enumerate(self.rates)
            )
            msgspec.structs.force_setattr(self, "rates", own)
        else:
            checks.rate(self.rate)
        least = checks.number(self.least, "least")
        if least < 0 or (least >= 1 and least != round(least)):
            raise InvalidParameter(
                f"least must be a whole number of people or a share of them below 1, got {least:g}",
                field="least",
            )
        if least and not self.dummies:
            raise InvalidParameter(
                "least needs dummies: without them nobody can tell who stayed away from who was "
                "not there",
                field="least",
            )
        if least > self.n:
            raise InvalidCrowd(
                f"least must be at most the n = {self.n} people, got {least:g}", field="least"
            )

    @property
    def fewest(self) -> int:
        """A round in which fewer people are heard of is dropped."""
        if self.least >= 1:
            return int(self.least)
        # A share such as 0.55 is a little more or less than what it is meant to be.
        return math.ceil(self.least * self.n * (1 - _ROUND))

    @property
    def crowd(self) -> int:
        """The crowd that every round is sure to have."""
        return self.fewest or self.n

    def each_rate(self) -> NDArray[np.float64]:
        """Everybody's chance to take part in a round."""
        return np.array(self.rates) if self.rates else np.full(self.n, self.rate)

    def rate_of(self, person: int) -> float:
        """One person's chance to take part in a round."""
        return self.rates[person] if self.rates else self.rate

    @property
    def participants_expected(self) -> float:
        """How many people a round is expected to have."""
        return sum(self.rates) if self.rates else self.n * self.rate
