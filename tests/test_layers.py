"""The shape of the package: imports point downwards, and importing it is cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import incrowd
from incrowd.protocols import PROTOCOLS

SOURCE = Path(incrowd.__file__).parent

# Lower layers come first; a module may import from its own layer and from those below.
LAYERS = [
    {
        *("blocks", "checks", "display", "errors", "extras", "plugins", "randomness", "toml"),
        *("views", "_version"),
    },
    {"compiled", "data", "randomizers", "graphs"},
    {"privacy", "tasks"},
    {"protocols"},
    {"sim", "live"},
    {"report"},
    {"survey"},
    {"cli"},
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            if node.module == "incrowd":
                found |= {f"incrowd.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("incrowd.")}


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    layer = path.relative_to(SOURCE).parts[0]
    for name in _imports(path):
        target = name.split(".")[1]
        assert HEIGHT[target] <= HEIGHT[layer], f"{layer} must not import {name}"


def test_blocks_import_nothing_of_the_package():
    assert not _imports(SOURCE / "blocks.py")


OUTSIDE = [path for path in MODULES if path.relative_to(SOURCE).parts[0] != "protocols"]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_except_registry_name_no_protocol(path):
    rooms = tuple(each.target.rpartition(".")[0] for each in PROTOCOLS.plugins().values())
    assert not [name for name in _imports(path) if name.startswith(rooms)]


def _closure(*names: str) -> set[str]:
    """Modules of the package that these load, themselves and parent packages included.

    Imports inside functions count: they run sooner or later.
    """
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        path = _path_of(name)
        if name in found or not path.exists():
            continue  # What is no module is a name that one defines.
        found.add(name)
        todo += _imports(path)
        parent = name.rpartition(".")[0]
        # The package itself loads its public names only when they are used.
        todo += [parent] if parent != "incrowd" else []
        todo += [f"{each.module}.{alias.name}" for each, alias in _imported_names(path)]
    return found


def _imported_names(path: Path) -> list[tuple[ast.ImportFrom, ast.alias]]:
    return [
        (node, alias)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("incrowd")
        for alias in node.names
    ]


DECIDING = ("incrowd.live.decide", "incrowd.live.policy", "incrowd.live.policy_file")
VALUES = ("incrowd.live.answers", "incrowd.tasks", "incrowd.randomizers", "incrowd.protocols")
"""What holds or encodes an answer."""


def _holds_values(names: set[str]) -> set[str]:
    return {each for each in names if each.startswith(VALUES)}


def test_decisions_and_policies_load_no_answers():
    loaded = _closure(*DECIDING)
    assert loaded >= {"incrowd.live.reasons", "incrowd.errors", *DECIDING}
    assert not _holds_values(loaded)
    outside = {
        alias.name.partition(".")[0] if isinstance(node, ast.Import) else node.module or ""
        for name in loaded
        for node in ast.walk(ast.parse(_path_of(name).read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert "numpy" not in {each.partition(".")[0] for each in outside}


def _path_of(name: str) -> Path:
    file = SOURCE.parent.joinpath(*name.split("."))
    return file / "__init__.py" if file.is_dir() else file.with_suffix(".py")


def test_modules_loaded_by_a_device_hold_answers():
    """The search above sees through functions and packages: a device cannot do without tasks."""
    assert _holds_values(_closure("incrowd.live.member")) >= {"incrowd.tasks.base"}
    assert "incrowd.live.admission" in _closure("incrowd.cli.curator"), "imports in functions count"


def test_importing_decisions_loads_no_values():
    code = (
        f"import sys, {', '.join(DECIDING)}; "
        f"print([m for m in sys.modules if m == 'numpy' or m.startswith({VALUES!r})])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist():
    for name in incrowd.__all__:
        assert getattr(incrowd, name) is not None
    assert set(dir(incrowd)) == set(incrowd.__all__)


def test_exports_of_built_in_protocols_are_public():
    for plugin in PROTOCOLS.built_in().values():
        assert {plugin.target.partition(":")[2], *plugin.exports} <= set(incrowd.__all__)


def test_declarations_of_protocols_load_no_values():
    """Views ask them about helpers, also where decisions are taken."""
    code = (
        "import sys; from incrowd.views import view_of; view_of('curator+shuffler+scrambler'); "
        "print([m for m in ('numpy', 'msgspec', 'incrowd.tasks', 'incrowd.randomizers', "
        "'incrowd.protocols.api') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_loads_nothing_heavy():
    heavy = ["numba", "dp_accounting", "matplotlib", "scipy.stats", "networkx", "torch"]
    heavy += ["narwhals", "duckdb", "pandas", "polars", "pyarrow", "cryptography"]
    code = f"import incrowd, incrowd.data, sys; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
