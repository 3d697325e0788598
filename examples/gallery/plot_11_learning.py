"""A model from records that stay at home
======================================

A linear model is trained in rounds: who is drawn by a coin of their own reports a randomized
gradient through a shuffler. The price of a better model is a larger ε, and without a crowd the
same reports have a far larger one.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic
from incrowd.tasks.learning import LocalSGD, PlainSGD, Softmax

DELTA, PEOPLE, CLASSES = 1e-6, 3_000, 3
rng = np.random.default_rng(7)
labels = rng.integers(0, CLASSES, 2 * PEOPLE)
records = 0.5 * rng.normal(size=(2 * PEOPLE, 10)) + np.eye(CLASSES, 10)[labels]
(known, unseen), (told, asked) = np.split(records, 2), np.split(labels, 2)

common = {
    "model": Softmax(classes=CLASSES), "rounds": 30, "rate": 0.05, "clip": 1.0, "seed": 7,
    "learning_rate": 0.1, "average": True,
}  # fmt: skip
local_epsilons = (0.25, 0.5, 1.0, 2.0, 4.0)


def curve(kind):
    """Return the proven ε and the accuracy on unseen records, by ε0 of one report."""
    trained = [kind(**common, epsilon0=each).fit(known, told) for each in local_epsilons]
    return [each.epsilon(DELTA) for each in trained], [
        100 * each.score(unseen, asked) for each in trained
    ]


curves = {"through a shuffler": curve(ic.CheckInSGD), "straight to the curator": curve(LocalSGD)}
plain = 100 * PlainSGD(**common).fit(known, told).score(unseen, asked)

figure, axes = plt.subplots(figsize=(5.4, 3.8), layout="constrained")
axes.axhline(plain, color="0.4", linestyle="--", label="without protection")
axes.axhline(100 / CLASSES, color="0.4", linestyle=":", label="blind guess")
looks = (("#1f5fbf", "o-"), ("#b4471b", "s-."))
for (name, (epsilons, scores)), (colour, style) in zip(curves.items(), looks, strict=True):
    axes.plot(epsilons, scores, style, color=colour, label=name)
axes.set(xscale="log", xlabel=f"proven ε against the curator, δ = {DELTA:g}", ylim=(25, 100))
axes.set_ylabel("unseen records classified right, %")
axes.set_title(f"{PEOPLE:,} people with one record each")
axes.legend(fontsize=8.5, loc="lower right")
plt.show()

# %%
# Same reports, other guarantee
# -----------------------------
# Both curves hold the same noise. The shuffler and the coins move the guarantee, not the
# accuracy.

print("ε0 of a report  accuracy  ε shuffled  ε unshuffled")
for row, epsilon0 in enumerate(local_epsilons):
    shuffled, straight = (curves[name][0][row] for name in curves)
    score = curves["through a shuffler"][1][row]
    print(f"{epsilon0:14}  {score:7.1f}%  {ic.report.round_up(shuffled):10}", end="  ")
    print(f"{ic.report.round_up(straight):12}")

# %%
# Within a budget
# ---------------
# With ``budget`` no more rounds are planned than it pays for.

frugal = ic.CheckInSGD(**common, epsilon0=4.0, budget=(0.25, DELTA)).fit(known, told)
print(f"{frugal.rounds_} rounds, {100 * frugal.score(unseen, asked):.1f} % right,", end=" ")
print(f"ε ≤ {ic.report.round_up(frugal.epsilon(DELTA))}")
