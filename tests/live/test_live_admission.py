"""What a device refuses to take part in, before anything of its owner's has left it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from incrowd.graphs import families
from incrowd.graphs.files import save
from incrowd.live import task as tasks
from incrowd.live.accounting import promises_of
from incrowd.live.admission import Offer
from incrowd.live.authority import Authority
from incrowd.live.curator import Proposal
from incrowd.live.keys import KeyRecord, PrivateKeys, Role
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.task import Join, Promise, Spec, Start
from incrowd.protocols.api import VIEWS, Protocol
from incrowd.protocols.local import Local
from incrowd.protocols.runtime.actor import CURATOR
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.settings import public_settings, settings_of
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import KRR, Laplace
from incrowd.tasks.mean import Mean
from tests.live.office import DELTA, EVERYONE, FRIENDS, NOW, PEOPLE, QUESTION, Office, refused, walk
from tests.live.specs import DESCRIBED


@pytest.fixture(scope="module")
def office() -> Office:
    return Office()


# The task.


@pytest.mark.parametrize(
    "protocol",
    [
        walk(),
        Local(KRR(categories=2, epsilon=1.0), n=PEOPLE),
        TrustedShuffle(KRR(categories=2, epsilon=1.0), n=PEOPLE),
    ],
    ids=lambda each: each.kind,
)
def test_an_honest_task_is_what_it_says(office: Office, protocol: Protocol) -> None:
    proposal = office.proposal(protocol)
    offer = office.read(tasks.encode_signed(proposal.signed), proposal.roster, proposal.graph)
    assert tasks.sign_task(offer.spec, office.curator.identity) == proposal.signed
    assert offer.protocol.kind == protocol.kind
    assert settings_of(offer.protocol) == public_settings(protocol)
    assert offer.task == QUESTION
    assert offer.digest == tasks.digest_of(proposal.signed)
    assert list(offer.places.values()) == list(range(PEOPLE))
    assert {each.view for each in offer.spec.promises} == set(VIEWS)


def test_only_the_curator_that_a_task_names_can_sign_it(office: Office) -> None:
    proposal = office.proposal()
    body, signature = proposal.signed.body, proposal.signed.signature
    other = office.authority.issue("other", Role.curator)
    forgeries = [
        tasks.Signed(body, bytes(64)),
        tasks.Signed(body, office.people[0].identity.sign(body)),
        tasks.sign_task(proposal.spec, other.identity),
        # A signature of the same key under something else, such as a start.
        tasks.Signed(body, office.curator.identity.sign(b"incrowd start 1\0" + body)),
        tasks.Signed(body.replace(b"Do you cycle?", b"Do you smoke?"), signature),
    ]
    for forgery in forgeries:
        refused(
            Reason.forged,
            lambda signed=forgery: office.read(
                tasks.encode_signed(signed), proposal.roster, proposal.graph
            ),
        )


@pytest.mark.parametrize("who", ["uncertified", "device", "helper", "of another authority"])
def test_whoever_signs_must_be_certified_as_a_curator(office: Office, who: str) -> None:
    if who == "uncertified":
        # A key of its own making behind the curator's certificate.
        keys = replace(office.curator, identity=Ed25519PrivateKey.generate())
        record = keys.record()
    elif who == "of another authority":
        keys = Authority.create().issue("census", Role.curator)
        record = keys.record()
    else:
        keys = office.people[0] if who == "device" else office.shuffler
        record = keys.record()
    spec = msgspec.structs.replace(office.proposal().spec, helpers={CURATOR: record})
    signed = tasks.encode_signed(tasks.sign_task(spec, keys.identity))
    proposal = office.proposal()
    refused(Reason.forged, lambda: office.read(signed, proposal.roster, proposal.graph))


@pytest.mark.parametrize(
    "expires",
    [NOW, NOW - 1, float("nan"), float("inf"), float("-inf")],
    ids=["now", "past", "nan", "never", "always"],
)
def test_a_task_has_an_end_and_it_lies_ahead(office: Office, expires: float) -> None:
    refused(Reason.expired, lambda: office.examine(office.proposal(), expires=expires))


def test_a_withdrawn_curator_or_helper_asks_nobody(office: Office) -> None:
    proposal = office.proposal(TrustedShuffle(KRR(categories=2, epsilon=1.0), n=PEOPLE))
    for keys in (office.curator, office.shuffler):
        refused(Reason.revoked, lambda who=keys: office.examine(proposal, revoked=[serial(who)]))


def serial(keys: PrivateKeys) -> int:
    return x509.load_der_x509_certificate(keys.certificate).serial_number


# The people.


def test_the_roster_is_the_one_that_was_signed(office: Office) -> None:
    proposal = office.proposal()
    records = [each.record() for each in office.people]
    for other in (records[:-1], records[::-1], [*records, records[0]], []):
        encoded, _ = tasks.encode_roster(other)
        refused(Reason.forged, lambda roster=encoded: office.examine(proposal, shown=roster))


def test_everyone_on_the_roster_is_somebody_else_and_certified(office: Office) -> None:
    records = [each.record() for each in office.people]
    stranger = Authority.create().issue("p5", Role.device).record()
    taken = msgspec.structs.replace(records[5], identity=records[4].identity)
    resealed = msgspec.structs.replace(records[5], hpke=records[4].hpke)
    cases: list[tuple[Reason, KeyRecord]] = [
        (Reason.forged, stranger),
        (Reason.forged, office.shuffler.record()),
        (Reason.forged, office.curator.record()),
        (Reason.forged, resealed),
        (Reason.malformed, records[4]),
        (Reason.malformed, taken),
        (Reason.malformed, msgspec.structs.replace(records[5], name="p4")),
        (Reason.forged, msgspec.structs.replace(records[5], name="somebody")),
    ]
    for reason, record in cases:
        refused(reason, lambda who=record: office.with_roster([*records[:5], who]))


def test_two_names_do_not_make_one_key_two_people(office: Office) -> None:
    record = replace(office.people[0], name="p0-again").record()
    records = [each.record() for each in office.people[:5]]
    refused(Reason.malformed, lambda: office.with_roster([*records, record]))


def test_a_revoked_person_makes_no_crowd(office: Office) -> None:
    proposal = office.proposal()
    offer = office.examine(proposal, revoked=[1, serial(office.people[3])])
    revoked = [1, serial(office.people[3])]
    refused(Reason.revoked, lambda: offer.started(office.start(offer, EVERYONE), NOW, revoked))
    for helper in offer.spec.helpers.values():
        gone = [helper.certificate_serial]
        refused(
            Reason.revoked, lambda who=gone: offer.started(office.start(offer, EVERYONE), NOW, who)
        )
    assert offer.started(office.start(offer, [0, 1, 2, 4, 5]), NOW, revoked)


def test_a_crowd_is_as_large_as_it_says(office: Office) -> None:
    proposal = office.proposal()
    refused(Reason.malformed, lambda: office.examine(proposal, min_crowd=PEOPLE + 1))
    refused(Reason.malformed, lambda: office.examine(proposal, people=PEOPLE + 1))
    few = [each.record() for each in office.people[:3]]
    refused(Reason.malformed, lambda: office.with_roster(few))


# The graph, the protocol and the randomizer.


def test_the_graph_is_the_one_that_was_signed(office: Office) -> None:
    proposal = office.proposal()
    signed = tasks.encode_signed(proposal.signed)
    other, _ = tasks.encode_graph(families.ring(PEOPLE))
    refused(Reason.forged, lambda: office.read(signed, proposal.roster, other))
    refused(Reason.malformed, lambda: office.read(signed, proposal.roster, None), "not shown")
    local = office.proposal(Local(KRR(categories=2, epsilon=1.0), n=PEOPLE))
    refused(
        Reason.malformed,
        lambda: office.read(tasks.encode_signed(local.signed), local.roster, other),
        "not signed",
    )


def test_a_graph_of_others_is_no_graph_of_these_people(office: Office) -> None:
    proposal = office.proposal()
    encoded, hashed = tasks.encode_graph(families.complete(PEOPLE + 1))
    for n in (PEOPLE, PEOPLE + 1):
        signed = office.signed(proposal, graph=hashed, **parameters(proposal, n=n))
        refused(Reason.malformed, lambda task=signed: office.read(task, proposal.roster, encoded))


def parameters(proposal: Proposal, **changes: Any) -> Mapping[str, Any]:
    return {"parameters": {**proposal.spec.questions[0].parameters, **changes}}


@pytest.mark.parametrize(
    "changes",
    [
        {"n": PEOPLE + 1},
        {"n": 2},
        {"rounds": -1},
        {"rounds": "many"},
        {"laziness": 2.0},
        {"another": 1},
        {"random_peers": 2},
        {"graph": "regular:4"},
        {"rounds": "auto"},
        {"stationary": True},
    ],
    ids=str,
)
def test_parameters_must_describe_a_walk_of_these_people(
    office: Office, changes: dict[str, Any]
) -> None:
    proposal = office.proposal()
    refused(Reason.malformed, lambda: office.examine(proposal, **parameters(proposal, **changes)))


def test_a_task_makes_no_device_read_a_file(office: Office, tmp_path: Path) -> None:
    """The name of a graph's file means something to the curator alone."""
    path = tmp_path / "friends.npz"
    save(FRIENDS, path)
    proposal = office.proposal()
    changes = parameters(proposal, graph=str(path))
    signed = office.signed(proposal, graph=None, **changes)
    refused(
        Reason.malformed, lambda: office.read(signed, proposal.roster, None), "must not name files"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "gossip"},
        {"protocol": "__init__"},
        {"randomizer": {"kind": "coin", "epsilon": 1.0}},
        {"randomizer": {"kind": ["krr"], "epsilon": 1.0}},
        {"randomizer": {"epsilon": 1.0}},
        {"randomizer": {}},
        {"randomizer": {"kind": "krr", "categories": 2, "epsilon": 1e308}},
        {"randomizer": {"kind": "krr", "categories": 2, "epsilon": -1.0}},
        {"randomizer": {"kind": "krr", "categories": 3, "epsilon": 1.0}},
        {"task": {"kind": "opinion"}},
        {"task": {"kind": {"kind": "histogram"}}},
        {"task": {"kind": "mean", "bounds": [0, 1]}},
        {"timing": Timing(round_seconds=1e300)},
        {"timing": Timing(timeout=1e300)},
    ],
    ids=str,
)
def test_what_this_software_does_not_know_is_refused(
    office: Office, changes: dict[str, Any]
) -> None:
    with pytest.raises(Rejected) as caught:
        office.examine(office.proposal(), **changes)
    assert caught.value.reason in (Reason.malformed, Reason.unproven, Reason.oversized)


