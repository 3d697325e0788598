"""What ε means, in guesses of a thousand
======================================

Suppose a viewer knows everybody else's answer and has narrowed yours down to two, equally likely.
A blind guess is right half of the time. A guarantee limits how much better any rule can do,
whatever the viewer knows or computes.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

DELTA, GUESSES = 1e-6, 1_000


def right(epsilon):
    """Return the largest expected number of right guesses under (ε, δ)."""
    return GUESSES * (np.exp(epsilon) + DELTA) / (np.exp(epsilon) + 1)


randomizer = ic.KRR(categories=2, epsilon=2.0)
guarantees = {
    "one report alone": ic.Local(randomizer, n=1).guarantee(),
    "among 100 people": ic.TrustedShuffle(randomizer, n=100).guarantee(),
    "among 10,000 people": ic.TrustedShuffle(randomizer, n=10_000).guarantee(),
}
grid = np.linspace(0, 2, 41)
alarms = np.linspace(0, 1, 201)


def least_misses(guarantee):
    """Return the least share of misses for each share of false alarms: the trade-off curve.

    Every point (ε, δ) of the guarantee is a bound of its own; the largest of them holds.
    """
    deltas = np.array([guarantee.delta(each) for each in grid])[:, None]
    factors = np.exp(grid)[:, None]
    first = 1 - deltas - factors * alarms
    second = (1 - deltas - alarms) / factors
    return np.maximum(0, np.maximum(first, second)).max(axis=0)


figure, (left, other) = plt.subplots(1, 2, figsize=(6.4, 3.7), layout="constrained")
wide = np.linspace(0, 6, 121)
left.plot(wide, right(wide), color="0.15")
looks = (("#b4471b", "--", "s"), ("#e08a1e", "-.", "D"), ("#1f5fbf", "-", "o"))
for (name, guarantee), (colour, dashes, marker) in zip(guarantees.items(), looks, strict=True):
    epsilon = guarantee.epsilon(DELTA)
    left.plot(epsilon, right(epsilon), marker, color=colour, markersize=8)
    other.plot(
        100 * alarms, 100 * least_misses(guarantee), linestyle=dashes, color=colour, linewidth=2,
        marker=marker, markevery=40, label=name,
    )  # fmt: skip
left.axhline(GUESSES / 2, color="0.5", linestyle=":")
left.set(xlabel=f"ε, δ = {DELTA:g}", ylabel=f"right guesses of {GUESSES:,}, at most")
left.set(ylim=(450, 1_020), title="Guesses")
other.plot([0, 100], [100, 0], ":", color="0.5", label="blind guess")
other.set(xlabel="false alarms, %", ylabel="misses, %, at least", title="Trade-off")
figure.legend(*other.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
plt.show()

# %%
# In words
# --------
# The same numbers, for a person who asks what taking part means for them:

for name, guarantee in guarantees.items():
    epsilon = guarantee.epsilon(DELTA)
    print(
        f"{name:20} ε ≤ {ic.report.round_up(epsilon):<7} "
        f"at most {np.ceil(right(epsilon)):.0f} of {GUESSES:,} guesses are right"
    )

# %%
# A curve says more than a point
# ------------------------------
# One (ε, δ) holds for the worst outcome. The whole guarantee δ(ε) limits the average guess more
# closely: at ε = 0, δ bounds the distance between what is seen under the two answers, and half of
# it is all that guessing can gain.

for name, guarantee in guarantees.items():
    gain = GUESSES * guarantee.delta(0.0) / 2
    print(f"{name:20} at most {np.ceil(GUESSES / 2 + gain):.0f} of {GUESSES:,}, by the whole curve")
