"""A hub for the attacks of one module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.worlds import LiveHub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.stop()
