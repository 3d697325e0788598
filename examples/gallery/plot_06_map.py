"""A map before and after an order shuffle
=======================================

A map of an illness needs to know where answers come from. An order-private shuffle moves reports
among people who live near each other: the outbreak in a quarter stays visible, who of the
neighbours said what does not. A uniform shuffle would hide both.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import cKDTree

import incrowd as ic

PEOPLE = 2_000
rng = np.random.default_rng(3)
quarters = np.array([(0.0, 0.0), (1.9, 1.2), (-1.6, 1.8), (2.2, -1.7), (-2.1, -1.4)])
homes = quarters[rng.choice(5, PEOPLE)] + rng.normal(0, 0.65, (PEOPLE, 2))  # kilometres
outbreak = 0.08 + 0.7 * np.exp(-((homes - quarters[1]) ** 2).sum(axis=1) / 0.9)
ill = np.where(rng.random(PEOPLE) < outbreak, "ill", "well")
rows = np.column_stack([ill, homes.round(4).astype(str)])

task = ic.Release(categories=("well", "ill"), coordinates=("east", "north"), complete=True)
randomizer = ic.KRR(categories=2, epsilon=2.0)


def release(alpha):
    """Return the released table: places, and the category of the report that stands at each."""
    protocol = ic.OrderShuffle(
        randomizer, n=PEOPLE, alpha=alpha, radius=0.25, shape="square", method="label", exact=False
    )
    return protocol.simulate(rows, task=task, seed=7)


runs = {"order shuffle": release(2.0), "uniform shuffle": release(0.0)}

# Shares around the squares of a grid, each from the rows nearest to it.
squares = np.stack(np.meshgrid(*2 * [np.arange(-3.6, 3.7, 0.3)]), axis=-1).reshape(-1, 2)
squares = squares[cKDTree(homes).query(squares)[0] < 0.3]


def shares(points, codes, estimate):
    """Return the share of ill people around every square, in per cent."""
    nearest = cKDTree(points).query(squares, k=100)[1]
    return [100 * estimate(codes[each]) for each in nearest]


maps = {"truth": shares(homes, ill == "ill", np.mean)}
for name, run in runs.items():
    result = run.result
    maps[name] = shares(
        result.points, result.codes, lambda codes: randomizer.estimate(codes).value[1]
    )

figure, panels = plt.subplots(1, 3, figsize=(6.4, 2.5), sharey=True, layout="constrained")
for axes, (name, found) in zip(panels, maps.items(), strict=True):
    drawn = axes.scatter(*squares.T, c=found, cmap="cividis_r", vmin=0, vmax=70, marker="s", s=17)
    axes.set(title=name, xlabel="east, km", aspect="equal")
panels[0].set_ylabel("north, km")
figure.colorbar(drawn, ax=panels, label="ill, %", extend="both")
plt.show()

# %%
# Two guarantees
# --------------
# ε0 protects each answer on its own device. α protects the order inside every group, here the
# people of one square: which of the group's reports is whose. It needs no δ, and says nothing
# about what a whole group has in common: that is what the map shows.

for name, run in runs.items():
    about = [each for each in run.guarantees if each.view_name == "curator"]
    for guarantee in about:
        print(f"{name:16}{guarantee}")

# %%
# All people together
# -------------------
# Whatever is shuffled, the frequencies over everybody are estimated as ever.

runs["order shuffle"].result
