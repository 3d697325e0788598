"""Options that name files, take a word for a number, or say who colludes; graphs of every shape."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import EXAMPLES, Call, Ended, assert_fails, stated

from incrowd import NetworkShuffle, errors, graphs
from incrowd.graphs import Graph
from incrowd.randomizers import KRR

COMMAND = Path(sys.executable).parent / "incrowd"
KRR_5 = ("--randomizer", "krr", "--categories", "5")
GUARANTEE = ("--local-epsilon", "1", "--delta", "1e-3", *KRR_5)
ACCOUNT = ("account", "network-shuffle", "--graph", "friends.npz", *GUARANTEE)
CALIBRATE = ("calibrate", "network-shuffle", "--graph", "friends.npz", *GUARANTEE)
PEOPLE = 42
ALONE = math.log(math.e - 1e-3 * (math.e + 4))
"""The exact ε of one response among five categories, with ε0 = 1 and δ = 10⁻³."""
JOINED = (
    "note: friends.npz: people have no names: person 0 of the graph is the first row of the data\n"
)
"""Beside surveys, whose people have no names here."""


def befriend(graph: Graph | None = None) -> Graph:
    graph = graph or graphs.barabasi_albert(PEOPLE, 8, np.random.default_rng(1))
    graphs.save(graph, "friends.npz")
    return graph


def payload(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended
    assert ended.err in ("", JOINED), ended
    found: dict[str, Any] = json.loads(ended.out)
    return found


def answer(incrowd: Call, *words: object) -> dict[str, Any]:
    return payload(incrowd(*words, "--format", "json"))


def test_account_states_what_the_library_proves(incrowd: Call) -> None:
    graph = befriend()
    found = answer(incrowd, *ACCOUNT, "--rounds", "1e1", "--laziness", "0.25")
    protocol = NetworkShuffle(KRR(categories=5, epsilon=1.0), graph=graph, rounds=10, laziness=0.25)
    epsilon, own = stated(found)["epsilon"], found["diagnostics"]
    assert epsilon == protocol.guarantee().epsilon(1e-3) < 1
    assert own["trusted_shuffler_epsilon"] < own["median_epsilon"] <= epsilon
    assert own["route"] == "exact"
    assert own["gap"] == pytest.approx(graph.spectral_gap(0.25))
    assert own["component_sizes"] == [PEOPLE]
    assert found["parameters"]["n"] == PEOPLE
    assert found["parameters"]["rounds"] == 10


def test_account_plans_and_shows_open_rounds(incrowd: Call) -> None:
    befriend()
    found = answer(incrowd, *ACCOUNT)
    assert isinstance(found["parameters"]["rounds"], int)
    assert stated(found)["epsilon"] <= 1.05 * found["diagnostics"]["trusted_shuffler_epsilon"]
    table = incrowd(*ACCOUNT, "--rounds", "auto").out
    assert f"rounds = {found['parameters']['rounds']}," in table
    assert f"1 component: {PEOPLE}" in table


def test_account_stationary_needs_no_graph(incrowd: Call) -> None:
    words = ("account", "network-shuffle", "--stationary", *GUARANTEE)
    found = answer(incrowd, *words, "--n", "22470")
    trusted = answer(incrowd, "account", "trusted-shuffle", *GUARANTEE, "--n", "22470")
    own = found["diagnostics"]
    assert stated(found)["epsilon"] == own["trusted_shuffler_epsilon"] == stated(trusted)["epsilon"]
    assert own["route"] == "stationary"
    assert stated(answer(incrowd, *words, "--n", "1e9"))["epsilon"] < 1e-4
    assert_fails(incrowd(*words), 2, "missing option --n: people")


def test_calibrate_solves_for_rounds_by_default(incrowd: Call) -> None:
    befriend()
    found = answer(incrowd, *CALIBRATE, "--epsilon", "0.6")
    assert found["solved"]["name"] == "rounds"
    rounds = found["solved"]["value"]
    assert found["parameters"]["rounds"] == rounds > 1
    fewer = answer(incrowd, *ACCOUNT, "--rounds", rounds - 1)
    assert stated(found)["epsilon"] <= 0.6 < stated(fewer)["epsilon"]
    assert answer(incrowd, *CALIBRATE, "--epsilon", "1.5")["solved"]["value"] == 0


def test_calibrate_solves_for_what_is_left_out(incrowd: Call) -> None:
    befriend()
    words = ("calibrate", "network-shuffle", "--epsilon", "0.5", *KRR_5)
    graph = ("--graph", "friends.npz")
    eps0 = answer(incrowd, *words, *graph, "--delta", "1e-3", "--rounds", "8")
    assert eps0["solved"]["name"] == "local_epsilon"
    assert 0.5 < eps0["solved"]["value"] < 3
    delta = answer(incrowd, *words, *graph, "--local-epsilon", "1", "--rounds", "8")
    assert delta["solved"]["name"] == "delta"
    assert 0 < delta["solved"]["value"] < 1e-2
    crowd = answer(incrowd, *words, "--stationary", *GUARANTEE[:4])
    assert crowd["solved"]["name"] == "n"
    assert_fails(incrowd(*words, *graph, *GUARANTEE[:4], "--rounds", "3"), 2, "nothing is left out")
    assert_fails(
        incrowd(*words, *graph, "--local-epsilon", "1"),
        2,
        "missing option --rounds: auto is chosen for a d",
    )


def test_calibrate_ends_where_rounds_no_longer_help(incrowd: Call) -> None:
    befriend(graphs.complete(20))
    ended = incrowd(*CALIBRATE, "--epsilon", "0.01")
    assert_fails(ended, errors.BudgetInfeasible, "more rounds would not help against curator")


def test_account_accepts_colluders_by_number_share_and_name(incrowd: Call) -> None:
    befriend()
    words = (*ACCOUNT, "--rounds", "6")
    share, number = (answer(incrowd, *words, "--colluders", each) for each in ("0.07", 3))
    assert share == number
    assert stated(number)["colluders"] == 3
    own = number["diagnostics"]
    assert 0 < own["median_exposure"] <= own["exposure"] <= 1
    assert own["median_conditional_epsilon"] <= own["conditional_epsilon"] <= 1
    Path("who.json").write_text("[0, 1]")
    named = answer(incrowd, *words, "--colluders", "who.json")
    assert stated(named)["colluders"] == 2
    assert named["diagnostics"]["exposure"] != own["exposure"]
    table = incrowd(*words, "--colluders", "who.json").out
    assert "curator + 2 colluders" in table
    assert "conditional epsilon" in table
    for protocol in ("trusted-shuffle", "local"):
        crowd = ("account", protocol, *GUARANTEE, "--n", "500", "--colluders")
        assert answer(incrowd, *crowd, "0.01") == answer(incrowd, *crowd, 5)
        assert answer(incrowd, *crowd, "who.json") == answer(incrowd, *crowd, 2)
    solved = answer(
        incrowd, "calibrate", "trusted-shuffle", "--epsilon", "0.5", "--n", "500",
        "--delta", "1e-6", "--colluders", "0.1",
    )  # fmt: skip
    assert stated(solved)["colluders"] == 50


COLLUDERS = [
    ("1.5", 2, "'1.5' is neither a whole number of people nor a share"),
    ("-0.5", 2, "nor a share"),
    ("-1", errors.InvalidParameter, "colluders must be a whole number ≥ 0"),
    ("42", errors.InvalidCrowd, "42 colluders leave nobody of 42 people"),
    ("none.json", errors.FileUnreadable, "none.json: cannot read the colluders: No such file"),
    ("some", errors.FileUnreadable, "a number of people, a share of them such as 0.01, or a JSON"),
    ("[1", errors.InvalidParameter, "not valid JSON"),
    ('{"who": 1}', errors.InvalidParameter, "must be a list of whole numbers, such as [0, 17, 4]"),
    ("[1, 2.5]", errors.InvalidParameter, "must be a list of whole numbers"),
    ("[1, true]", errors.InvalidParameter, "must be a list of whole numbers"),
    ("[1, 42]", errors.InvalidCrowd, "colluder 42 is not one of the people 0 to 41"),
    ("[-1]", errors.InvalidParameter, "a colluder must be a whole number ≥ 0"),
]


@pytest.mark.parametrize(("given", "kind", "said"), COLLUDERS)
def test_account_rejects_invalid_colluders(
    incrowd: Call, given: str, kind: type[errors.IncrowdError] | int, said: str
) -> None:
    befriend()
    if given[0] in "[{":
        Path("who.json").write_text(given)
        given = "who.json"
    assert_fails(incrowd(*ACCOUNT, "--rounds", "3", "--colluders", given), kind, said)


PARAMETERS = [
    (("--rounds", "-1"), errors.InvalidParameter, "--rounds must be a whole number ≥ 0, got -1"),
    (("--rounds", "many"), 2, "Invalid value for '--rounds': 'many' is not a whole number or auto"),
    (("--rounds", "2.5"), 2, "'2.5' is not a whole number or auto"),
    (("--rounds", "3", "--laziness", "1"), errors.InvalidParameter, "--laziness must be below 1"),
    (("--rounds", "3", "--laziness", "2"), errors.InvalidParameter, "--laziness must lie between"),
    (("--rounds", "3", "--hand-in", "both"), 2, "'both' is not one of 'all', 'single'"),
    (("--rounds", "3", "--n", "41"), errors.InvalidCrowd, "has 42 people, but n = 41"),
    (("--rounds", "3", "--graph", "none.npz"), errors.FileUnreadable, "none.npz: cannot be read"),
    (("--rounds", "3", "--graph", "who.docx"), errors.GraphMalformed, "unknown kind of graph file"),
    (("--rounds", "3", "--graph", "far.npz"), errors.GraphMalformed, "v[1] = 7 is out of range"),
]


@pytest.mark.parametrize(("words", "kind", "said"), PARAMETERS)
def test_account_rejects_bad_parameters(
    incrowd: Call, words: tuple[str, ...], kind: type[errors.IncrowdError] | int, said: str
) -> None:
    befriend()
    Path("who.docx").write_text("0 1")
    np.savez("far.npz", u=np.array([0, 1]), v=np.array([1, 7]), n=np.int64(3))
    assert_fails(incrowd(*ACCOUNT, *words), kind, said)


def test_account_needs_graph_unless_stationary(incrowd: Call) -> None:
    ended = incrowd("account", "network-shuffle", *GUARANTEE)
    assert_fails(ended, errors.InvalidParameter, "--graph is missing", "stationary")


def test_account_of_zero_rounds_is_local(incrowd: Call) -> None:
    befriend()
    found = answer(incrowd, *ACCOUNT, "--rounds", "0")
    alone = answer(incrowd, "account", "local", *GUARANTEE, "--n", "9")
    own = found["diagnostics"]
    assert stated(found)["epsilon"] == stated(alone)["epsilon"] == own["median_epsilon"]
    assert own["median_epsilon"] == pytest.approx(ALONE, rel=1e-6)
    assert len(own["worst_person"]["why"]) > 20


def test_account_explains_bipartite_graph(incrowd: Call) -> None:
    sides = np.arange(20)
    u, v = np.repeat(sides, 20), np.tile(20 + sides, 20)
    befriend(graphs.from_edges(u, v, 40))
    assert_fails(incrowd(*ACCOUNT), errors.BudgetInfeasible, "bipartite", "laziness")
    lazy = answer(incrowd, *ACCOUNT, "--laziness", "0.5")
    assert stated(lazy)["epsilon"] <= 1.05 * lazy["diagnostics"]["trusted_shuffler_epsilon"]
    found = answer(incrowd, *ACCOUNT, "--rounds", "9")
    assert "laziness" in found["diagnostics"]["worst_person"]["why"]


def test_account_explains_isolated_person(incrowd: Call) -> None:
    u, v = graphs.complete(40).edges()
    befriend(graphs.from_edges(u, v, 42))
    found = answer(incrowd, *ACCOUNT, "--rounds", "5")
    assert stated(found)["epsilon"] == pytest.approx(ALONE, rel=1e-6)
    own = found["diagnostics"]
    assert own["median_epsilon"] < 0.7
    assert own["component_sizes"] == [40, 1, 1]
    assert own["worst_person"]["degree"] == 0
    assert "alone" in own["worst_person"]["why"]
    table = incrowd(*ACCOUNT, "--rounds", "5").out
    assert "3 components: 40, 2 people alone" in table
    assert f"person {own['worst_person']['person']}, degree 0, component 1: alone in" in table


@pytest.fixture
def walking(survey: Callable[..., Path]) -> Callable[..., Path]:
    def write(more: str = "rounds = 8", **tables: str) -> Path:
        befriend()
        return survey(
            "mode\n" + "bus\nbike\ncar\n" * (PEOPLE // 3),
            protocol=f'kind = "network-shuffle"\ngraph = "friends.npz"\n{more}',
            **{"budget": "epsilon = 1\ndelta = 1e-3"} | tables,
        )

    return write


def test_run_prints_network_diagnostics(incrowd: Call, walking: Callable[..., Path]) -> None:
    found = answer(incrowd, "run", walking(), "--seed", "1", "--no-report")
    assert found["diagnostics"]["load"]["mean"] == 1
    assert found["diagnostics"]["lost"] == 0
    assert found["budget"]["met"] is True
    assert found["guarantees"][0]["epsilon"] <= 1
    single = incrowd("run", walking('rounds = 8\nhand_in = "single"'), "--seed", "1")
    assert "load " in single.out
    assert "dummies " in single.out
    page = Path("survey.report.html").read_text()
    assert "<dt>Load</dt><dd>mean 1, max " in page
    assert "<dt>Dummies</dt>" in page


def test_run_with_actors_and_faults(incrowd: Call, walking: Callable[..., Path]) -> None:
    words = ("run", walking("rounds = 4"), "--seed", "1", "--no-report", "--engine", "actors")
    assert answer(incrowd, *words, "--loss", "0.1")["diagnostics"]["load"]["mean"] == 1
    ended = incrowd(*words, "--crash", "0.02", "--dropout", "0.1", "--format", "json")
    assert ended.code == errors.BudgetExceeded.exit_code
    found = json.loads(ended.out)
    assert found["reports"]["received"] < found["reports"]["sent"] == PEOPLE
    groups = [found["diagnostics"][name] for name in ("handed_in", "doubtful")]
    assert sum(each["people"] for each in groups) == PEOPLE
    assert found["guarantees"][0]["epsilon"] >= max(each["epsilon"] for each in groups) * 0.999
    shown = incrowd(*words, "--crash", "0.02", "--dropout", "0.1").out
    assert "handed in " in shown
    assert "doubtful " in shown


def test_config_check_shows_the_planned_rounds(incrowd: Call, walking: Callable[..., Path]) -> None:
    path = walking('rounds = "auto"', randomizer="epsilon = 1.0")
    found = answer(incrowd, "check", path)
    rounds = found["parameters"]["rounds"]
    assert isinstance(rounds, int)
    assert f"rounds = {rounds}," in incrowd("check", path).out


def test_survey_rejects_other_number_of_people(incrowd: Call, walking: Callable[..., Path]) -> None:
    path = walking()
    Path("people.csv").write_text("mode\nbus\n")
    assert_fails(
        incrowd("run", path), errors.InvalidCrowd, "survey.toml: protocol: ", "has 42 people, but"
    )


def test_account_shows_progress_on_terminal(tmp_path: Path) -> None:
    """The walk of the example takes long enough to be watched."""
    pty = pytest.importorskip("pty")
    graph = EXAMPLES / "friends.npz"
    words = [str(COMMAND), "account", "network-shuffle", "--graph", str(graph), "--rounds", "30"]
    clean = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    for name in ("NO_COLOR", "_TYPER_FORCE_DISABLE_TERMINAL", "TERMINAL_WIDTH"):
        clean.pop(name, None)
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*words, *GUARANTEE, "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=child,
        cwd=tmp_path,
        env=clean,
    )
    os.close(child)
    seen = b""
    while chunk := _read(parent):
        seen += chunk
    os.close(parent)
    out, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["diagnostics"]["route"] == "exact"
    assert "computing the guarantee" in seen.decode()
    assert b"%" in seen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so when the other end is closed.
        return b""
