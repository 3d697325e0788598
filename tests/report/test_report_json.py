"""Results as plain data: attacks that say nothing, and the measured cost beside the planned."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from incrowd import sim
from incrowd.privacy.guarantee import Guarantee, Profile
from incrowd.protocols import load
from incrowd.randomizers import OneBit
from incrowd.report import json
from incrowd.report.tables import guarantees
from incrowd.tasks import Mean

SHUFFLE: Any = load("trusted-shuffle")
LOCAL: Any = load("local")


@dataclasses.dataclass
class Flat(Profile):
    """Proven up to one epsilon at every delta, attacked up to another."""

    proven: float
    attained_epsilon: float | None

    def delta(self, epsilon: float) -> float:
        return float(epsilon < self.proven)

    def epsilon(self, delta: float) -> float:
        return self.proven

    def lower(self, delta: float) -> float | None:
        return self.attained_epsilon

    @property
    def interval(self) -> float:
        return 1.0

    def losses(self, interval: float) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("proven", "attained", "stated", "shown"),
    [(1.0, 0.0, None, "–"), (1.0, None, None, "–"), (1.0, 0.5, 0.5, "0.5"), (0.0, 0.0, 0.0, "0")],
)
def test_lower_bound_of_zero_beside_positive_epsilon_is_not_stated(
    proven: float, attained: float | None, stated: float | None, shown: str
) -> None:
    guarantee = Guarantee(Flat(proven, attained), frozenset({"curator"}), "a theorem", ())
    described = json.describe_guarantee(guarantee, 1e-6)
    assert described["lower_bound"] == stated
    assert guarantees([described]).rows[0][3] == shown


def test_describe_guarantee_states_known_epsilon() -> None:
    guarantee = Guarantee(Flat(1.0, 0.5), frozenset({"curator"}), "a theorem", ())
    described = json.describe_guarantee(guarantee, 0.0, epsilon=3.0)
    assert (described["epsilon"], described["lower_bound"]) == (3.0, None)


def test_expected_error_has_units_of_task() -> None:
    protocol = LOCAL(OneBit(epsilon=1.0), n=100)
    cost = protocol.cost()
    minutes = json.describe_cost(cost, Mean(bounds=(-60, 60)), protocol, 100)
    assert minutes["expected_error"] == 120 * cost.expected_error


def test_cost_is_measured_only_where_actors_were_played() -> None:
    protocol, values = SHUFFLE(OneBit(epsilon=1.0), n=50), np.linspace(0, 1, 50)
    assert json.describe_measured(protocol.simulate(values, seed=1)) is None
    measured = json.describe_measured(sim.run(protocol, values, seed=1))
    assert measured is not None
    assert measured["messages_per_person"] == protocol.cost().messages_per_person
    assert measured["messages_lost"] == 0
    # Devices that are switched off send nothing and do not lower the mean.
    fewer = json.describe_measured(
        sim.run(protocol, values, faults=sim.Faults(dropout=0.5), seed=1)
    )
    assert fewer is not None
    assert fewer["messages_per_person"] >= 1
