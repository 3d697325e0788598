"""Solving for what was left out: safe, best, and honest about what cannot be found."""

from typing import Any

import pytest

from incrowd.errors import BudgetInfeasible, InvalidCrowd, InvalidDelta, InvalidEpsilon
from incrowd.protocols import PROTOCOLS, load
from incrowd.protocols.api import Protocol
from incrowd.randomizers import KRR, Generic
from incrowd.survey import Goal, Unknown, calibrate, calibrate_delta, unknowns

SHUFFLE: Any = load("trusted-shuffle")
LOCAL: Any = load("local")


def shuffled(eps0: float, n: int = 5000) -> Protocol:
    protocol: Protocol = SHUFFLE(KRR(categories=4, epsilon=eps0), n=n)
    return protocol


def test_unknowns_of_all_protocols_contain_local_epsilon_and_crowd() -> None:
    for kind in PROTOCOLS:
        found = unknowns(load(kind))
        assert (found["local_epsilon"].safe, found["local_epsilon"].whole) == ("max", False)
        if kind == "scrambled-query":
            # Only the people behind one scrambler hide each other, and there are no rounds.
            assert {name for name, each in found.items() if each.safe == "min"} == {
                "redirect_probability", "sources", "dummies",
            }  # fmt: skip
            continue
        if kind == "order-shuffle":
            assert list(found) == ["local_epsilon"]  # No crowd makes its guarantees any stronger.
            continue
        assert (found["n"].safe, found["n"].whole) == ("min", True)
        length = found["steps" if kind == "token-walk" else "rounds"]
        assert length.whole
        # More fresh reports reveal more; more steps of a report's walk reveal less.
        assert length.safe == ("min" if length.saturates else "max")


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
def test_calibrate_returns_largest_local_epsilon(epsilon: float) -> None:
    goal = Goal(epsilon=epsilon, delta=1e-6)
    value, protocol = calibrate(shuffled, unknowns(SHUFFLE)["local_epsilon"], goal)
    assert protocol.randomizer.epsilon == value
    assert goal.reached(protocol) <= epsilon
    assert goal.reached(shuffled(value * (1 + 3e-6))) > epsilon
    assert value == float(f"{value:.7g}")


@pytest.mark.parametrize("epsilon", [0.05, 0.9])
def test_calibrate_returns_smallest_crowd(epsilon: float) -> None:
    goal = Goal(epsilon=epsilon, delta=1e-6)
    value, _ = calibrate(lambda n: shuffled(1.0, int(n)), unknowns(SHUFFLE)["n"], goal)
    assert isinstance(value, int)
    assert goal.reached(shuffled(1.0, value)) <= epsilon < goal.reached(shuffled(1.0, value - 1))


def test_calibrate_with_loose_goal_returns_crowd_of_one() -> None:
    goal = Goal(epsilon=1.5, delta=1e-6)
    value, _ = calibrate(lambda n: shuffled(1.0, int(n)), unknowns(SHUFFLE)["n"], goal)
    assert value == 1


def test_calibrate_returns_most_rounds() -> None:
    def build(rounds: float) -> Protocol:
        protocol: Protocol = LOCAL(Generic(epsilon=0.1), n=10, rounds=int(rounds))
        return protocol

    goal = Goal(epsilon=1.0, delta=1e-6)
    value, _ = calibrate(build, unknowns(LOCAL)["rounds"], goal)
    assert value >= 10
    assert goal.reached(build(value)) <= 1 < goal.reached(build(value + 1))


def test_calibrate_never_exceeds_cap() -> None:
    cap = Unknown("local_epsilon", "max", whole=False, cap=0.75)
    value, _ = calibrate(shuffled, cap, Goal(epsilon=5.0, delta=1e-6))
    assert value == 0.75
    value, _ = calibrate(shuffled, cap, Goal(epsilon=0.01, delta=1e-6))
    assert value < 0.75


def test_calibrate_with_goal_near_the_largest_double_returns_most_that_is_drawn() -> None:
    def build(epsilon: float) -> Protocol:
        protocol: Protocol = LOCAL(KRR(categories=4, epsilon=epsilon), n=3)
        return protocol

    value, _ = calibrate(build, unknowns(LOCAL)["local_epsilon"], Goal(1e308, delta=1e-6))
    assert 29.999 < value <= 30
    with pytest.raises(InvalidEpsilon, match="at most 30 for a randomizer that draws"):
        build(30.1)


def test_calibrate_names_searched_range_when_infeasible() -> None:
    unknown = unknowns(SHUFFLE)["n"]
    with pytest.raises(
        BudgetInfeasible, match=r"between 1 and 1\.09.*at n = 1\.09951e\+12 it is 0"
    ):
        calibrate(
            lambda n: SHUFFLE(Generic(epsilon=9.0), n=int(n)),
            unknown,
            Goal(epsilon=1e-9, delta=1e-12),
        )


