"""Generated pieces about the shape of the code: its rooms, its interfaces, and plugins by example.

All of it is read off the code: rooms from the packages, members and capabilities from the classes,
and the example from a package outside of incrowd that the tests install and run.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from pieces import ROOT, first_line, piece, table

from incrowd import survey
from incrowd.protocols import capabilities
from incrowd.protocols.api import Protocol
from incrowd.protocols.registry import PROTOCOLS

SOURCE = ROOT / "src" / "incrowd"
_SURVEY = ("prepared", "parse", "questions", "people", "pipeline")
OUTSIDE = ROOT / "tests" / "plugins" / "outside"


def _opening(path: Path) -> str:
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return told.split("\n")[0].replace("``", "`")


@piece
def rooms() -> str:
    """Every package, and the modules beside them, by their opening lines."""
    rows = [
        (f"`{path.parent.name}/`", _opening(path)) for path in sorted(SOURCE.glob("*/__init__.py"))
    ]
    rows += [(f"`{path.name}`", _opening(path)) for path in sorted(SOURCE.glob("[a-z]*.py"))]
    return table(("room", "opens with"), rows)


@piece
def protocol_rooms() -> str:
    """Modules that several protocols have under the same name."""
    counted: dict[str, list[str]] = {}
    for path in sorted((SOURCE / "protocols").glob("*/*")):
        if path.name != "__init__.py" and (path.suffix == ".py" or (path / "__init__.py").exists()):
            counted.setdefault(path.stem, []).append(path.parent.name)
    shared = {name: homes for name, homes in counted.items() if len(homes) > 1}
    return table(
        ("room of a protocol", "had by"),
        [(f"`{name}`", f"{len(homes)}") for name, homes in sorted(shared.items())],
    )


@piece
def survey_pipeline() -> str:
    """The functions that a survey goes through, in the order in which an example calls them."""
    called: dict[Callable[..., Any], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        function = frame.f_globals.get(name)
        room = module.removeprefix("incrowd.survey.")
        own = getattr(function, "__code__", None) is frame.f_code
        if event == "call" and own and room in _SURVEY and not name.startswith("_"):
            called[function] = None

    sys.setprofile(note)
    try:
        survey.load(ROOT / "examples" / "commute.toml")
    finally:
        sys.setprofile(None)
    wide = max(len(each.__name__) for each in called)
    lines = ["survey.toml"]
    for each in called:
        returned = str(each.__annotations__["return"])
        told = f"{each.__name__:<{wide}}  {each.__module__.removeprefix('incrowd.survey.'):<9}"
        lines.append(f"  │ {told}  → {returned}")
    drawn = "\n".join(lines)
    return f"```text\n{drawn}\n```"


@piece
def protocol_members() -> str:
    """The interface of a protocol."""
    return table(
        ("member", "what it is"),
        [(f"`{name}`", first_line(value)) for name, value in _members(Protocol)],
    )


def _members(kind: type) -> Iterator[tuple[str, object]]:
    for name, value in vars(kind).items():
        if not name.startswith("_") and (
            callable(value) or isinstance(value, property | classmethod)
        ):
            yield name, getattr(value, "__func__", value)


@piece
def protocol_capabilities() -> str:
    """Mixins, and the protocols that have them."""
    rows = []
    for name, kind in inspect.getmembers(capabilities, inspect.isabstract):
        if kind.__module__ == capabilities.__name__:
            had = [each for each in PROTOCOLS.built_in() if issubclass(PROTOCOLS.load(each), kind)]
            own = ", ".join(f"`{member}`" for member, _ in _members(kind))
            rows.append((f"`{name}`", first_line(kind), own, ", ".join(had)))
    return table(("capability", "what it is", "members", "had by"), rows)


def _shown(path: Path, language: str) -> str:
    text = path.read_text(encoding="utf-8").strip()
    return f"`{path.relative_to(OUTSIDE)}`:\n\n```{language}\n{text}\n```"


@piece
def toy_declarations() -> str:
    """Declarations and entry points of a package outside of incrowd."""
    (entries,) = OUTSIDE.glob("*.dist-info/entry_points.txt")
    return f"{_shown(OUTSIDE / 'toy_crowd/__init__.py', 'py')}\n\n{_shown(entries, 'ini')}"


@piece
def toy_randomizer() -> str:
    """A randomizer of another package."""
    return _shown(OUTSIDE / "toy_crowd/coin.py", "py")


@piece
def toy_task() -> str:
    """A task of another package."""
    return _shown(OUTSIDE / "toy_crowd/percent.py", "py")


@piece
def toy_protocol() -> str:
    """A protocol of another package."""
    shown = (_shown(OUTSIDE / f"toy_crowd/{each}.py", "py") for each in ("postbox", "price"))
    return "\n\n".join(shown)
