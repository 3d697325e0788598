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
    {"errors", "checks", "randomness", "_version"},
    {"randomizers", "graphs"},
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


OUTSIDE = [path for path in MODULES if path.relative_to(SOURCE).parts[0] != "protocols"]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_registry_names_protocols(path):
    rooms = tuple(home.split(":")[0] for home in PROTOCOLS.values())
    assert not [name for name in _imports(path) if name.startswith(rooms)]


def test_modules_stay_small():
    long = {
        str(path.relative_to(SOURCE)): count
        for path in SOURCE.rglob("*.py")
        if (count := len(path.read_text().splitlines())) > 500
    }
    assert not long


def test_public_names_exist():
    for name in incrowd.__all__:
        assert getattr(incrowd, name) is not None
    assert set(dir(incrowd)) == set(incrowd.__all__)


def test_import_loads_nothing_heavy():
    heavy = ["numba", "dp_accounting", "matplotlib", "scipy.stats", "networkx", "torch"]
    code = f"import incrowd, sys; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