def test_exactly_the_helpers_of_the_protocol(office: Office) -> None:
    proposal = office.proposal()
    for extra in ("shuffler", "device/3", "hub"):
        helpers = {**proposal.spec.helpers, extra: office.shuffler.record()}
        refused(
            Reason.malformed, lambda them=helpers: office.examine(proposal, helpers=them), "exactly"
        )
    shuffled = office.proposal(TrustedShuffle(KRR(categories=2, epsilon=1.0), n=PEOPLE))
    alone = {CURATOR: office.curator.record()}
    refused(Reason.malformed, lambda: office.examine(shuffled, helpers=alone), "exactly")
    # A second curator would be a shuffler that reports to itself.
    both = {CURATOR: office.curator.record(), "shuffler": office.curator.record()}
    refused(Reason.forged, lambda: office.examine(shuffled, helpers=both))


def test_reports_in_floating_point_are_refused(office: Office) -> None:
    noisy = Local(Laplace(epsilon=1.0), n=PEOPLE)
    signed = office.signed(
        office.proposal(Local(KRR(categories=2, epsilon=1.0), n=PEOPLE)),
        task=msgspec.to_builtins(Mean(bounds=(0, 1))),
        randomizer=msgspec.to_builtins(noisy.randomizer),
        promises=promises_of(noisy, DELTA),
    )
    roster = office.proposal().roster
    refused(Reason.unproven, lambda: office.read(signed, roster, None), "floating point")


