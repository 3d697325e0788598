"""A randomizer of one's own: interview designs
============================================

Any matrix of probabilities is a randomizer: row x is the law of the report for answer x. Social
scientists have long asked sensitive questions that way, with dice and birthdays. What such a
design guarantees, alone and in a crowd, what an attack attains, and an unbiased estimate all
follow from its matrix.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

DELTA = 1e-6
# The chance of the report "yes", for people whose answer is "no" and for those whose is "yes".
designs = {
    "crosswise: does the answer differ from 'born in spring'?": (1 / 4, 3 / 4),
    "forced response: a die says yes, no, or the truth": (1 / 6, 5 / 6),
    "unrelated question: a third answers 'born in spring?'": (1 / 12, 3 / 4),
}
channels = {name: ic.Channel([[1 - no, no], [1 - yes, yes]]) for name, (no, yes) in designs.items()}
people = np.geomspace(100, 100_000, 10).round().astype(int)
guarantees = {
    name: [ic.TrustedShuffle(each, n=int(n)).guarantee() for n in people]
    for name, each in channels.items()
}

figure, (left, right) = plt.subplots(
    1, 2, figsize=(6.4, 4.2), width_ratios=(4, 6), layout="constrained"
)
looks = (("0.15", "-", "o"), ("#1f5fbf", "--", "s"), ("#e08a1e", "-.", "D"))
for row, (name, (colour, dashes, marker)) in enumerate(zip(designs, looks, strict=True)):
    chances = 100 * np.array(designs[name])
    left.plot(chances, [row, row], linestyle=dashes, color=colour, linewidth=2)
    left.plot(chances[:1], row, marker, color=colour, fillstyle="none", markersize=9)
    left.plot(chances[1:], row, marker, color=colour, markersize=9)
    proven = [each.epsilon(DELTA) for each in guarantees[name]]
    attained = [each.lower(DELTA) for each in guarantees[name]]
    right.plot(people, proven, linestyle=dashes, color=colour, label=name)
    right.plot(people, attained, marker, color=colour, fillstyle="none", markersize=5)
left.set_yticks([])
left.set(xlabel="chance of the report 'yes', %", xlim=(0, 100), ylim=(2.6, -0.6))
left.set_title("open: answer no\nfilled: answer yes", fontsize=10)
right.set(xscale="log", yscale="log", xlabel="number of people")
right.set_ylabel(f"ε behind a shuffler, δ = {DELTA:g}")
right.set_title("line: proven\nmarkers: attained by an attack", fontsize=10)
right.grid(color="0.9", linewidth=0.7)
figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", fontsize=9)
plt.show()

# %%
# Read off the matrix
# -------------------
# ε0 is the logarithm of the largest ratio in a column. The blanket is the part of a report that
# does not depend on the answer: the larger its mass γ, the better others hide one.

PEOPLE = 2_000
rng = np.random.default_rng(6)
answers = (rng.random(PEOPLE) < 0.2).astype(int)
for name, channel in channels.items():
    matrix = np.array(channel.matrix)
    largest = np.log((matrix.max(axis=0) / matrix.min(axis=0)).max())
    print(f"{name.split(':')[0]:19}ε0 = {channel.epsilon:.4f}, log of the largest ratio", end=" ")
    print(f"{largest:.4f}, γ = {channel.blanket().gamma:.3f}")

# %%
# A survey with each
# ------------------
# The estimates are unbiased for any matrix whose rows differ. A design that reveals less errs
# more: compare designs by the error at an equal guarantee, not at an equal ε0.

print(f"truth {answers.mean():.3f}")
for name, channel in channels.items():
    run = ic.TrustedShuffle(channel, n=PEOPLE).simulate(answers, seed=7)
    share, error = run.result.value[1], run.result.standard_error[1]
    stated = run.guarantees[0]
    print(f"{name.split(':')[0]:19}{share:.3f} ± {error:.3f}", end="   ")
    print(f"{ic.report.round_down(stated.lower(DELTA))} ≤ ε", end=" ")
    print(f"≤ {ic.report.round_up(stated.epsilon(DELTA))}")
