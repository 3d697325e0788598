"""Errors: the field that is wrong, its place and its name, and the sites that locate them."""

import ast
import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import incrowd
from incrowd import checks, errors, graphs
from incrowd.protocols.scrambled_query.tuning import Limits, fit
from incrowd.randomizers import KRR
from incrowd.survey.parse import Origin
from incrowd.views import view_of

SOURCE = Path(incrowd.__file__).parent


def test_checks_set_the_field_from_the_name_they_are_given():
    for check in (
        lambda: checks.epsilon(-1.0, "rounds"),
        lambda: checks.delta(2.0, "rounds"),
        lambda: checks.crowd(0, "rounds"),
        lambda: checks.crowd(10**16, "rounds"),
        lambda: checks.integer(0, "rounds", 1),
        lambda: checks.probability(2.0, "rounds"),
        lambda: checks.rate(0.0, "rounds"),
        lambda: checks.number(np.nan, "rounds"),
        lambda: checks.instance(3, str, "rounds", "'x'"),
    ):
        with pytest.raises(errors.InvalidParameter, match=r"^rounds must ") as caught:
            check()
        assert caught.value.field == "rounds"


def test_check_of_one_of_several_values_names_the_field_that_holds_them():
    with pytest.raises(errors.InvalidParameter, match=r"^rates \(of person 3\) must") as caught:
        checks.rate(2.0, "rates (of person 3)", "rates")
    assert caught.value.field == "rates"


def test_check_of_a_phrase_has_no_field():
    with pytest.raises(errors.InvalidParameter, match="a colluder must be") as caught:
        checks.integer(-1, "a colluder", 0)
    assert caught.value.field is None


LAYERS = {
    "randomizer": (lambda: KRR(categories=2, epsilon=-1.0), "epsilon"),
    "protocol": (
        lambda: incrowd.TrustedShuffle(KRR(categories=2, epsilon=1.0), n=5, rounds=0),
        "rounds",
    ),
    "parameters": (
        lambda: incrowd.NetworkShuffle(
            incrowd.RR(epsilon=1.0), graph=incrowd.graphs.ring(5), laziness=1.0
        ),
        "laziness",
    ),
    "graph": (lambda: graphs.named("reglar:8", 9), "graph"),
    "limits": (
        lambda: fit((20,), 100, epsilon=1.0, delta=1e-4, limits=Limits(max_connections=20)),
        "max_connections",
    ),
    "view": (lambda: view_of("me"), "view"),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_refused_setting_is_the_field_of_the_error(layer):
    build, field = LAYERS[layer]
    with pytest.raises(errors.IncrowdError) as caught:
        build()
    assert caught.value.field == field


def located() -> errors.IncrowdError:
    error = errors.InvalidCrowd("n must be 3", field="n")
    return error.called("--n").located("survey.toml")


@pytest.mark.parametrize("copied", [copy.copy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copied_error_keeps_text_field_and_place(copied):
    found = copied(located())
    assert type(found) is errors.InvalidCrowd
    assert (str(found), found.field, found.where) == (
        "survey.toml: --n must be 3",
        "n",
        ("survey.toml",),
    )


@pytest.mark.parametrize("kind", errors.all_errors().values())
def test_all_error_classes_can_be_located_and_copied(kind):
    error = kind("is wrong", field="n").located("survey.toml", "protocol")
    assert str(error) == "survey.toml: protocol: is wrong"
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.field) == (kind, str(error), "n")


def test_name_replaces_the_field_that_opens_the_text():
    assert str(errors.InvalidParameter("n must be 3", field="n").called("--n")) == "--n must be 3"


def test_name_stands_before_a_text_that_does_not_open_with_the_field():
    error = errors.InvalidParameter("nobody is left", field="n")
    assert str(error.called("--n")) == "--n: nobody is left"


def test_second_name_is_ignored():
    error = errors.InvalidParameter("n must be 3", field="n").called("limits.n").called("--n")
    assert str(error) == "limits.n must be 3"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.InvalidCrowd("n must be 3", field="n"), "survey.toml: protocol: n must be 3"),
        (
            errors.InvalidCrowd("nobody is left", field="n"),
            "survey.toml: protocol.n: nobody is left",
        ),
        (errors.InvalidCrowd("nobody is left"), "survey.toml: protocol: nobody is left"),
        (
            errors.InvalidGraph("has 2 parts", field="n").located("ring.npz"),
            "survey.toml: protocol: ring.npz: has 2 parts",
        ),
    ],
)
def test_origin_locates_an_error_once(error, told):
    origin = Origin("survey.toml")
    with pytest.raises(type(error)) as caught, origin.located("budget"), origin.located("protocol"):
        raise error
    assert str(caught.value) == told


def _rebuilt(path: Path) -> list[str]:
    """Calls of ``type(error)(...)``: of a kind that is not known, only the text can be changed."""
    return [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Call)
        and isinstance(node.func.func, ast.Name)
        and node.func.func.id == "type"
        and "err" in ast.unparse(node.func)
    ]


def test_modules_never_rebuild_errors_to_prefix_text():
    assert not [site for path in sorted(SOURCE.rglob("*.py")) for site in _rebuilt(path)]


def test_survey_has_one_site_that_locates_errors():
    """Besides a graph's file, which names itself wherever it is read."""
    sites = [
        f"{path.name}: {ast.unparse(node.func)}"
        for path in sorted((SOURCE / "survey").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("error.located", "located")
    ]
    assert sorted(set(sites)) == ["parse.py: error.located", "people.py: located"]