# The promise.


def lowered(promises: list[Promise], view: str, factor: float = 0.99) -> list[Promise]:
    return [
        msgspec.structs.replace(each, epsilon=each.epsilon * (factor if each.view == view else 1))
        for each in promises
    ]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["walk", "local", "shuffle"])
def test_a_promise_one_percent_too_good_is_refused(office: Office, kind: str, view: str) -> None:
    krr = KRR(categories=2, epsilon=1.0)
    protocol = {"walk": walk(), "local": Local(krr, n=PEOPLE), "shuffle": TrustedShuffle(krr, n=6)}
    proposal = office.proposal(protocol[kind])
    stated = proposal.spec.promises
    low = lowered(stated, view)
    refused(
        Reason.unproven,
        lambda: office.examine(proposal, promises=low),
        rf"is stated against {re.escape(view)}, but only",
    )
    assert office.examine(proposal, promises=lowered(stated, view, 1.01))


def test_something_is_promised_against_everyone(office: Office) -> None:
    proposal = office.proposal()
    for view in VIEWS:
        few = [each for each in proposal.spec.promises if each.view != view]
        refused(
            Reason.unproven,
            lambda these=few: office.examine(proposal, promises=these),
            f"against {re.escape(view)}",
        )
    refused(Reason.unproven, lambda: office.examine(proposal, promises=[]))
    stated = proposal.spec.promises
    strange = [*stated, Promise(view="nobody", epsilon=1.0, delta=DELTA)]
    refused(Reason.unproven, lambda: office.examine(proposal, promises=strange))
    for each in stated:
        refused(
            Reason.malformed,
            lambda twice=each: office.examine(proposal, promises=[*stated, twice]),
            "two guarantees",
        )


