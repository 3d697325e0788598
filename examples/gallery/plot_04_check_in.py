"""Answers that sharpen round by round
===================================

In a shuffled check-in every person flips a coin in every round, and answers only if it says so.
Nobody chooses the crowd, nobody learns who was in it, and each round makes the answer sharper, at
a price in privacy that is known beforehand.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

DELTA, PEOPLE = 1e-6, 4_000
modes = ["car", "bus", "walk"]
answers = np.random.default_rng(1).choice(modes, size=PEOPLE, p=[0.5, 0.35, 0.15])

task = ic.Histogram(categories=modes, complete=True)
protocol = ic.CheckIn(ic.KRR(categories=3, epsilon=2.0), n=PEOPLE, rate=0.1, rounds=100)
run = protocol.simulate(answers, task=task, seed=7)

rounds = [step.rounds for step in run.refined]
epsilons = [step.protocol.guarantee().epsilon(DELTA) for step in run.refined]
truth = task.truth(answers)

figure, (top, bottom) = plt.subplots(
    2, figsize=(5.4, 5.0), height_ratios=(5, 3), sharex=True, layout="constrained"
)
looks = zip(modes, ("0.15", "#1f5fbf", "#e08a1e"), "osD", strict=True)
for row, (mode, colour, marker) in enumerate(looks):
    value, low, high = (
        100 * np.array([getattr(step.result, limit)[row] for step in run.refined])
        for limit in ("value", "low", "high")
    )
    top.fill_between(rounds, low, high, color=colour, alpha=0.2)
    top.plot(rounds, value, marker=marker, color=colour, label=mode)
    top.axhline(100 * truth[row], color=colour, linestyle=":")
top.plot([], [], ":", color="0.4", label="truth")
top.set_ylabel("share of people, %")
top.set_title("Estimates with 95 % intervals")
top.legend(ncols=4, loc="upper center", fontsize=8.5)
top.set_ylim(0, 75)
bottom.plot(rounds, epsilons, "o-", color="0.15")
bottom.set(xscale="log", xlabel="rounds", ylabel=f"ε at δ = {DELTA:g}", ylim=(0, None))
bottom.set_xticks(rounds, [str(each) for each in rounds])
bottom.set_xticks([], minor=True)
bottom.set_title("ε against the curator, if so many rounds were planned")
plt.show()

# %%
# What a round buys
# -----------------
# The standard error falls with the square root of the rounds, and ε grows about as fast: twice
# the precision costs about twice the ε.

print("rounds  standard error, points  ε")
for step, epsilon in zip(run.refined, epsilons, strict=True):
    error = 100 * step.result.standard_error.mean()
    print(f"{step.rounds:6}  {error:22.2f}  {ic.report.round_up(epsilon)}")

# %%
# Planned, not stopped
# --------------------
# The number of rounds is part of the plan. A curator who stops because the answer looks good
# states the guarantee of all planned rounds, which is what a run does by itself.

print(run.guarantees[0])
