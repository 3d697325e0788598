"""Registries of randomizers, tasks and protocols by name, built in or from other packages.

A plugin is a light declaration: the name of a class, its place, and the facts that lists and checks
need before it is imported. Every registry lists the built-in ones. Other packages add theirs by
entry points: a distribution declares ``name = "module:PLUGIN"`` in the registry's group. Entry
points are scanned only for complete lists and for names that are not built in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from incrowd.errors import InvalidParameter, PluginInvalid

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """Declaration of a class under a name."""

    kind: str
    """Name in survey files, on the command line and on the wire."""
    target: str
    """Place of the class, as ``module:Class``."""


P = TypeVar("P", bound=Plugin)


def target(place: str) -> Any:
    """Import and return the object at ``module:name``."""
    module, name = place.split(":")
    return getattr(import_module(module), name)


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` that imports names from their modules when used."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find


class Registry(Generic[P]):
    """Plugins of one type by their kinds: built-in ones first, then those of other packages."""

    def __init__(
        self, group: str, word: str, plugin_type: type[P], built_in: Iterable[P | str]
    ) -> None:
        """``built_in`` holds plugins or their places; ``word`` names one of them in errors."""
        self.group, self._word, self._type = group, word, plugin_type
        self._listed = tuple(built_in)
        self._built_in: dict[str, P] | None = None
        self._outside: dict[str, P] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self.plugins())

    def __len__(self) -> int:
        return len(self.plugins())

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str) and self._get(kind) is not None

    def plugins(self) -> Mapping[str, P]:
        """Return all plugins by kind, in the order of lists."""
        return self._here() | self._elsewhere()

    def built_in(self) -> Mapping[str, P]:
        """Return the plugins of this package by kind."""
        return self._here()

    def find(self, kind: str) -> P:
        """Return the plugin of this kind; refuse an unknown one."""
        found = self._get(kind)
        if found is None:
            known = ", ".join(sorted(self))
            raise InvalidParameter(f"unknown {self._word} {kind!r}: choose one of {known}")
        return found

    def load(self, kind: str) -> Any:
        """Import and return the class of this kind."""
        plugin = self.find(kind)
        if kind in self._here():
            return target(plugin.target)
        try:
            return target(plugin.target)
        except (ImportError, AttributeError, ValueError) as error:
            raise PluginInvalid(
                f"{self._word} {kind!r} of another package cannot be loaded from "
                f"{plugin.target}: {error}"
            ) from error

    def load_all(self) -> dict[str, Any]:
        """Import and return all classes by kind."""
        return {kind: self.load(kind) for kind in self}

    def refresh(self) -> None:
        """Forget the scanned entry points, as after an installation."""
        self._outside = None

    def _get(self, kind: str) -> P | None:
        return self._here().get(kind) or self._elsewhere().get(kind)

    def _here(self) -> dict[str, P]:
        if self._built_in is None:
            loaded = [target(each) if isinstance(each, str) else each for each in self._listed]
            self._built_in = {each.kind: each for each in loaded}
        return self._built_in

    def _elsewhere(self) -> dict[str, P]:
        if self._outside is None:
            from importlib.metadata import entry_points

            found: dict[str, P] = {}
            for entry in sorted(entry_points(group=self.group), key=lambda each: each.name):
                plugin = self._read(entry)
                if plugin.kind in found or plugin.kind in self._here():
                    raise PluginInvalid(
                        f"{self._word} {plugin.kind!r} is declared twice, the second time by "
                        f"{_source(entry)}: uninstall one of the packages"
                    )
                found[plugin.kind] = plugin
            self._outside = found
        return self._outside

    def _read(self, entry: EntryPoint) -> P:
        try:
            plugin = entry.load()
        except (ImportError, AttributeError) as error:
            raise PluginInvalid(
                f"{self._word} {entry.name!r} of {_source(entry)} cannot be loaded: {error}"
            ) from error
        if not isinstance(plugin, self._type) or plugin.kind != entry.name:
            raise PluginInvalid(
                f"{entry.value} of {_source(entry)} must be a {self._type.__name__} of the kind "
                f"{entry.name!r}"
            )
        return plugin


def _source(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