@pytest.mark.parametrize("cover", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": float("nan")},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": -1.0},
        {"epsilon": 0.0},
        {"delta": 5e-324, "epsilon": 0.5},
    ],
    ids=str,
)
def test_a_promise_is_a_number(office: Office, change: dict[str, float], cover: bool) -> None:
    proposal = office.proposal()
    promises = [msgspec.structs.replace(each, **change) for each in proposal.spec.promises]
    refused(Reason.unproven, lambda: office.examine(proposal, promises=promises, cover=cover))


def test_cover_is_recomputed_too(office: Office) -> None:
    proposal = office.proposal(cover=True)
    offer = office.examine(proposal)
    assert offer.plan is not None
    hub = next(each.epsilon for each in proposal.spec.promises if each.view == "curator+hub")
    assert hub < 1.0
    refused(
        Reason.unproven,
        lambda: office.examine(proposal, promises=lowered(proposal.spec.promises, "curator+hub")),
    )
    # The promise of a covered walk is not that of a walk that everyone can watch.
    refused(Reason.unproven, lambda: office.examine(proposal, cover=False), "curator.hub")
    # And a protocol without cover traffic cannot be said to have any.
    local = office.proposal(Local(KRR(categories=2, epsilon=1.0), n=PEOPLE))
    refused(Reason.unproven, lambda: office.examine(local, cover=True), "no cover traffic")


# The start.


@pytest.fixture(scope="module")
def offer(office: Office) -> Offer:
    return office.examine(office.proposal())


def test_a_start_numbers_those_who_joined_anew(office: Office, offer: Offer) -> None:
    started = offer.started(office.start(offer, [0, 1, 2, 4, 5]), NOW)
    assert started.protocol.n == 5
    identities = [office.people[place].record().identity for place in (0, 1, 2, 4, 5)]
    assert [started.address_of(each) for each in identities] == [f"device/{n}" for n in range(5)]
    assert started.address_of(office.people[3].record().identity) is None
    assert started.address_of(office.curator.record().identity) == CURATOR
    # A smaller crowd hides less.
    whole = offer.started(office.start(offer, EVERYONE), NOW)
    assert whole.protocol is offer.protocol
    few = {each.view: each.epsilon for each in started.start.promises}
    assert few["curator"] > {each.view: each.epsilon for each in whole.start.promises}["curator"]


