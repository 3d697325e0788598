"""An SQL aggregate that nobody collects
=====================================

Patients keep their tuples. Each sends one to the compute node that answers for its group, through
a scrambler that mixes it with others and with dummies. An observer of the network counts
messages, and should not learn from them who is in which group.
"""

import matplotlib.pyplot as plt
import numpy as np

import incrowd as ic

DELTA, PEOPLE = 1e-4, 1_000
ages = ("18-29", "30-39", "40-49", "50-59", "60-69", "70+")
rng = np.random.default_rng(5)
age = rng.choice(len(ages), PEOPLE, p=[0.26, 0.22, 0.19, 0.15, 0.11, 0.07])
insulin = np.clip(6.5 * np.exp(0.09 * age) * rng.lognormal(0, 0.4, PEOPLE), 0.5, 50).round(1)
patients = {"age": np.array(ages)[age], "insulin": insulin}

query = ic.Query(
    sql="SELECT age, AVG(insulin), COUNT(*) FROM patients GROUP BY age",
    table="patients",
    columns=(
        ic.Column(name="age", type="category", values=ages, complete=True),
        ic.Column(name="insulin", type="number", low=0, high=50, complete=True),
    ),
)


def protocol(dummies):
    """Return the query with a compute node for each group and this number of dummies."""
    return ic.ScrambledQuery(
        query=query, n=PEOPLE, targets=len(ages), sources=PEOPLE, dummies=int(dummies),
        redirect_probability=0.1,
    )  # fmt: skip


goal = ic.survey.Goal(epsilon=0.5, delta=DELTA, view="network")
unknown = ic.survey.unknowns(ic.ScrambledQuery)["dummies"]
dummies, planned = ic.survey.calibrate(protocol, unknown, goal)
run = planned.simulate(patients, seed=7)

result, places = run.result, np.arange(len(ages))
average = slice(0, None, 2)  # the aggregates of each row stand one after the other
figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 3.7), sharey=True, layout="constrained")
left.errorbar(
    result.value[average], places, xerr=1.96 * result.standard_error[average], fmt="o",
    color="#1f5fbf", capsize=4, label="answer, 95 %",
)  # fmt: skip
left.plot(
    [insulin[age == each].mean() for each in places], places, "|", color="#b4471b",
    markersize=18, markeredgewidth=2.5, label="truth",
)  # fmt: skip
left.set_yticks(places, ages)
left.set_ylim(len(ages) - 0.4, -0.6)
left.set(ylabel="age", xlabel="average insulin, mU/l", title="What the curator gets")
left.legend(fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.2))
right.barh(places, np.bincount(age), height=0.7, color="0.75", label="people in the group")
right.plot(
    run.collected.traffic[0].sum(axis=0), places, "D", color="0.15", label="messages, as observed"
)
right.set(xlabel="messages to its compute node", title="What the network sees", xlim=(0, None))
right.legend(fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.2))
plt.show()

# %%
# The plan
# --------
# Some messages go to a compute node drawn at random, without their tuple; counts are scaled up
# for that, and intervals cover it. The number of dummies is the least that keeps the budget. What
# an observer can still read from the messages is about the crowd: how many people are in a group,
# more or less. It is hardly about any one of them.

print(f"{dummies:,} dummies for {PEOPLE:,} people\n")
print(planned.plan.text())

# %%
# The guarantee
# -------------
# It is against an observer of the network. Compute nodes read the tuples of their own group in
# the clear, and the curator gets the answer as it is: nothing is proven against them.

guarantee = planned.guarantee("network")
print(f"ε ≤ {ic.report.round_up(guarantee.epsilon(DELTA))} at δ = {DELTA:g}")
for assumption in guarantee.assumptions:
    print("assuming", assumption)

# %%
# The answer as SQL gives it, with the tuples that arrived for each group:

print(*result.columns, "tuples", sep=" | ")
for row in result.rows:
    group, mean, count = row.values
    print(f"{group} | {mean:.2f} | {count:.0f} | {row.tuples}")
