"""``--matrix``: the guarantee of a channel of one's own."""

import json

import pytest
from cli_helpers import assert_fails, stated

from incrowd.errors import FileUnreadable, InvalidEpsilon, InvalidParameter

SKEWED = "0.7,0.2,0.1\n0.25,0.5,0.25\n0.1,0.3,0.6\n"
ACCOUNT = ("account", "trusted-shuffle", "--n", "1000", "--delta", "1e-6")


@pytest.fixture
def matrix(tmp_path):
    path = tmp_path / "channel.csv"
    path.write_text(SKEWED)
    return path


def test_account_states_the_guarantee_of_a_matrix(incrowd, matrix):
    ended = incrowd(*ACCOUNT, "--matrix", matrix, "--format", "json")
    found = json.loads(ended.out)
    assert found["parameters"]["randomizer"]["kind"] == "channel"
    assert 0 < stated(found)["epsilon"] < found["parameters"]["randomizer"]["epsilon"]


def test_account_of_json_equals_that_of_csv(incrowd, matrix, tmp_path):
    rows = [[float(cell) for cell in line.split(",")] for line in SKEWED.splitlines()]
    (tmp_path / "channel.json").write_text(json.dumps(rows))
    named = (*ACCOUNT, "--format", "json", "--matrix")
    assert incrowd(*named, matrix).out == incrowd(*named, tmp_path / "channel.json").out


def test_calibrate_solves_for_the_crowd_of_a_matrix(incrowd, matrix):
    ended = incrowd(
        *("calibrate", "trusted-shuffle", "--epsilon", "1", "--delta", "1e-6", "--matrix", matrix),
        *("--format", "json"),
    )
    found = json.loads(ended.out)
    assert (found["solved"]["name"], stated(found)["epsilon"] <= 1) == ("n", True)


def test_calibrate_of_a_matrix_leaves_no_local_epsilon_to_solve_for(incrowd, matrix):
    given = ("calibrate", *ACCOUNT[1:], "--rounds", "2", "--epsilon", "1", "--matrix", matrix)
    assert_fails(incrowd(*given), 2, "leave out exactly one of --delta, --n, --rounds")


def test_stated_local_epsilon_below_that_of_the_matrix_is_refused(incrowd, matrix):
    ended = incrowd(*ACCOUNT, "--matrix", matrix, "--local-epsilon", "1")
    assert_fails(ended, InvalidEpsilon, "--local-epsilon must be left out or at least 1.9459")


def test_matrix_of_another_randomizer_is_refused(incrowd, matrix):
    given = ("--randomizer", "krr", "--categories", "3", "--local-epsilon", "1", "--matrix", matrix)
    assert_fails(incrowd(*ACCOUNT, *given), 2, "the krr randomizer has no such parameter")


def test_wrong_matrix_file_is_refused_with_its_place(incrowd, matrix, tmp_path):
    matrix.write_text("0.5,0.5\n0,1\n")
    assert_fails(incrowd(*ACCOUNT, "--matrix", matrix), InvalidParameter, "row 2, column 1 is 0.0")
    ended = incrowd(*ACCOUNT, "--matrix", tmp_path / "none.csv")
    assert_fails(ended, FileUnreadable, "cannot read the matrix")
