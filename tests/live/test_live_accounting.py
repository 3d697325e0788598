"""Costs of an offer: recomputed from its bytes, alone and with people who collude."""

from __future__ import annotations

from typing import Any

import pytest

from incrowd.live import task as tasks
from incrowd.live.accounting import Request, recompute
from incrowd.live.admission import Offer
from incrowd.live.keys import Role
from incrowd.live.reasons import Reason
from incrowd.protocols.api import Protocol
from incrowd.protocols.local import Local
from incrowd.protocols.runtime.actor import CURATOR
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import KRR
from tests.live.office import DELTA, EVERYONE, NOW, PEOPLE, QUESTION, Office, refused, walk

COIN = KRR(categories=2, epsilon=1.0)


@pytest.fixture(scope="module")
def office() -> Office:
    return Office()


def offered(office: Office, protocol: Protocol, **changes: Any) -> Offer:
    return office.examine(office.proposal(protocol), **changes)


def stated(protocol: Protocol, view: str, colluders: int = 0) -> tuple[float, float]:
    return protocol.guarantee(view, colluders).epsilon(DELTA), DELTA


def test_costs_without_colluders_are_the_guarantees_of_the_protocol(office: Office) -> None:
    for protocol in (walk(), TrustedShuffle(COIN, n=PEOPLE)):
        offer = offered(office, protocol)
        views = ("curator", "curator+hub", "everyone")
        assert offer.costs.views == {view: stated(protocol, view) for view in views}
        assert offer.costs.local == stated(protocol, "everyone")
        assert offer.charged(0) is offer.costs


def test_costs_never_follow_a_promise_that_is_too_high(office: Office) -> None:
    """What is charged is recomputed, not what a curator chose to state."""
    proposal = office.proposal()
    higher = [tasks.Promise(view=each.view, epsilon=9.0, delta=each.delta)
              for each in proposal.spec.promises]  # fmt: skip
    assert office.examine(proposal, promises=higher).costs == office.examine(proposal).costs


@pytest.mark.parametrize("colluders", [1, 2, PEOPLE - 1])
def test_network_shuffle_with_colluders_costs_the_local_guarantee(
    office: Office, colluders: int
) -> None:
    """They may be all the neighbours one has."""
    offer = offered(office, walk())
    assert offer.charged(colluders).views["curator"] == offer.costs.local
    assert offer.costs.views["curator"] < offer.costs.local


@pytest.mark.parametrize("colluders", [1, 2, 4])
def test_shuffle_with_colluders_costs_that_of_the_others(office: Office, colluders: int) -> None:
    found = offered(office, TrustedShuffle(COIN, n=PEOPLE)).charged(colluders)
    rest = TrustedShuffle(COIN, n=PEOPLE - colluders)
    assert found.views["curator"] == stated(rest, "curator")
    assert found.views["curator"] > stated(TrustedShuffle(COIN, n=PEOPLE), "curator")


def test_local_costs_are_the_same_with_any_colluders(office: Office) -> None:
    offer = offered(office, Local(COIN, n=PEOPLE))
    assert offer.charged(3).views == offer.costs.views


def token(office: Office, protocol: TokenWalk, colluders: int) -> dict[str, tuple[float, float]]:
    proposal = office.proposal(Local(COIN, n=PEOPLE))
    courier = office.authority.issue(f"courier-{colluders}-{protocol.topology}",
                                     Role.helper)  # fmt: skip
    signed = office.signed(
        proposal,
        protocol=protocol.kind,
        questions=tasks.describe(protocol, QUESTION, "Do you cycle?", "cycles"),
        helpers={CURATOR: office.curator.record(), "courier": courier.record()},
        promises=[tasks.Promise(view=view, epsilon=1e6, delta=DELTA) for view in protocol.views],
    )
    return recompute(Request(signed, None, colluders=colluders)).views


def test_token_on_a_hidden_path_costs_that_of_the_others(office: Office) -> None:
    protocol = TokenWalk(COIN, n=PEOPLE, steps=6)
    found = token(office, protocol, 2)
    assert found["curator"] == stated(protocol, "curator", 2)
    assert found["curator"] > stated(protocol, "curator")


def test_token_on_a_ring_has_no_cost_but_the_local_one_with_colluders(office: Office) -> None:
    """Two neighbours see what one adds between them: nothing better than ε0 is charged."""
    protocol = TokenWalk(COIN, n=PEOPLE, topology="ring", laps=1)
    found = token(office, protocol, 2)
    assert "curator" not in found
    assert found["everyone"] == stated(protocol, "everyone")


def test_colluders_that_leave_nobody_have_no_cost_but_the_local_one(office: Office) -> None:
    found = offered(office, TrustedShuffle(COIN, n=PEOPLE)).charged(PEOPLE)
    assert "curator" not in found.views


def test_start_among_fewer_people_costs_what_they_pay(office: Office) -> None:
    """A start may leave honest people out: the same colluders are then more of the crowd."""
    offer = offered(office, TrustedShuffle(COIN, n=PEOPLE))
    started = offer.started(office.start(offer, [0, 1, 3, 4, 5]), NOW)
    fewer = TrustedShuffle(COIN, n=PEOPLE - 1)
    assert started.costs.views["curator"] == stated(fewer, "curator")
    assert started.charged(2).views["curator"] == stated(fewer, "curator", 2)
    whole = offer.started(office.start(offer, EVERYONE), NOW)
    assert whole.costs == offer.costs
    assert whole.charged(2) == offer.charged(2)


def test_start_that_promises_too_much_is_refused(office: Office) -> None:
    offer = offered(office, TrustedShuffle(COIN, n=PEOPLE))
    start = office.start(offer, [0, 1, 3, 4, 5], promises=offer.spec.promises)
    refused(Reason.unproven, lambda: offer.started(start, NOW), "only")