def test_calibrate_quotes_farthest_of_equal_epsilons_when_infeasible() -> None:
    def build(n: float) -> Protocol:
        protocol: Protocol = LOCAL(Generic(epsilon=1.0 if n > 1 else 2.0), n=int(n))
        return protocol

    with pytest.raises(BudgetInfeasible, match=r"at n = 1\.09951e\+12 it is 1$"):
        calibrate(build, unknowns(LOCAL)["n"], Goal(epsilon=0.5, delta=1e-9))


def test_calibrate_refuses_parameter_without_effect() -> None:
    unknown = unknowns(LOCAL)["n"]
    with pytest.raises(BudgetInfeasible, match="n does not matter against curator: epsilon is 1 "):
        calibrate(
            lambda n: LOCAL(Generic(epsilon=1.0), n=int(n)), unknown, Goal(epsilon=0.5, delta=1e-9)
        )


def test_calibrate_refuses_goal_met_by_all_values() -> None:
    with pytest.raises(BudgetInfeasible, match="every rounds up to"):
        calibrate(
            lambda rounds: shuffled(1.0), unknowns(SHUFFLE)["rounds"], Goal(epsilon=2, delta=1e-6)
        )


def test_calibrate_raises_error_common_to_all_values() -> None:
    with pytest.raises(InvalidCrowd, match="colluders"):
        calibrate(
            shuffled,
            unknowns(SHUFFLE)["local_epsilon"],
            Goal(epsilon=1, delta=1e-6, colluders=5000),
        )


def test_calibrate_delta_equals_guarantee_delta() -> None:
    guarantee = shuffled(1.0).guarantee()
    assert calibrate_delta(guarantee, 0.1) == guarantee.delta(0.1) > 0


def test_calibrate_delta_is_zero_if_not_needed_and_floored_if_tiny() -> None:
    assert calibrate_delta(LOCAL(Generic(epsilon=1.0), n=9).guarantee(), 2.0) == 0
    crowded = shuffled(1.0, 10**6).guarantee()
    assert 0 < crowded.delta(0.5) < 1e-280
    assert calibrate_delta(crowded, 0.5) == 1e-280


class Saturating:
    """A protocol whose epsilon falls with its rounds, down to a floor."""

    def __init__(self, rounds: float, floor: float, slow: float = 1.0) -> None:
        self.epsilon = max(floor, min(1.0, slow / rounds)) if rounds else 1.0

    def guarantee(self, *_: Any) -> "Saturating.Guarantee":
        return Saturating.Guarantee(self.epsilon)

    class Guarantee:
        def __init__(self, value: float) -> None:
            self.value = value

        def epsilon(self, delta: float) -> float:
            return self.value


ROUNDS = Unknown("rounds", "min", whole=True, saturates=True)


def test_calibrate_returns_fewest_rounds() -> None:
    def build(rounds: float) -> Any:
        return Saturating(rounds, floor=0.01, slow=7)

    assert calibrate(build, ROUNDS, Goal(epsilon=0.1, delta=1e-6))[0] == 70
    assert calibrate(build, ROUNDS, Goal(epsilon=1.5, delta=1e-6))[0] == 0


@pytest.mark.parametrize(
    ("slow", "where"), [(7, "from rounds = 1024 to 262144"), (1e9, "1 to 256")]
)
def test_calibrate_stops_where_more_rounds_do_not_help(slow: float, where: str) -> None:
    tried = []

    def build(rounds: float) -> Any:
        tried.append(rounds)
        return Saturating(rounds, floor=0.01, slow=slow)

    with pytest.raises(BudgetInfeasible, match=f"more rounds would not help.*{where} epsilon stay"):
        calibrate(build, ROUNDS, Goal(epsilon=0.001, delta=1e-6))
    assert max(tried) < 2**20


def test_calibrate_of_smooth_curve_takes_few_trials() -> None:
    tried = []

    def build(eps0: float) -> Protocol:
        tried.append(eps0)
        return shuffled(eps0)

    calibrate(build, unknowns(SHUFFLE)["local_epsilon"], Goal(epsilon=0.3, delta=1e-6))
    assert len(tried) < 16


def test_calibrate_of_jumping_curve_returns_safe_side() -> None:
    def build(eps0: float) -> Any:
        return Saturating(1, floor=0.1 if eps0 <= 1.7 else 3.0, slow=0.01)

    value, _ = calibrate(
        build, Unknown("local_epsilon", "max", whole=False), Goal(epsilon=0.2, delta=1e-6)
    )
    assert 1.7 * (1 - 2e-6) <= value <= 1.7


def test_goal_rejects_invalid_epsilon_and_delta() -> None:
    with pytest.raises(InvalidEpsilon):
        Goal(epsilon=0, delta=1e-6)
    with pytest.raises(InvalidDelta):
        Goal(epsilon=1, delta=1)
