"""What the commands do: tables and JSON, pipes and terminals, seeds and reports."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import EXAMPLES, Call, stated

from incrowd import errors
from incrowd._version import __version__
from incrowd.cli.output import progress
from incrowd.protocols import PROTOCOLS, load
from incrowd.protocols.capabilities import asks_randomizer
from incrowd.protocols.settings import fields_of, settings_type
from incrowd.randomizers import KRR, Generic

COMMAND = Path(sys.executable).parent / "incrowd"
CROWD = ("--n", "1e4", "--delta", "1e-6")


def answer(incrowd: Call, *words: object) -> dict[str, Any]:
    ended = incrowd(*words, "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    payload: dict[str, Any] = json.loads(ended.out)
    return payload


def test_version_option_prints_version(incrowd: Call) -> None:
    assert incrowd("--version").out == f"incrowd {__version__}\n"


def test_root_without_command_prints_help(incrowd: Call) -> None:
    ended = incrowd()
    assert (ended.code, ended.err) == (2, "")
    assert "Usage: incrowd" in ended.out


def test_account_states_what_the_library_proves(incrowd: Call) -> None:
    payload = answer(
        incrowd,
        "account",
        "trusted-shuffle",
        "--local-epsilon",
        1,
        "--randomizer",
        "krr",
        "--categories",
        16,
        *CROWD,
    )
    shuffle: Any = load("trusted-shuffle")
    guarantee = shuffle(KRR(categories=16, epsilon=1.0), n=10_000).guarantee()
    found = stated(payload)
    assert found["epsilon"] == guarantee.epsilon(1e-6)
    assert found["lower_bound"] == guarantee.lower(1e-6)
    assert found["lower_bound"] <= found["epsilon"] < 1
    assert payload["parameters"]["randomizer"] == {"kind": "krr", "categories": 16, "epsilon": 1.0}
    assert set(payload) == {"guarantees", "parameters", "diagnostics"}
    keys = ("epsilon", "delta", "lower_bound", "view", "neighbours", "theorem", "assumptions")
    assert set(keys) <= set(found)


def test_account_and_calibrate_cover_all_protocols(incrowd: Call) -> None:
    for kind in PROTOCOLS:
        fields = fields_of(settings_type(load(kind)))
        if not asks_randomizer(load(kind), {"task": "histogram"}):
            continue  # Its guarantee rests on other things, which have tests of their own.
        # What walks over a graph is here accounted without one, as perfectly mixed.
        more = ("--stationary",) if "stationary" in fields else ()
        more += ("--rate", 0.5) if "rate" in fields else ()
        more += ("--alpha", 1) if "alpha" in fields else ()
        if "steps" in fields:
            more += ("--steps", 50, "--contribution", "histogram", "--categories", 4)
        guaranteed = answer(incrowd, "account", kind, "--local-epsilon", 0.5, *CROWD, *more)
        assert 0 < stated(guaranteed)["epsilon"] <= 0.5
        solved = answer(incrowd, "calibrate", kind, "--epsilon", 0.25, *CROWD, *more)
        assert solved["solved"]["name"] == "local_epsilon"
        assert solved["budget"]["epsilon"] == 0.25
        assert stated(solved)["epsilon"] <= 0.25


def epsilon_of(incrowd: Call, **options: object) -> float:
    words = [
        word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    return float(stated(answer(incrowd, "account", "trusted-shuffle", *words))["epsilon"])


@pytest.mark.slow
def test_calibrated_rounds_are_safe_and_most(incrowd: Call) -> None:
    words = (
        "calibrate",
        "trusted-shuffle",
        "--local-epsilon",
        1,
        "--n",
        1e4,
        "--delta",
        1e-6,
        "--epsilon",
        0.2,
    )
    rounds = answer(incrowd, *words)["solved"]["value"]
    crowd = {"local_epsilon": 1, "n": 1e4, "delta": 1e-6}
    assert epsilon_of(incrowd, **crowd, rounds=rounds) <= 0.2
    assert epsilon_of(incrowd, **crowd, rounds=rounds + 1) > 0.2


def test_calibrated_numbers_are_safe_and_best(incrowd: Call) -> None:
    epsilon = partial(epsilon_of, incrowd)
    n = answer(
        incrowd,
        "calibrate",
        "trusted-shuffle",
        "--local-epsilon",
        1,
        "--delta",
        1e-6,
        "--epsilon",
        0.5,
    )["solved"]["value"]
    assert (
        epsilon(local_epsilon=1, n=n, delta=1e-6)
        <= 0.5
        < epsilon(local_epsilon=1, n=n - 1, delta=1e-6)
    )

    eps0 = answer(
        incrowd, "calibrate", "trusted-shuffle", "--n", 1e4, "--delta", 1e-6, "--epsilon", 0.2
    )["solved"]["value"]
    assert epsilon(local_epsilon=eps0, n=1e4, delta=1e-6) <= 0.2
    assert epsilon(local_epsilon=eps0 * (1 + 3e-6), n=1e4, delta=1e-6) > 0.2

    delta = answer(
        incrowd, "calibrate", "trusted-shuffle", "--n", 1e4, "--local-epsilon", 1, "--epsilon", 0.05
    )["solved"]["value"]
    shuffle: Any = load("trusted-shuffle")
    assert delta == shuffle(Generic(epsilon=1.0), n=10_000).guarantee().delta(0.05)


def test_calibrate_delta_is_zero_where_none_is_needed(incrowd: Call) -> None:
    words = ("calibrate", "local", "--local-epsilon", 1, "--epsilon", 2, "--n", 9)
    payload = answer(incrowd, *words)
    assert (payload["solved"]["value"], payload["budget"]["delta"]) == (0, None)
    assert (stated(payload)["delta"], stated(payload)["lower_bound"]) == (0, None)
    assert "already holds with delta = 0" in incrowd(*words).out


def test_calibrate_delta_below_least_is_stated_as_bound(incrowd: Call) -> None:
    words = ("calibrate", "trusted-shuffle", "--local-epsilon", 1, "--epsilon", 0.5, "--n", 1e6)
    assert answer(incrowd, *words)["solved"]["value"] == 1e-280
    assert incrowd(*words).out.startswith("delta ≤ 1e-280 ")


def test_expected_error_is_in_units_of_answer(incrowd: Call) -> None:
    planned = answer(incrowd, "check", EXAMPLES / "minutes.toml")["cost"]
    run = answer(incrowd, "run", EXAMPLES / "minutes.toml", "--seed", "1", "--no-report")
    error = run["questions"][0]["rows"][0]["standard_error"]
    assert planned["expected_error"] == pytest.approx(error, rel=0.2)
    assert run["cost"]["expected_error"] == planned["expected_error"]
    shown = f"± {planned['expected_error']:.2g}"
    assert shown in incrowd("check", EXAMPLES / "minutes.toml").out


def test_actors_measure_what_was_sent(incrowd: Call, survey: Callable[..., Path]) -> None:
    words = ("run", survey("mode\n" + "bus\n" * 100), "--no-report", "--seed", "1")
    assert answer(incrowd, *words)["measured_cost"] is None
    assert "measured cost" not in incrowd(*words).out
    played = answer(incrowd, *words, "--engine", "actors", "--loss", "0.3", "--dropout", "0.2")
    measured, planned = played["measured_cost"], played["cost"]
    assert 1.2 < measured["messages_per_person"] / planned["messages_per_person"] < 3
    assert 1.2 < measured["bytes_per_person"] / planned["bytes_per_person"] < 3
    assert measured["messages_lost"] > 0
    table = incrowd(*words, "--engine", "actors").out
    assert "planned cost   1 message and" in table
    assert "measured cost  1 message and" in table


def test_dropped_self_loops_are_counted(incrowd: Call) -> None:
    Path("friends.txt").write_text("0 1\n1 1\n0 2\n2 2\n2 1\n")
    dropped = answer(incrowd, "graph", "stats", "friends.txt")
    assert (dropped["self_loops"], dropped["self_loops_dropped"], dropped["edges"]) == (0, 2, 3)
    kept = answer(incrowd, "graph", "stats", "friends.txt", "--self-loops")
    assert (kept["self_loops"], kept["self_loops_dropped"], kept["edges"]) == (2, 0, 5)


def test_account_table_rounds_epsilon_up(incrowd: Call) -> None:
    words = ("account", "trusted-shuffle", "--local-epsilon", 1, *CROWD)
    (exact,) = answer(incrowd, *words)["guarantees"]
    table = incrowd(*words).out
    assert "ε at δ = 1e-6" in table
    row = re.search(r"curator +≤ [\d,]+ +(\S+) +(\S+)", table)
    assert row is not None
    assert exact["epsilon"] <= float(row[1]) <= exact["epsilon"] * 1.001
    assert exact["lower_bound"] * 0.999 <= float(row[2]) <= exact["lower_bound"]


def test_run_repeats_with_a_seed(incrowd: Call) -> None:
    words = ("run", EXAMPLES / "rare_condition.toml", "--no-report")
    first, again, other = (answer(incrowd, *words, "--seed", seed) for seed in (1, 1, 2))
    assert first == again
    assert first["questions"][0]["rows"] != other["questions"][0]["rows"]
    fresh = answer(incrowd, *words)
    assert fresh["seed"] is not None
    again = answer(incrowd, *words, "--seed", fresh["seed"])
    assert again["questions"] == fresh["questions"]


def test_run_answers_the_question(incrowd: Call) -> None:
    payload = answer(incrowd, "run", EXAMPLES / "commute.toml", "--seed", "7", "--no-report")
    labels = [row["label"] for row in payload["questions"][0]["rows"]]
    assert labels == ["bus", "bike", "car", "walk", "train", "no answer"]
    for row in payload["questions"][0]["rows"]:
        assert abs(row["estimate"] - row["truth"]) < 4 * row["standard_error"]
    assert payload["budget"]["met"] is True
    assert payload["guarantees"][0]["epsilon"] <= 0.5
    assert payload["report"] is None


def test_actors_state_weaker_guarantee_when_people_drop_out(
    incrowd: Call, survey: Callable[..., Path]
) -> None:
    people = "mode\n" + "bus\ncar\nbike\nbus\n" * 40
    path = survey(people, protocol='kind = "trusted-shuffle"', budget="epsilon = 1\ndelta = 1e-6")
    words = ("run", path, "--engine", "actors", "--seed", "3", "--no-report", "--format", "json")
    everyone, fewer = incrowd(*words), incrowd(*words, "--dropout", "0.5")
    assert everyone.err == ""
    assert (everyone.code, fewer.code) == (0, errors.BudgetExceeded.exit_code)
    assert fewer.err.startswith("error: the budget was not kept")
    before, after = json.loads(everyone.out), json.loads(fewer.out)
    assert before["reports"]["received"] == 160 > after["reports"]["received"]
    assert before["guarantees"][0]["epsilon"] <= 1 < after["guarantees"][0]["epsilon"]
    assert (before["budget"]["met"], after["budget"]["met"]) == (True, False)


def test_run_prints_answer_before_it_draws_report(
    incrowd: Call, survey: Callable[..., Path]
) -> None:
    shown = incrowd("run", survey(), "--seed", 1).out
    order = ("95 % interval", "is not hidden", "right guesses", "survey.report.html")
    places = [shown.index(each) for each in order]
    assert places == sorted(places)


def test_slow_stage_names_itself_once(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as say:
        say("reading")
        say("searching", 1, 2)
        time.sleep(2.3)
        say("searching", 2, 2)
        say("writing")
    assert capsys.readouterr().err == "searching …\n"


def test_interval_too_wide_to_use_is_named(incrowd: Call, survey: Callable[..., Path]) -> None:
    shown = " ".join(incrowd("run", survey(), "--seed", 1, "--no-report").out.split())
    assert "covers more than half of all possible answers: too wide to use" in shown


def test_run_writes_report_to_printed_path(incrowd: Call, survey: Callable[..., Path]) -> None:
    ended = incrowd("run", survey(), "--seed", "1")
    assert "survey.report.html" in ended.out
    assert Path("survey.report.html").exists()
    assert "survey.toml --seed 1" in Path("survey.report.html").read_text()
    incrowd("run", survey(), "--report", "other.html")
    assert Path("other.html").exists()


def test_pipes_get_no_colours_and_terminals_get_progress(tmp_path: Path) -> None:
    """The installed command with its streams in a pipe, then on a pseudo-terminal."""
    words = [str(COMMAND), "check", str(EXAMPLES / "rare_condition.toml")]
    plain = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "NO_COLOR", "_TYPER_FORCE_DISABLE_TERMINAL", "TERMINAL_WIDTH"):
        plain.pop(name, None)
    piped = subprocess.run(
        words, capture_output=True, text=True, cwd=tmp_path, check=True, env=plain
    )
    assert piped.stderr == ""
    assert "\x1b" not in piped.stdout
    assert "How many people have the condition?" in piped.stdout

    pty = pytest.importorskip("pty")
    parent, child = pty.openpty()
    process = subprocess.Popen(words, stdout=child, stderr=child, cwd=tmp_path, env=plain)
    os.close(child)
    seen = b""
    while chunk := _read(parent):
        seen += chunk
    os.close(parent)
    assert process.wait() == 0
    assert b"\x1b[1m" in seen
    assert "How many people have the condition?" in seen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so when the other end is closed.
        return b""


def test_completion_knows_the_protocols() -> None:
    request = {
        "_INCROWD_COMPLETE": "complete_bash",
        "COMP_WORDS": "incrowd account ",
        "COMP_CWORD": "2",
    }
    shown = subprocess.run(
        [COMMAND], capture_output=True, text=True, env={**os.environ, **request}, check=False
    )
    assert set(PROTOCOLS) <= set(shown.stdout.split())


def test_narrow_encodings_do_not_fail(tmp_path: Path) -> None:
    words = [COMMAND, "account", "local", "--local-epsilon", "1", *CROWD]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(words, capture_output=True, cwd=tmp_path, env=ascii_only, check=True)
    assert b"local randomizer" in shown.stdout
