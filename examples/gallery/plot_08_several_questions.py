"""Several questions under one budget
==================================

What one person's answers reveal together is composed, and must stay within one ε. Questions share
that budget by their weights: a question of twice the weight has about half the standard error of
the others, at their cost.
"""

import csv
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

SURVEY = """
version = 2
title = "Work and travel"

[data]
file = "people.csv"

[[question]]
id = "mode"
kind = "histogram"
categories = ["car", "bus", "walk"]
complete = true
weight = {weight}
randomizer.kind = "krr"

[[question]]
id = "home"
kind = "histogram"
categories = ["never", "some days", "always"]
complete = true
randomizer.kind = "krr"

[budget]
epsilon = 0.5
ask = "{ask}"
delta = 1e-6

[protocol]
kind = "trusted-shuffle"
"""
PEOPLE = 5_000
rng = np.random.default_rng(2)
modes = rng.choice(["car", "bus", "walk"], PEOPLE, p=[0.5, 0.3, 0.2])
home = rng.choice(["never", "some days", "always"], PEOPLE, p=[0.5, 0.3, 0.2])


def survey(weight, ask):
    """Return the survey with this weight of its first question, ready to run."""
    with tempfile.TemporaryDirectory() as folder:
        file, people = Path(folder, "survey.toml"), Path(folder, "people.csv")
        file.write_text(SURVEY.format(weight=weight, ask=ask), encoding="utf-8")
        with people.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("mode", "home"), *zip(modes, home, strict=True)])
        return ic.survey.load(file)


surveys = {
    "both answered,\nweights 1 : 1": survey(1, "all"),
    "both answered,\nweights 2 : 1": survey(2, "all"),
    "one of them drawn,\nweights 1 : 1": survey(1, "one"),
}
runs = {name: each.run(seed=7) for name, each in surveys.items()}
errors = np.array(
    [[100 * answer.standard_error.mean() for answer in run.answers] for run in runs.values()]
)

figure, axes = plt.subplots(figsize=(5.4, 3.7), layout="constrained")
places = np.arange(len(runs))
looks = (("How do you get to work?", "#1f5fbf", ""), ("Do you work at home?", "0.8", "//"))
for row, (name, colour, hatch) in enumerate(looks):
    bars = axes.bar(
        places + 0.38 * row, errors[:, row], width=0.36, color=colour, hatch=hatch,
        edgecolor="0.2", label=name,
    )  # fmt: skip
    axes.bar_label(bars, fmt="%.2f", padding=2)
axes.set_xticks(places + 0.19, list(runs))
axes.set_ylabel("standard error of a share, points")
axes.margins(y=0.15)
axes.set_title("Two questions, one budget")
axes.legend(fontsize=8.5, loc="upper left")
plt.show()

# %%
# The budget
# ----------
# ε0 of each question is solved for: the largest that keeps the budget. Every row below states the
# same ε against the curator, for both questions together.

for name, ready in surveys.items():
    budget, run = ready.budget, runs[name]
    spent = ic.report.round_up(run.guarantees[0].epsilon(budget.delta))
    parts = " and ".join(f"{part.epsilon:.2f}" for part in ready.randomizer.parts)
    print(f"{name.replace(chr(10), ' '):34}ε0 = {parts}, ε ≤ {spent}, budget {budget.epsilon}")

# %%
# Answer all, or one?
# -------------------
# A device may also draw one of the questions and report the answer to it alone. Without a crowd
# that errs less. Behind a shuffler several answers hide so well that answering all of them errs
# less, though the reports of one person alone, should the shuffler fail, then reveal more.

for name, run in runs.items():
    alone = next(each for each in run.guarantees if each.view_name == "everyone")
    stated = ic.report.round_up(alone.epsilon(surveys[name].budget.delta))
    print(f"{name.replace(chr(10), ' '):34}if all others pool: ε ≤ {stated}")
