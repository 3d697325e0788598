"""Description of tables, and the survey files that are written from it."""

import json
import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from incrowd import data
from incrowd.cli import main
from incrowd.errors import (
    EmptyData,
    FileNotWritable,
    FileUnreadable,
    IncrowdError,
    MissingColumn,
    UnmatchedPeople,
)

WAYS = ("zu Fuß", 'Bus "M"', "Rad")


def table(people: int = 60) -> str:
    lines = ["Kennung;Weg zur Arbeit;Alter;Einkommen;Note;leer;Text"]
    for each in range(people):
        way = WAYS[each % 3].replace('"', '""')
        note = "NA" if each == 3 else each % 5 + 8
        income = f"{1200 + 777 * each},5"
        lines.append(f'p{each};"{way}";{20 + each};{income};{note};;frei {each // 2}')
    return "\n".join(lines) + "\n"


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "leute.csv"
    path.write_text(table(), encoding="cp1252")
    return path


def test_describe_finds_kinds_categories_and_bounds(people: Path) -> None:
    found = data.describe(data.read(people))
    assert (found.person, found.null_values, found.n) == ("Kennung", ("NA",), 60)
    kinds = {each.name: each for each in found.columns}
    assert [(each.name, each.kind) for each in found.columns] == [
        ("Kennung", "person"),
        ("Weg zur Arbeit", "histogram"),
        ("Alter", "mean"),
        ("Einkommen", "mean"),
        ("Note", "histogram"),
        ("leer", "none"),
        ("Text", "none"),
    ]
    assert kinds["Weg zur Arbeit"].categories == ('Bus "M"', "Rad", "zu Fuß")
    assert kinds["Note"].categories == ("8", "9", "10", "11", "12")
    assert kinds["Note"].missing == 1
    assert kinds["Alter"].bounds == (20, 80)
    assert kinds["Einkommen"].bounds == (0, 60_000)
    assert kinds["leer"].reason == "no values"
    assert kinds["Text"].reason.startswith("30 different texts")


@pytest.mark.parametrize(
    ("low", "high", "bounds"),
    [
        ("18", "93", (0, 100)),
        ("1951", "2004", (1940, 2020)),
        ("0.12", "0.31", ("0.1", "0.35")),
        ("-7", "4", ("-10", "5")),
        ("1200", "187000", (0, 200_000)),
    ],
)
def test_bounds_are_round_and_outside_of_the_data(
    tmp_path: Path, low: str, high: str, bounds: tuple[object, object]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"x\n{low}\n{high}\n{high}\n")
    [column] = data.describe(data.read(path)).questions
    assert column.bounds == tuple(Decimal(each) for each in bounds)


