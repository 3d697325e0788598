"""``incrowd release`` and the guarantees about order, as a stranger meets them."""

import csv
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import EXAMPLES, Call, Ended, assert_fails, stated

from incrowd import errors

TOWN = EXAMPLES / "town.csv"
PLACES = ("--lat", "lat", "--lon", "lon", "--column", "illness")


def written(content: Any, name: str = "groups.json") -> Path:
    path = Path(name)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def account(incrowd: Call, groups: Any, *words: Any) -> Ended:
    return incrowd("account", "order-shuffle", "--groups", written(groups), *words)


def told(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def rows(path: str | Path) -> list[dict[str, str]]:
    with Path(path).open(newline="") as stream:
        return list(csv.DictReader(stream))


class TestCalibrate:
    ASKED = ("calibrate", "order-shuffle", "--n", 50, "--radius", 1, "--alpha", 2)

    def test_calibrate_needs_no_delta(self, incrowd: Call) -> None:
        found = told(incrowd(*self.ASKED, "--epsilon", 1, "--format", "json"))
        assert found["solved"]["name"] == "local_epsilon"
        assert (stated(found)["delta"], stated(found, "order")["alpha"]) == (0, 2)
        assert 0.999 < found["solved"]["value"] <= stated(found)["epsilon"] <= 1

    def test_delta_is_solved_for_if_all_else_is_given(self, incrowd: Call) -> None:
        found = told(incrowd(*self.ASKED, "--epsilon", 1, "--local-epsilon", 1, "--format", "json"))
        assert (found["solved"]["name"], found["solved"]["value"]) == ("delta", 0)


class TestAccount:
    def test_sensitivity_is_exact_where_width_alone_is_not(self, incrowd: Call) -> None:
        # People 2 4 6 8 1 3 5 7 in this order, counted from 1, and the group of 2, 6 and 8.
        order = written([1, 3, 5, 7, 0, 2, 4, 6], "order.json")
        groups = [[1, 5, 7], *([each] for each in range(8))]
        found = told(account(incrowd, groups, "--alpha", 1, "--order", order, "--format", "json"))
        assert (
            found["diagnostics"]["width"],
            found["diagnostics"]["paper_sensitivity"],
            found["diagnostics"]["sensitivity"],
        ) == (3, 6, 5)
        assert found["diagnostics"]["order_method"] == "given"
        assert found["diagnostics"]["theta"] == math.nextafter(0.2, 0)  # a fifth, rounded down
        assert 1 - 1e-15 < stated(found, "order")["alpha"] <= 1

    def test_worked_example_is_accounted_exactly(self, incrowd: Call) -> None:
        order = written([4, 1, 2, 7, 3, 0, 5, 6], "order.json")
        groups = [[3, 4, 6], *([each] for each in range(8))]
        found = told(account(incrowd, groups, "--alpha", 1, "--order", order, "--format", "json"))
        assert (
            found["diagnostics"]["width"],
            found["diagnostics"]["paper_sensitivity"],
            found["diagnostics"]["sensitivity"],
        ) == (7, 28, 13)
        assert Fraction(found["diagnostics"]["theta"]) * 13 <= 1
        assert Fraction(math.nextafter(found["diagnostics"]["theta"], 1)) * 13 > 1

    def test_list_and_object_of_groups_agree(self, incrowd: Call) -> None:
        owners = json.loads((EXAMPLES / "neighbours.json").read_text())
        words = ("--alpha", 1, "--format", "json")
        by_owner = told(account(incrowd, owners, *words))
        by_list = told(account(incrowd, list(owners.values())[::-1], *words))
        assert by_owner["diagnostics"]["group_count"] == by_list["diagnostics"]["group_count"]
        for key in ("theta", "sensitivity"):
            assert by_owner["diagnostics"][key] == by_list["diagnostics"][key]

    def test_hamming_needs_no_order(self, incrowd: Call) -> None:
        groups = [[0, 3, 5], [1, 2], [4]]
        words = ("--alpha", 1, "--distance", "hamming", "--format", "json")
        assert told(account(incrowd, groups, *words))["diagnostics"]["sensitivity"] == 3

    def test_theta_gives_alpha_back(self, incrowd: Call) -> None:
        groups = [[0, 1, 2], [2, 3]]
        found = told(account(incrowd, groups, "--theta", 0.5, "--format", "json"))
        assert stated(found, "order")["alpha"] == 0.5 * found["diagnostics"]["sensitivity"]
        assert found["diagnostics"]["group_alpha"] == pytest.approx([1.5, 0.5])

    def test_answers_without_epsilon_have_no_guarantee(self, incrowd: Call) -> None:
        found = told(account(incrowd, [[0, 1]], "--alpha", 1, "--format", "json"))
        assert stated(found)["epsilon"] is None
        assert found["diagnostics"]["local_alpha"] is None
        with_one = told(
            account(incrowd, [[0, 1]], "--alpha", 1, "--local-epsilon", 0.25, "--format", "json")
        )
        assert stated(with_one)["epsilon"] == 0.25
        # The one is about who gave which report, the other about who has which answer.
        order = stated(with_one, "order")
        assert (order["alpha"], with_one["diagnostics"]["local_alpha"]) == (1.0, 0.5)
        assert order["neighbours"] == "reports-in-group"

    def test_two_answers_are_easier_to_hide_among(self, incrowd: Call) -> None:
        groups, words = [[0, 1, 2, 3]], ("--alpha", 1, "--local-epsilon", 9, "--format", "json")
        any_kind = told(account(incrowd, groups, *words))["diagnostics"]["sensitivity"]
        rr = (*words, "--randomizer", "rr")
        assert told(account(incrowd, groups, *rr))["diagnostics"]["sensitivity"] == any_kind == 6
        two = told(account(incrowd, groups, *rr, "--few-values"))
        assert (two["diagnostics"]["sensitivity"], stated(two, "order")["alpha"]) == (4, 1.0)
        # Somebody who can recognise a report undoes what few values are worth.
        helped = told(account(incrowd, groups, *rr, "--few-values", "--colluders", 1))
        assert stated(helped, "order")["alpha"] == 1.5

    def test_view_with_shuffler_has_randomizer_alone(self, incrowd: Call) -> None:
        words = (
            "--alpha",
            1,
            "--local-epsilon",
            3,
            "--view",
            "curator+shuffler",
            "--format",
            "json",
        )
        found = told(account(incrowd, [[0, 1, 2]], *words))
        assert stated(found, "order")["alpha"] == 9.0
        silent = ("--alpha", 1, "--view", "curator+shuffler", "--format", "json")
        nothing = told(account(incrowd, [[0, 1, 2]], *silent))
        assert [each["notion"] for each in nothing["guarantees"]] == ["dp"]
        # What the shuffle does inside a group is nothing to who sees it before.
        for each in (found, nothing):
            assert not {"median_alpha", "group_alpha"} & each["diagnostics"].keys()
        table = account(incrowd, [[0, 1, 2]], *silent[:-2]).out
        assert "Nothing is proven about who in a group said what" in table

    def test_order_without_people_has_planned_alpha_and_no_lower_bound(self, incrowd: Call) -> None:
        words = ("account", "order-shuffle", "--alpha", 1, "--local-epsilon", 1, "--format", "json")
        assert stated(told(incrowd(*words)), "order")["alpha"] == 1.0
        assert len(told(incrowd(*words, "--view", "everyone"))["guarantees"]) == 1
        assert_fails(incrowd(*words, "--colluders", 2), errors.InvalidCrowd, "n must be known")
        silent = ("account", "order-shuffle", "--alpha", 1, "--n", 5, "--delta", 1e-6)
        assert stated(told(incrowd(*silent, "--format", "json")))["lower_bound"] is None

    def test_account_prints_table(self, incrowd: Call) -> None:
        ended = account(incrowd, [[0, 1], [1, 2]], "--alpha", 1)
        assert ended.code == 0
        assert "order method" in ended.out
        assert "at most 732 of 1,000" in " ".join(ended.out.split())

    def test_person_alone_in_group_has_nothing_to_hide(self, incrowd: Call) -> None:
        found = told(account(incrowd, [[0], [1], [2]], "--alpha", 1, "--format", "json"))
        assert found["diagnostics"]["sensitivity"] == 0
        assert len(found["guarantees"]) == 1
        assert (found["diagnostics"]["local_alpha"], found["diagnostics"]["theta"]) == (None, None)
        assert "alone" in found["diagnostics"]["shuffled"]
        told_so = account(incrowd, [[0], [1], [2]], "--alpha", 1).out
        assert "Everybody is alone" in told_so
        assert "guesses are right" not in told_so

    @pytest.mark.parametrize(
        ("groups", "said"),
        [
            ({"0": [1], "1": [0, 1]}, ("0",)),
            ([[0, -1]], ("-1",)),
            ([[0, 1.5]], ("1.5",)),
            ([[0, 2]], ("1",)),
            ([[0, 0]], ("0",)),
            ([[]], ()),
            ([], ()),
            ("[[0, 1]", ("JSON",)),
            ({"0": [0, 7], "1": [1]}, ("7",)),
            ({"0": [0], "x": [1]}, ("x",)),
            ("3", ()),
        ],
    )
    def test_wrong_groups_are_refused(
        self, incrowd: Call, groups: Any, said: tuple[str, ...]
    ) -> None:
        ended = account(incrowd, groups, "--alpha", 1)
        assert ended.code >= 10
        assert_fails(ended, ended.code, "groups.json", *said)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--alpha", -1), "--alpha"),
            (("--alpha", "nan"), "--alpha"),
            ((), "--alpha"),
            (("--alpha", 1, "--theta", 1), "--theta"),
            (("--alpha", 1, "--order", "nowhere.json"), "nowhere.json"),
            (("--alpha", 1, "--radius", 1), "--radius"),
            (("--alpha", 1, "--n", 7), "7"),
            (("--alpha", 1, "--few-values"), "--few-values"),
            (("--alpha", 1, "--method", "hilbert"), "hilbert"),
            (("--alpha", 1, "--shape", "square"), "--shape"),
            (("--alpha", 1, "--metric", "haversine"), "--metric"),
        ],
    )
    def test_wrong_options_are_refused(
        self, incrowd: Call, words: tuple[Any, ...], said: str
    ) -> None:
        ended = account(incrowd, [[0, 1], [1, 2]], *words)
        assert ended.code != 0
        assert_fails(ended, ended.code, said)

    @pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3], ["a", 1, 2], {"0": 1}])
    def test_wrong_orders_are_refused(self, incrowd: Call, order: Any) -> None:
        path = written(order, "order.json")
        ended = account(incrowd, [[0, 1], [1, 2]], "--alpha", 1, "--order", path)
        assert ended.code >= 10
        assert_fails(ended, ended.code, "order.json")


