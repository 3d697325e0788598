"""Communication graphs: files, families, random walks and their mixing."""

from incrowd.graphs.families import (
    FAMILIES,
    barabasi_albert,
    complete,
    erdos_renyi,
    geometric,
    grid,
    line,
    random_regular,
    ring,
    star,
)
from incrowd.graphs.files import load, save
from incrowd.graphs.graph import (
    Graph,
    connected_part,
    from_edges,
    from_networkx,
    from_scipy,
    require_no_isolated,
)
from incrowd.graphs.peers import with_random_peers
from incrowd.graphs.specs import named, names_family
from incrowd.graphs.spectrum import Spectrum, mixing_rounds
from incrowd.graphs.stats import GraphStats, stats
from incrowd.graphs.walk import walk

__all__ = [
    "FAMILIES",
    "Graph",
    "GraphStats",
    "Spectrum",
    "barabasi_albert",
    "complete",
    "connected_part",
    "erdos_renyi",
    "from_edges",
    "from_networkx",
    "from_scipy",
    "geometric",
    "grid",
    "line",
    "load",
    "mixing_rounds",
    "named",
    "names_family",
    "random_regular",
    "require_no_isolated",
    "ring",
    "save",
    "star",
    "stats",
    "walk",
    "with_random_peers",
]
