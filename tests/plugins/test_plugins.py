"""Randomizers and tasks of another package, used by name without an edit inside incrowd."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

import incrowd as ic
from incrowd import plugins
from incrowd.cli import main
from incrowd.errors import InvalidParameter, PluginInvalid
from incrowd.live import task as offers
from incrowd.randomizers import RANDOMIZERS, RandomizerPlugin
from incrowd.tasks import TASKS

OUTSIDE = Path(__file__).parent / "outside"
ACCOUNT = ("trusted-shuffle", "--n", "1e4", "--delta", "1e-6", "--categories", "4")
COIN = ("--randomizer", "toy-coin", "--coins", "2")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main([*words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_built_in_names_are_found_without_scanning_entry_points(monkeypatch):
    def scan(**_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("importlib.metadata.entry_points", scan)
    for registry, kind in ((RANDOMIZERS, "krr"), (TASKS, "mean")):
        registry.refresh()
        assert kind in registry
        assert registry.load(kind).__struct_config__.tag == kind
        with pytest.raises(AssertionError):
            registry.plugins()


@pytest.mark.parametrize("registry", [RANDOMIZERS, TASKS], ids=lambda each: each.group)
def test_declarations_match_their_classes(registry):
    for kind, plugin in registry.plugins().items():
        loaded = registry.load(kind)
        assert loaded.__struct_config__.tag == kind
        assert loaded.domain == plugin.domain


def test_unknown_name_lists_outside_ones(installed):
    with pytest.raises(InvalidParameter, match=r"unknown randomizer 'coin': .*ternary, toy-coin"):
        RANDOMIZERS.load("coin")


def test_outside_plugins_are_gone_after_uninstalling():
    assert "toy-coin" not in RANDOMIZERS
    assert "toy-percent" not in TASKS


def test_listing_outside_plugins_loads_none_of_their_classes():
    program = (
        "import sys; from incrowd.randomizers.registry import RANDOMIZERS; "
        "print('toy-coin' in RANDOMIZERS, 'toy_crowd.coin' in sys.modules)"
    )
    path = os.pathsep.join((str(OUTSIDE), str(Path(ic.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "False"]


def declared(tmp_path: Path, lines: str, code: str) -> None:
    info = tmp_path / "broken_crowd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-crowd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[incrowd.randomizers]\n{lines}\n")
    (tmp_path / "broken_crowd.py").write_text(
        f"from incrowd.randomizers.registry import RandomizerPlugin\n{code}\n"
    )


BROKEN = {
    "a name that is taken": (
        "krr = broken_crowd:PLUGIN",
        "PLUGIN = RandomizerPlugin(kind='krr', domain='category', target='x:Y')",
        "randomizer 'krr' is declared twice, the second time by broken-crowd",
    ),
    "a missing declaration": (
        "odd = broken_crowd:PLUGIN",
        "",
        "randomizer 'odd' of broken-crowd cannot be loaded",
    ),
    "another name than its own": (
        "odd = broken_crowd:PLUGIN",
        "PLUGIN = RandomizerPlugin(kind='even', domain='category', target='x:Y')",
        "of broken-crowd must be a RandomizerPlugin of the kind 'odd'",
    ),
    "no declaration": ("odd = broken_crowd:PLUGIN", "PLUGIN = 1", "must be a RandomizerPlugin"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_declaration_is_refused_with_its_package(installed, tmp_path, case):
    lines, code, message = BROKEN[case]
    declared(tmp_path, lines, code)
    installed.delitem(sys.modules, "broken_crowd", raising=False)
    installed.syspath_prepend(str(tmp_path))
    RANDOMIZERS.refresh()
    with pytest.raises(PluginInvalid) as caught:
        RANDOMIZERS.plugins()
    assert message in str(caught.value)
    sys.modules.pop("broken_crowd", None)


def test_missing_class_is_refused_with_its_place(monkeypatch):
    broken = RandomizerPlugin(kind="odd", domain="category", target="nowhere_crowd:Odd")
    registry = plugins.Registry("incrowd.none", "randomizer", RandomizerPlugin, ())
    monkeypatch.setattr(registry, "_outside", {"odd": broken})
    with pytest.raises(PluginInvalid, match="cannot be loaded from nowhere_crowd:Odd"):
        registry.load("odd")


def test_account_of_outside_randomizer_is_that_of_the_coin_it_throws(installed, capsys):
    ours = printed(capsys, "account", *ACCOUNT, "--local-epsilon", "1", *COIN)
    due = printed(capsys, "account", *ACCOUNT, "--local-epsilon", "0.5", "--randomizer", "krr")
    assert ours["parameters"]["randomizer"] == {
        "kind": "toy-coin", "epsilon": 1.0, "categories": 4, "coins": 2,
    }  # fmt: skip
    assert ours["guarantees"][0]["epsilon"] == due["guarantees"][0]["epsilon"]


def test_calibrate_solves_for_the_epsilon_of_an_outside_randomizer(installed, capsys):
    ours = printed(capsys, "calibrate", *ACCOUNT, "--epsilon", "0.1", *COIN)
    due = printed(capsys, "calibrate", *ACCOUNT, "--epsilon", "0.1", "--randomizer", "krr")
    assert ours["solved"]["name"] == "local_epsilon"
    assert ours["solved"]["value"] == pytest.approx(2 * due["solved"]["value"], rel=1e-6)


def test_help_lists_outside_randomizer_and_its_options(installed, capsys):
    installed.setattr("typer.rich_utils.MAX_WIDTH", 400)  # for the names of all randomizers
    assert main(["account", "trusted-shuffle", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "toy-coin" in shown
    assert "--coins" in shown


def test_offer_with_outside_randomizer_and_task_is_read_strictly(installed):
    coin = RANDOMIZERS.load("toy-coin")(categories=3, epsilon=1.0, coins=2)
    asked = TASKS.load("toy-percent")(categories=("a", "b", "c"), complete=True)
    (question,) = offers.describe(ic.TrustedShuffle(coin, n=12), asked, "Which?", "mode")
    assert (question.text, question.column) == ("Which?", "mode")
    said = msgspec.to_builtins(question)
    read = {
        name: offers._described(said[name], registry)
        for name, registry in (("randomizer", RANDOMIZERS), ("task", TASKS))
    }
    assert read == {"randomizer": coin, "task": asked}
    for name, registry in (("randomizer", RANDOMIZERS), ("task", TASKS)):
        with pytest.raises(offers.Rejected, match="unknown field"):
            offers._described(said[name] | {"more": 1}, registry)
    with pytest.raises(msgspec.ValidationError):
        offers._described(said["randomizer"] | {"coins": "2"}, RANDOMIZERS)


def test_outside_task_is_answered_alike_by_simulation_and_by_actors(installed):
    coin = RANDOMIZERS.load("toy-coin")(categories=3, epsilon=8.0)
    asked = TASKS.load("toy-percent")(categories=("a", "b", "c"), complete=True)
    column = np.array(["a"] * 30 + ["b"] * 60 + ["c"] * 10)
    shuffle = ic.TrustedShuffle(coin, n=100)
    simulated = shuffle.simulate(column, task=asked, seed=7)
    played = ic.sim.run(shuffle, column, task=asked, seed=7)
    for run in (simulated, played):
        np.testing.assert_allclose(run.result.value, [30, 60, 10], atol=5)
        assert run.guarantees[0].epsilon(1e-6) == shuffle.guarantee().epsilon(1e-6)