class TestShuffleOrder:
    def test_answers_move_and_places_stay(self, incrowd: Call) -> None:
        words = ("release", TOWN, *PLACES, "--radius", 0.2, "--alpha", 2, "--seed", 7)
        found = told(incrowd(*words, "--format", "json"))
        stay = ("lat", "lon", "quarter")
        before = sorted(rows(TOWN), key=lambda row: [row[name] for name in stay])
        after = rows(found["file"])
        for name in stay:
            assert [row[name] for row in before] == [row[name] for row in after]
        old, new = ([row["illness"] for row in each] for each in (before, after))
        assert old != new
        assert sorted(old) == sorted(new)
        assert (found["moved"], found["stayed"]) == (["illness"], list(stay))
        assert stated(found, "order")["alpha"] <= 2
        assert found["diagnostics"]["sensitivity"] < found["diagnostics"]["paper_sensitivity"]
        assert any("km" in each for each in found["diagnostics"]["in_places"])
        assert rows(told(incrowd(*words, "--format", "json"))["file"]) == after

    def test_released_rows_do_not_depend_on_order_of_file(self, incrowd: Call) -> None:
        path = Path("sorted.csv")
        lines = [f"{k % 5},{'ab'[k >= 10]}" for k in range(20)]
        for name, text in (("sorted.csv", lines), ("mixed.csv", lines[::-1])):
            Path(name).write_text("\n".join(["age,answer", *text]) + "\n")
        words = ("--coordinate", "age", "--radius", 0, "--alpha", 0, "--seed", 1)
        for name in (path, "mixed.csv"):
            assert incrowd("release", name, *words).code == 0
        ages = [
            [row["age"] for row in rows(f"{name}.shuffled.csv")] for name in ("sorted", "mixed")
        ]
        assert ages[0] == ages[1] == sorted(ages[0])

    def test_seed_is_warned_of_and_unseeded_run_is_not_repeated(self, incrowd: Call) -> None:
        words = ("release", TOWN, *PLACES, "--radius", 0.1, "--alpha", 1)
        seeded = incrowd(*words, "--seed", 1)
        assert "try" in seeded.err
        first, second = (rows(told(incrowd(*words, "--format", "json"))["file"]) for _ in range(2))
        assert first != second

    def test_long_answers_come_out_whole(self, incrowd: Call) -> None:
        Path("v.csv").write_text("age,v\n" + "".join(f"{k % 3},a\n" for k in range(40)))
        words = ("release", "v.csv", "--coordinate", "age", "--radius", 1, "--alpha", 1)
        kinds = ("--local-epsilon", 0.1, "--categories", "a,b,undecided", "--format", "json")
        found = told(incrowd(*words, *kinds))
        assert {row["v"] for row in rows(found["file"])} <= {"a", "b", "undecided", "no answer"}

    def test_few_values_are_counted_on_where_they_are_known(self, incrowd: Call) -> None:
        Path("v.csv").write_text("age,v\n" + "".join(f"{k % 2},a\n" for k in range(40)))
        words = ("release", "v.csv", "--coordinate", "age", "--radius", 0, "--alpha", 1)
        kinds = ("--local-epsilon", 1, "--categories", "a,b", "--format", "json")
        assert told(incrowd(*words, *kinds))["diagnostics"]["sensitivity"] == 190
        assert told(incrowd(*words, *kinds, "--few-values"))["diagnostics"]["sensitivity"] == 133
        assert_fails(incrowd(*words, "--few-values"), errors.InvalidParameter, "--few-values")

    def test_order_numbers_rows_of_file(self, incrowd: Call) -> None:
        ages = [37, 3, 21, 55, 8, 40, 13, 29]
        Path("v.csv").write_text("age,v\n" + "".join(f"{age},a\n" for age in ages))
        order = written(sorted(range(8), key=ages.__getitem__), "order.json")
        words = ("release", "v.csv", "--coordinate", "age", "--radius", 10, "--alpha", 1)
        by_age = told(incrowd(*words, "--order", order, "--format", "json"))
        found = told(incrowd(*words, "--method", "coordinate", "--format", "json"))
        assert by_age["diagnostics"]["sensitivity"] == found["diagnostics"]["sensitivity"]

    def test_data_are_not_overwritten(self, incrowd: Call) -> None:
        Path("v.csv").write_text("age,v\n1,a\n1,b\n")
        ended = incrowd(
            "release", "v.csv", "--coordinate", "age", "--radius", 1, "--alpha", 1,
            "--output", "./v.csv",
        )  # fmt: skip
        assert_fails(ended, 2, "--output", "overwrite")
        assert Path("v.csv").read_text().endswith("1,b\n")

    def test_answers_are_randomized_first_where_wanted(self, incrowd: Call) -> None:
        words = ("release", TOWN, *PLACES, "--radius", 0.1, "--alpha", 1, "--seed", 1)
        kinds = "none,flu,stomach"
        found = told(
            incrowd(*words, "--local-epsilon", 1, "--categories", kinds, "--format", "json")
        )
        values = [row["illness"] for row in rows(found["file"])]
        before = [row["illness"] for row in rows(TOWN)]
        assert sorted(values) != sorted(before)
        assert found["guarantees"][0]["epsilon"] == 1.0

    @pytest.mark.parametrize(
        "words", [("--group-column", "quarter"), ("--coordinate", "lat", "--radius", 0.001)]
    )
    def test_places_can_be_labels_or_coordinate(
        self, incrowd: Call, words: tuple[Any, ...]
    ) -> None:
        ended = incrowd(
            "release", TOWN, *words, "--column", "illness", "--alpha", 1, "--format", "json"
        )
        assert told(ended)["people"] == 3000

    @pytest.mark.parametrize(
        ("words", "told_so"),
        [
            (("--column", "illness"), "named twice"),
            (("--local-epsilon", 1, "--categories", "none,,flu,stomach"), "remove a comma"),
        ],
    )
    def test_repeated_columns_and_empty_categories_are_refused(
        self, incrowd: Call, words: Any, told_so: str
    ) -> None:
        asked = ("release", TOWN, *PLACES, "--radius", 0.2, "--alpha", 2)
        assert_fails(incrowd(*asked, *words), 2, told_so)

    @pytest.mark.parametrize("option", ["--groups", "--order"])
    def test_files_that_are_read_are_not_overwritten(self, incrowd: Call, option: str) -> None:
        Path("eight.csv").write_text("vote\n" + "yes\nno\n" * 4)
        groups = written([[0, 1, 2, 3], [4, 5, 6, 7]])
        files = {"--groups": groups, "--order": written(list(range(8)), "order.json")}
        words = [word for pair in files.items() for word in pair]
        asked = ("release", "eight.csv", "--column", "vote", "--alpha", 1, *words)
        ended = incrowd(*asked, "--output", files[option])
        assert_fails(ended, 2, "--output", f"would overwrite {files[option]}")
        assert incrowd(*asked).code == 0

    def test_second_release_is_said_to_cost_again(self, incrowd: Call) -> None:
        words = ("release", TOWN, *PLACES, "--radius", 0.2, "--alpha", 2, "--seed", 1)
        assert "add up" not in incrowd(*words).err
        assert "town.shuffled.csv was there and is replaced" in incrowd(*words).err

    def test_people_who_are_alone_are_released_as_they_are(self, incrowd: Call) -> None:
        path = Path("alone.csv")
        path.write_text("lat,lon,answer\n10,10,a\n20,20,b\n30,30,c\n")
        ended = incrowd(
            "release", path, "--lat", "lat", "--lon", "lon", "--radius", 1, "--alpha", 1
        )
        assert ended.code == 0
        assert "unchanged" in ended.err
        assert rows("alone.shuffled.csv") == rows(path)

    @pytest.mark.parametrize(
        ("table", "words", "said"),
        [
            ("lat,lon,v\n95,0,a\n0,0,b\n", (), ("row 1", "95")),
            ("lat,lon,v\n0,0,a\n0,200,b\n", (), ("row 2", "200")),
            ("lat,lon,v\n0,0,a\nx,0,b\n", (), ("row 2", "lat")),
            ("lat,lon,v\n0,nan,a\n0,0,b\n", (), ("row 1", "lon")),
            ("lat,lon,v,w\n0,0,a,b\n", (), ("--column", "v, w")),
            ("lat,lon,v\n0,0,a\n", ("--column", "z"), ("z", "lat, lon, v")),
            ("lat,lon,v\n0,0,a\n", ("--column", "lat"), ("lat",)),
            ("lat,lon,v\n", (), ("no rows",)),
            ("lat,v\n0,a\n", (), ("lon",)),
        ],
    )
    def test_wrong_tables_are_refused(
        self, incrowd: Call, table: str, words: tuple[str, ...], said: tuple[str, ...]
    ) -> None:
        Path("t.csv").write_text(table)
        ended = incrowd(
            "release", "t.csv", "--lat", "lat", "--lon", "lon", "--radius", 1, "--alpha", 1,
            *words,
        )  # fmt: skip
        assert ended.code != 0
        assert_fails(ended, ended.code, *said)
        assert not Path("t.shuffled.csv").exists()

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--lat", "lat", "--radius", 1), "--lon"),
            (("--lat", "lat", "--lon", "lon"), "--radius"),
            (("--radius", 1), "--lat"),
            (("--group-column", "quarter", "--radius", 1), "--radius"),
            (
                ("--lat", "lat", "--lon", "lon", "--group-column", "quarter", "--radius", 1),
                "one way",
            ),
            (("--lat", "lat", "--lon", "lon", "--radius", -1), "--radius"),
            (("--lat", "lat", "--lon", "lon", "--radius", 1, "--local-epsilon", 1), "--categories"),
            (
                ("--lat", "lat", "--lon", "lon", "--radius", 1, "--categories", "a,b"),
                "--local-epsilon",
            ),
        ],
    )
    def test_wrong_options_are_refused(
        self, incrowd: Call, words: tuple[Any, ...], said: str
    ) -> None:
        ended = incrowd("release", TOWN, "--column", "illness", "--alpha", 1, *words)
        assert ended.code != 0
        assert_fails(ended, ended.code, said)


