"""Token walks on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import EXAMPLES, Call, stated
from test_cli_errors import assert_fails

from incrowd import errors, graphs

SUM = ("account", "token-walk", "--contribution", "sum", "--n", "1000", "--steps", "1e5")
NOISE = ("--sigma", "4.22467888932682", "--sensitivity", "1", "--delta", "1e-6")


def answer(incrowd: Call, *words: object) -> dict:
    ended = incrowd(*words, "--format", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_account_prints_guarantee(incrowd: Call) -> None:
    said = answer(incrowd, *SUM, *NOISE, "--path", "hidden")
    assert stated(said)["view"] == "peer"
    assert 0 < stated(said)["lower_bound"] <= stated(said)["epsilon"] <= 0.3244 * 1.001
    assert said["parameters"]["steps"] == 100_000
    assert said["diagnostics"]["contributions_expected"] == 100
    assert said["diagnostics"]["contribution_epsilon"] == pytest.approx(1, abs=1e-6)


def test_hub_view_equals_public_path(incrowd: Call) -> None:
    public = stated(answer(incrowd, *SUM, *NOISE, "--path", "public"))
    told = stated(answer(incrowd, *SUM, *NOISE, "--view", "peer+hub"))
    assert public["epsilon"] == told["epsilon"]
    assert 0.3244 < public["epsilon"] <= 0.7984 * 1.001


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (("--contribution", "histogram", "--n", "4000", "--steps", "4e5", "--categories", "10",
          "--local-epsilon", "1", "--path", "hidden"), 0.4491),
        (("--contribution", "sum", "--topology", "ring", "--n", "50", "--laps", "10",
          *NOISE[:4]), 3.5247),
        (("--contribution", "sum", "--topology", "ring", "--n", "50", "--laps", "10", "--published",
          "--split-noise", *NOISE[:4]), 3.5247),
        (("--contribution", "sgd", "--n", "2000", "--steps", "20000", "--clip", "1", "--sigma",
          "1.4704"), 1.0),
        (("--contribution", "sgd", "--n", "2000", "--steps", "20000", "--clip", "1", "--sigma",
          "9.43", "--path", "public", "--cap", "20"), 1.0),
    ],
)  # fmt: skip
def test_account_epsilon_within_known_range(
    incrowd: Call, words: tuple[str, ...], most: float
) -> None:
    said = answer(incrowd, "account", "token-walk", *words, "--delta", "1e-6")
    assert 0.3 * most < stated(said)["epsilon"] <= most * 1.001


def test_account_states_one_pair_on_graph(incrowd: Call, tmp_path: Path) -> None:
    path = tmp_path / "grid.npz"
    graphs.save(graphs.grid(5, 5), path)
    words = ("account", "token-walk", "--topology", "graph", "--graph", path, "--steps", "250",
             "--cap", "10", *NOISE)  # fmt: skip
    far, near, worst = (
        stated(answer(incrowd, *words, *pair))["epsilon"]
        for pair in (("--pair", "0", "24"), ("--pair", "0", "1"), ())
    )
    assert far < near <= worst


@pytest.mark.parametrize(
    ("epsilon", "sigma"), [("1", 1.4704), pytest.param("10", 0.8520, marks=pytest.mark.slow)]
)
def test_calibrate_finds_least_noise(incrowd: Call, epsilon: str, sigma: float) -> None:
    words = ("calibrate", "token-walk", "--contribution", "sgd", "--n", "2000", "--steps", "20000",
             "--clip", "1", "--delta", "1e-6", "--epsilon", epsilon)  # fmt: skip
    said = answer(incrowd, *words)
    assert said["solved"]["name"] == "sigma"
    assert stated(said)["epsilon"] <= float(epsilon)
    assert said["solved"]["value"] == pytest.approx(sigma, rel=1e-3)


def test_calibrate_solves_for_steps_and_epsilon(incrowd: Call) -> None:
    steps = answer(
        incrowd,
        "calibrate",
        "token-walk",
        "--contribution",
        "sum",
        "--n",
        "500",
        *NOISE,
        "--epsilon",
        "1",
    )
    assert steps["solved"]["name"] == "steps"
    assert steps["solved"]["value"] > 1000
    eps0 = answer(
        incrowd, "calibrate", "token-walk", "--contribution", "histogram", "--n", "500",
        "--steps", "5000", "--categories", "5", "--delta", "1e-6", "--epsilon", "0.5",
    )  # fmt: skip
    assert eps0["solved"]["name"] == "local_epsilon"


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (("--n", "1"), errors.InvalidCrowd, "--n must be at least 3"),
        (("--n", "2"), errors.InvalidCrowd, "--n must be at least 3"),
        (("--path", "hidden", "--cap", "3"), errors.InvalidParameter, "cap needs a public path"),
        (("--contribution", "sgd", "--path", "public"), 2, "--cap"),
        (("--view", "shuffler"), errors.NotProven, "nobody in a token walk is the shuffler"),
        (("--randomizer", "laplace", "--local-epsilon", "1"), errors.InvalidParameter,
         "laplace is for"),
        (("--randomizer", "olh", "--local-epsilon", "1", "--categories", "4"),
         errors.InvalidParameter, "cannot be added up"),
        (("--sigma", "-1"), errors.InvalidParameter, "--sigma must not be negative"),
        (("--sigma", "0.01"), errors.InvalidParameter, "--sigma of 0.01"),
        (("--split-noise",), errors.InvalidParameter, "--split-noise is for a ring"),
        (("--laps", "2"), errors.InvalidParameter, "--laps are for a ring"),
        (("--pair", "0", "1"), errors.InvalidParameter, "--pair is for a graph"),
        (("--colluders", "998"), errors.InvalidCrowd, ""),
    ],
)  # fmt: skip
def test_account_rejects_contradicting_options(
    incrowd: Call, words: tuple[str, ...], kind: type[errors.IncrowdError] | int, said: str
) -> None:
    ended = incrowd(*SUM, *NOISE, *words)
    assert_fails(ended, kind, said)


def test_ring_rejects_sgd(incrowd: Call) -> None:
    ended = incrowd(
        "account", "token-walk", "--contribution", "sgd", "--topology", "ring", "--n", "9",
        "--laps", "2", *NOISE,
    )  # fmt: skip
    assert_fails(ended, errors.InvalidParameter, "have no noise yet")


def test_ring_rejects_colluders(incrowd: Call) -> None:
    ended = incrowd(
        "account", "token-walk", "--topology", "ring", "--n", "9", "--laps", "2", *NOISE,
        "--colluders", "1",
    )  # fmt: skip
    assert_fails(ended, errors.NotProven, "no guarantee holds against colluders")


def test_disconnected_graph_is_rejected(incrowd: Call, tmp_path: Path) -> None:
    path = tmp_path / "apart.csv"
    path.write_text("0,1\n1,2\n2,0\n3,4\n4,5\n5,3\n")
    ended = incrowd(
        "account", "token-walk", "--topology", "graph", "--graph", path, "--steps", "10", "--cap",
        "2", *NOISE,
    )  # fmt: skip
    assert_fails(ended, errors.InvalidGraph, "falls into 2 parts")


def test_sgd_requires_clip(incrowd: Call) -> None:
    ended = incrowd(*SUM, "--contribution", "sgd", "--sigma", "2", "--delta", "1e-6")
    assert_fails(ended, 2, "missing option --clip")


def test_cap_lowers_epsilon_and_drops_lower_bound(incrowd: Call) -> None:
    words = ("account", "token-walk", "--contribution", "sum", "--n", "20", "--steps", "1e4",
             "--sigma", "4", "--delta", "1e-6", "--path", "public")  # fmt: skip
    once, free = (answer(incrowd, *words, *cap) for cap in (("--cap", "1"), ()))
    everyone = answer(incrowd, *words, "--cap", "1", "--view", "everyone")
    capped, seen, loose = (stated(each)["epsilon"] for each in (once, everyone, free))
    assert capped <= seen < loose
    assert stated(once)["lower_bound"] is None
    assert once["diagnostics"]["contributions_expected"] == 1


def test_smaller_view_has_no_larger_epsilon(incrowd: Call) -> None:
    words = ("account", "token-walk", "--n", "400", "--steps", "200", "--sigma", "0.3", "--delta",
             "1e-6")  # fmt: skip
    peer, told = (stated(answer(incrowd, *words, "--view", view)) for view in ("peer", "peer+hub"))
    assert peer["epsilon"] <= told["epsilon"]


SURVEY = """
version = 2
[data]
file = "people.csv"
[[question]]
kind = "mean"
column = "value"
bounds = [0, 1]
[budget]
epsilon = 2.0
delta = 1e-6
{budget}
[protocol]
kind = "token-walk"
{protocol}
"""


def survey(folder: Path, protocol: str, budget: str = "") -> Path:
    values = np.random.default_rng(1).uniform(size=40)
    (folder / "people.csv").write_text("value\n" + "\n".join(f"{each:.4f}" for each in values))
    path = folder / "survey.toml"
    path.write_text(SURVEY.format(protocol=protocol, budget=budget))
    return path


def test_survey_sigma_meets_or_misses_budget(incrowd: Call, tmp_path: Path) -> None:
    said = answer(incrowd, "run", survey(tmp_path, "steps = 80\nsigma = 2.0"), "--no-report")
    assert said["budget"]["met"]
    ended = incrowd("run", survey(tmp_path, "steps = 8000\nsigma = 0.5"), "--no-report")
    assert_fails(ended, errors.BudgetInfeasible, "gaussian noise gives epsilon")


def test_ring_without_split_noise_rejects_local_budget(incrowd: Call, tmp_path: Path) -> None:
    ring = 'topology = "ring"\nlaps = 2'
    ended = incrowd("run", survey(tmp_path, ring, "local_epsilon = 3.0"), "--no-report")
    assert_fails(ended, errors.BudgetInfeasible, "budget.local_epsilon", "in the clear")
    spread = survey(tmp_path, ring + "\nsplit_noise = true\npublished = true")
    assert answer(incrowd, "run", spread, "--no-report")["budget"]["met"]


def test_graph_survey_keeps_budget(incrowd: Call, tmp_path: Path) -> None:
    graph = 'topology = "graph"\ngraph = "regular:6"\ncap = 4\nsteps = 120'
    said = answer(incrowd, "run", survey(tmp_path, graph), "--no-report", "--seed", "3")
    assert said["budget"]["met"]
    pair = answer(
        incrowd, "run", survey(tmp_path, graph + "\npair = [3, 7]"), "--no-report", "--seed", "3"
    )
    assert pair["budget"]["met"]


@pytest.mark.parametrize("name", ["token", "token_modes"])
def test_examples_keep_budget(incrowd: Call, name: str) -> None:
    said = answer(incrowd, "run", EXAMPLES / f"{name}.toml", "--seed", "7", "--no-report")
    assert said["budget"]["met"]
    peer, hub = (
        next(each["epsilon"] for each in said["guarantees"] if each["view"] == view)
        for view in ("peer", "peer+hub")
    )
    assert peer <= 1
    assert peer <= hub
    estimate = np.array([row["estimate"] for row in said["questions"][0]["rows"]])
    assert np.isfinite(estimate).all()
