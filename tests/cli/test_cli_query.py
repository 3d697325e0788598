"""``incrowd query`` and the guarantees of scramblers, as a stranger meets them."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import EXAMPLES, Call, assert_fails, stated

from incrowd import errors

SQL = "SELECT age_range, bmi, AVG(insulin) FROM patients GROUP BY GROUPING SETS ((age_range),(bmi))"
FILES = ("--data", EXAMPLES / "patients.csv", "--schema", EXAMPLES / "patients.toml")
BUDGET = ("--epsilon", "1", "--delta", "1e-4")


def test_query_example_meets_budget_with_all_tuples(incrowd: Call, tmp_path: Path) -> None:
    ended = incrowd("query", SQL, *FILES, *BUDGET, "--seed", "7", "--format", "json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["tables"]["table"]["columns"] == ["age_range", "bmi", "AVG(insulin)", "tuples"]
    assert told["budget"]["met"]
    network = next(each for each in told["guarantees"] if each["view"] == "network")
    assert network["lower_bound"] <= network["epsilon"] <= 1
    # Without limits nobody lies, and every tuple stands behind one group of each set.
    people = len((EXAMPLES / "patients.csv").read_text().splitlines()) - 1
    tuples = [row[-1] for row in told["tables"]["table"]["rows"]]
    assert sum(tuples) == 2 * people
    assert told["plan"] is None


def test_query_draws_and_explains_plan(incrowd: Call, tmp_path: Path) -> None:
    drawing = tmp_path / "plan.svg"
    ended = incrowd(
        "query", SQL, *FILES, *BUDGET, "--explain", "--draw", drawing, "--report", "page.html"
    )
    assert ended.code == 0, ended.err
    assert "scrambler" in ended.out
    assert "in the clear" in ended.out
    assert drawing.read_text().startswith("<svg")
    assert "<svg" in Path("page.html").read_text()


@pytest.mark.parametrize("option", ["--report", "--draw"])
def test_query_refuses_to_overwrite_data(incrowd: Call, option: str) -> None:
    data = Path("patients.csv")
    data.write_bytes((EXAMPLES / "patients.csv").read_bytes())
    files = ("--data", data, "--schema", EXAMPLES / "patients.toml")
    ended = incrowd("query", SQL, *files, *BUDGET, option, data)
    assert_fails(ended, 2, option, "would overwrite patients.csv")
    assert data.read_bytes() == (EXAMPLES / "patients.csv").read_bytes()


def test_query_with_load_limit_uses_sampling(incrowd: Call) -> None:
    words = (
        "query",
        SQL,
        *FILES,
        *BUDGET,
        "--seed",
        "7",
        "--format",
        "json",
        "--max-messages",
        "4500",
    )
    told = json.loads(incrowd(*words).out)
    assert 0 < told["parameters"]["redirect_probability"] < 1
    assert told["diagnostics"]["network_load"] <= 4500
    assert told["budget"]["met"]


def test_query_with_release_charges_noise_twice(incrowd: Call) -> None:
    words = (
        "query", "SELECT age_range, COUNT(*) FROM patients GROUP BY age_range", *FILES,
        "--epsilon", "2", "--delta", "1e-4", "--seed", "7", "--format", "json",
        "--release-epsilon", "0.5", "--view", "curator+network", "--redirect-probability", "0.5",
        "--sources", "500", "--dummies", "500",
    )  # fmt: skip
    told = json.loads(incrowd(*words).out)
    proven = {each["view"]: each["epsilon"] for each in told["guarantees"]}
    assert proven["curator"] == pytest.approx(0.5, rel=1e-3)
    # Twice the noise, composed: more than adding it once, and at most adding it twice.
    assert proven["network"] + 0.5 < proven["curator+network"] <= proven["network"] + 1.0


@pytest.mark.parametrize(
    ("sql", "kind", "words"),
    [
        ("SELECT * FROM patients", errors.InvalidQuery, ("column 8",)),
        ("SELECT MEDIAN(insulin) FROM patients", errors.InvalidQuery, ("MEDIAN", "column 8")),
        ("SELECT COUNT(*) FROM doctors", errors.InvalidQuery, ("doctors", "patients")),
        ("SELECT AVG(insuline) FROM patients", errors.IncrowdError, ("insuline", "insulin")),
        ("SELEC 1", errors.InvalidQuery, ("line 1",)),
        ("", errors.InvalidQuery, ()),
    ],
)
def test_query_rejects_sql_outside_subset(
    incrowd: Call, sql: str, kind: type[errors.IncrowdError], words: tuple[str, ...]
) -> None:
    ended = incrowd("query", sql, *FILES, *BUDGET)
    assert ended.code != 0
    assert len(ended.err.strip().splitlines()) == 1
    if kind is not errors.IncrowdError:
        assert_fails(ended, kind, *words)
    assert all(word in ended.err for word in words)


def test_query_when_a_value_is_outside_its_domain_counts_it(incrowd: Call, tmp_path: Path) -> None:
    lines = (EXAMPLES / "patients.csv").read_text().splitlines()
    place = lines[0].split(",").index("bmi")
    row = lines[3].split(",")
    row[place] = "999"
    lines[3] = ",".join(row)
    (tmp_path / "patients.csv").write_text("\n".join(lines))
    files = ("--data", tmp_path / "patients.csv", "--schema", EXAMPLES / "patients.toml")
    ended = incrowd("query", SQL, *files, *BUDGET)
    assert ended.code == 0
    assert "0 have no answer and 1 have one outside the domain (the first is row 3)" in ended.err


def test_query_with_too_few_people_fails(incrowd: Call) -> None:
    words = ("query", SQL, *FILES, *BUDGET, "--sources", "5000", "--dummies", "10")
    assert_fails(incrowd(*words), errors.InvalidCrowd, "5000")


def test_query_with_infeasible_budget_names_nearest_epsilon(incrowd: Call) -> None:
    words = (
        "query", SQL, *FILES, "--epsilon", "0.01", "--delta", "1e-9",
        "--max-messages", "3000", "--max-extra-people", "0.1",
    )  # fmt: skip
    assert_fails(incrowd(*words), errors.BudgetInfeasible, "least")


@pytest.mark.parametrize(
    ("option", "value", "kind", "said"),
    [
        ("--max-connections", "7", errors.BudgetInfeasible, "must be at least 9"),
        ("--max-extra-people", "-1", errors.InvalidParameter, "must not be negative"),
        ("--redirect-probability", "2", errors.InvalidParameter, "must be between 0 and 1"),
    ],
)
def test_query_with_a_wrong_option_names_that_option(
    incrowd: Call, option: str, value: str, kind: type[errors.IncrowdError], said: str
) -> None:
    ended = incrowd("query", SQL, *FILES, *BUDGET, option, value)
    assert_fails(ended, kind, f"error: {option} {said}")


def test_query_with_an_unknown_view_names_the_option(incrowd: Call) -> None:
    ended = incrowd("query", SQL, *FILES, *BUDGET, "--view", "me")
    assert_fails(ended, errors.InvalidParameter, "error: --view: unknown view 'me'")


def account(incrowd: Call, *words: str) -> dict[str, Any]:
    ended = incrowd("account", "scrambled-query", *words, "--delta", "1e-4", "--format", "json")
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_account_states_the_exact_bound(incrowd: Call) -> None:
    base = (
        "--targets",
        "20",
        "--redirect-probability",
        "0.1",
        "--sources",
        "600",
        "--dummies",
        "300",
    )
    told = account(incrowd, *base)
    assert stated(told)["epsilon"] == pytest.approx(1.043875, abs=1e-6)
    assert stated(told)["lower_bound"] <= stated(told)["epsilon"]
    assert told["diagnostics"]["bennett_epsilon"] == pytest.approx(2.3101, abs=2e-4)


def test_account_states_bound_of_each_mode(incrowd: Call) -> None:
    capped = (
        "--targets",
        "20",
        "--redirect-probability",
        "0.5",
        "--sources",
        "100",
        "--dummies",
        "99",
    )
    found = account(incrowd, *capped, "--hiding", "capped")
    assert stated(found)["epsilon"] == pytest.approx(2.8604, abs=5e-5)
    local = (
        "--targets",
        "20",
        "--redirect-probability",
        "0.5",
        "--dummies",
        "1",
        "--hiding",
        "local",
    )
    found = account(incrowd, *local)
    assert stated(found)["epsilon"] == pytest.approx(2.397895272798371, abs=1e-12)


def test_account_of_grouping_sets_is_within_sum(incrowd: Call) -> None:
    base = (
        "--targets",
        "20",
        "--redirect-probability",
        "0.3",
        "--sources",
        "600",
        "--dummies",
        "300",
    )
    one, two = (
        stated(account(incrowd, *base, *sets))["epsilon"] for sets in ((), ("--grouping-sets", "2"))
    )
    assert one < two < 2 * one * 1.1


def test_account_without_sampling_states_delta_floor(incrowd: Call) -> None:
    words = ("--targets", "20", "--sources", "100", "--dummies", "50", "--delta", "1e-4")
    ended = incrowd("account", "scrambled-query", *words, "--format", "json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert stated(told)["epsilon"] is None
    assert told["diagnostics"]["delta_floor"] == pytest.approx(0.95**50)


def test_calibrate_solves_for_dummies(incrowd: Call) -> None:
    words = (
        "calibrate", "scrambled-query", "--targets", "20", "--redirect-probability", "0.1",
        "--sources", "600", "--delta", "1e-4", "--epsilon", "1", "--format", "json",
    )  # fmt: skip
    told = json.loads(incrowd(*words).out)
    assert told["solved"]["name"] == "dummies"
    assert stated(told)["epsilon"] <= 1
    fewer = account(
        incrowd, "--targets", "20", "--redirect-probability", "0.1", "--sources", "600",
        "--dummies", str(told["solved"]["value"] - 1),
    )  # fmt: skip
    assert stated(fewer)["epsilon"] > 1


def test_survey_file_gives_same_answer_as_query(incrowd: Call) -> None:
    ended = incrowd("run", EXAMPLES / "insulin.toml", "--seed", "7", "--no-report")
    assert ended.code == 0, ended.err
    assert "tuples" in ended.out


@pytest.mark.parametrize(
    "given",
    [
        {"redirect_probability": 0.1},
        {"sources": 300},
        {"dummies": 300},
        {"redirect_probability": 0.2, "sources": 100},
        {"sources": 200, "dummies": 5},
    ],
)
def test_query_keeps_given_settings_and_chooses_rest(
    incrowd: Call, given: dict[str, float]
) -> None:
    words = [
        word for name, value in given.items() for word in ("--" + name.replace("_", "-"), value)
    ]
    sql = "SELECT sex, COUNT(*) FROM patients GROUP BY sex"
    ended = incrowd("query", sql, *FILES, *BUDGET, *words, "--seed", "7", "--format", "json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert {name: told["parameters"][name] for name in given} == given
    assert told["budget"]["met"]


def test_query_budget_covers_curator_view(incrowd: Call) -> None:
    sql = "SELECT sex, COUNT(*) FROM patients GROUP BY sex"
    words = (
        "--release-epsilon",
        "0.3",
        "--view",
        "curator+network",
        "--seed",
        "7",
        "--format",
        "json",
    )
    told = json.loads(incrowd("query", sql, *FILES, *BUDGET, *words).out)
    proven = {each["view"]: each["epsilon"] for each in told["guarantees"]}
    # Nobody lies, so that noise counts once, and nothing of the budget is left unused.
    assert 0.95 < proven["curator+network"] <= 1
    assert told["diagnostics"]["tuples"] is None
    assert told["reports"] == {"sent": 1000, "received": 1000}


def test_query_with_unmatched_condition_counts_zero(incrowd: Call) -> None:
    sql = "SELECT COUNT(*), AVG(insulin) FROM patients WHERE insulin > 49"
    told = json.loads(incrowd("query", sql, *FILES, *BUDGET, "--format", "json").out)
    assert told["tables"]["table"]["rows"] == [[0, None, 0]]


def test_survey_rejects_keys_without_meaning(incrowd: Call, tmp_path: Path) -> None:
    text = (EXAMPLES / "insulin.toml").read_text().replace('"patients', f'"{EXAMPLES}/patients')
    for old, new, said in (
        ('kind = "query"', 'kind = "querry"', "question[1].kind"),
        ("standby_scramblers = 1", "grouping_sets = 5", "grouping_sets"),
        ('kind = "scrambled-query"', 'kind = "local"', "protocol.kind"),
        ("max_connections = 600", "wings = 2", "limits.wings"),
        ("max_connections = 600", "max_connections = 7", "limits.max_connections"),
    ):
        path = tmp_path / "survey.toml"
        path.write_text(text.replace(old, new))
        ended = incrowd("run", path, "--no-report")
        assert ended.code != 0
        assert ended.err.count("\n") == 1
        assert said in ended.err