def test_describe_takes_the_column_that_is_called_an_identifier(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("word,user_id,x\nb,1,1.5\na,2,2.5\n")
    assert data.describe(data.read(path)).person == "user_id"
    assert data.describe(data.read(path), person="word").person == "word"
    assert data.describe(data.read(path), ["user_id", "word"]).person is None
    path.write_text("x,word\n1.5,a\n2.5,a\n")
    assert data.describe(data.read(path)).person is None


def test_categories_are_in_natural_order(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x\n" + "10-19\nm²\n5-9\nApfel\nzu\n20\nm2\n" * 2, encoding="utf-8")
    [column] = data.describe(data.read(path)).questions
    assert column.categories == ("20", "5-9", "10-19", "Apfel", "m2", "m²", "zu")


def test_init_writes_a_survey_of_version_2(
    people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "leute.csv"]) == 0
    text = Path("survey.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    questions = written.pop("question")
    assert written == {
        "version": 2,
        "title": "leute",
        "data": {"file": "leute.csv", "person": "Kennung", "null_values": ["", "NA"]},
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "protocol": {"kind": "trusted-shuffle"},
    }
    assert questions == [
        {
            "id": "weg_zur_arbeit",
            "column": "Weg zur Arbeit",
            "text": "Weg zur Arbeit?",
            "kind": "histogram",
            "categories": ['Bus "M"', "Rad", "zu Fuß"],
        },
        {
            "id": "alter",
            "column": "Alter",
            "text": "Alter?",
            "kind": "mean",
            "bounds": [20, 80],
        },
        {
            "id": "einkommen",
            "column": "Einkommen",
            "text": "Einkommen?",
            "kind": "mean",
            "bounds": [0, 60000],
        },
        {
            "id": "note",
            "column": "Note",
            "text": "Note?",
            "kind": "histogram",
            "categories": ["8", "9", "10", "11", "12"],
        },
    ]
    taken = [line for line in text.splitlines() if line.endswith("# public: review")]
    assert len(taken) == 1 + 3 + 1 + 1 + 5
    ended = capsys.readouterr()
    assert "separator ';', decimal comma, encoding cp1252, 7 columns, 60 rows" in ended.err
    assert "incrowd check survey.toml" in ended.out
    assert "incrowd run survey.toml" in ended.out
    assert "histogram: 5 categories, 1 without an answer" in ended.out


def test_init_names_the_data_from_the_folder_of_the_survey(people: Path) -> None:
    Path("surveys").mkdir()
    words = ["init", "leute.csv", "--output", "surveys/work.toml", "--columns", "Alter, Note"]
    assert main([*words, "--separator", ";", "--decimal", ",", "--encoding", "cp1252"]) == 0
    written = tomllib.loads(Path("surveys/work.toml").read_text(encoding="utf-8"))
    assert written["data"] == {
        "file": "../leute.csv",
        "person": "Kennung",
        "null_values": ["", "NA"],
        "separator": ";",
        "decimal": ",",
        "encoding": "cp1252",
    }
    assert [each["id"] for each in written["question"]] == ["alter", "note"]


def test_init_prints_json(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "leute.csv", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["next"] == ["incrowd check survey.toml", "incrowd run survey.toml"]
    assert found["columns"][2] == {
        "name": "Alter",
        "kind": "mean",
        "missing": 0,
        "found": "bounds 20 to 80",
    }


def test_init_replaces_a_survey_only_when_forced(
    people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("survey.toml").write_text("mine")
    assert main(["init", "leute.csv"]) == FileNotWritable.exit_code
    assert "survey.toml exists already: name another file with --output" in capsys.readouterr().err
    assert Path("survey.toml").read_text() == "mine"
    assert main(["init", "leute.csv", "--force"]) == 0
    assert tomllib.loads(Path("survey.toml").read_text(encoding="utf-8"))["version"] == 2
    assert main(["init", "leute.csv", "--output", "leute.csv", "--force"]) == 2
    assert "would overwrite leute.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (
            ["leute.csv", "--columns", "Alte"],
            MissingColumn,
            "no column 'Alte': did you mean 'Alter'",
        ),
        (["leute.csv", "--columns", "leer"], EmptyData, "asked about ('leer': no values): name"),
        (["leute.csv", "--person", "Note"], UnmatchedPeople, "column 'Note': "),
        (["none.csv"], FileUnreadable, "none.csv: cannot read the data"),
        (
            ["leute.csv", "--output", "no/s.toml"],
            FileNotWritable,
            "no/s.toml: cannot write the survey",
        ),
    ],
)
def test_init_explains_a_wrong_option_in_one_line(
    people: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    kind: type[IncrowdError],
    said: str,
) -> None:
    assert main(["init", *words]) == kind.exit_code
    ended = capsys.readouterr()
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert said in ended.err
    assert not Path("survey.toml").exists()


def test_columns_of_one_word_get_names_of_their_own(tmp_path: Path) -> None:
    from incrowd.survey.draft import draft

    path = tmp_path / "x.csv"
    path.write_text("a b,A-b,???\n" + "1.5,2.5,x\n2.5,3.5,y\n" * 9)
    written = tomllib.loads(draft(data.describe(data.read(path)), "x.csv", 'a "title"\\'))
    assert [each["id"] for each in written["question"]] == ["a_b", "a_b_2", "question"]
    assert written["title"] == 'a "title"\\'


def test_delta_lies_below_one_in_the_number_of_people() -> None:
    from incrowd.data import ColumnDescription, Description
    from incrowd.survey.draft import draft

    column = ColumnDescription("x", "mean", bounds=(Decimal(0), Decimal(1)))
    for people, delta in ((10, 1e-6), (12_000, 1e-6), (3_000_000, 1e-8)):
        written = tomllib.loads(draft(Description(people, (column,), ()), "x.csv", "x"))
        assert written["budget"]["delta"] == delta
