"""Terms of an examined offer, or of its start: all that a decision may look at.

Domains are the ones that the question declares, costs the guarantees that were recomputed. Against
people who collude with the curator only what is proven towards everyone is charged, unless the
protocol proves more for the rest of the crowd.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from incrowd.live.admission import Offer, Started
from incrowd.live.decide import Asked, Cost, Terms
from incrowd.live.task import Promise
from incrowd.protocols.actor import CURATOR
from incrowd.tasks.raw import ColumnDomain

__all__ = ["terms_of"]

_EVERYONE = "everyone"


def terms_of(offer: Offer, colluders: int, started: Started | None = None) -> Terms:
    """The terms of an offer, or of its start for the crowd that begins.

    Args:
        offer: The examined offer.
        colluders: Number of people on the roster who are assumed to help the curator.
        started: The examined start; none before it.

    """
    spec = offer.spec
    promises = spec.promises if started is None else started.start.promises
    crowd = len(offer.roster) if started is None else len(started.start.people)
    stated = {each.view: (each.epsilon, each.delta) for each in promises}
    local = stated.get(_EVERYONE, (math.inf, 0.0))
    return Terms(
        survey=spec.survey,
        curator=spec.helpers[CURATOR].identity,
        protocol=spec.protocol,
        columns=_columns(offer),
        roster=len(offer.roster),
        crowd=crowd,
        stated=stated,
        local=local,
        colluders=colluders,
        charged=_charged(promises, local, colluders),
    )


def _charged(promises: list[Promise], local: Cost, colluders: int) -> Mapping[str, Cost]:
    if colluders == 0:
        return {each.view: (each.epsilon, each.delta) for each in promises}
    return {each.view: local for each in promises}


def _columns(offer: Offer) -> tuple[Asked, ...]:
    task, column = offer.task, offer.spec.column
    domains, clear = task.domains(column), task.clear_columns(column)
    return tuple(_asked(name, domains[name], name in clear) for name in task.asks(column))


def _asked(name: str, domain: ColumnDomain, clear: bool) -> Asked:
    bounds = None
    if domain.kind in ("number", "integer") and not domain.low is domain.high is None:
        # Half a bound equals no policy's.
        low, high = domain.low, domain.high
        bounds = (-math.inf if low is None else low, math.inf if high is None else high)
    return Asked(
        name=name,
        values=domain.categories if domain.kind == "category" else None,
        bounds=bounds,
        complete=domain.complete,
        clear=clear,
    )
