"""Who learns what from a token
============================

No party collects anything here: a token goes from person to person, and each adds a number with
noise. What protects you from another participant is the noise of those who held the token in
between. On a graph that everybody knows, that is a matter of distance.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.csgraph import shortest_path

import incrowd as ic

DELTA, VISITS = 1e-6, 10
noise = ic.Gaussian(epsilon=1.0, delta=DELTA)
graphs = {
    "ring of 64": ic.graphs.ring(64),
    "torus, 8 × 8": ic.graphs.grid(8, 8, periodic=True),
    "random, 4 neighbours": ic.graphs.random_regular(64, 4, np.random.default_rng(1)),
}


def walk(graph, pair=None):
    """Return a walk in which everybody adds their number as often as the cap allows."""
    return ic.TokenWalk(
        noise, topology="graph", graph=graph, steps=VISITS * graph.n, cap=VISITS, pair=pair
    )


def by_distance(graph):
    """Return ε of person 0 against one other person at each distance."""
    hops = shortest_path(graph.adjacency(), unweighted=True)[0].astype(int)
    others = {int(hops[other]): other for other in range(1, graph.n)}
    return {
        distance: walk(graph, (0, other)).guarantee("peer").epsilon(DELTA)
        for distance, other in sorted(others.items())
    }


curves = {name: by_distance(graph) for name, graph in graphs.items()}
alone = walk(graphs["ring of 64"]).guarantee("everyone").epsilon(DELTA)

figure, axes = plt.subplots(figsize=(5.4, 3.8), layout="constrained")
looks = zip(("0.15", "#1f5fbf", "#e08a1e"), ("-", "--", "-."), "osD", strict=True)
for (name, found), (colour, dashes, marker) in zip(curves.items(), looks, strict=True):
    axes.plot(
        list(found), list(found.values()), linestyle=dashes, marker=marker, color=colour,
        markersize=5, label=name,
    )  # fmt: skip
axes.axhline(alone, color="0.5", linestyle=":", linewidth=2, label="everyone else together")
axes.set(xlabel="distance between two people, steps on the graph", ylim=(0, None))
axes.set_ylabel(f"ε of one towards the other, δ = {DELTA:g}")
axes.set_xscale("log", base=2)
axes.xaxis.set_major_formatter("{x:.0f}")
axes.legend(fontsize=8.5)
plt.show()

# %%
# Near and far
# ------------
# A direct neighbour gets the token straight after you, with your noise alone on your number. Far
# away it arrives with the noise of many others.

for name, found in curves.items():
    near, far = min(found), max(found)
    print(
        f"{name:21}ε ≤ {ic.report.round_up(found[near])} at distance {near}, "
        f"≤ {ic.report.round_up(found[far])} at distance {far}"
    )

# %%
# A hidden path
# -------------
# Where the next holder is drawn among all people, and nobody learns from whom the token comes,
# there is no distance: everybody is equally far, unless the hub that carries the token tells the
# path.

hidden = ic.TokenWalk(noise, n=64, steps=VISITS * 64)
for view in ("peer", "peer+hub", "everyone"):
    print(f"{view:10}ε ≤ {ic.report.round_up(hidden.guarantee(view).epsilon(DELTA))}")
