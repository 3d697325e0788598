"""Every bad input: one line on standard error, its own exit code, nothing on standard output."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import ROOT, Call, Ended, assert_fails

from incrowd import errors

ACCOUNT = ("account", "trusted-shuffle", "--delta", "1e-6", "--n", "1000", "--local-epsilon", "1")


def replaced(**options: str) -> list[str]:
    words = list(ACCOUNT)
    for name, value in options.items():
        words[words.index("--" + name.replace("_", "-")) + 1] = value
    return words


PARAMETERS = [
    (replaced(local_epsilon="0"), errors.InvalidEpsilon, "error: --local-epsilon must be"),
    (replaced(n="1e16"), errors.InvalidCrowd, "--n must be at most 10^15"),
    (
        [*ACCOUNT, "--randomizer", "gaussian", "--local-delta", "3"],
        errors.InvalidDelta,
        "error: --local-delta must",
    ),
    (
        ["run", "x.toml", "--engine", "actors", "--dropout", "2"],
        errors.InvalidParameter,
        "--dropout ",
    ),
    (["run", "x.toml", "--n", "0"], errors.InvalidCrowd, "--n must be a whole number"),
    (
        ["run", "x.toml", "--engine", "live", "--round-seconds", "-1"],
        errors.InvalidParameter,
        "--round-seconds must be a positive number of seconds",
    ),
    (replaced(local_epsilon="-1"), errors.InvalidEpsilon, "positive"),
    (replaced(local_epsilon="nan"), errors.InvalidEpsilon, "nan"),
    (replaced(delta="1"), errors.InvalidDelta, "error: --delta must lie strictly between 0 and 1"),
    (replaced(delta="0"), errors.InvalidDelta, "between 0 and 1"),
    (replaced(n="0"), errors.InvalidCrowd, "people"),
    ([*ACCOUNT, "--rounds", "0"], errors.InvalidParameter, "rounds"),
    ([*ACCOUNT, "--view", "neighbour"], errors.InvalidParameter, "unknown view 'neighbour'"),
    ([*ACCOUNT, "--colluders", "1000"], errors.InvalidCrowd, "colluders"),
    (["run", "missing.toml"], errors.FileUnreadable, "missing.toml"),
    (["check", "missing.toml"], errors.FileUnreadable, "missing.toml"),
    (["calibrate", *ACCOUNT[1:], "--epsilon", "0"], errors.InvalidEpsilon, "epsilon"),
    (["calibrate", *ACCOUNT[1:], "--epsilon", "1e-9"], errors.BudgetInfeasible, "rounds = 1"),
]


@pytest.mark.parametrize(("words", "kind", "said"), PARAMETERS)
def test_wrong_parameter_is_named(
    incrowd: Call, words: list[str], kind: type[errors.IncrowdError], said: str
) -> None:
    assert_fails(incrowd(*words), kind, said)


USAGE = [
    (["fly"], "fly"),
    (["account", "teleport"], "teleport"),
    ([*ACCOUNT, "--wings", "2"], "--wings"),
    (replaced(n="many"), "Invalid value for '--n': 'many' is not a whole number"),
    (replaced(n="1e400"), "'1e400' is too large"),
    (replaced(n="1e999999999"), "'1e999999999' is too large"),
    (replaced(n="2.5"), "'2.5' is not a whole number"),
    (replaced(n="inf"), "'inf' is not a whole number"),
    (replaced(local_epsilon="big"), "'big' is not a number"),
    (
        ["account", "trusted-shuffle", "--local-epsilon", "1", "--delta", "1e-6"],
        "missing option --n: people",
    ),
    (
        ["account", "trusted-shuffle", "--n", "9", "--delta", "1e-6"],
        "missing option --local-epsilon: the generic",
    ),
    (["account", "trusted-shuffle", "--n", "9", "--local-epsilon", "1"], "missing option --delta"),
    ([*ACCOUNT, "--randomizer", "krr"], "--categories"),
    ([*ACCOUNT, "--categories", "4"], "the generic randomizer has no such parameter"),
    ([*ACCOUNT, "--randomizer", "coin"], "coin"),
    (["calibrate", *ACCOUNT[1:]], "--epsilon"),
    (
        ["calibrate", "trusted-shuffle", "--epsilon", "1", "--local-epsilon", "1"],
        "left out --delta, --n",
    ),
    (["calibrate", *ACCOUNT[1:], "--rounds", "2", "--epsilon", "1"], "nothing is left out"),
    (["run", "x.toml", "--report", "a.html", "--no-report"], "--no-report"),
    (["run", "x.toml", "--no-report", "--loss", "0.1"], "needs --engine actors"),
    (
        ["run", "x.toml", "--engine", "live", "--seed", "3"],
        "'--seed': a live device refuses a seed",
    ),
    (
        ["run", "x.toml", "--engine", "live", "--loss", "0.1", "--no-report"],
        "needs --engine actors",
    ),
    (["run", "x.toml", "--cover"], "'--cover': needs --engine live"),
    (["run", "x.toml", "--no-cover"], "'--cover': needs --engine live"),
    (
        ["run", "x.toml", "--engine", "live", "--transport", "pigeon"],
        "'pigeon' is not one of 'hub', 'direct",
    ),
    (["run"], "file"),
]


@pytest.mark.parametrize(("words", "said"), USAGE)
def test_wrong_usage_is_explained(incrowd: Call, words: list[str], said: str) -> None:
    assert_fails(incrowd(*words), 2, said, "--help")


MEAN = 'kind = "mean"\ncolumn = "minutes"\nbounds = [0, 60]'
DATA = [
    ("", {}, errors.EmptyData, "empty"),
    ("mode\n", {}, errors.EmptyData, "no rows"),
    ("color\nred\n", {}, errors.MissingColumn, "the file has color"),
    (None, {}, errors.FileUnreadable, "people.csv"),
]


@pytest.mark.parametrize("command", [("run",), ("check",)])
@pytest.mark.parametrize(("data", "tables", "kind", "said"), DATA)
def test_wrong_data_is_located(
    incrowd: Call,
    survey: Callable[..., Path],
    command: tuple[str, ...],
    data: str | None,
    tables: dict[str, str],
    kind: type[errors.IncrowdError],
    said: str,
) -> None:
    assert_fails(incrowd(*command, survey(data, **tables)), kind, said)
    assert not list(Path.cwd().glob("*.html"))


GAPS = [
    ("mode\n" + "bus\n" * 60 + "boat\n\ntram\n", {}, "of 63 rows 1 have no answer and 2 have one"),
    ("mode\n" + "bus\n" * 60 + "boat\n", {}, "outside the domain (the first is row 61)"),
    (
        "minutes\n" + "3\n" * 60 + "\n61\nsoon\n",
        {"question": MEAN},
        "of 63 rows 1 have no answer and 2 have one",
    ),
]


@pytest.mark.parametrize(("data", "tables", "said"), GAPS)
def test_run_when_rows_have_no_usable_answer_counts_them_in_one_line(
    incrowd: Call, survey: Callable[..., Path], data: str, tables: dict[str, str], said: str
) -> None:
    ended = incrowd("run", survey(data, **tables), "--seed", 1, "--no-report", "--format", "json")
    assert ended.code == 0
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


BUDGET = "epsilon = 2.0\ndelta = 1e-6"
SURVEYS = [
    ({"question": "kind = "}, errors.MalformedConfig, "line 7, column 8"),
    ({"question": ""}, errors.InvalidConfig, "question: missing; add a table [[question]]"),
    ({"live": "covr = true"}, errors.InvalidConfig, "live.covr: unknown key; did you mean cover?"),
    ({"budget": "epsilon = -1\ndelta = 1e-6"}, errors.InvalidEpsilon, "budget: epsilon"),
    ({"budget": "epsilon = 1\ndelta = 1.0"}, errors.InvalidDelta, "budget: delta"),
    (
        {"budget": BUDGET, "randomizer": 'kind = "krr"\nepsilon = 3'},
        errors.BudgetInfeasible,
        "above budget.epsilon 2",
    ),
    (
        {"budget": BUDGET + "\nlocal_epsilon = 1", "randomizer": "epsilon = 1.5"},
        errors.BudgetInfeasible,
        "exceeds budget.local_epsilon 1",
    ),
]


@pytest.mark.parametrize(("tables", "kind", "said"), SURVEYS)
def test_wrong_survey_file_is_located(
    incrowd: Call,
    survey: Callable[..., Path],
    tables: dict[str, str],
    kind: type[errors.IncrowdError],
    said: str,
) -> None:
    assert_fails(incrowd("run", survey(**tables)), kind, said, "survey.toml")


def test_graph_with_isolated_vertex_is_refused(incrowd: Call) -> None:
    Path("friends.txt").write_text("0 1\n1 3\n2 2\n")
    assert_fails(incrowd("graph", "stats", "friends.txt"), errors.InvalidGraph, "2")


def test_unwritable_report_fails_with_one_line(incrowd: Call, survey: Callable[..., Path]) -> None:
    ended = incrowd("run", survey(), "--report", "nowhere/report.html")
    assert_fails(ended, errors.FileNotWritable, "nowhere/report.html", "no folder")
    assert_fails(incrowd("run", survey(), "--report", "."), errors.FileNotWritable, "folder")


def test_unwritable_report_is_refused_before_run(
    incrowd: Call, survey: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("incrowd.survey.prepared.read_people", fail)
    ended = incrowd("run", survey(), "--report", "nowhere/report.html")
    assert_fails(ended, errors.FileNotWritable, "nowhere/report.html")


def test_unfinished_protocol_has_own_exit_code(incrowd: Call, survey: Callable[..., Path]) -> None:
    words = ("run", survey(), "--engine", "actors", "--loss", "1", "--no-report")
    assert_fails(incrowd(*words), errors.ProtocolFailed, "arrived")


def test_missing_extra_is_named(
    incrowd: Call, survey: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    asked = incrowd("run", survey(), "--report", "report.html")
    assert_fails(asked, errors.MissingExtra, "pip install 'incrowd[plot]'")
    default = incrowd("run", survey(), "--format", "json", "--seed", "1")
    assert default.code == 0
    assert default.err.startswith("note: no report: figures of reports need matplotlib")
    assert '"report": null' in default.out


def test_unexpected_error_is_one_line_without_debug(
    incrowd: Call, survey: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nbug")

    monkeypatch.setattr("incrowd.survey.prepared.read_people", fail)
    assert_fails(incrowd("run", survey()), 1, "ZeroDivisionError: a bug", "--debug")
    with pytest.raises(ZeroDivisionError):
        incrowd("run", survey(), "--debug")


def test_interrupt_exits_130_without_traceback(
    incrowd: Call, survey: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("incrowd.survey.prepared.read_people", interrupt)
    ended = incrowd("run", survey())
    assert (ended.code, ended.out) == (130, "")
    assert "Traceback" not in ended.err


def test_exit_codes_are_distinct() -> None:
    kinds: list[type[errors.IncrowdError]] = [errors.IncrowdError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    # A special case of a kind, which states no code of its own, ends as that kind does.
    codes = [kind.exit_code for kind in kinds if "exit_code" in vars(kind)]
    assert len(set(codes)) == len(codes)
    assert 2 not in codes


def test_exit_codes_have_pages() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "errors").glob("*.md")} - {"index"}
    assert pages == {str(code) for code in (2, *errors.all_errors())}
    index = (ROOT / "docs" / "errors" / "index.md").read_text()
    for code in pages:
        assert f"({code}.md)" in index


def test_installed_command_prints_one_error_line(
    tmp_path: Path, survey: Callable[..., Path]
) -> None:
    command = Path(sys.executable).parent / "incrowd"
    words = [command, "run", survey("color\nred\n")]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert_fails(
        Ended(ended.returncode, ended.stdout, ended.stderr), errors.MissingColumn, "has color"
    )


def test_closed_pipe_ends_run_quietly(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "incrowd"
    words = [str(command), *ACCOUNT, "--format", "json"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    # A stage names itself where a machine is slow.
    assert all(line.endswith(" …\n".encode()) for line in child.stderr)
    child.stderr.close()
    assert child.wait() == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [ACCOUNT, (*ACCOUNT, "--format", "json"), ("--help",)])
def test_full_disk_is_reported_in_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    command = Path(sys.executable).parent / "incrowd"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [command, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            check=False,
        )
    assert_fails(
        Ended(ended.returncode, "", ended.stderr), errors.FileNotWritable, "cannot write the output"
    )
