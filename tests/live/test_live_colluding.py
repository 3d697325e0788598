"""Colluders that a policy assumes: a device reserves what a survey costs against them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from incrowd.live.policy import CrowdRule, Policy
from tests.live.crowds import crowd
from tests.live.policies import wide
from tests.live.worlds import LiveHub

PEOPLE = 5


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("colluding"))
    yield hub
    hub.stop()


def assuming(share: float, curator: bytes, own: float | None = None) -> Policy:
    """A wide policy with this share, and another in the curator's entry where one is given."""
    policy = wide(curator)
    (entry,) = policy.curator
    return msgspec.structs.replace(
        policy,
        crowd=CrowdRule(min=1, assume_colluding=share),
        curator=(msgspec.structs.replace(entry, assume_colluding=own),),
    )


def test_walk_reserves_the_local_guarantee_unless_nobody_is_assumed_to_collude(
    hub: LiveHub, tmp_path: Path
) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            shares = {"none": (0.0, None), "some": (0.1, None), "trusted": (0.1, 0.0)}
            processes = {
                name: await people.process(
                    name, [place], policy=lambda key, each=each: assuming(each[0], key, each[1])
                )
                for place, (name, each) in enumerate(shares.items())
            }
            rest = await people.process("rest", range(len(shares), PEOPLE))
            proposal = await people.offered()
            await people.joined(proposal)
            promised = {each.view: each.epsilon for each in proposal.spec.promises}
            found = {}
            for name, process in [*processes.items(), ("rest", rest)]:
                device = next(iter(process.devices.values()))
                (held,) = process.host.ledger.standing(device.identity, people.host.time()).reserved
                found[name] = held.cost("curator")[0]
                assert held.local[0] == promised["everyone"]
            assert found["some"] == promised["everyone"]
            assert found["none"] == found["trusted"] == found["rest"] == promised["curator"]
            assert promised["curator"] < promised["everyone"]

    asyncio.run(main())
