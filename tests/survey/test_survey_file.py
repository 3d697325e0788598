"""Survey files: what is read, what is filled in, and where exactly something is wrong."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from incrowd import errors, graphs, survey
from incrowd.blocks import values_of
from incrowd.randomizers import KRR, Laplace, OneBit, Ternary

ROOT = Path(__file__).parents[2]
TABLES = {
    "data": 'file = "people.csv"',
    "question": 'kind = "histogram"\ncolumn = "mode"\ncategories = ["bus", "car"]',
    "randomizer": 'kind = "krr"',
    "budget": "epsilon = 1.0\ndelta = 1e-6",
    "protocol": 'kind = "trusted-shuffle"',
}
MEAN = 'kind = "mean"\ncolumn = "minutes"\nbounds = [0, 60]'
PEOPLE = "mode,minutes\n" + "bus,10\ncar,20\nbus,60\n" * 30

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "people.csv").write_text(PEOPLE)

    def make(**tables: str | None) -> Path:
        parts = {name: body for name, body in (TABLES | tables).items() if body is not None}
        path = tmp_path / "survey.toml"
        heads = {"question": "[[question]]", "randomizer": "[question.randomizer]"}
        written = [f"{heads.get(name, f'[{name}]')}\n{body}" for name, body in parts.items()]
        path.write_text("\n".join(["version = 2", *written]))
        return path

    return make


def test_load_solves_missing_epsilon(write: Write) -> None:
    loaded = survey.load(write())
    assert loaded.only.solved
    assert isinstance(loaded.randomizer, KRR)
    assert loaded.randomizer.categories == 3
    assert loaded.protocol.n == len(loaded.values) == 90
    assert loaded.protocol.guarantee().epsilon(1e-6) <= 1
    assert loaded.randomizer.epsilon > 1
    np.testing.assert_allclose(loaded.truths[0], [2 / 3, 1 / 3, 0])


def test_load_keeps_given_epsilon(write: Write) -> None:
    loaded = survey.load(write(randomizer='kind = "krr"\nepsilon = 0.5'))
    assert (loaded.only.solved, loaded.randomizer) == (False, KRR(categories=3, epsilon=0.5))


def test_load_never_exceeds_local_epsilon_cap(write: Write) -> None:
    loaded = survey.load(write(budget=TABLES["budget"] + "\nlocal_epsilon = 0.25"))
    assert loaded.randomizer.epsilon == 0.25


def test_load_solves_for_view_of_budget(write: Write) -> None:
    curator = survey.load(write())
    everyone = survey.load(write(budget=TABLES["budget"] + '\nview = "everyone"'))
    assert everyone.randomizer.epsilon < curator.randomizer.epsilon
    assert everyone.protocol.guarantee("everyone").epsilon(1e-6) <= 1


def test_load_without_randomizer_takes_default_of_task(write: Write) -> None:
    assert isinstance(survey.load(write(randomizer=None)).randomizer, KRR)
    assert isinstance(survey.load(write(question=MEAN, randomizer=None)).randomizer, Ternary)
    complete = survey.load(write(question=f"{MEAN}\ncomplete = true", randomizer=None))
    assert isinstance(complete.randomizer, OneBit)
    laplace = survey.load(
        write(
            question=MEAN, protocol='kind = "local"', randomizer='kind = "laplace"\nepsilon = 0.5'
        )
    )
    assert laplace.randomizer == Laplace(epsilon=0.5)


CHECK_IN = 'kind = "check-in"\nrate = 0.5\nrounds = '


def test_load_with_budget_rounds_takes_most_rounds(write: Write) -> None:
    given = 'kind = "krr"\nepsilon = 1.0'
    loaded = survey.load(write(protocol=CHECK_IN + '"calibrate"', randomizer=given))
    rounds = loaded.protocol.rounds
    assert not loaded.only.solved
    assert rounds > 1
    assert loaded.protocol.guarantee().epsilon(1e-6) <= 1
    with pytest.raises(errors.BudgetInfeasible):
        survey.load(write(protocol=f"{CHECK_IN}{rounds + 1}", randomizer=given))


def test_load_names_file_when_no_epsilon0_meets_budget(write: Write) -> None:
    path = write(budget='epsilon = 1e-13\ndelta = 1e-30\nview = "everyone"', randomizer=None)
    with pytest.raises(errors.BudgetInfeasible) as caught:
        survey.load(path)
    assert str(caught.value).startswith(f"{path}: budget: no local_epsilon between")


def test_load_refuses_budget_that_pays_for_no_round(write: Write) -> None:
    poor = {"budget": "epsilon = 0.001\ndelta = 1e-12", "randomizer": "epsilon = 2.0"}
    with pytest.raises(errors.BudgetInfeasible, match="no rounds between 1 and"):
        survey.load(write(protocol=CHECK_IN + '"calibrate"', **poor))


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        (CHECK_IN + '"calibrate"', "protocol.rounds: calibrate needs randomizer.epsilon"),
        ('kind = "check-in"\nrate = "calibrate"\nrounds = "calibrate"', "only one of rounds, rate"),
        (
            'kind = "trusted-shuffle"\nadaptive = "calibrate"',
            "protocol.adaptive: only one of rounds can be",
        ),
    ],
)
def test_load_refuses_two_unknowns_of_budget(write: Write, protocol: str, said: str) -> None:
    with pytest.raises(errors.InvalidConfig) as caught:
        survey.load(write(protocol=protocol, randomizer=None))
    assert said in str(caught.value)


def test_load_reads_individual_rates_and_refuses_invalid_ones(write: Write, tmp_path: Path) -> None:
    (tmp_path / "rates.txt").write_text("0.25\n" * 45 + "0.5\n" * 45)
    loaded = survey.load(write(protocol='kind = "check-in"\nrates = "rates.txt"'))
    assert loaded.protocol.rates == (0.25,) * 45 + (0.5,) * 45
    for text, said in (
        ("0.25\n" * 9, "rates has 9 entries for n = 90"),
        ("0.25\nhalf\n", "rates.txt: line 2: 'half' is not a number"),
        ("0.25\n" * 89 + "1.5\n", "rates (of person 89) must be above 0 and at most 1, got 1.5"),
    ):
        (tmp_path / "rates.txt").write_text(text)
        with pytest.raises(errors.IncrowdError, match=re.escape(said)):
            survey.load(write(protocol='kind = "check-in"\nrates = "rates.txt"'))


def test_load_reads_rounds_and_question(write: Write) -> None:
    loaded = survey.load(
        write(
            question=TABLES["question"] + '\ntext = "How?"',
            protocol='kind = "local"\nrounds = 3',
            randomizer='kind = "krr"\nepsilon = 0.1',
        )
    )
    assert loaded.text == "How?"
    assert loaded.protocol.rounds == 3
    assert survey.load(write()).text == "What is the histogram of mode?"


def test_run_in_both_modes_is_repeatable_and_accurate(write: Write) -> None:
    loaded = survey.load(write(randomizer='kind = "krr"\nepsilon = 1.0'))
    for mode in ("simulate", "actors"):
        first, again = (loaded.run(mode, seed=5) for _ in range(2))  # type: ignore[arg-type]
        np.testing.assert_array_equal(first.result.value, again.result.value)
        assert loaded.met_by(first)
        assert np.all(
            np.abs(first.result.value - loaded.truths[0]) < 5 * first.result.standard_error
        )


def walked(tmp_path: Path, people: int, more: str) -> str:
    """A ``[protocol]`` table beside a graph in which everybody knows everybody."""
    (tmp_path / "graphs").mkdir()
    graphs.save(graphs.complete(people), tmp_path / "graphs" / "friends.npz")
    return f'kind = "network-shuffle"\ngraph = "graphs/friends.npz"\n{more}'


def test_load_resolves_graph_path_and_plans_auto_rounds(write: Write, tmp_path: Path) -> None:
    path = write(protocol=walked(tmp_path, 90, 'rounds = "auto"\nlaziness = 0.1'))
    loaded = survey.load(path)
    assert loaded.only.solved
    planned = loaded.protocol
    assert planned.names["graph"] == str(tmp_path / "graphs" / "friends.npz")
    assert 1 <= planned.rounds < 20
    assert loaded.protocol.guarantee().epsilon(1e-6) <= 1
    run = loaded.run(seed=1)
    assert loaded.met_by(run)
    assert values_of(loaded.protocol.run_diagnostics(run.collected, 1e-6))["load"]["mean"] == 1


def test_load_refuses_graph_of_other_size(write: Write, tmp_path: Path) -> None:
    path = write(protocol=walked(tmp_path, 91, "rounds = 3"))
    with pytest.raises(errors.InvalidCrowd) as caught:
        survey.load(path)
    assert str(caught.value).startswith(f"{path}: protocol: ")
    assert "friends.npz has 91 people, but n = 90" in str(caught.value)


def test_run_refuses_faults_without_actors(write: Write) -> None:
    from incrowd.sim import Faults

    loaded = survey.load(write(randomizer='kind = "krr"\nepsilon = 1.0'))
    with pytest.raises(errors.InvalidParameter, match="actors"):
        loaded.run(faults=Faults(loss=0.5))


def test_failed_run_names_faults(write: Write) -> None:
    from incrowd.sim import Faults

    loaded = survey.load(write(randomizer='kind = "krr"\nepsilon = 1.0'))
    with pytest.raises(errors.ProtocolFailed, match=r"^with dropout = 1: none of the 90 reports"):
        loaded.run("actors", faults=Faults(dropout=1), seed=1)


def test_load_ignores_trailing_blank_lines(write: Write, tmp_path: Path) -> None:
    path = write(randomizer='kind = "krr"\nepsilon = 0.5')
    (tmp_path / "people.csv").write_text("mode\nbus\ncar\n\n\n")
    assert survey.load(path).values.tolist() == ["bus", "car"]


def test_load_reads_compressed_data_with_byte_order_mark(write: Write, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "people.csv.gz", "wt", encoding="utf-8-sig") as stream:
        stream.write('mode , minutes\r\n"bus", 3\r\ncar,4\r\n\r\n')
    data = TABLES["data"].replace("people.csv", "people.csv.gz")
    given = 'kind = "krr"\nepsilon = 0.5'
    loaded = survey.load(write(data=data, randomizer=given))
    assert loaded.values.tolist() == ["bus", "car"]


CONFIG = [
    (
        {"question": MEAN.replace("[0, 60]", '[0, "x"]')},
        "question.minutes.bounds[1]: expected number, got text",
    ),
    (
        {"question": MEAN.replace("[0, 60]", "[0]")},
        "question.minutes.bounds: expected list of length 2",
    ),
    ({"question": MEAN.replace("bounds = [0, 60]", "")}, "question.minutes.bounds: missing"),
    (
        {"question": TABLES["question"].replace('"car"', "7")},
        "question.mode.categories[1]: expected text, got whole number",
    ),
    ({"question": TABLES["question"].replace("column", "colunm")}, "question[1].column: missing"),
    (
        {"question": TABLES["question"] + "\ncategory = 1"},
        "question.mode.category: unknown key; did you mean categories?",
    ),
    (
        {"question": TABLES["question"].replace("histogram", "histgram")},
        "question.mode.kind: unknown kind 'histgram'; did you mean histogram?",
    ),
    (
        {"question": TABLES["question"].replace('"mode"', "3")},
        "question[1].column: expected text, got whole number",
    ),
    ({"question": TABLES["question"].replace("histogram", "vector")}, "known: histogram, mean"),
    ({"question": None, "randomizer": None}, "question: missing; add a table [[question]]"),
    ({"budget": "epsilon = 1"}, "budget.delta: missing"),
    ({"budget": TABLES["budget"] + "\neps = 1"}, "budget.eps: unknown key"),
    ({"budget": 'epsilon = "1"\ndelta = 1e-6'}, "budget.epsilon: expected number, got text"),
    (
        {"protocol": 'kind = "trusted-shufle"'},
        "unknown kind 'trusted-shufle'; did you mean trusted-shuffle",
    ),
    (
        {"protocol": 'kind = "telepathy"'},
        "'telepathy'; known: check-in, local, net",
    ),
    (
        {"protocol": 'kind = "trusted-shuffle"\nround = 2'},
        "protocol.round: unknown key; did you mean roun",
    ),
    (
        {"protocol": 'kind = "trusted-shuffle"\nrounds = "2"'},
        "protocol.rounds: expected whole number, got text",
    ),
    (
        {"protocol": 'kind = "trusted-shuffle"\nn = 5'},
        "protocol.n: the people are counted from the data",
    ),
    (
        {"randomizer": 'kind = "krr"\nepsilom = 1'},
        "question.mode.randomizer.epsilom: unknown key; did you mean",
    ),
    ({"randomizer": 'kind = "laplace"\nepsilon = 1'}, "question.mode.randomizer.kind: "),
    (
        {"randomizer": 'kind = "generic"\nepsilon = 1'},
        "known: channel, hadamard, hierarchical, krr",
    ),
    (
        {"randomizer": 'kind = "privunit"\nepsilon = 1'},
        "known: channel, hadamard, hierarchical, krr",
    ),
    ({"question": MEAN, "randomizer": 'kind = "krr"'}, "a mean needs a randomizer of the domain"),
    (
        {"randomizer": 'kind = "gaussian"'},
        "(one of channel, hadamard, hierarchical, krr, olh, oue, rr, sue), but gaussian",
    ),
    ({"budget": TABLES["budget"] + '\nlocal_epsilon = "1"'}, "expected number, got text"),
    (
        {"randomizer": 'kind = "rr"\nepsilon = "a"'},
        "question.mode.randomizer.epsilon: expected number, got text",
    ),
    ({"life": "cover = true"}, "life: unknown key; did you mean live?"),
    ({"live": "covr = true"}, "live.covr: unknown key; did you mean cover?"),
    ({"live": "cover = 1"}, "live.cover: expected true or false, got whole number"),
    ({"live": 'transport = "pigeon"'}, "live.transport: expected hub or direct or nats, got 'pige"),
    ({"live": 'round_seconds = "2"'}, "live.round_seconds: expected number, got text"),
    (
        {"protocol": 'kind = "network-shuffle"\nrounds = "many"'},
        "protocol.rounds: expected a whole number or auto, got 'many'",
    ),
    (
        {"protocol": 'kind = "network-shuffle"\nrounds = 2.5'},
        "protocol.rounds: expected a whole number or auto, got 2.5",
    ),
    (
        {"protocol": 'kind = "network-shuffle"\nhand_in = "both"'},
        "protocol.hand_in: expected all or single, got 'both'",
    ),
    (
        {"protocol": 'kind = "network-shuffle"\ngraph = 3'},
        "protocol.graph: expected text, got whole number",
    ),
]


@pytest.mark.parametrize(("tables", "said"), CONFIG)
def test_load_names_wrong_key_of_survey(
    write: Write, tables: dict[str, str | None], said: str
) -> None:
    path = write(**tables)
    with pytest.raises(errors.InvalidConfig) as caught:
        survey.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_load_refuses_task_that_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "survey.toml"
    path.write_text("version = 2\nquestion = 3")
    with pytest.raises(errors.InvalidConfig, match="question: expected a table"):
        survey.load(path)


KINDS = [
    ({"budget": "epsilon = 0\ndelta = 1e-6"}, errors.InvalidEpsilon, "budget: epsilon"),
    ({"budget": "epsilon = 1\ndelta = 0.0"}, errors.InvalidDelta, "budget: delta"),
    ({"budget": TABLES["budget"] + "\nlocal_epsilon = -1"}, errors.InvalidEpsilon, "local_epsilon"),
    ({"budget": TABLES["budget"] + '\nview = "me"'}, errors.InvalidParameter, "unknown view 'me'"),
    (
        {"protocol": 'kind = "trusted-shuffle"\nrounds = 0'},
        errors.InvalidParameter,
        "protocol: rounds",
    ),
    ({"randomizer": "epsilon = -1"}, errors.InvalidEpsilon, "randomizer: epsilon"),
    (
        {"question": TABLES["question"].replace('["bus", "car"]', '["bus"]')},
        errors.InvalidParameter,
        "question.mode: categories",
    ),
    (
        {"question": MEAN.replace("[0, 60]", "[60, 0]")},
        errors.InvalidParameter,
        "question.minutes: bounds",
    ),
    ({"randomizer": "epsilon = 9"}, errors.BudgetInfeasible, "above budget.epsilon 1"),
    (
        {"protocol": 'kind = "network-shuffle"\ngraph = "none.npz"'},
        errors.FileUnreadable,
        "none.npz: cannot be read",
    ),
    (
        {"protocol": 'kind = "network-shuffle"\nlaziness = 1'},
        errors.InvalidParameter,
        "protocol: laziness must be below 1",
    ),
    ({"protocol": 'kind = "network-shuffle"'}, errors.InvalidParameter, "graph is missing"),
    (
        {"protocol": 'kind = "network-shuffle"\ngraph = "reglar:8"'},
        errors.InvalidParameter,
        "protocol: graph 'reglar:8' is neither a file",
    ),
    (
        {"protocol": 'kind = "network-shuffle"\ngraph = "regular:90"\nrounds = 2'},
        errors.InvalidCrowd,
        "protocol: graph regular:90: no graph on n = 90",
    ),
    ({"live": "min_crowd = 0"}, errors.InvalidParameter, "live: min_crowd must be"),
    ({"live": "timeout = -1"}, errors.InvalidParameter, "live: timeout must be a positive"),
]


@pytest.mark.parametrize(("tables", "kind", "said"), KINDS)
def test_load_keeps_error_class_of_wrong_value(
    write: Write, tables: dict[str, str], kind: type[errors.IncrowdError], said: str
) -> None:
    path = write(**tables)
    with pytest.raises(kind) as caught:
        survey.load(path)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


MALFORMED = [
    (b"[task\n", "line 1, column 6"),
    (b"[task]\nkind = \n", "line 2, column 8"),
    (b'[task]\nkind = "x', "line 2, column 10"),
    (b'[task]\nkind = "\xff"\n', "line 2, column 9: not UTF-8"),
]


@pytest.mark.parametrize(("text", "said"), MALFORMED)
def test_load_names_place_of_malformed_toml(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "survey.toml"
    path.write_bytes(text)
    with pytest.raises(errors.MalformedConfig) as caught:
        survey.load(path)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_load_reads_toml_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "survey.toml"
    path.write_bytes(b'\xef\xbb\xbfversion = 2\ntitle = "\xff"\n')
    with pytest.raises(errors.MalformedConfig, match="line 2, column 10: not UTF-8"):
        survey.load(path)
    path.write_bytes(b"\xef\xbb\xbfversion = 3\n")
    with pytest.raises(errors.InvalidConfig, match="version: expected 2, got 3"):
        survey.load(path)


DATA = [
    (b"", errors.EmptyData, "empty"),
    (b"mode,minutes\n\n", errors.EmptyData, "no rows"),
    (b"way,minutes\nbus,1\n", errors.MissingColumn, "the file has way, minutes"),
    (b"mode,mode\nbus,car\n", errors.MissingColumn, "more than one column 'mode'"),
    (b"minutes,mode\n1,bus\n2\n", errors.MissingColumn, "row 2 (line 3) has 1 fields where the"),
    (b"mode,minutes\nbus,1\ncar,2,5\n", errors.MissingColumn, "row 2 (line 3) has 3 fields"),
    (b"mode,minutes\nbus,1\n\ncar,2\n", errors.MissingColumn, "row 2 (line 3) has 0 fields"),
    (b"way;minutes\nbus;1\n", errors.MissingColumn, "the file has way, minutes"),
    (b"mode\nb\x81s\n", errors.FileUnreadable, "row 1 (line 2), column 'mode': byte 0x81"),
    (b'mode\n"bus\n', errors.FileUnreadable, "not valid CSV"),
]


@pytest.mark.parametrize(("text", "kind", "said"), DATA)
def test_load_names_problem_of_invalid_data(
    write: Write, tmp_path: Path, text: bytes, kind: type[errors.IncrowdError], said: str
) -> None:
    path = write()
    (tmp_path / "people.csv").write_bytes(text)
    with pytest.raises(kind) as caught:
        survey.load(path)
    assert str(caught.value).startswith(str(tmp_path / "people.csv"))
    assert said in str(caught.value)


def test_load_counts_rows_without_category(write: Write, tmp_path: Path) -> None:
    path = write()
    (tmp_path / "people.csv").write_bytes(b'mode\nbus\n\n""\nboat\n' + b"car\n" * 60)
    loaded = survey.load(path)
    assert (loaded.gaps[0].missing, loaded.gaps[0].outside, loaded.gaps[0].first) == (2, 1, 4)
    np.testing.assert_allclose(loaded.truths[0], [1 / 64, 60 / 64, 3 / 64])


def test_load_refuses_damaged_archive(write: Write, tmp_path: Path) -> None:
    data = TABLES["data"].replace("people.csv", "people.csv.gz")
    path = write(data=data)
    whole = gzip.compress(PEOPLE.encode())
    for damaged in (b"mode\nbus\n", whole[:-12], whole[:15] + b"\0\0\0" + whole[18:]):
        (tmp_path / "people.csv.gz").write_bytes(damaged)
        with pytest.raises(errors.FileUnreadable):
            survey.load(path)


SLOW = pytest.mark.slow
EXAMPLES = [
    *("commute", "live", "minutes", "rare_condition"),
    # The documentation and the snapshots of commands run these two as well.
    *(pytest.param("friends", marks=SLOW), pytest.param("work", marks=SLOW)),
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_survey_meets_its_budget(name: str) -> None:
    loaded = survey.load(ROOT / "examples" / f"{name}.toml")
    run = loaded.run(seed=1)
    assert loaded.met_by(run)
    for answer, truth in zip(run.answers, loaded.truths_of(run), strict=True):
        assert truth is not None
        assert np.all(np.abs(answer.value - truth) < 5 * answer.standard_error)


def test_example_data_equal_script_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import runpy

    script = runpy.run_path(str(ROOT / "examples" / "make_data.py"))
    monkeypatch.setitem(script["write"].__globals__, "HERE", tmp_path)
    script["main"]()
    for made in tmp_path.iterdir():
        kept = ROOT / "examples" / made.name
        if made.suffix == ".npz":  # How well it is compressed depends on the machine.
            written, expected = np.load(made), np.load(kept)
            assert set(written) == set(expected) == {"u", "v", "n"}
            for name in written:
                np.testing.assert_array_equal(written[name], expected[name])
        else:
            assert made.read_bytes() == kept.read_bytes()
