"""Diagnostics of network shuffling: the worst person and why, exposure, and load.

Plain data for tables and JSON; every ε is a proven one, rounded up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols.api import Colluders, check_colluders
from incrowd.protocols.network_shuffle.simulate import Handing, Walked
from incrowd.protocols.network_shuffle.theorems.attendance import AWAY

if TYPE_CHECKING:
    from incrowd.protocols.network_shuffle.spec import NetworkShuffle
    from incrowd.protocols.network_shuffle.theorems.walk import Walk

_QUANTILES = (0.5, 0.9, 0.99)
UPPER = (
    "trusted_shuffler_epsilon", "median_epsilon", "p99_epsilon", "exposure", "conditional_epsilon",
    "median_exposure", "median_conditional_epsilon", "epsilon",
)  # fmt: skip
"""Diagnostics that bound something from above."""
UNITS = {"component_sizes": "component"}
_CLOSE = 1.05
"""Factor of the trusted shuffler's ε up to which a person counts as mixed."""


def diagnostics(
    protocol: NetworkShuffle, delta: float, guarantee: Guarantee, colluders: Colluders = 0
) -> dict[str, Any]:
    """Return the keys that ``account`` adds to the common ones."""
    n, walk = protocol.n, protocol.walk
    trusted = blanket_profile(protocol.randomizer, n).epsilon(delta)
    found: dict[str, Any] = {"trusted_shuffler_epsilon": trusted}
    if walk is None:
        alike = {"route": "stationary", "gap": None, "component_sizes": [n]}
        return found | alike | {"median_epsilon": trusted, "p99_epsilon": trusted}
    _, component = walk.together.components()
    sizes = np.sort(np.bincount(component))[::-1]
    mixing = protocol.mixing(colluders)
    found["route"] = "none" if mixing is None else mixing.route
    found |= {"gap": walk.gap, "component_sizes": sizes.tolist()}
    epsilon = guarantee.per_person(delta)
    if epsilon is None:
        return found
    honest = np.arange(n) if mixing is None else np.flatnonzero(mixing.crowds >= 0)
    worst = _worst(epsilon, honest, walk)
    found |= {
        "median_epsilon": upper_quantile(epsilon[honest], 0.5),
        "p99_epsilon": upper_quantile(epsilon[honest], 0.99),
        "mixed_share": float(np.mean(epsilon[honest] <= _CLOSE * trusted)),
        "worst_person": {
            "person": worst,
            "degree": int(walk.together.degrees[worst]),
            "component": int(sizes_of(component)[worst]),
            "why": _why(protocol, worst, float(epsilon[worst]), trusted, colluders),
        },
    }
    return found | (_exposed(protocol, delta, colluders) if check_colluders(colluders, n) else {})


def _worst(epsilon: NDArray[np.float64], honest: NDArray[np.intp], walk: Walk) -> int:
    # Of several with the largest ε, the one with the fewest people to hide among.
    last = honest[epsilon[honest] >= epsilon[honest].max() * (1 - 1e-5)]
    graph = walk.together
    order = np.lexsort((graph.degrees[last], sizes_of(graph.components()[1])[last]))
    return int(last[order[0]])


def _exposed(protocol: NetworkShuffle, delta: float, colluders: Colluders) -> dict[str, Any]:
    found = protocol.exposures(delta, colluders)
    exposure, epsilon = found.median
    return {
        "exposure": float(found.exposure[found.worst]),
        "conditional_epsilon": float(found.epsilon[found.honest].max()),
        "median_exposure": exposure,
        "median_conditional_epsilon": epsilon,
        "most_exposed_person": found.worst,
    }


def _why(
    protocol: NetworkShuffle, person: int, epsilon: float, trusted: float, colluders: Colluders
) -> str:
    walk = protocol.walk
    if walk is None:
        return "all are alike"
    graph = walk.together
    if graph.degrees[person] == 0:
        return "alone in the graph: there is nobody to hide among"
    if not protocol.stationary and protocol.planned_rounds == 0:
        return "no rounds, no amplification: every report is still with its owner"
    if check_colluders(colluders, walk.n):
        return "a report that meets a colluder soon is traced back; see exposure"
    if epsilon <= _CLOSE * trusted:
        return "nobody is worse off than behind a trusted shuffler, to within 5 %"
    crowd = int(np.count_nonzero(walk.crowds == walk.crowds[person]))
    component = int(sizes_of(graph.components()[1])[person])
    if crowd < component:
        return (
            f"the graph is bipartite and the walk never lazy, so reports stay on their side, among "
            f"{crowd} people: set laziness above 0"
        )
    if component < walk.n:
        return f"a component of {component} people hides no better than a crowd of that size"
    degree = int(graph.degrees[person])
    contacts = "one neighbour" if degree == 1 else f"{degree} neighbours"
    return (
        f"with {contacts} the report is still found near its owner more often than elsewhere: "
        "more rounds, or random peers, hide it"
    )


def sizes_of(labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return, for each person, how many have the same label."""
    return np.asarray(np.bincount(labels)[labels])


def upper_quantile(values: NDArray[Any], share: float) -> float:
    """Return a value that at least this share of the values does not exceed."""
    return float(np.quantile(values, share, method="higher"))


def load_summary(collected: Walked, hand_in: Handing) -> dict[str, Any]:
    """Summarise the reports that people held at the end, and the fate of all reports."""
    found: dict[str, Any] = {}
    if (load := collected.load) is not None:
        quantiles = {f"p{int(100 * q)}": int(upper_quantile(load, q)) for q in _QUANTILES}
        found["load"] = {"mean": float(load.mean()), "max": int(load.max()), **quantiles}
        if hand_in == "single":
            found["dummies"] = int(np.count_nonzero(load == 0))
            found["dropped"] = int(load.sum()) - (load.size - found["dummies"])
    if collected.dummies is not None:
        found["expected_dummies"] = collected.dummies.share * collected.received
    if collected.away is not None:
        known = collected.attendance
        missed = collected.away if known is None else known[: len(collected.away)] == AWAY
        found["rounds_missed"] = int(missed.sum())
    if collected.silent is not None:
        found["silent"] = int(collected.silent.sum())
    found["lost"] = collected.lost
    return found


def attendance_summary(happened: NetworkShuffle, delta: float) -> dict[str, Any]:
    """Return the worst ε against the curator of those who handed in, and of the doubtful."""
    seen = happened.attendance
    if seen is None or not seen.doubtful.any():
        return {}
    guarantee = happened.guarantee("curator")
    epsilon = guarantee.per_person(delta)
    if epsilon is None:
        epsilon = np.full(seen.doubtful.size, guarantee.epsilon(delta))
    groups = {"handed_in": seen.punctual, "doubtful": seen.doubtful}
    return {
        name: {"people": int(who.sum()), "epsilon": float(epsilon[who].max(initial=0.0))}
        for name, who in groups.items()
    }
