"""A16: endpoints that make a device knock at services of its own machine or network."""

from __future__ import annotations

import asyncio

import pytest

from incrowd.live.policy import NetworkRule
from incrowd.live.transports.base import Unreachable
from tests.live.worlds import Alone, DirectWorld, opened, play

NEVER = ["169.254.169.254", "224.0.0.1", "0.0.0.0", "[fe80::1]", "[ff02::1]", "[::]"]
UNLISTED = ["127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "[::1]", "[::ffff:127.0.0.1]"]
LISTED = NetworkRule(dial=("127.0.0.0/8", "10.0.0.0/8", "::1/128"))


def dialled(hub, root, monkeypatch, endpoint: str, rule: NetworkRule) -> tuple[list[str], int]:
    """Addresses that a whole node connects to, and connections that a service here has had."""
    world = DirectWorld(hub, root)
    tried: list[str] = []
    reached: list[int] = []
    honest = asyncio.open_connection

    async def noted(host: str, port: int, **options: object):
        tried.append(host)
        if host != "127.0.0.1":
            raise OSError("nothing of this test leaves the machine")
        return await honest(host, port, **options)

    async def scene() -> None:
        def visited(reader: object, writer: asyncio.StreamWriter) -> None:
            reached.append(1)
            writer.transport.abort()

        service = await asyncio.start_server(visited, "127.0.0.1", 0)
        port = service.sockets[0].getsockname()[1]
        monkeypatch.setattr(asyncio, "open_connection", noted)
        victim = Alone(world, 0, dial=rule.allows, patience=5.0)
        liar = world.hub.connection(world.poll.people[1])
        await liar.open()
        assert await liar.announce(world.survey, f"{endpoint}:{port}") is None
        async with opened(victim):
            (cell,) = world.cells(0, 1, 1)
            with pytest.raises(Unreachable):
                await victim.send([cell])
        await liar.close()
        service.close()
        await service.wait_closed()
        monkeypatch.undo()

    play(world, scene)
    return tried, len(reached)


@pytest.mark.parametrize("endpoint", [*NEVER, *UNLISTED])
def test_device_without_listed_networks_dials_no_private_address(
    hub, tmp_path, monkeypatch, endpoint
):
    assert dialled(hub, tmp_path, monkeypatch, endpoint, NetworkRule()) == ([], 0)


@pytest.mark.parametrize("endpoint", NEVER)
def test_device_with_listed_networks_never_dials_link_local_or_multicast(
    hub, tmp_path, monkeypatch, endpoint
):
    assert dialled(hub, tmp_path, monkeypatch, endpoint, LISTED) == ([], 0)


def test_device_dials_what_its_policy_lists(hub, tmp_path, monkeypatch):
    tried, reached = dialled(hub, tmp_path, monkeypatch, "127.0.0.1", LISTED)
    assert set(tried) == {"127.0.0.1"}
    assert reached >= 1


def test_network_that_is_never_dialled_cannot_be_listed():
    for each in ("169.254.0.0/16", "224.0.0.0/4", "fe80::/10"):
        with pytest.raises(ValueError, match="never dialled"):
            NetworkRule(dial=(each,))
