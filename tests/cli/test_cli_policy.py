"""``incrowd device policy``: what it writes can be used, and says what it allows."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path

import pytest

from incrowd.cli.app import main
from incrowd.live.policy import Policy
from incrowd.live.policy_file import parse_policy, read_policy
from incrowd.live.policy_write import policy_text
from incrowd.protocols import PROTOCOLS
from tests.live.test_live_policy import POLICY

EXAMPLES = Path(__file__).parents[2] / "examples"
KEY = f"ed25519:{'ab12' * 16}"
SURVEYS = ["commute", "minutes", "friends", "check_in", "token", "town", "insulin"]


def policy(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["device", "policy", *map(str, words)])
    told = capsys.readouterr()
    return code, told.out, told.err


def written(path: Path) -> Policy:
    return read_policy(path, PROTOCOLS)


@pytest.mark.parametrize("name", SURVEYS)
def test_init_from_a_survey_allows_its_columns_and_protocol(capsys, tmp_path, name):
    output = tmp_path / "policy.toml"
    survey = EXAMPLES / f"{name}.toml"
    code, out, err = policy(capsys, "init", survey, "--curator", KEY, "--output", output)
    assert (code, out) == (0, "")
    assert f"wrote {output}" in err
    found = written(output)
    (rule,) = found.curator
    described = tomllib.loads(survey.read_text())
    assert rule.key == KEY
    assert rule.protocols == (described["protocol"]["kind"],)
    assert set(rule.columns) == set(found.column)
    assert rule.max_epsilon == described["budget"]["epsilon"]
    assert policy(capsys, "check", output)[0] == 0


def test_init_from_a_schema_allows_no_curator_until_one_is_named(capsys, tmp_path):
    output = tmp_path / "policy.toml"
    code, _, err = policy(capsys, "init", EXAMPLES / "patients.toml", "--output", output)
    assert code == 0
    assert "no curator may ask yet" in err
    found = written(output)
    assert found.curator == ()
    assert found.column["bmi"].values == ("under 20", "20-25", "25-30", "30-35", "35+")
    assert not any(each.public or each.complete for each in found.column.values())


def test_init_reads_no_data(capsys, tmp_path):
    """A device has no table of other people's answers: the survey file alone is enough."""
    survey = tmp_path / "survey.toml"
    survey.write_text((EXAMPLES / "commute.toml").read_text().replace("commute.csv", "none.csv"))
    assert policy(capsys, "init", survey, "--output", tmp_path / "policy.toml")[0] == 0


def test_init_names_what_would_leave_in_the_clear(capsys, tmp_path):
    output = tmp_path / "policy.toml"
    err = policy(capsys, "init", EXAMPLES / "town.toml", "--output", output)[2]
    assert "lat may leave in the clear" in err
    found = written(output)
    assert found.column["lat"].public
    assert not found.column["illness"].public


def test_init_keeps_a_file_that_is_there(capsys, tmp_path):
    output = tmp_path / "policy.toml"
    output.write_text("mine")
    code, _, err = policy(capsys, "init", EXAMPLES / "commute.toml", "--output", output)
    assert code == 25
    assert "exists already" in err
    assert output.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--curator", "ed25519:12"), "key: expected ed25519:"),
        (("--max-epsilon", "0"), "epsilon: expected a positive number"),
        (("--assume-colluding", "2"), "assume_colluding: expected a share"),
        (("--curator", KEY, "--protocol", "gossip"), "protocols[0]: unknown protocol 'gossip'"),
    ],
)
def test_init_with_a_wrong_value_writes_nothing(capsys, tmp_path, words, says):
    output = tmp_path / "policy.toml"
    code, _, err = policy(capsys, "init", EXAMPLES / "commute.toml", "--output", output, *words)
    assert code in (10, 31)
    assert says in err
    assert err.count("\n") == 1
    assert not output.exists()


def test_check_of_a_wrong_file_ends_with_one_line(capsys, tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(POLICY.replace("max_epsilon = 1.0", "max_epsilon = 'low'", 1))
    code, out, err = policy(capsys, "check", path)
    assert (code, out) == (31, "")
    assert err == f"error: {path}: curator[0].max_epsilon: expected number, got text\n"


def test_check_notes_what_an_owner_may_not_have_meant(capsys, tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(
        POLICY.replace("min = 100", "min = 3")
        .replace("= 0.10", "= 0")
        .replace("max_epsilon = 1.0", "max_epsilon = inf")
        .replace("max_local_epsilon = 4.0", "max_local_epsilon = 9.0")
        .replace('"vote", ', "")
    )
    told = json.loads(policy(capsys, "check", path, "--format", "json")[1])
    assert told["warnings"] == [
        "crowds of 3 hide little: raise crowd.min",
        "nobody is assumed to collude with a curator: set crowd.assume_colluding, such as 0.1",
        "no curator may ask for vote: name it in an entry, or remove it",
        "curator[0].max_epsilon is no bound: write a number",
        "curator[0].max_local_epsilon is above the budget, which bounds it",
    ]


def test_show_says_what_a_curator_could_learn_at_most(capsys, tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    told = json.loads(policy(capsys, "show", path, "--format", "json")[1])
    (curator,) = told["curators"]
    assert curator["clear_columns"] == ["district"]
    assert curator["words"] == [
        "may ask for vote, age and district by network-shuffle or trusted-shuffle, in crowds of "
        "100 people or more",
        "one survey: ε ≤ 1 (odds between two answers change by a factor of 2.72 or less), even if "
        "10 % of the people asked help it",
        "one survey, if everybody else colludes: ε ≤ 4 (odds between two answers change by a "
        "factor of 54.6 or less)",
        "all its surveys for life, together with curators without an own budget: ε ≤ 4 (odds "
        "between two answers change by a factor of 54.6 or less), but for δ = 1e-5",
        "for life, if everybody else colludes: ε ≤ 8 (odds between two answers change by a factor "
        "of 2,990 or less)",
        "in any 24 hours: ε ≤ 1 and 5 surveys or fewer",
        "may leave in the clear, to be known exactly: district",
        "vote may also be asked for as opinion (2 categories)",
        "age may also be asked for as generation (3 categories)",
    ]
    table = policy(capsys, "show", path)[1]
    assert "Curator ed25519:00010203…" in table
    for line in ("may ask for vote", "Together", "answered without asking"):
        assert line in table


def test_show_adds_up_the_budgets_of_all_curators(capsys, tmp_path):
    own = "max_epsilon = 1.0\nbudget = { epsilon = inf, delta = 0, local_epsilon = 2 }"
    path = tmp_path / "policy.toml"
    path.write_text(POLICY.replace("max_epsilon = 1.0", own, 1))
    told = json.loads(policy(capsys, "show", path, "--format", "json")[1])
    assert "no bound: it may learn the answers" in told["together"]
    assert told["curators"][0]["budget"]["epsilon"] is None


@pytest.mark.parametrize("explained", [False, True])
def test_text_of_a_policy_reads_back_as_that_policy(explained):
    original = parse_policy(POLICY)
    assert parse_policy(policy_text(original, explained=explained)) == original


def test_text_of_a_policy_keeps_awkward_names_and_bounds():
    text = POLICY.replace("[column.vote", '[column."a.b \\"é\\""').replace(
        '"vote"', '"a.b \\"é\\""'
    )
    original = parse_policy(text.replace("[0, 120]", "[-inf, inf]"))
    assert original.column["age"].bounds == (-math.inf, math.inf)
    assert parse_policy(policy_text(original)) == original
