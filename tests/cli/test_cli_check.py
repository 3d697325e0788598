"""``incrowd check`` of several questions, and notes about unusual files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Call

PEOPLE = "mode;day;minutes\n" + "bus;mon;10\ncar;tue;20\nbike;tue;40\n" * 40
SEVERAL = """\
version = 2
title = "Commute"

[data]
file = "people.csv"
separator = ";"

[[question]]
id = "mode"
kind = "histogram"
categories = ["bus", "bike", "car"]
weight = 2

[[question]]
id = "day"
kind = "histogram"
categories = ["mon", "tue"]

[[question]]
id = "length"
column = "minutes"
kind = "mean"
bounds = [0, 60]

[[question]]
id = "spread"
column = "minutes"
kind = "quantiles"
bounds = [0, 60]
bins = 6

[budget]
epsilon = 4.0
delta = 1e-6

[protocol]
kind = "local"
"""


@pytest.fixture
def several(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(PEOPLE)
    path = tmp_path / "survey.toml"
    path.write_text(SEVERAL)
    return path


def test_check_describes_each_of_several_questions(incrowd: Call, several: Path) -> None:
    ended = incrowd("check", several, "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    asked = found["parameters"]["questions"]
    assert [(each["id"], each["kind"]) for each in asked] == [
        ("mode", "histogram"),
        ("day", "histogram"),
        ("length", "mean"),
        ("spread", "quantiles"),
    ]
    epsilons = [each["randomizer"]["epsilon"] for each in asked]
    assert sum(epsilons) <= found["solved"]["value"] <= 4
    assert epsilons[0] > epsilons[1]
    assert all(each["expected_error"] > 0 for each in asked[:3])
    assert all(each["rounds"] == 1 for each in asked)


def test_check_shows_several_questions_in_a_table(incrowd: Call, several: Path) -> None:
    ended = incrowd("check", several)
    assert (ended.code, ended.err) == (0, "")
    assert "{" not in ended.out
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["question", "kind", "randomizer", "ε0", "expected", "error"] in lines
    assert ["parameters", "rounds", "=", "1"] in lines
    rows = {line[0]: line[1:3] for line in lines if line and line[0] in ("mode", "day", "length")}
    assert rows == {
        "mode": ["histogram", "krr"],
        "day": ["histogram", "krr"],
        "length": ["mean", "ternary"],
    }


def test_check_expects_for_a_drawn_question_the_error_of_those_who_draw_it(
    incrowd: Call, several: Path
) -> None:
    several.write_text(several.read_text().replace("delta = 1e-6", 'delta = 1e-6\nask = "one"'))
    ended = incrowd("check", several, "--format", "json")
    assert (ended.code, ended.err) == (0, "")
    planned = {each["id"]: each for each in json.loads(ended.out)["parameters"]["questions"]}
    assert [each["chance"] for each in planned.values()] == pytest.approx([4 / 7] + [1 / 7] * 3)
    ended = incrowd("run", several, "--seed", 1, "--no-report", "--format", "json")
    found = {each["id"]: each["rows"] for each in json.loads(ended.out)["questions"]}
    for name in ("mode", "day", "length"):
        stated = found[name][0]["standard_error"]
        assert planned[name]["expected_error"] == pytest.approx(stated, rel=0.25), name


def test_check_says_for_which_questions_a_randomizer_was_chosen(
    incrowd: Call, several: Path
) -> None:
    told = "randomizer of least error, for mode, day, spread"
    assert told in " ".join(incrowd("check", several).out.split())


def test_check_says_of_which_kinds_the_only_randomizer_was_chosen(
    incrowd: Call, tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    head, first, *_, tail = SEVERAL.split("[[question]]")
    path = tmp_path / "survey.toml"
    path.write_text(f"{head}[[question]]{first}[budget]{tail.partition('[budget]')[2]}")
    told = "randomizer of least error of krr, oue, sue, hadamard, olh"
    assert told in " ".join(incrowd("check", path).out.split())
    path.write_text(path.read_text().replace("weight = 2", '[question.randomizer]\nkind = "krr"'))
    assert "least error" not in incrowd("check", path).out


UNUSUAL = [
    (b"mode;x\nbus;1\ncar;2\n", "separator ';', decimal point, encoding utf-8, 2 columns, 2 rows"),
    (b'mode,x\nbus,"1,5"\ncar,"2,25"\n', "separator ',', decimal comma, encoding utf-8"),
    ("mode,x\nbus,é\ncar,é\n".encode("cp1252"), "separator ',', decimal point, encoding cp1252"),
    (b"\xef\xbb\xbfmode\nbus\ncar\n", "encoding utf-8 with a byte-order mark, 1 column, 2 rows"),
    ("mode\nbus\ncar\n".encode("utf-16"), "encoding utf-16 with a byte-order mark"),
]


@pytest.mark.parametrize("command", [("run", "--no-report", "--seed", "1"), ("check",)])
@pytest.mark.parametrize(("content", "said"), UNUSUAL)
def test_unusual_data_file_is_noted(
    incrowd: Call,
    survey: Callable[..., Path],
    command: tuple[str, ...],
    content: bytes,
    said: str,
) -> None:
    path = survey()
    Path("people.csv").write_bytes(content)
    ended = incrowd(*command, path)
    assert ended.code == 0, ended.err
    assert ended.err.startswith("note: people.csv: ")
    assert said in ended.err
    assert ended.err.count("\n") == 1


STATED = [
    ("mode,x\nbus,1\ncar,2\n", ""),
    ("mode;x\nbus;1\ncar;2\n", 'separator = ";"'),
    ("mode;x\nbus;1,5\ncar;2,25\n", 'separator = ";"\ndecimal = ","'),
    ("\ufeffmode\nbus\ncar\n", 'encoding = "utf-8"'),
]


@pytest.mark.parametrize(("content", "stated"), STATED)
def test_usual_or_stated_data_file_is_not_noted(
    incrowd: Call, survey: Callable[..., Path], content: str, stated: str
) -> None:
    path = survey(data=content, budget="epsilon = 2.0\ndelta = 1e-6")
    path.write_text(path.read_text().replace('"people.csv"', f'"people.csv"\n{stated}'))
    ended = incrowd("check", path)
    assert (ended.code, ended.err) == (0, "")


def test_ambiguous_numbers_are_noted_only_where_they_are_asked_for(
    incrowd: Call, survey: Callable[..., Path]
) -> None:
    path = survey('mode,x\nbus,"1,234"\ncar,"2,345"\n')
    assert incrowd("check", path).err == ""
    mean = 'kind = "mean"\ncolumn = "x"\nbounds = [0, 5000]'
    ended = incrowd("check", survey('mode,x\nbus,"1,234"\ncar,"2,345"\n', question=mean))
    assert "note: people.csv: 'x': numbers such as 1,234 may mean 1234 or 1.234" in ended.err


def test_graph_is_noted_only_where_people_have_no_names(
    incrowd: Call, survey: Callable[..., Path]
) -> None:
    pairs = [(u, v) for u in range(6) for v in range(u)]
    Path("numbers.csv").write_text("".join(f"{u},{v}\n" for u, v in pairs))
    Path("names.csv").write_text("".join(f"p{u},p{v}\n" for u, v in pairs))
    rows = "".join(f"p{each},{'bus' if each % 2 else 'car'}\n" for each in range(6))

    def checked(graph: str, data: str) -> str:
        protocol = f'kind = "network-shuffle"\nrounds = 2\ngraph = "{graph}"'
        path = survey(f"name,mode\n{rows}", protocol=protocol)
        path.write_text(path.read_text().replace('"people.csv"', f'"people.csv"\n{data}'))
        ended = incrowd("check", path)
        assert ended.code == 0, ended.err
        return ended.err

    assert checked("numbers.csv", "") == (
        "note: numbers.csv: people have no names: person 0 of the graph is the first row of the "
        "data\n"
    )
    assert checked("names.csv", 'person = "name"') == ""
