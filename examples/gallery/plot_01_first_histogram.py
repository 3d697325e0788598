"""A first histogram behind a shuffler
===================================

Everybody randomizes their answer on their own device, a shuffler forgets who sent what, and the
curator still gets shares with confidence intervals. The truth is drawn beside them, because this
is a simulation; in a real survey nobody sees it.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

PEOPLE = 4_000
modes = ["car", "bus", "bike", "train", "walk"]
rng = np.random.default_rng(1)
answers = rng.choice(modes, size=PEOPLE, p=[0.34, 0.22, 0.18, 0.15, 0.11])

task = ic.Histogram(categories=modes, complete=True)
protocol = ic.TrustedShuffle(ic.KRR(categories=len(modes), epsilon=2.0), n=PEOPLE)
run = protocol.simulate(answers, task=task, seed=7)

result, places = run.result, np.arange(len(modes))
estimate, truth = 100 * result.value, 100 * task.truth(answers)
interval = 100 * np.array([result.value - result.low, result.high - result.value])

figure, axes = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
axes.barh(places, estimate, height=0.6, color="#1f5fbf", alpha=0.3)
axes.errorbar(
    estimate, places, xerr=interval, fmt="o", color="#1f5fbf", capsize=4, label="estimate, 95 %"
)
axes.plot(truth, places, "|", color="#b4471b", markersize=20, markeredgewidth=2.5, label="truth")
axes.set_yticks(places, modes)
axes.invert_yaxis()
axes.set_xlabel("share of people, %")
axes.set_title("How do people get to work?")
axes.legend(loc="lower right")
plt.show()

# %%
# The answer
# ----------
# An interval covers the noise of the randomizers: over many surveys, that share of the intervals
# holds the truth. Answers show themselves as tables, and have ``to_frame()``, ``to_json()`` and
# ``plot()``.

result

# %%
# The guarantee
# -------------
# A guarantee names its view: the parties who pool what they saw. The curator alone sees shuffled
# reports. If the shuffler tells who sent what, only the randomizer protects.

DELTA = 1e-6
for view in ("curator", "curator+shuffler"):
    guarantee = protocol.guarantee(view)
    print(f"{view:17}ε ≤ {ic.report.round_up(guarantee.epsilon(DELTA))} at δ = {DELTA:g}")
