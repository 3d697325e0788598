"""Terms of an examined offer, or of its start: all that a decision may look at.

Domains are the ones that the question declares, costs the guarantees that were recomputed
(``accounting``), never those that a curator states.
"""

from __future__ import annotations

import math

from incrowd.live.accounting import Costs
from incrowd.live.admission import Offer, Started
from incrowd.live.decide import Asked, Terms
from incrowd.protocols.runtime.actor import CURATOR
from incrowd.tasks.raw import ColumnDomain


def terms_of(offer: Offer, colluders: int, charged: Costs, started: Started | None = None) -> Terms:
    """The terms of an offer, or of its start for the crowd that begins.

    Args:
        offer: The examined offer.
        colluders: Number of people on the roster who are assumed to help the curator.
        charged: Costs against them, of the start where there is one.
        started: The examined start; none before it.

    """
    spec = offer.spec
    costs = offer.costs if started is None else started.costs
    crowd = len(offer.roster) if started is None else len(started.start.people)
    return Terms(
        survey=spec.survey,
        curator=spec.helpers[CURATOR].identity,
        protocol=spec.protocol,
        columns=_columns(offer),
        roster=len(offer.roster),
        crowd=crowd,
        stated=costs.views,
        local=costs.local,
        colluders=colluders,
        charged=charged.views,
    )


def _columns(offer: Offer) -> tuple[Asked, ...]:
    task, column = offer.task, offer.spec.column
    domains, clear = task.domains(column), task.clear_columns(column)
    return tuple(_asked(name, domains[name], name in clear) for name in task.asks(column))


def _asked(name: str, domain: ColumnDomain, clear: bool) -> Asked:
    bounds = None
    low, high = domain.low, domain.high
    # What is sent as it is has no domain to be equal unless the question declares one.
    declared = not clear or low is not None or high is not None
    if domain.kind in ("number", "integer") and declared:
        bounds = (-math.inf if low is None else low, math.inf if high is None else high)
    return Asked(
        name=name,
        values=domain.categories if domain.kind == "category" else None,
        bounds=bounds,
        complete=domain.complete,
        clear=clear,
    )
