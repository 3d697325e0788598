"""A protocol of another package with a helper of its own, used without an edit inside incrowd."""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import incrowd as ic
from incrowd.cli import main
from incrowd.errors import InvalidParameter, PluginInvalid
from incrowd.live import accounting, cells
from incrowd.live.options import LiveOptions
from incrowd.live.run import run_live
from incrowd.protocols import PROTOCOLS, Party, ProtocolPlugin, load
from incrowd.protocols.registry import answered_tasks, parties
from incrowd.randomizers import RANDOMIZERS
from incrowd.report.words import view_description
from incrowd.tasks import TASKS
from incrowd.views import view_of

OUTSIDE = Path(__file__).parent / "outside"
DOCS = Path(__file__).parents[2] / "docs"
SURVEY = """
version = 2

[data]
file = "people.csv"

[[question]]
kind = "toy-percent"
column = "mode"
categories = ["bus", "bike", "car"]

[budget]
epsilon = 8.0
delta = 1e-6
view = "curator+postbox"

[protocol]
kind = "toy-postbox"
"""


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    code = main([*words, "--format", "json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def survey(folder: Path, people: int = 200) -> Path:
    modes = (["bus"] * 5 + ["bike"] * 3 + ["car"] * 2) * (people // 10)
    (folder / "people.csv").write_text("\n".join(("mode", *modes)) + "\n")
    path = folder / "survey.toml"
    path.write_text(SURVEY)
    return path


def test_built_in_declarations_match_their_classes():
    for kind, plugin in PROTOCOLS.built_in().items():
        assert load(kind).kind == kind
        assert (DOCS / plugin.docs).is_file()
        view_of(plugin.default_view)
        assert answered_tasks(kind)
        for domain, randomizers in plugin.default_randomizers.items():
            assert {RANDOMIZERS.find(each).domain for each in randomizers} == {domain}


@pytest.mark.parametrize(
    ("kind", "tasks"),
    [
        ("trusted-shuffle", ("histogram", "mean", "sum", "quantiles")),
        ("token-walk", ("histogram", "mean", "sum", "quantiles")),
        ("order-shuffle", ("release",)),
        ("scrambled-query", ("query",)),
    ],
)
def test_answered_tasks_fit_by_domain_and_by_what_is_collected(kind, tasks):
    assert answered_tasks(kind) == tasks


def test_outside_task_is_answered_by_built_in_protocols_of_its_domain(installed):
    assert answered_tasks("local") == ("histogram", "mean", "sum", "quantiles", "toy-percent")
    assert answered_tasks("order-shuffle") == ("release",)
    assert answered_tasks("toy-postbox") == ("histogram", "quantiles", "toy-percent")


def test_helper_of_outside_protocol_is_a_party_everywhere(installed):
    assert view_of("curator+postbox") == {"curator", "postbox"}
    assert view_description({"curator", "postbox"}).endswith(
        "the party that empties the box of sealed reports"
    )
    assert cells.number("postbox") == 2**32 - 1 - 300
    assert cells.address(2**32 - 1 - 300) == "postbox"


def test_helper_of_outside_protocol_is_unknown_without_its_package():
    with pytest.raises(InvalidParameter, match="unknown view"):
        view_of("curator+postbox")
    with pytest.raises(InvalidParameter, match="no party is called"):
        cells.number("postbox")


WRONG_PARTIES = {
    "a number of a built-in party": Party(name="box", number=1, description="x"),
    "a number below those of other packages": Party(name="box", number=255, description="x"),
    "a number above those of other packages": Party(name="box", number=4096, description="x"),
    "a family": Party(name="box", family=7, description="x"),
    "a built-in party described anew": Party(name="shuffler", number=1, description="x"),
}


@pytest.mark.parametrize("case", WRONG_PARTIES)
def test_party_of_outside_protocol_with_wrong_number_is_refused(monkeypatch, case):
    plugin = ProtocolPlugin(
        kind="odd", target="odd:Odd", summary="odd", parties=(WRONG_PARTIES[case],)
    )
    monkeypatch.setattr(PROTOCOLS, "_outside", {"odd": plugin})
    with pytest.raises(PluginInvalid):
        parties()
    assert set(parties(outside=False)) >= {"shuffler", "courier", "scrambler"}


def test_commands_of_outside_protocol_account_and_calibrate(installed, capsys):
    words = ("toy-postbox", "--n", "100", "--delta", "1e-6", "--view", "curator+postbox")
    stated = printed(capsys, "account", *words, "--local-epsilon", "1", "--rounds", "2")
    assert stated["parameters"]["protocol"] == "toy-postbox"
    assert stated["guarantees"][0]["view"] == "curator+postbox"
    due = printed(capsys, "account", "local", *words[1:5], "--local-epsilon", "1", "--rounds", "2")
    assert stated["guarantees"][0]["epsilon"] == due["guarantees"][0]["epsilon"]
    solved = printed(capsys, "calibrate", *words, "--epsilon", "1.5")
    assert solved["solved"]["name"] == "local_epsilon"
    assert 1.4999 < solved["solved"]["value"] <= 1.5
    assert main(["account", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "toy-postbox Reports go through a postbox that does not shuffle them." in shown


def test_own_command_of_outside_protocol_is_listed_and_runs(installed, capsys):
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert "toy-price" in listed
    assert listed.index("query") < listed.index("toy-price") < listed.index("hub")
    assert main(["toy-price", "10"]) == 0
    assert capsys.readouterr().out.endswith(" bytes\n")


@pytest.mark.parametrize("mode", ["simulate", "actors"])
def test_survey_of_outside_task_and_protocol_runs(installed, capsys, tmp_path, mode):
    path = survey(tmp_path)
    result = printed(capsys, "run", str(path), "--seed", "7", "--no-report", "--engine", mode)
    values = [row["estimate"] for row in result["questions"][0]["rows"][:3]]
    np.testing.assert_allclose(values, [50, 30, 20], atol=5)
    assert result["parameters"]["randomizer"]["kind"] == "toy-coin"
    assert "curator+postbox" in {each["view"] for each in result["guarantees"]}


def test_page_of_survey_of_outside_protocol_names_its_party(installed, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.html"
    assert main(["run", str(survey(tmp_path)), "--seed", "7", "--report", str(page)]) == 0
    capsys.readouterr()
    text = page.read_text(encoding="utf-8")
    assert "the party that empties the box of sealed reports" in text
    assert "eports go through a postbox that does not shuffle them" in text


def test_live_run_of_outside_protocol_ends_like_a_simulated_one(installed, tmp_path):
    pytest.importorskip("starlette")
    people = 12
    path = os.pathsep.join((str(OUTSIDE), str(Path(ic.__file__).parents[1])))
    installed.setenv("PYTHONPATH", path)
    installed.setattr(tempfile, "tempdir", str(tmp_path))
    # The process that examines offers may be warm from another test, without this package.
    accounting.close()
    # At this ε a report is another one than the answer once in 10¹².
    coin = RANDOMIZERS.load("toy-coin")(categories=3, epsilon=30.0)
    asked = TASKS.load("toy-percent")(categories=("a", "b", "c"), complete=True)
    protocol = load("toy-postbox")(coin, n=people)
    values = np.array(["a", "b", "b", "c"] * 3)
    run = run_live(
        protocol, values, task=asked, delta=1e-6, hosts=1,
        options=LiveOptions(cover=False, round_seconds=4.0, grace_rounds=3),
    )  # fmt: skip
    assert run.live.devices == people
    np.testing.assert_allclose(run.result.value, [25, 50, 25], atol=1e-6)
    assert [each.view_name for each in run.guarantees][2] == "curator+postbox"
    assert run.guarantees[0].epsilon(1e-6) == protocol.guarantee().epsilon(1e-6)
