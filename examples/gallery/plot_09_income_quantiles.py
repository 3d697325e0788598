"""Quantiles of income, with intervals
===================================

Income is skewed, and a mean says little about it. Quantiles come from frequencies of bins, which
are reported by a tree: a report names a node of one level, the level drawn at random, so that
sums of neighbouring bins stay precise.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

DELTA, PEOPLE = 1e-6, 12_000
income = np.random.default_rng(4).lognormal(10.4, 0.5, PEOPLE).round(-2)  # euro a year

task = ic.Quantiles(
    bounds=(0, 128_000), bins=64, probabilities=tuple(np.arange(1, 10) / 10), complete=True
)
goal = ic.survey.Goal(epsilon=0.1, delta=DELTA)
unknown = ic.survey.unknowns(ic.TrustedShuffle)["local_epsilon"]


def tree(epsilon):
    """Return a survey whose reports are nodes of a tree over the bins."""
    randomizer = ic.Hierarchical(categories=task.outcomes, branching=8, epsilon=epsilon)
    return ic.TrustedShuffle(randomizer, n=PEOPLE)


_, protocol = ic.survey.calibrate(tree, unknown, goal)  # the largest ε0 that meets the goal
run = protocol.simulate(income, task=task, seed=7)

result, at = run.result, 100 * np.array(task.probabilities)
value, low, high, truth = (
    each / 1000 for each in (result.value, result.low, result.high, task.truth(income))
)
sorted_income, ranks = np.sort(income) / 1000, 100 * np.arange(1, PEOPLE + 1) / PEOPLE

figure, axes = plt.subplots(figsize=(5.4, 3.9), layout="constrained")
axes.plot(sorted_income, ranks, color="0.6", linewidth=2.5, label="truth, which nobody sees")
axes.errorbar(
    value, at, xerr=[value - low, high - value], fmt="o", color="#1f5fbf", capsize=4,
    label="estimate, 95 %",
)  # fmt: skip
axes.set(xlabel="income, thousand euro a year", ylabel="people who earn at most this, %")
axes.set(xlim=(0, 90), ylim=(0, 100), title="Nine quantiles from randomized reports")
axes.legend(loc="lower right")
plt.show()

# %%
# Limits for any shape
# --------------------
# The limits are edges of bins, so that the width of a bin is part of them, and they hold whatever
# the distribution looks like. They are wider where few people earn about as much.

inside = (result.low <= task.truth(income)) & (task.truth(income) <= result.high)
print(f"{inside.sum()} of {len(inside)} intervals hold the truth")
print(f"a bin is {np.diff(task.edges)[0]:,.0f} euro wide")
print(f"the median is {result.value[4]:,.0f} euro, between {result.low[4]:,.0f}", end=" ")
print(f"and {result.high[4]:,.0f}")

# %%
# The guarantee
# -------------

print(protocol.guarantee())

# %%
# Tree or flat?
# -------------
# A flat randomizer reports a bin itself. Behind a shuffler its reports hide better, so that it
# may afford a larger ε0 at the same guarantee; sums of bins err more all the same. Means over
# some runs:


def flat(epsilon):
    """Return a survey whose reports are bins."""
    return ic.TrustedShuffle(ic.KRR(categories=task.outcomes, epsilon=epsilon), n=PEOPLE)


_, other = ic.survey.calibrate(flat, unknown, goal)
for name, each in {"tree": protocol, "flat": other}.items():
    results = [each.simulate(income, task=task, seed=seed).result for seed in range(10)]
    error = np.mean([result.standard_error.mean() for result in results])
    print(f"{name}: ε0 = {each.randomizer.epsilon:.2f}, standard error {error:,.0f} euro")
