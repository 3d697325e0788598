"""A8: offers whose accounting would never end, from a curator that is certified.

Static limits refuse them before anything is built or computed; accounting that would take long in
spite of them is ended by the operating system, and other surveys are joined meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from incrowd.live import accounting, admission
from incrowd.live import task as tasks
from incrowd.live.accounting import MOST_CATEGORIES, MOST_PEOPLE, Request
from incrowd.live.keys import Role
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.sandbox import Sandbox
from incrowd.live.task import Promise
from incrowd.protocols.settings import public_settings
from incrowd.protocols.token_walk import TokenWalk
from incrowd.randomizers import KRR
from tests.live.crowds import Crowd, crowd, until
from tests.live.office import PEOPLE, Office, refused
from tests.live.specs import changed
from tests.live.worlds import LiveHub

ENDLESS = 2**31 - 1
COIN = {"kind": "krr", "categories": 2, "epsilon": 1.0}


def token(**parameters: Any) -> dict[str, Any]:
    """A walk of tokens that promises nothing, so that every guarantee is good enough."""
    walk = TokenWalk(KRR(categories=2, epsilon=1.0), n=PEOPLE, steps=10)
    everyone = ("curator", "curator+hub", "everyone", "peer", "peer+hub")
    return {
        "protocol": "token-walk",
        "parameters": {**msgspec.to_builtins(public_settings(walk)), **parameters},
        "graph": None,
        "promises": [Promise(view=view, epsilon=1e300, delta=0.05) for view in everyone],
    }


OFFERS = {
    "rounds of a walk": {"parameters": {"n": PEOPLE, "rounds": ENDLESS}},
    "rounds of reports": {"protocol": "local", "parameters": {"n": PEOPLE, "rounds": ENDLESS}},
    "rounds as a float": {"parameters": {"n": PEOPLE, "rounds": float(ENDLESS)}},
    "steps": token(steps=ENDLESS),
    "tokens": token(steps=10, tokens=ENDLESS),
    "steps of all tokens": token(steps=9_999, tokens=10**6),
    "laps": token(topology="ring", laps=10**5),
    "sources": {"protocol": "scrambled-query", "parameters": {"n": PEOPLE, "sources": ENDLESS}},
    "any number": {"parameters": {"n": PEOPLE, "random_peers": ENDLESS}},
    "rates": {"protocol": "check-in", "parameters": {"rates": [0.5] * (MOST_PEOPLE + 1)}},
    "randomizer": {"randomizer": {"kind": "hadamard", "categories": ENDLESS, "epsilon": 1.0}},
    "categories": {
        "task": {"kind": "histogram", "categories": [str(n) for n in range(MOST_CATEGORIES + 1)]}
    },
    "people": {"people": MOST_PEOPLE + 1},
}


@pytest.mark.parametrize("changes", OFFERS.values(), ids=OFFERS)
def test_endless_offer_is_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    def never(*words: Any, **options: Any) -> None:
        raise AssertionError("something was built or computed")

    office = Office()
    proposal = office.proposal()
    for place, name in ((admission, "recompute"), (admission, "build"), (tasks, "decode_roster")):
        monkeypatch.setattr(place, name, never)
    refused(Reason.oversized, lambda: office.examine(proposal, **changes))


def test_graph_above_the_limit_is_refused_unread() -> None:
    office = Office()
    proposal = office.proposal()
    graph = bytes(16 + 8 * (MOST_PEOPLE + 1) + 8 * accounting.MOST_EDGES + 1)
    refused(
        Reason.oversized,
        lambda: office.read(tasks.encode_signed(proposal.signed), proposal.roster, graph),
        "edges",
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """The accounting, with a second of CPU time in place of thirty."""
    made = Sandbox("incrowd.live.accounting:reply", cpu_seconds=1)
    monkeypatch.setattr(accounting, "_sandbox", lambda: made)
    yield made
    made.close()


LONG = token(steps=1000, tokens=100)
"""Within the static limits, and ten seconds to account for."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("endless-offers"))
    yield hub
    hub.stop()


async def hostile(people: Crowd, changes: dict[str, Any]) -> bytes:
    """Offer the crowd's own survey with these changes, as a survey of its own."""
    proposal = people.proposal()
    spec = changed(proposal.spec, **{**changes, "randomizer": COIN})
    (courier,) = people.hub.deployment.parties(1, Role.helper, f"courier-{spec.survey.hex()}-")
    await people.host.hub.enrol(courier.record())
    helpers = {**spec.helpers, "courier": courier.record()}
    spec = msgspec.structs.replace(spec, helpers=helpers)
    signed = tasks.encode_signed(tasks.sign_task(spec, people.curator.keys.identity))
    await people.host.hub.offer(signed, proposal.roster, None)
    return spec.survey


@pytest.mark.usefixtures("impatient")
def test_devices_decline_endless_offers_and_join_the_others(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            process = await people.process("crowd", range(PEOPLE))
            endless = await hostile(people, token(steps=10, tokens=ENDLESS))
            long = await hostile(people, LONG)
            honest = await people.offered()
            await people.joined(honest)
            await until(lambda: None not in process.refusals(endless) + process.refusals(long))
            assert set(process.refusals(endless)) == {"oversized"}
            assert set(process.refusals(long)) == {"unproven"}
            assert process.refusals(honest.survey) == [None] * PEOPLE
            assert process.silent(endless)
            assert process.silent(long)

    asyncio.run(main())


@pytest.mark.usefixtures("impatient")
def test_accounting_that_takes_too_long_is_refused() -> None:
    office = Office()
    proposal = office.proposal()
    helpers = {**proposal.spec.helpers, "courier": office.shuffler.record()}
    signed = office.signed(proposal, **LONG, randomizer=COIN, helpers=helpers)
    with pytest.raises(Rejected, match="takes more than") as caught:
        accounting.recompute(Request(signed, None))
    assert caught.value.reason is Reason.unproven
