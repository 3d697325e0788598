"""Shuffled check-in on the command line."""

import json
from pathlib import Path

import pytest
from cli_helpers import EXAMPLES, Call, stated
from test_cli_errors import assert_fails

from incrowd import errors

ACCOUNT = ("account", "check-in", "--n", "1e4", "--local-epsilon", "2", "--delta", "1e-4")


def answer(incrowd: Call, *words: object) -> dict:
    ended = incrowd(*words, "--format", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_account_prints_check_in_guarantees(incrowd: Call) -> None:
    said = answer(incrowd, *ACCOUNT, "--rate", "0.01", "--rounds", "100")
    assert said["diagnostics"]["participants_expected"] == 100
    assert 0 < stated(said)["lower_bound"] <= stated(said)["epsilon"] <= 0.0737
    assert said["parameters"]["rate"] == 0.01


def test_account_without_dummies_names_traffic(incrowd: Call) -> None:
    words = (*ACCOUNT, "--rate", "0.1")
    with_dummies, without = (
        stated(answer(incrowd, *words, *more)) for more in ((), ("--no-dummies",))
    )
    assert with_dummies["epsilon"] == without["epsilon"]
    assert with_dummies["assumptions"] != without["assumptions"]
    assert any("traffic" in each for each in without["assumptions"])


@pytest.mark.parametrize(
    ("left_out", "words", "worse"),
    [
        ("rate", ("--rounds", "10"), 1.001),
        ("rounds", ("--rate", "0.05"), 1.01),
    ],
)
def test_calibrate_solution_is_safe_and_largest(
    incrowd: Call, left_out: str, words: tuple[str, ...], worse: float
) -> None:
    goal = ("calibrate", *ACCOUNT[1:], "--epsilon", "0.1")
    value = answer(incrowd, *goal, *words)["solved"]["value"]
    reached, beyond = (
        stated(answer(incrowd, *ACCOUNT, *words, f"--{left_out}", each))["epsilon"]
        for each in (value, max(value + 1, round(value * worse)) if value > 1 else value * worse)
    )
    assert reached <= 0.1 < beyond


def test_calibrate_rate_is_at_most_one(incrowd: Call) -> None:
    words = ("calibrate", *ACCOUNT[1:], "--epsilon", "1.5", "--rounds", "2")
    assert answer(incrowd, *words)["solved"]["value"] == 1


@pytest.mark.parametrize("rate", ["0", "-0.1", "1.5", "nan"])
def test_account_rejects_invalid_rate(incrowd: Call, rate: str) -> None:
    ended = incrowd(*ACCOUNT, "--rate", rate)
    assert_fails(ended, errors.InvalidParameter, "--rate ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--min-participants", "1.5"),
            "--min-participants must be a whole number of people or a share",
        ),
        (("--min-participants", "-1"), "--min-participants must be"),
        (("--min-participants", "1e9"), "--min-participants must be at most the n = 10000"),
        (("--min-participants", "0.9", "--no-dummies"), "--min-participants needs dummies"),
    ],
)
def test_account_rejects_invalid_least_crowd(
    incrowd: Call, words: tuple[str, ...], said: str
) -> None:
    ended = incrowd(*ACCOUNT, "--rate", "0.1", *words)
    assert ended.code in (errors.InvalidParameter.exit_code, errors.InvalidCrowd.exit_code)
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_account_needs_rate(incrowd: Call) -> None:
    ended = incrowd(*ACCOUNT)
    assert_fails(ended, 2, "missing option --rate")


def test_account_reads_rates_from_file(incrowd: Call, tmp_path: Path) -> None:
    file = tmp_path / "rates.txt"
    file.write_text("0.01\n" * 5000 + "0.02\n" * 5000)
    said = answer(incrowd, *ACCOUNT, "--rates", file)
    assert said["diagnostics"]["participants_expected"] == pytest.approx(150)
    low, high = (
        stated(answer(incrowd, *ACCOUNT, "--rate", rate))["epsilon"] for rate in ("0.01", "0.02")
    )
    assert low < stated(said)["epsilon"] < 2 * high
    both = incrowd(*ACCOUNT, "--rates", file, "--rate", "0.1")
    assert_fails(both, errors.InvalidParameter, "--rates are in place of one rate")
    missing = incrowd(*ACCOUNT, "--rates", tmp_path / "none.txt")
    assert_fails(missing, errors.FileUnreadable, "none.txt: cannot read the numbers")


def test_calibrate_solves_rounds_with_rates(incrowd: Call, tmp_path: Path) -> None:
    file = tmp_path / "rates.txt"
    file.write_text("0.1\n" * 1000)
    words = (
        "calibrate",
        "check-in",
        "--n",
        1000,
        "--local-epsilon",
        2,
        "--delta",
        1e-6,
        "--epsilon",
        0.5,
    )
    own, same = (answer(incrowd, *words, *each) for each in (("--rates", file), ("--rate", 0.1)))
    assert own["solved"]["name"] == same["solved"]["name"] == "rounds"
    assert own["solved"]["value"] == same["solved"]["value"]


def test_run_prints_answer_when_report_file_fails(incrowd: Call) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here to write a report to in vain")
    words = ("run", EXAMPLES / "check_in.toml", "--seed", 1, "--report", "/dev/full")
    ended = incrowd(*words, "--format", "json")
    assert ended.code == errors.FileNotWritable.exit_code
    assert "cannot write the report" in ended.err
    said = json.loads(ended.out)
    assert said["report"] is None
    assert len(said["questions"][0]["rows"]) == 6


def test_expected_error_counts_participants(incrowd: Call) -> None:
    said = answer(incrowd, "run", EXAMPLES / "check_in.toml", "--seed", 1, "--no-report")
    found = max(row["standard_error"] for row in said["questions"][0]["rows"])
    assert said["cost"]["expected_error"] == pytest.approx(found, rel=0.25)


def test_survey_refines_answer_until_budget_is_spent(incrowd: Call) -> None:
    said = answer(incrowd, "run", EXAMPLES / "check_in.toml", "--seed", 1, "--no-report")
    refined = said["history"]
    rounds = [each["rounds"] for each in refined]
    assert rounds == sorted(rounds)
    assert rounds[-1] == said["parameters"]["rounds"] == said["diagnostics"]["rounds_held"]
    assert [each["epsilon_if_planned"] for each in refined] == sorted(
        each["epsilon_if_planned"] for each in refined
    )
    width = [each["high"][0] - each["low"][0] for each in refined]
    assert width[-1] < width[0] / 2
    assert refined[-1]["estimate"] == [row["estimate"] for row in said["questions"][0]["rows"]]
    assert refined[-1]["epsilon_if_planned"] <= said["budget"]["epsilon"]
    table = incrowd("run", EXAMPLES / "check_in.toml", "--seed", 1, "--no-report")
    assert f"{rounds[-1]} rounds" in table.out


def test_calibrate_solves_for_named_option(incrowd: Call) -> None:
    words = ("calibrate", "check-in", "--n", 1000, "--local-epsilon", 2, "--delta", 1e-6)
    words = (*words, "--epsilon", 0.5)
    found = answer(incrowd, *words, "--rounds", 1, "--solve", "rate")
    assert found["solved"]["name"] == "rate"
    assert_fails(incrowd(*words, "--rounds", 1, "--solve", "rounds"), 2, "--rounds")
    assert_fails(incrowd(*words, "--solve", "dummies"), 2, "name one of", "rounds")
