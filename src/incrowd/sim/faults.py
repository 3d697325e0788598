"""Fault model of simulations: losses, delays, crashes and outages, as rates.

The default is a network that only takes time. Every draw comes from a seeded stream, so a run with
faults repeats exactly. The outages of a party are drawn ahead, from a stream of its own: they
depend neither on its calls nor on the route of any report.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from incrowd import checks
from incrowd.errors import InvalidParameter

Outage = tuple[float, float]
"""Begin and end of an outage, in virtual seconds."""
_HOUR = 3600.0
_DRAWN = 64
"""Outages per draw."""
_HEAVY_SHAPE = 1.5
"""Tail index of heavy delays: finite mean, infinite variance."""


def _rate(description: str) -> Any:
    return msgspec.Meta(ge=0, le=1, description=description)


def _seconds(description: str) -> Any:
    return msgspec.Meta(ge=0, description=description)


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates of faults; each is drawn independently."""

    loss: Annotated[float, _rate("share of messages that never arrive")] = 0.0
    duplicate: Annotated[
        float, _rate("share of messages that arrive twice, each copy with its own delay")
    ] = 0.0
    reorder: Annotated[
        float, _rate("share of messages held back at random, up to ten times the mean delay")
    ] = 0.0
    delay: Annotated[float, _seconds("mean time that a message takes, in seconds")] = 0.05
    delay_law: Annotated[
        Literal["constant", "exponential", "heavy"],
        msgspec.Meta(description="law of the delays around their mean"),
    ] = "exponential"
    crash: Annotated[
        float,
        _rate(
            "share of calls in which a party crashes, just before or after its state is safe, and "
            "starts again at once"
        ),
    ] = 0.0
    outages: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            description="mean number of times that a party is switched off, per hour of being on",
        ),
    ] = 0.0
    downtime: Annotated[
        float, _seconds("mean time until a party that was switched off is back, in seconds")
    ] = 60.0
    dropout: Annotated[
        float, _rate("share of devices that are switched off from the start and never answer")
    ] = 0.0

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "reorder", "crash", "dropout"):
            checks.probability(getattr(self, name), name)
        for name in ("delay", "downtime", "outages"):
            if checks.number(getattr(self, name), name) < 0:
                unit = "per hour" if name == "outages" else "seconds"
                raise InvalidParameter(f"{name} must be at least 0 {unit}", field=name)
        if self.crash == 1:
            raise InvalidParameter(
                "crash must be below 1: no party would ever finish a call", field="crash"
            )
        if self.delay_law not in ("constant", "exponential", "heavy"):
            raise InvalidParameter(
                f"delay_law must be constant, exponential or heavy, got {self.delay_law!r}",
                field="delay_law",
            )

    def plan(self, rng: np.random.Generator, until: float) -> tuple[Outage, ...]:
        """Draw the outages of one party up to this time: it is on and off for exponential times."""
        found: list[Outage] = []
        if self.outages == 0 or self.downtime == 0:
            return ()
        while not found or found[-1][1] < until:
            on = _HOUR / self.outages * rng.exponential(size=_DRAWN)
            off = self.downtime * rng.exponential(size=_DRAWN)
            ends = (found[-1][1] if found else 0.0) + np.cumsum(on + off)
            found += zip((ends - off).tolist(), ends.tolist(), strict=True)
        return tuple(each for each in found if each[0] < until)

    def travel(self, rng: np.random.Generator) -> float:
        """Draw the travel time of one copy of a message, in seconds."""
        if self.delay_law == "constant":
            seconds = self.delay
        elif self.delay_law == "exponential":
            seconds = self.delay * rng.exponential()
        else:
            # A Lomax variable has mean 1/(shape − 1).
            seconds = self.delay * rng.pareto(_HEAVY_SHAPE) * (_HEAVY_SHAPE - 1)
        if self.reorder and rng.random() < self.reorder:
            seconds += 10 * self.delay * rng.random()
        return float(seconds)
