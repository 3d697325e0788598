"""From a file or a frame of one's own to a result with intervals, in two commands."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Call

import incrowd as ic

PEOPLE = 300
MODES = ("Fähre", "zu Fuß", 'Rad "E"', "")
SURVEY = """version = 2
[data]
person = "name"
[[question]]
id = "verkehr"
kind = "histogram"
categories = ["Fähre", "zu Fuß", 'Rad "E"']
[[question]]
id = "minuten"
kind = "mean"
bounds = [0, 60]
[budget]
epsilon = 4.0
delta = 1e-4
[protocol]
kind = "trusted-shuffle"
"""


def table() -> dict[str, list[str]]:
    rng = np.random.default_rng(1)
    modes = [MODES[each] for each in rng.integers(0, 4, PEOPLE)]
    minutes = [f"{each / 10:.1f}".replace(".", ",") for each in rng.integers(0, 600, PEOPLE)]
    minutes[::17] = [""] * len(minutes[::17])
    return {"name": [f"p{i}" for i in range(PEOPLE)], "verkehr": modes, "minuten": minutes}


def check_result(incrowd: Call, data: str) -> None:
    """Write a survey and run it: every row has an interval around its estimate."""
    assert incrowd("init", data).code == 0
    ended = incrowd("run", "survey.toml", "--seed", 1, "--no-report", "--format", "json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["people"] == PEOPLE
    kinds = {each["id"]: each["kind"] for each in told["questions"]}
    assert kinds == {"verkehr": "histogram", "minuten": "mean"}
    for each in told["questions"]:
        for row in each["rows"]:
            assert row["low"] <= row["estimate"] <= row["high"]
            assert abs(row["estimate"] - row["truth"]) < 5 * row["standard_error"]


def test_semicolon_file_in_cp1252_with_decimal_commas_gives_result(
    incrowd: Call, tmp_path: Path
) -> None:
    columns = table()
    quoted = [each.replace('"', '""') for each in columns["verkehr"]]
    rows = zip(columns["name"], quoted, columns["minuten"], strict=True)
    lines = ["name;verkehr;minuten", *(f'{name};"{how}";{time}' for name, how, time in rows)]
    (tmp_path / "leute.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    check_result(incrowd, "leute.csv")


def test_parquet_file_gives_result(incrowd: Call, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    columns = table()
    (tmp_path / "leute.csv").write_text(
        "name\tverkehr\tminuten\n"
        + "".join(
            f"{name}\t{how}\t{time.replace(',', '.')}\n"
            for name, how, time in zip(*columns.values(), strict=True)
        )
    )
    text = "all_varchar = true, quote = ''"
    duckdb.sql(
        "COPY (SELECT name, nullif(verkehr, '') AS verkehr, "
        "TRY_CAST(minuten AS DOUBLE) AS minuten "
        f"FROM read_csv('{tmp_path}/leute.csv', delim='\t', {text})) "
        f"TO '{tmp_path}/people.parquet' (FORMAT parquet)"
    )
    check_result(incrowd, "people.parquet")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frame_in_place_of_file_gives_result(library: str, tmp_path: Path) -> None:
    frames = pytest.importorskip(library)
    columns: dict[str, list[object]] = dict(table())
    columns["minuten"] = [
        float(each.replace(",", ".")) if each else None for each in table()["minuten"]
    ]
    columns["verkehr"] = [each or None for each in table()["verkehr"]]
    (tmp_path / "survey.toml").write_text(SURVEY)
    survey = ic.survey.load(tmp_path / "survey.toml", data=frames.DataFrame(columns))
    run = survey.run(seed=1)
    assert survey.met_by(run)
    for answer, truth in zip(run.answers, survey.truths_of(run), strict=True):
        assert truth is not None
        assert np.all(np.abs(answer.value - truth) < 5 * answer.standard_error)


def test_edge_list_with_header_joins_answers_by_name(incrowd: Call, tmp_path: Path) -> None:
    names = table()["name"]
    order = np.random.default_rng(2).permutation(PEOPLE)
    edges = [
        f"{names[order[i]]},{names[order[(i + step) % PEOPLE]]},2024"
        for i in range(PEOPLE)
        for step in (1, 2, 7)
    ]
    (tmp_path / "friends.csv").write_text("person,friend,since\n" + "\n".join(edges) + "\n")
    answers = [f"{name},{'yes' if i % 3 else 'no'}" for i, name in enumerate(names)]
    (tmp_path / "people.csv").write_text("name,vote\n" + "\n".join(answers) + "\n")
    (tmp_path / "survey.toml").write_text(
        'version = 2\n[data]\nfile = "people.csv"\nperson = "name"\n'
        '[[question]]\nid = "vote"\nkind = "histogram"\ncategories = ["yes", "no"]\n'
        "[budget]\nepsilon = 3.0\ndelta = 1e-3\n"
        '[protocol]\nkind = "network-shuffle"\ngraph = "friends.csv"\nrounds = 12\n'
    )
    ended = incrowd("run", "survey.toml", "--seed", 1, "--no-report", "--format", "json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["people"] == PEOPLE
    loaded = ic.survey.load(tmp_path / "survey.toml")
    assert loaded.people.graph is not None
    assert loaded.people.graph.n == PEOPLE
    assert list(loaded.people.graph.labels) == names
    first = {names[each] for each in loaded.people.graph.neighbours(0).tolist()}
    place = int(np.flatnonzero(order == 0)[0])
    near = {names[order[(place + step) % PEOPLE]] for step in (-7, -2, -1, 1, 2, 7)}
    assert first == near
