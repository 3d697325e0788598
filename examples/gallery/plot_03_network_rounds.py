"""A crowd that shuffles itself
============================

Without a shuffler, reports can walk from friend to friend before they are handed in. Each round
moves every report to a random neighbour. How many rounds it takes until the curator learns no
more than behind a trusted shuffler depends on the graph.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

DELTA, PEOPLE = 1e-6, 501  # on an even ring reports would keep to every second person
randomizer = ic.KRR(categories=4, epsilon=1.0)
rng = np.random.default_rng(7)
ring = ic.graphs.ring(PEOPLE)
graphs = {
    "ring": ring,
    "random, 4 neighbours": ic.graphs.random_regular(PEOPLE, 4, rng),
    "preferential attachment": ic.graphs.barabasi_albert(PEOPLE, 16, rng),
    "ring, 3 random peers each": ic.graphs.with_random_peers(ring, 3, rng=7),
}
rounds = [1, 2, 4, 8, 16, 32, 64]


def proven(graph):
    """Return ε of the person who is worst off, after each number of rounds."""
    plans = (ic.NetworkShuffle(randomizer, graph=graph, rounds=each) for each in rounds)
    return [plan.guarantee().epsilon(DELTA) for plan in plans]


curves = {name: proven(graph) for name, graph in graphs.items()}
trusted = ic.TrustedShuffle(randomizer, n=PEOPLE).guarantee().epsilon(DELTA)

figure, axes = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
looks = zip(("0.15", "#b4471b", "#1f5fbf", "#e08a1e"), ("-", "--", "-.", "-"), "osD^", strict=True)
for (name, epsilons), (colour, dashes, marker) in zip(curves.items(), looks, strict=True):
    axes.plot(
        rounds, epsilons, linestyle=dashes, marker=marker, color=colour, markersize=5, label=name
    )
axes.axhline(trusted, color="0.5", linestyle=":", linewidth=2, label="trusted shuffler")
axes.set(
    xscale="log", ylim=(0, 1.05), xlabel="rounds", ylabel=f"ε of the worst person, δ = {DELTA:g}"
)
axes.set_xticks(rounds, [str(each) for each in rounds], minor=False)
axes.set_xticks([], minor=True)
axes.set_title(f"{PEOPLE} people, ε0 = {randomizer.epsilon:g}")
figure.legend(loc="outside lower center", ncols=2, fontsize=8.5)
plt.show()

# %%
# Rounds that suffice
# -------------------
# ``rounds="auto"`` finds the fewest rounds after which everybody is within a factor of the
# trusted shuffler. A ring would take very long, and a few random acquaintances cure that.

for name, graph in graphs.items():
    print(f"{name:27}walks are mixed after {ic.graphs.mixing_rounds(graph):,} rounds")
plan = ic.NetworkShuffle(randomizer, graph=graphs["ring, 3 random peers each"], rounds="auto")
planned = plan.planned(DELTA)
print(f"\nring with random peers: {planned.rounds} rounds are within {plan.target_ratio:g} times")

# %%
# People differ
# -------------
# A graph does not treat everybody alike, so that a guarantee can be asked person by person. The
# number that budgets use is that of the worst person.

plan = ic.NetworkShuffle(randomizer, graph=graphs["preferential attachment"], rounds=4)
each = plan.guarantee().per_person(DELTA)
print(
    f"median person {ic.report.round_up(np.median(each))}, worst {ic.report.round_up(each.max())}"
)
print(f"trusted shuffler {ic.report.round_up(trusted)}")