class TestRun:
    def test_release_is_written_and_described(self, incrowd: Call) -> None:
        ended = incrowd(
            "run", EXAMPLES / "town.toml", "--seed", 7, "--no-report", "--format", "json"
        )
        found = told(ended)
        assert found["tables"]["release"]["file"] == "town.release.csv"
        released = rows("town.release.csv")
        assert sorted(float(row["lat"]) for row in rows(TOWN)) == [
            float(row["lat"]) for row in released
        ]
        about = {(each["notion"], each["view"]): each for each in found["guarantees"]}
        assert about["order", "curator"]["alpha"] <= 2
        assert about["dp", "curator"]["epsilon"] <= 2
        assert about["order", "curator"]["neighbours"] == "reports-in-group"
        assert about["order", "everyone"]["neighbours"] == "answers-in-group"
        assert "simulation" in ended.err

    @pytest.mark.parametrize(
        ("answer", "place"), [("lat", "coordinates"), ("quarter", "groups"), ("illness", None)]
    )
    def test_answer_cannot_be_public_place(
        self, incrowd: Call, answer: str, place: str | None
    ) -> None:
        survey = (EXAMPLES / "town.toml").read_text().replace('"illness"', f'"{answer}"')
        if place == "groups":
            survey = survey.replace('coordinates = ["lat", "lon"]', 'groups = "quarter"')
        Path("place.toml").write_text(survey.replace('"town.csv"', f'"{TOWN}"'))
        ended = incrowd("run", "place.toml", "--no-report", "--seed", 1)
        if place is None:
            assert ended.code == 0, ended.err
        else:
            assert_fails(
                ended, errors.InvalidConfig, f"question.{answer}.column", "places are public"
            )
            assert not Path("place.release.csv").exists()

    @pytest.mark.parametrize("option", ["--report", "--table"])
    @pytest.mark.parametrize("name", ["town.csv", "town.toml"])
    def test_sources_of_survey_are_not_overwritten(
        self, incrowd: Call, option: str, name: str
    ) -> None:
        for each in ("town.csv", "town.toml"):
            Path(each).write_bytes((EXAMPLES / each).read_bytes())
        Path("link").symlink_to(name)
        Path("hard").hardlink_to(name)
        words = ("run", "town.toml", "--seed", 1)
        for target in (name, "link", "hard"):
            assert_fails(incrowd(*words, option, target), 2, option, f"would overwrite {name}")
        assert Path(name).read_bytes() == (EXAMPLES / name).read_bytes()

    def test_column_is_not_taken_for_file_of_same_name(self, incrowd: Call) -> None:
        for each in ("town.csv", "town.toml"):
            Path(each).write_bytes((EXAMPLES / each).read_bytes())
        for _ in range(2):
            words = ("run", "town.toml", "--seed", 1, "--no-report", "--table", "illness")
            assert incrowd(*words).code == 0

    def test_two_outputs_need_two_files(self, incrowd: Call) -> None:
        words = ("run", EXAMPLES / "town.toml", "--seed", 1, "--report", "one", "--table", "one")
        assert_fails(incrowd(*words), 2, "--table", "what --report writes")

    def test_page_draws_map(self, incrowd: Call) -> None:
        assert incrowd("run", EXAMPLES / "town.toml", "--seed", 7, "--report", "p.html").code == 0
        page = Path("p.html").read_text()
        assert "Where it is" in page
        assert "who said what" in page

    def test_page_says_that_everybody_is_alone(self, incrowd: Call) -> None:
        survey = (EXAMPLES / "town.toml").read_text().replace("radius = 0.2", "radius = 1e-6")
        Path("alone.toml").write_text(survey.replace('"town.csv"', f'"{EXAMPLES / "town.csv"}"'))
        ended = incrowd("run", "alone.toml", "--seed", 7, "--report", "p.html")
        assert ended.code == 0, ended.err
        page = Path("p.html").read_text()
        assert "Everybody is alone" in page
        assert "50.0 %" not in page

    def test_only_releases_have_a_table(self, incrowd: Call) -> None:
        ended = incrowd("run", EXAMPLES / "commute.toml", "--table", "t.csv", "--no-report")
        assert_fails(ended, 2, "--table")
