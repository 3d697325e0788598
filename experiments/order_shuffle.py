"""Order-private shuffling: the paper's Figures 1, 3, 5 and 6 and its worked example, ours beside.

    export INCROWD_DATA=DIRECTORY
    python -m experiments.order_shuffle [--quick --out DIRECTORY]

"A Shuffling Framework for Local Differential Privacy" (Meehan, Roy Chowdhury, Chaudhuri, Jha). What
the paper prints is in ``experiments.paper_order_shuffle``. ρ, λ, accuracies and η are measured, not
guaranteed; guarantees are the sensitivities and every α. The quick part needs no data.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from experiments import order_crescents as crescents
from experiments import order_preservation as preservation
from experiments import order_results as results
from experiments import order_sensitivity as sensitivity
from experiments import order_sweeps as sweeps
from experiments import order_worked as worked
from experiments.common import Experiment
from experiments.order_measure import Effort
from experiments.order_worlds import CRESCENTS, SETTINGS, Setting

__all__ = ["EXPERIMENT", "FULL", "QUICK", "Size"]


@dataclass(frozen=True)
class Size:
    """How much to compute."""

    sensitivity: tuple[sensitivity.Settings, ...]
    settings: tuple[Setting, ...]
    effort: Effort
    alphas: tuple[float, ...]
    pictured: tuple[float, float]
    """The two radii of the first figure."""
    preservation: preservation.Sizes

    @property
    def crescents(self) -> Setting:
        """The crowd of crescents among the settings."""
        return next(each for each in self.settings if each.name == CRESCENTS.name)


FULL = Size(
    sensitivity=sensitivity.FULL,
    settings=SETTINGS,
    effort=Effort(trials=10, randomizations=50),
    alphas=tuple(4.0**power for power in range(1, 9)),
    pictured=(0.006, 0.01),
    preservation=preservation.Sizes(
        people=10_000,
        draws=50,
        alphas=(0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0),
        widths=(10, 20, 30, 50, 100, 200, 300, 500, 1000),
        subsets=(10, 30, 100, 300, 1000, 2500, 5000, 8000, 10_000),
        lines=((30, 100), (30, 1000), (100, 1000), (100, 5000)),
    ),
)
QUICK = Size(
    sensitivity=sensitivity.QUICK[:1],
    settings=(replace(CRESCENTS, people=400, radii=(0.02, 0.1), small=0.02, fixed=0.1),),
    effort=Effort(trials=2, randomizations=10),
    alphas=(4.0, sweeps.RINGED, 4096.0),
    pictured=(0.02, 0.1),
    preservation=preservation.Sizes(
        people=1000,
        draws=5,
        alphas=(0.5, 3.0),
        widths=(10, 100),
        subsets=(30, 300),
        lines=((30, 100),),
    ),
)

EXPERIMENT = Experiment(
    "experiments.order_shuffle",
    {
        "order_worked.md": lambda _: worked.steps_table(),
        "order_worked_groups.md": lambda _: worked.groups_table(),
        "order_preservation.md": lambda size: preservation.table(size.preservation),
        "order_preservation.svg": lambda size: preservation.figure(size.preservation),
        "order_sensitivity.md": lambda size: sensitivity.table(size.sensitivity),
        "order_gains.md": lambda size: results.gains_table(size.settings),
        "order_crescents.svg": lambda size: crescents.picture(size.crescents, size.pictured),
        "order_attackers.md": lambda size: crescents.attackers_table(
            size.crescents, size.pictured, size.effort
        ),
        "order_results.md": lambda size: results.results_table(size.settings, size.effort),
        "order_inference.svg": lambda size: sweeps.over_radius(
            size.settings, size.effort, "ρ",
            "Larger groups protect from those who ask neighbours (α = 4)",
        ),
        "order_learning.svg": lambda size: sweeps.over_radius(
            size.settings, size.effort, "λ",
            "Larger groups leave less to learn about each place (α = 4)",
        ),
        "order_alpha.svg": lambda size: sweeps.over_alpha(
            size.settings, size.effort, size.alphas, "A weaker guarantee leaves more to be told"
        ),
        "order_tradeoff.svg": lambda size: sweeps.tradeoff(
            size.settings, size.effort, size.alphas,
            "Nearly one curve; the exact sensitivity is further along it at equal α (ringed: 256)",
        ),
        "order_equal.md": lambda size: results.equal_table(
            size.settings, size.effort, size.alphas
        ),
        "order_claims.md": lambda size: results.claims_table(
            size.settings, size.effort, size.alphas
        ),
        "order_classes.md": lambda size: crescents.classes_table(size.crescents, size.effort),
        "order_classes.svg": lambda size: crescents.classes_figure(size.crescents, size.effort),
    },
    FULL,
    QUICK,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
