"""Concrete classes are asked, not recognised.

A randomizer, task, answer or privacy curve from outside the package has a class that no line here
knows. So code learns about one from its methods and properties, never from its class; the abstract
bases may be tested for.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import incrowd
from incrowd import randomizers
from incrowd.privacy.guarantee import Profile
from incrowd.randomizers import Randomizer
from incrowd.tasks import Answer, Task

SOURCE = Path(incrowd.__file__).parent
ROOTS = (Randomizer, Task, Answer, Profile)
CHECKED = (
    "protocols", "tasks", "survey", "report", "cli", "privacy", "graphs", "sim", "randomizers",
)  # fmt: skip
TESTS = {"isinstance", "issubclass", "checks.instance"}


def _modules() -> list[str]:
    return [
        each.name
        for each in pkgutil.walk_packages([str(SOURCE)], "incrowd.")
        if each.name.split(".")[1] in CHECKED
    ]


@cache
def _concrete() -> frozenset[type]:
    """All subclasses of the bases that an object can have as its class."""
    for name in _modules():
        importlib.import_module(name)
    return frozenset(each for root in ROOTS for each in _descendants(root) if not _abstract(each))


def _descendants(root: type) -> Iterator[type]:
    for each in root.__subclasses__():
        yield each
        yield from _descendants(each)


def _abstract(kind: type) -> bool:
    if issubclass(kind, msgspec.Struct):
        # A description that can be read has a name of its own; else it is called like its class.
        return kind.__struct_config__.tag == kind.__name__
    return inspect.isabstract(kind)


def _named(tree: ast.Module, module: Any) -> dict[str, Any]:
    """Names of a module, together with those that its functions import."""
    found = dict(vars(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("incrowd"):
            home = importlib.import_module(node.module or "")
            for alias in node.names:
                if hasattr(home, alias.name):
                    found[alias.asname or alias.name] = getattr(home, alias.name)
    return found


def _classes(node: ast.AST, named: dict[str, Any]) -> Iterator[type]:
    """The concrete classes that an expression names, alone, in a union or in a tuple."""
    if isinstance(node, ast.BinOp):
        yield from _classes(node.left, named)
        yield from _classes(node.right, named)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for each in node.elts:
            yield from _classes(each, named)
    else:
        yield from _expanded(_value(node, named))


def _value(node: ast.AST, named: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return named.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, named), node.attr, None)
    return None


def _expanded(value: Any) -> Iterator[type]:
    if isinstance(value, types.UnionType):
        value = get_args(value)
    if isinstance(value, tuple):
        for each in value:
            yield from _expanded(each)
    elif isinstance(value, type) and value in _concrete():
        yield value


def _recognised(tree: ast.Module, module: Any) -> list[tuple[int, str]]:
    """Lines that test for a concrete class, with its name."""
    named = _named(tree, module)
    found = []
    for node in ast.walk(tree):
        tested: list[ast.AST] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in TESTS:
            tested = list(node.args[1:])
        elif isinstance(node, ast.Compare):
            tested = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            tested = [node.cls]
        found += [(node.lineno, kind.__name__) for each in tested for kind in _classes(each, named)]
    return found


def _offences(name: str) -> list[tuple[str, int, str]]:
    module = importlib.import_module(name)
    path = Path(inspect.getfile(module))
    where = path.relative_to(SOURCE).as_posix()
    return [(where, line, kind) for line, kind in _recognised(ast.parse(path.read_text()), module)]


def test_modules_test_for_no_concrete_class():
    found = [
        f"{where}:{line}: {kind}" for name in _modules() for where, line, kind in _offences(name)
    ]
    assert not found, "ask a method or a property of the base instead:\n" + "\n".join(found)


def test_concrete_classes_are_known_and_bases_are_not():
    names = {each.__name__ for each in _concrete()}
    assert names >= {"KRR", "Generic", "Unstated", "Redirect", "Query", "Release", "Released"}
    assert names >= {"QueryAnswer", "GaussianProfile", "ComposedProfile", "GroupProfile"}
    assert not names & {"Randomizer", "Categorical", "Task", "Answer", "Profile"}


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(x, KRR)",
        "isinstance(x, KRR | int)",
        "isinstance(x, (int, KRR))",
        "isinstance(x, SEVERAL)",
        "isinstance(x, randomizers.KRR)",
        "issubclass(x, KRR)",
        "checks.instance(x, KRR, 'x', 'KRR()')",
        "type(x) is KRR",
        "type(x) == KRR",
        "type(x) in (int, KRR)",
        "x is not KRR",
        "def f(x):\n    from incrowd.randomizers import KRR as Own\n    return isinstance(x, Own)",
        "match x:\n    case KRR():\n        pass",
    ],
)
def test_class_tests_of_all_forms_are_found(code):
    module = types.ModuleType("sample")
    vars(module).update(KRR=randomizers.KRR, SEVERAL=(randomizers.KRR, int))
    vars(module).update(randomizers=randomizers)
    assert [kind for _, kind in _recognised(ast.parse(code), module)] == ["KRR"]


@pytest.mark.parametrize("code", ["isinstance(x, Randomizer)", "KRR(epsilon=1)", "x is None"])
def test_abstract_bases_and_constructors_are_allowed(code):
    module = types.ModuleType("sample")
    vars(module).update(KRR=randomizers.KRR, Randomizer=Randomizer)
    assert not _recognised(ast.parse(code), module)


def _public_methods() -> Iterator[tuple[type, str, Any]]:
    for name in _modules():
        for kind in vars(importlib.import_module(name)).values():
            if isinstance(kind, type) and kind.__module__ == name and kind.__name__[0] != "_":
                for member, value in vars(kind).items():
                    function = getattr(value, "__func__", getattr(value, "fget", value))
                    if inspect.isfunction(function) and not member.startswith("_"):
                        yield kind, member, function


def test_public_method_has_docstring_or_overrides_described_method():
    bare = [
        f"{kind.__module__}.{kind.__name__}.{member}"
        for kind, member, function in _public_methods()
        if function.__module__ == kind.__module__ and not inspect.getdoc(getattr(kind, member))
    ]
    assert not bare
