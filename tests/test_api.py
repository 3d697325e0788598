"""What a caller sees at the prompt: short reprs, and one clear line for every wrong argument."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import incrowd as ic
from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidDelta, InvalidEpsilon, InvalidParameter

KRR = ic.KRR(categories=3, epsilon=1.0)
SHUFFLE = ic.TrustedShuffle(KRR, n=5)
LOCAL = ic.Local(KRR, n=5)
VALUES = [0, 1, 2, 0, 1]

WRONG_CALLS = {
    "categories as text": (
        lambda: ic.KRR(categories="3", epsilon=1),
        InvalidParameter,
        "categories must be a whole number ≥ 2, got '3'",
    ),
    "no epsilon": (
        lambda: ic.KRR(categories=3, epsilon=None),
        InvalidEpsilon,
        "epsilon must be a positive finite number, got None",
    ),
    "epsilon as truth value": (
        lambda: ic.KRR(categories=3, epsilon=True),
        InvalidEpsilon,
        "epsilon must be a positive finite number, got True",
    ),
    "n as text": (
        lambda: ic.TrustedShuffle(KRR, n="5"),
        InvalidCrowd,
        "n must be a whole number of people ≥ 1, got '5'",
    ),
    "no rounds": (
        lambda: ic.Local(KRR, n=5, rounds=None),
        InvalidParameter,
        "rounds must be a whole number ≥ 1, got None",
    ),
    "seed as text": (
        lambda: SHUFFLE.simulate(VALUES, seed="x"),
        InvalidParameter,
        "seed must be a whole number ≥ 0, got 'x'",
    ),
    "epsilon at text": (
        lambda: SHUFFLE.guarantee().epsilon("x"),
        InvalidDelta,
        "delta must lie strictly between 0 and 1, got 'x'",
    ),
    "lower at text": (
        lambda: LOCAL.guarantee().lower("x"),
        InvalidDelta,
        "delta must lie strictly between 0 and 1, got 'x'",
    ),
    "delta at text": (
        lambda: LOCAL.guarantee().delta("x"),
        InvalidParameter,
        "epsilon must be a finite number, got 'x'",
    ),
    "view as number": (lambda: SHUFFLE.guarantee(5), InvalidParameter, "unknown view '5'"),
    "no view": (lambda: LOCAL.guarantee(None), InvalidParameter, "unknown view 'None'"),
    "view of a number": (
        lambda: SHUFFLE.guarantee(["curator", 5]),
        InvalidParameter,
        "unknown view '5+curator'",
    ),
    "view of lists": (
        lambda: SHUFFLE.guarantee([["curator"]]),
        InvalidParameter,
        "unknown view \"['curator']\"",
    ),
    "colluders as text": (
        lambda: SHUFFLE.guarantee(colluders="1"),
        InvalidParameter,
        "colluders must be a whole number ≥ 0, got '1'",
    ),
    "compose with a number": (
        lambda: SHUFFLE.guarantee().compose(5),
        InvalidParameter,
        "must be a Guarantee such as protocol.guarantee(), got 5",
    ),
    "no values": (
        lambda: SHUFFLE.simulate(None),
        InvalidParameter,
        "one row per person, got a NoneType",
    ),
    "values as text": (
        lambda: LOCAL.simulate("abc"),
        InvalidParameter,
        "one row per person, got a str",
    ),
    "ragged values": (
        lambda: LOCAL.simulate([[0], [1, 2]]),
        InvalidParameter,
        "must all have the same length",
    ),
    "task by name": (
        lambda: SHUFFLE.simulate(VALUES, task="histogram"),
        InvalidParameter,
        "task must be a Task such as Mean(bounds=(0, 1)), got 'histogram'",
    ),
    "task by class": (
        lambda: SHUFFLE.simulate(VALUES, task=ic.Histogram),
        InvalidParameter,
        "got the class Histogram",
    ),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_wrong_argument_raises_one_clear_line(case):
    call, kind, message = WRONG_CALLS[case]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", [ic.TrustedShuffle, ic.Local])
@pytest.mark.parametrize(
    ("wrong", "got"), [("krr", "'krr'"), (ic.KRR, "the class KRR"), (None, "None")]
)
def test_protocol_rejects_what_is_no_randomizer(protocol, wrong, got):
    with pytest.raises(InvalidParameter) as caught:
        protocol(wrong, n=5)
    assert str(caught.value) == (
        f"randomizer must be a Randomizer such as KRR(categories=3, epsilon=1.0), got {got}"
    )


class TestChecks:
    NUMBERS = (
        (checks.epsilon, InvalidEpsilon),
        (checks.delta, InvalidDelta),
        (checks.crowd, InvalidCrowd),
        (lambda value: checks.integer(value, "rounds", 1), InvalidParameter),
        (lambda value: checks.probability(value, "p"), InvalidParameter),
        (lambda value: checks.number(value, "p"), InvalidParameter),
    )

    @pytest.mark.parametrize(("check", "kind"), NUMBERS)
    @pytest.mark.parametrize(
        "wrong",
        ["1", "", None, True, False, np.True_, 1j, [1], {}, b"1", float("nan"), float("inf")],
        ids=repr,
    )
    def test_checks_reject_non_numbers_by_the_right_class(self, check, kind, wrong):
        with pytest.raises(InvalidParameter, match="got") as caught:
            check(wrong)
        assert type(caught.value) is kind

    @pytest.mark.parametrize(
        "check", [checks.epsilon, lambda value: checks.number(value, "p")], ids=["epsilon", "p"]
    )
    def test_checks_reject_numbers_beyond_doubles(self, check):
        with pytest.raises(InvalidParameter, match="finite"):
            check(10**400)

    @pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.uint8(3), np.float32(3)], ids=repr)
    def test_integer_converts_whole_numbers_of_all_types(self, value):
        for checked in (checks.crowd(value), checks.integer(value, "rounds", 1)):
            assert type(checked) is int
            assert checked == 3

    @pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
    def test_number_converts_numbers_of_all_types(self, value):
        for checked in (
            checks.epsilon(value),
            checks.delta(value),
            checks.probability(value, "p"),
            checks.number(value, "p"),
        ):
            assert type(checked) is float
            assert checked == 0.5


class TestReprs:
    def test_guarantee_repr_begins_with_epsilon(self):
        guarantee = SHUFFLE.guarantee()
        assert repr(guarantee) == (
            "Guarantee(ε = 1 at δ = 1e-6 against curator by privacy blanket "
            f"(docs/theory/blanket.md); replace-one, {len(guarantee.assumptions)} assumptions)"
        )

    def test_guarantee_repr_names_view_and_colluders(self):
        shown = repr(SHUFFLE.guarantee("curator+shuffler", colluders=2))
        assert "against curator+shuffler with 2 colluders by local" in shown

    def test_guarantee_computes_each_point_of_its_curve_once(self):
        class Counted(ic.privacy.Profile):
            calls = 0

            def delta(self, epsilon):
                return 0.5

            def epsilon(self, delta):
                Counted.calls += 1
                return 0.12341

            @property
            def interval(self):
                return 1.0

        guarantee = ic.Guarantee(Counted(), frozenset({"curator"}), "a theorem", ("one",))
        assert repr(guarantee).startswith("Guarantee(ε = 0.1235 at δ = 1e-6 against curator")
        assert repr(guarantee) == repr(guarantee)
        assert guarantee.epsilon(1e-6) == 0.12341
        assert Counted.calls == 1

    def test_run_repr_is_short(self):
        run = ic.Local(ic.OneBit(epsilon=1.0), n=3).simulate([0, 1, 0.5], seed=7)
        assert repr(run) == "Run(Answer(mean = 1.58 ± 0.55; 3 people), seed = 7, 3 guarantees)"

    def test_run_repr_of_many_rows_stays_short(self):
        many = ic.KRR(categories=500, epsilon=4.0)
        run = ic.TrustedShuffle(many, n=1000).simulate(np.arange(1000) % 500, seed=7)
        assert "… 500 rows; 1,000 people), seed = 7, 4 guarantees)" in repr(run)
        assert len(repr(run)) < 300
        assert repr(run.collected) == "Collected(1000 of 1000 reports, rounds = 1)"
