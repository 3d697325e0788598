"""A package of another author, installed beside incrowd for as long as one test takes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from incrowd.protocols import PROTOCOLS
from incrowd.randomizers import RANDOMIZERS
from incrowd.tasks import TASKS

OUTSIDE = Path(__file__).parent / "outside"
REGISTRIES = (PROTOCOLS, RANDOMIZERS, TASKS)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """``outside`` on the path, with its entry points."""
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(OUTSIDE))
        _refresh()
        yield patch
    _refresh()


def _refresh() -> None:
    for registry in REGISTRIES:
        registry.refresh()