@pytest.mark.parametrize("cover", [False, True])
def test_promises_are_those_of_the_people_who_are_there(office: Office, cover: bool) -> None:
    offer = office.examine(office.proposal(cover=cover))
    places = [0, 1, 2, 4, 5]
    honest = offer.started(office.start(offer, places), NOW)
    assert (honest.plan is not None) is cover
    planned = offer.spec.promises
    refused(
        Reason.unproven,
        lambda: offer.started(office.start(offer, places, promises=planned), NOW),
        "is stated against curator",
    )
    for view in VIEWS:
        low = lowered(honest.start.promises, view)
        refused(
            Reason.unproven,
            lambda these=low: offer.started(office.start(offer, places, promises=these), NOW),
        )
    for other in ([], honest.start.promises[:2]):
        for who in (places, EVERYONE):
            refused(
                Reason.unproven,
                lambda joined=who, these=other: offer.started(
                    office.start(offer, joined, promises=these), NOW
                ),
            )


def test_a_start_is_signed_and_of_this_task(office: Office, offer: Offer) -> None:
    signed = msgspec.msgpack.decode(office.start(offer, EVERYONE), type=tasks.Signed)
    start = msgspec.msgpack.decode(signed.body, type=Start)
    for forged in (
        tasks.Signed(signed.body, bytes(64)),
        tasks.Signed(signed.body + b"\0", signed.signature),
        tasks.sign_start(start, office.people[0].identity),
        tasks.Signed(signed.body, office.curator.identity.sign(b"incrowd task 1\0" + signed.body)),
    ):
        refused(Reason.forged, lambda this=forged: offer.started(tasks.encode_signed(this), NOW))
    other = office.examine(office.proposal())
    refused(Reason.foreign, lambda: offer.started(office.start(other, EVERYONE), NOW))


def test_joins_cannot_be_made_up(office: Office, offer: Offer) -> None:
    joins = [office.join(offer, place) for place in EVERYONE]
    other = office.examine(office.proposal())
    stranger = office.authority.issue("stranger", Role.device)
    cases: list[tuple[Reason, list[Join]]] = [
        (Reason.forged, [*joins[:5], Join(5, bytes(64))]),
        # Signed by somebody else on the roster, by nobody on it, and for another task.
        (Reason.forged, [*joins[:5], office.join(offer, 5, office.people[0])]),
        (Reason.forged, [*joins[:5], office.join(offer, 5, stranger)]),
        (Reason.forged, [*joins[:5], office.join(other, 5)]),
        (Reason.unknown, [*joins, Join(6, joins[0].signature)]),
        (Reason.unknown, [*joins, tasks.join_task(offer.digest, 2**31 - 1, stranger.identity)]),
        (Reason.malformed, [*joins, joins[5]]),
        (Reason.malformed, [joins[0], joins[0], *joins[1:]]),
        (Reason.malformed, joins[::-1]),
        (Reason.malformed, joins[:3]),
        (Reason.malformed, []),
    ]
    for reason, these in cases:
        refused(
            reason,
            lambda said=these: offer.started(office.start(offer, EVERYONE, joins=said), NOW),
        )


@pytest.mark.parametrize(
    "at",
    [0.0, -1.0, NOW + 1e9, float("nan"), float("inf"), float("-inf"), 1e308],
    ids=["epoch", "negative", "far", "nan", "never", "always", "huge"],
)
def test_a_start_lies_near(office: Office, offer: Offer, at: float) -> None:
    refused(Reason.expired, lambda: offer.started(office.start(offer, EVERYONE, at=at), NOW))


def test_spec_says_everything_a_device_agrees_to() -> None:
    """A new field of a spec must be examined; add it to the tests above and here."""
    assert set(Spec.__struct_fields__) == {
        *(
            "version",
            "survey",
            "question",
            "questions",
            "chances",
            "protocol",
            "people",
            "roster",
            "graph",
        ),
        *("helpers", "timing", "cover", "transport", "min_crowd", "promises", "expires"),
    }
    assert {"text", "column", "task", "parameters", "randomizer"} == DESCRIBED
