"""Size and import time of every package that users install, and the size of core and extras.

Sizes are those of the files that an installer recorded, before Python compiles them. The import
time is the processor time in which a fresh process imports all that incrowd imports of a package,
the best of several. All of them must be installed: ``pip install 'incrowd[all]'``.

    python -m benchmarks.dependencies [--out docs/figures] [--runs 5]
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from experiments.common import FIGURES, Table
from incrowd.extras import EXTRAS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "incrowd"
CORE = "core"
_SMALL = 10.0
_UNCOMPILED = "PYTHONDONTWRITEBYTECODE"
_TIMED = """
import resource, sys
def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
before = spent()
for name in sys.argv[1:]:
    __import__(name)
print(spent() - before)
"""


def declared() -> dict[str, list[Requirement]]:
    """Requirements of the core and of each extra, as pyproject.toml states them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    stated = {CORE: project["dependencies"], **{extra: extras[extra] for extra in EXTRAS}}
    return {group: [Requirement(each) for each in texts] for group, texts in stated.items()}


def closure(requirements: Iterable[Requirement]) -> set[str]:
    """Distributions that requirements bring into this environment, their own included."""
    found: set[tuple[str, str]] = set()
    todo = list(requirements)
    while todo:
        each = todo.pop()
        for extra in ("", *each.extras):
            if (key := (canonicalize_name(each.name), extra)) not in found:
                found.add(key)
                todo += _requirements(each.name, extra)
    return {name for name, _ in found}


def megabytes(names: Iterable[str]) -> float:
    """Size of the files that the installer recorded, without what Python compiles of them."""
    places = (
        Path(str(file.locate()))
        for name in names
        for file in _distribution(name).files or ()
        if file.suffix != ".pyc"
    )
    return sum(each.stat().st_size for each in places if each.is_file()) / 1e6


def imported(source: Path = SOURCE) -> dict[str, set[str]]:
    """Modules of other packages that the code imports, anywhere in it, by their package."""
    found: dict[str, set[str]] = {}
    for path in source.rglob("*.py"):
        for name in _imports(path):
            found.setdefault(name.partition(".")[0], set()).add(name)
    return found


def import_seconds(modules: Iterable[str], runs: int) -> float:
    """Processor time of importing modules in a fresh process, the best of several."""
    environment = {key: value for key, value in os.environ.items() if key != _UNCOMPILED}
    words = [sys.executable, "-c", _TIMED, *sorted(modules)]

    def once() -> float:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout)

    once()  # may have to compile what it imports, and is not counted
    return min(once() for _ in range(runs))


def rows(runs: int, groups: Mapping[str, Sequence[Requirement]]) -> Iterator[tuple[str, ...]]:
    """Yield each package with its sizes and its import, then the size of core and extras."""
    used = imported()
    for group, requirements in groups.items():
        for each in requirements:
            sizes = (megabytes([each.name]), megabytes(closure([each])))
            seconds = import_seconds(used[_module(each.name, used)], runs)
            yield (f"`{each.name}`", group, *map(_digits, sizes), f"{seconds:.2f}")
    for group, requirements in groups.items():
        title = "core" if group == CORE else f"core and {group}"
        together = closure([*groups[CORE], *requirements])
        yield (f"**{title}**", "", "", _digits(megabytes(together)), "")


def table(runs: int) -> Table:
    """The table of all packages."""
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return Table(
        title="Dependencies: size and import time",
        text="Megabytes as installed, alone and with all that a package brings along, where shared "
        "packages count in each; seconds of processor time in which a fresh process imports what "
        f"incrowd imports of it. {system}.",
        columns=("package", "installed by", "MB", "MB with its needs", "import, s"),
        rows=list(rows(runs, declared())),
    )


def _requirements(name: str, extra: str) -> list[Requirement]:
    """Requirements of an installed distribution that hold here, of one extra or of none."""
    stated = map(Requirement, _distribution(name).requires or ())
    return [each for each in stated if not each.marker or each.marker.evaluate({"extra": extra})]


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _module(name: str, used: Iterable[str]) -> str:
    """The top module of a distribution, of those that the code imports."""
    files = _distribution(name).files or ()
    (only,) = {each.parts[0].partition(".")[0] for each in files} & set(used)
    return only


@cache
def _distribution(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise SystemExit(f"{name} is not installed: pip install 'incrowd[all]'") from None


def _digits(size: float) -> str:
    return f"{size:.1f}" if size < _SMALL else f"{size:.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.dependencies")
    parser.add_argument("--out", type=Path, default=FIGURES, help="directory to write into")
    parser.add_argument("--runs", type=int, default=5, help="runs of each import")
    options = parser.parse_args(arguments)
    text = table(options.runs).render("benchmarks.dependencies")
    print(text)
    (options.out / "dependencies.md").write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
