"""How many people does it take to hide one?
=========================================

Behind a shuffler each report hides among those of all others. The line is proven; in the grey
area an attack succeeds, so no proof can reach there. Where line and area meet, the guarantee
cannot be improved.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

DELTA, EPSILON0 = 1e-6, 1.0
people = np.unique(np.geomspace(100, 1_000_000, 13).round().astype(int))


def bracket(categories):
    """Return the proven ε and the lower bound by an attack, for each number of people."""
    randomizer = ic.KRR(categories=categories, epsilon=EPSILON0)
    guarantees = [ic.TrustedShuffle(randomizer, n=int(n)).guarantee() for n in people]
    proven = np.array([each.epsilon(DELTA) for each in guarantees])
    return proven, np.array([each.lower(DELTA) for each in guarantees])


brackets = {categories: bracket(categories) for categories in (2, 16)}

figure, (left, right) = plt.subplots(
    1, 2, figsize=(6.0, 3.8), sharex=True, sharey=True, layout="constrained"
)
for axes, (categories, (proven, attained)) in zip((left, right), brackets.items(), strict=True):
    axes.axhline(EPSILON0, color="0.3", linestyle=":", label="ε0 of one report")
    axes.plot(people, proven, "o-", color="#1f5fbf", markersize=4, label="proven: ε is at most")
    axes.fill_between(people, attained, 1e-4, color="0.8", label="refuted by an attack")
    axes.set(xscale="log", yscale="log", xlabel="number of people", ylim=(5e-4, 2))
    axes.set_title(f"krr, {categories} categories")
    axes.grid(color="0.9", linewidth=0.7)
left.set_ylabel(f"ε against the curator, δ = {DELTA:g}")
left.legend(loc="lower left", fontsize=8.5)
plt.show()

# %%
# Two lessons
# -----------
# ε falls about as one over the square root of the number of people, as noise averages out. And
# the same ε0 hides better with more categories: a random answer is then one that anybody could
# have given.

for categories, (proven, attained) in brackets.items():
    fewer, most = np.flatnonzero(people == 10_000)[0], -1
    print(f"{categories} categories")
    for at in (fewer, most):
        gap = proven[at] / attained[at] - 1
        print(f"  {people[at]:>9,} people: ε ≤ {ic.report.round_up(proven[at]):<8} gap {gap:.1%}")
    roots = np.sqrt(people[most] / people[fewer])
    print(f"  ratio of the two ε: {proven[fewer] / proven[most]:.1f}, of the roots: {roots:.1f}")

# %%
# The other way round
# -------------------
# ``calibrate`` solves for what is left open, here the least number of people for a wanted ε.

goal = ic.survey.Goal(epsilon=0.1, delta=DELTA)
unknown = ic.survey.unknowns(ic.TrustedShuffle)["n"]
for categories in brackets:
    randomizer = ic.KRR(categories=categories, epsilon=EPSILON0)
    least, _ = ic.survey.calibrate(
        lambda n, drawn=randomizer: ic.TrustedShuffle(drawn, n=int(n)), unknown, goal
    )
    print(f"ε ≤ {goal.epsilon} with {categories:2} categories: {least:,} people")
