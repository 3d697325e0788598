"""The hub as a whole: a real process, real keys, real TLS, real WebSockets."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import re
import sqlite3
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from incrowd import graphs
from incrowd.live import cells, frames
from incrowd.live.authority import Authority
from incrowd.live.hub.closing import sign_close
from incrowd.live.hub.routes import ROUTES
from incrowd.live.keys import KeyRecord, PrivateKeys, Role
from incrowd.live.links import Links
from incrowd.live.reasons import Reason
from tests.live.hub_server import (
    PATIENCE,
    Api,
    Caller,
    Deployment,
    Poll,
    RunningHub,
    make_poll,
    running_hub,
    settled,
)
from tests.live.postgres import postgres, postgres_url  # noqa: F401  fixtures


class World:
    """One hub for a whole module: every test brings its own people and survey."""

    def __init__(self, deployment: Deployment, hub: RunningHub, api: Api) -> None:
        self.deployment, self.hub, self.api = deployment, hub, api
        self._groups = 0

    def poll(self, people: int = 3, **changes: object) -> Poll:
        self._groups += 1
        devices = self.deployment.parties(people, name=f"{self._groups}-p")
        (curator,) = self.deployment.parties(1, Role.curator, f"{self._groups}-c")
        return make_poll(devices, curator, **changes)

    def settled(self, poll: Poll, **totals: object) -> None:
        settled(self.api, poll, **totals)

    def call(self, keys: PrivateKeys) -> Caller:
        return Caller(self.hub, self.deployment).greet(keys)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    deployment = Deployment(tmp_path_factory.mktemp("hub"))
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        yield World(deployment, hub, api)


def test_survey_from_offer_to_close(world: World) -> None:
    poll, api = world.poll(3, min_crowd=2), world.api
    api.enrol(*poll.people, poll.curator)
    survey = poll.spec.survey
    with (
        world.call(poll.people[0]) as first,
        world.call(poll.people[2]) as last,
        world.call(poll.curator) as curator,
    ):
        poll.offer(api).raise_for_status()
        poll.offer(api).raise_for_status()  # offering twice is offering once
        for caller in (first, last, curator):
            assert caller.expect(frames.News) == frames.News(survey, "offered")
        for number, caller in ((0, first), (2, last)):
            caller.say(frames.Join(7, survey, poll.join(number)))
            assert caller.expect(frames.Stored) == frames.Stored(7, [])
        for caller in (last, curator):
            caller.say(frames.Listen(survey))
        shown = api.get(poll.path).json()
        assert (shown["state"], shown["joins"], shown["start"]) == ("offered", 2, None)
        assert len(api.get(f"{poll.path}/joins").json()["joins"]) == 2
        assert api.get(f"{poll.path}/roster").content == poll.roster
        api.ask(f"{poll.path}/start", start=poll.start([0, 2])).raise_for_status()
        for caller in (first, last, curator):
            assert caller.expect(frames.News) == frames.News(survey, "started")
        # Those who joined are numbered anew: the last of three is number 1 of two.
        sent = [poll.cell(0, 1, counter) for counter in range(3)]
        assert first.put(poll, *sent) == {}
        mail = last.mail(3)
        assert [cell for _, cell in mail] == sent
        last.say(frames.Took(survey, [place for place, _ in mail]))
        last.say(frames.Announce(8, survey, "127.0.0.1:4000"))
        assert last.expect(frames.Stored) == frames.Stored(8, [])
        assert api.get(f"{poll.path}/endpoints").json() == {
            "endpoints": {"device/1": "127.0.0.1:4000"}
        }
        world.settled(
            poll, state="started", people=3, joined=2, sent=3, waiting=0, delivered=3, expired=0
        )
        close = sign_close(poll.digest, poll.curator.identity)
        assert api.ask(f"{poll.path}/close", close=close).json() == {"state": "closed"}
        for caller in (first, last, curator):
            assert caller.expect(frames.News) == frames.News(survey, "closed")
        assert first.put(poll, sent[0]) == {0: "expired"}


def test_registry(world: World) -> None:
    api, authority = world.api, world.deployment.authority
    first = authority.issue("registry/a b", Role.device)
    second = authority.issue("registry/b", Role.helper)
    api.enrol(second, first, first)
    newer = first.rotate()
    api.enrol(newer)
    assert api.ask("/v1/keys", record=first.record().encode()).status_code == 409
    listed = api.get("/v1/keys", params={"after": "registry/", "limit": "2"}).json()
    names = [KeyRecord.decode(base64.b64decode(each)).name for each in listed["records"]]
    assert names == ["registry/a b", "registry/b"]
    assert listed["after"] == "registry/b"
    held = api.get("/v1/keys/registry%2Fa%20b").json()["record"]
    assert base64.b64decode(held) == newer.record().encode()
    assert api.get("/v1/keys/registry").status_code == 404


def test_registry_refuses_whom_the_authority_does_not_vouch_for(world: World) -> None:
    stranger = Authority.create().issue("stranger", Role.device)
    hub = world.deployment.authority.issue("another hub", Role.hub)
    for record in (stranger.record(), hub.record()):
        answer = world.api.ask("/v1/keys", record=record.encode())
        assert (answer.status_code, answer.json()["reason"]) == (403, "forged")
    answer = world.api.ask("/v1/keys", record=b"\xc1")
    assert (answer.status_code, answer.json()["reason"]) == (422, "malformed")
    answer = world.api.ask("/v1/keys", record=bytes(1 << 20))
    assert (answer.status_code, answer.json()["reason"]) == (413, "oversized")


def test_offers_are_checked(world: World) -> None:
    api = world.api
    stranger = world.poll()
    api.enrol(stranger.curator, *stranger.people[:-1])
    late = world.poll(expires=time.time() - 1)
    elsewhere = world.poll()
    api.enrol(*late.people, late.curator, *elsewhere.people, elsewhere.curator)
    device = make_poll(elsewhere.people, elsewhere.people[0])
    for poll, reason in ((stranger, "unknown"), (late, "expired"), (device, "forged")):
        assert poll.offer(api).json()["reason"] == reason
    swapped = dataclasses.replace(elsewhere, roster=late.roster)
    assert swapped.offer(api).json()["reason"] == "forged"
    elsewhere.offer(api).raise_for_status()
    twin = make_poll(elsewhere.people, elsewhere.curator, survey=elsewhere.spec.survey)
    assert twin.offer(api).json()["reason"] == "conflict"
    listed = {line["survey"] for line in api.get("/v1/surveys").json()["surveys"]}
    assert elsewhere.spec.survey.hex() in listed
    assert stranger.spec.survey.hex() not in listed


def test_graph_is_offered_with_the_task(world: World) -> None:
    graph = graphs.from_edges([0, 1, 2], [1, 2, 0], 3)
    poll = world.poll(graph=graph)
    world.api.enrol(*poll.people, poll.curator)
    assert dataclasses.replace(poll, graph=None).offer(world.api).status_code == 422
    poll.offer(world.api).raise_for_status()
    assert world.api.get(f"{poll.path}/graph").content == poll.graph


def test_joins_and_starts_are_checked(world: World) -> None:
    poll, api = world.poll(min_crowd=2), world.api
    api.enrol(*poll.people, poll.curator)
    poll.offer(api).raise_for_status()
    survey = poll.spec.survey
    with world.call(poll.people[0]) as caller, world.call(poll.curator) as curator:
        for who, join, reason in (
            (caller, poll.join(1), "forged"),
            (caller, world.poll().join(0), "forged"),
            (caller, b"\xc1", "malformed"),
            (curator, poll.join(0), "unknown"),
        ):
            who.say(frames.Join(1, survey, join))
            assert who.expect(frames.Stored).rejected == [(0, reason)]
        assert api.get(poll.path).json()["joins"] == 0
        for endpoint in ("nowhere", "a:b", "::1:80"):
            caller.say(frames.Announce(1, survey, endpoint))
            assert caller.expect(frames.Stored).rejected == [(0, "malformed")]
    for start, reason in (
        (poll.start([0]), "malformed"),
        (world.poll().start([0, 1]), "forged"),
        (b"", "malformed"),
    ):
        assert api.ask(f"{poll.path}/start", start=start).json()["reason"] == reason
    good = poll.start([0, 1])
    for _ in range(2):  # starting twice is starting once
        assert api.ask(f"{poll.path}/start", start=good).json() == {"state": "started"}
    other = api.ask(f"{poll.path}/start", start=poll.start([0, 1, 2]))
    assert other.json()["reason"] == "conflict"
    stranger = sign_close(poll.digest, poll.people[0].identity)
    assert api.ask(f"{poll.path}/close", close=stranger).json()["reason"] == "forged"
    elsewhere = sign_close(bytes(32), poll.curator.identity)
    assert api.ask(f"{poll.path}/close", close=elsewhere).json()["reason"] == "foreign"


def test_greeting_proves_identity(world: World) -> None:
    known, other, stranger = world.deployment.parties(3, name="greeting")
    world.api.enrol(known, other)
    mixed = dataclasses.replace(known, identity=other.identity)
    for keys, claimed, reason in (
        (stranger, stranger, "unknown"),
        (mixed, known, "forged"),
    ):
        before = world.api.metric(f'cells_rejected_total{{reason="{reason}"}}')
        with Caller(world.hub, world.deployment) as caller:
            nonce = caller.expect(frames.Challenge).nonce
            signature = keys.identity.sign(frames.hello_bytes(nonce))
            caller.say(frames.Hello(claimed.record().identity, signature))
            assert caller.closed() == (1008, reason)
        assert world.api.metric(f'cells_rejected_total{{reason="{reason}"}}') == before + 1


CURATOR = cells.number("curator")


def test_refused_cells_change_nothing(world: World) -> None:
    poll, api = world.poll(), world.api
    idle = world.poll()
    poll.begin(api)
    api.enrol(*idle.people, idle.curator, *poll.people)
    idle.offer(api).raise_for_status()
    outsider = world.poll()
    api.enrol(outsider.people[0])
    good = poll.cell(0, 1, 0)
    wrong = {
        "forged": [poll.cell(1, 2, 0), poll.cell(CURATOR, 1, 0)],
        "foreign": [poll.cell(0, 1, 0, survey=bytes(16))],
        "oversized": [good + b"\0"],
        "malformed": [good[:-1], b"", poll.cell(0, 1, 0, kind=7)],
        "version": [b"\2" + good[1:]],
        "unknown": [poll.cell(0, 3, 0), poll.cell(0, CURATOR - 1, 0)],
    }
    with world.call(poll.people[0]) as caller, world.call(outsider.people[0]) as other:
        for reason, batch in wrong.items():
            name = f'cells_rejected_total{{reason="{reason}"}}'
            before = api.metric(name)
            assert caller.put(poll, *batch) == dict.fromkeys(range(len(batch)), reason)
            assert api.metric(name) == before + len(batch)
        for who, where, reason in (
            (caller, dataclasses.replace(poll, spec=outsider.spec), "foreign"),
            (other, poll, "unknown"),
            (caller, idle, "expired"),
        ):
            name = f'cells_rejected_total{{reason="{reason}"}}'
            before = api.metric(name)
            assert who.put(where, good) == {0: reason}
            assert api.metric(name) == before + 1
        assert api.get(f"{poll.path}/progress").json()["sent"] == 0
        # In one frame the good ones are kept; comparing, and talking to helpers, is allowed.
        compare, report = poll.cell(0, 2, 1, kind=cells.COMPARE), poll.cell(0, CURATOR, 2)
        assert caller.put(poll, good, b"", compare, report) == {1: "malformed"}
    assert api.get(f"{poll.path}/progress").json()["sent"] == 3


def test_bad_frames_end_the_connection(world: World) -> None:
    (keys,) = world.deployment.parties(1, name="frames")
    world.api.enrol(keys)
    hello = frames.encode(frames.Hello(bytes(32), bytes(64)))
    for data, reason in (
        (b"\xc1", "malformed"),
        ("text", "malformed"),
        (hello, "malformed"),
        (frames.encode(frames.Put(1, bytes(16), [b""] * 257)), "malformed"),
    ):
        before = world.api.metric(f'cells_rejected_total{{reason="{reason}"}}')
        with world.call(keys) as caller:
            caller.say_bytes(data)
            assert caller.closed() == (1008, reason)
        assert world.api.metric(f'cells_rejected_total{{reason="{reason}"}}') == before + 1
    before = world.api.metric('cells_rejected_total{reason="oversized"}')
    with world.call(keys) as caller:
        # The hub hangs up before it has read all of it, so how the caller learns that is open.
        with contextlib.suppress(ConnectionClosed):
            caller.say_bytes(bytes(frames.FRAME_LIMIT + 1))
        caller.rest(object)
    world.api.until('cells_rejected_total{reason="oversized"}', before + 1)


def test_duplicates_are_stored_once(world: World) -> None:
    poll = world.poll()
    poll.begin(world.api)
    cell = poll.cell(0, 1, 0)
    with world.call(poll.people[0]) as caller, world.call(poll.people[1]) as receiver:
        receiver.say(frames.Listen(poll.spec.survey))
        assert caller.put(poll, cell, cell) == {}
        assert caller.put(poll, cell) == {}
        ((place, body),) = receiver.mail(1)
        assert body == cell
        receiver.say(frames.Took(poll.spec.survey, [place, place, place + 1000]))
        receiver.say(frames.Took(poll.spec.survey, [place]))
        assert caller.put(poll, cell) == {}  # known even after it was taken
        world.settled(poll, sent=1, waiting=0, delivered=1)


def test_mail_comes_again_until_it_is_taken(world: World) -> None:
    poll = world.poll()
    poll.begin(world.api)
    survey = poll.spec.survey
    sent = [poll.cell(0, 1, counter) for counter in range(5)]
    with world.call(poll.people[0]) as caller, world.call(poll.people[1]) as old:
        old.say(frames.Listen(survey))
        caller.put(poll, *sent)
        first = old.mail(5)
        with world.call(poll.people[1]) as new:
            assert new.expect(frames.News) == frames.News(survey, "started")
            new.say(frames.Listen(survey))
            assert new.mail(5) == first
            new.say(frames.Took(survey, [place for place, _ in first[:3]]))
            world.settled(poll, sent=5, waiting=2, delivered=3)
            # The newer connection gets the mail, and the older one nothing more.
            extra = poll.cell(0, 1, 5)
            caller.put(poll, extra)
            assert [cell for _, cell in new.mail(1)] == [extra]
        with world.call(poll.people[1]) as third:
            third.say(frames.Listen(survey))
            assert [cell for _, cell in third.mail(3)] == [*sent[3:], extra]


def test_the_largest_message_arrives_before_any_of_it_is_taken(world: World) -> None:
    """Nobody can take a part of a message, so the hub must not wait for that."""
    poll = world.poll()
    poll.begin(world.api)
    needed = cells.cells_needed(cells.MESSAGE_LIMIT)
    sent = [poll.cell(0, 1, counter) for counter in range(needed)]
    starts = range(0, needed, frames.MOST_CELLS)
    with world.call(poll.people[0]) as caller, world.call(poll.people[1]) as receiver:
        receiver.say(frames.Listen(poll.spec.survey))
        for start in starts:
            assert caller.put(poll, *sent[start : start + frames.MOST_CELLS]) == {}
        mail = receiver.mail(needed)
        assert [cell for _, cell in mail] == sent
        places = [place for place, _ in mail]
        for start in range(0, needed, 4096):
            receiver.say(frames.Took(poll.spec.survey, places[start : start + 4096]))
        world.settled(poll, sent=needed, waiting=0, delivered=needed)


def test_revoked_are_out_at_once(world: World) -> None:
    poll, api = world.poll(), world.api
    poll.begin(api)
    gone, name = poll.people[1], poll.people[1].name
    with world.call(poll.people[0]) as caller, world.call(gone) as out:
        older = world.deployment.authority.revoke(())
        crl = world.deployment.revoke(gone)
        api.ask("/v1/revocations", crl=crl).raise_for_status()
        while out.expect(frames.News) != frames.News(bytes(16), "revoked"):
            pass
        assert out.closed() == (1008, "revoked")
        before = api.metric('cells_rejected_total{reason="revoked"}')
        assert caller.put(poll, poll.cell(0, 1, 0)) == {0: "revoked"}
        with Caller(world.hub, world.deployment) as again:
            nonce = again.expect(frames.Challenge).nonce
            signature = gone.identity.sign(frames.hello_bytes(nonce))
            again.say(frames.Hello(gone.record().identity, signature))
            assert again.closed() == (1008, "revoked")
        assert api.metric('cells_rejected_total{reason="revoked"}') == before + 2
        assert caller.put(poll, poll.cell(0, 2, 1)) == {}
    world.settled(poll, sent=1)
    assert api.get(f"/v1/keys/{name}").status_code == 404
    assert api.ask("/v1/keys", record=gone.record().encode()).json()["reason"] == "revoked"
    assert base64.b64decode(api.get("/v1/revocations").json()["crl"]) == crl
    # An older list brings nobody back, and nobody else can revoke.
    assert api.ask("/v1/revocations", crl=older).json()["reason"] == "conflict"
    forged = Authority.create().revoke(())
    assert api.ask("/v1/revocations", crl=forged).json()["reason"] == "forged"
    later = make_poll(poll.people, poll.curator)
    assert later.offer(api).json()["reason"] == "revoked"


def test_everything_about_a_survey_ends(world: World) -> None:
    poll, api = world.poll(expires=time.time() + 5), world.api
    poll.begin(api)
    before = api.metric("cells_expired_total")
    with world.call(poll.people[0]) as caller:
        assert caller.put(poll, poll.cell(0, 1, 0)) == {}
        while caller.expect(frames.News).what != "closed":
            pass
        assert caller.put(poll, poll.cell(0, 1, 1)) == {0: "expired"}
        caller.say(frames.Join(1, poll.spec.survey, poll.join(0)))
        assert caller.expect(frames.Stored).rejected == [(0, "expired")]
    world.settled(poll, state="closed", sent=1, waiting=0, delivered=0, expired=1)
    assert api.metric("cells_expired_total") == before + 1


def test_metrics_have_closed_labels(world: World) -> None:
    text = world.api.get("/metrics").text
    allowed = {
        "reason": {str(reason) for reason in Reason},
        "state": {"offered", "started", "closed"},
        "route": {route.path for route in ROUTES} | {"other"},
        "status": {"1xx", "2xx", "3xx", "4xx", "5xx"},
    }
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    for line in samples:
        for label, value in re.findall(r'(\w+)="([^"]*)"', line):
            assert label == "le" or value in allowed[label], line
    world.api.get("/nowhere")
    assert [line.rpartition(" ")[0] for line in samples] == [
        line.rpartition(" ")[0]
        for line in world.api.get("/metrics").text.splitlines()
        if not line.startswith("#")
    ]


def test_log_names_nobody(world: World) -> None:
    poll = world.poll()
    poll.begin(world.api)
    lines = world.hub.log.read_text().splitlines()
    assert {"opened", "survey offered", "survey started"} <= {
        json.loads(line)["event"] for line in lines
    }
    for secret in (poll.people[0].name, poll.spec.survey.hex(), poll.curator.name):
        assert not any(secret in line for line in lines)


def test_only_tls_1_3(world: World) -> None:
    context = world.deployment.tls
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        httpx.Client(base_url=world.hub.url, verify=context, trust_env=False) as old,
        pytest.raises(httpx.ConnectError),
    ):
        old.get("/healthz")
    assert world.api.get("/healthz").json() == {"ok": True}
    assert world.api.get("/readyz").json() == {"ok": True}


def test_flooding_and_full_mailboxes(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    people, (curator,) = deployment.parties(3), deployment.parties(1, Role.curator, "c")
    poll = make_poll(people, curator)
    with running_hub(deployment, "--quota", "3") as hub, Api(hub, deployment) as api:
        poll.begin(api)
        with Caller(hub, deployment).greet(people[0]) as caller:
            batch = [poll.cell(0, 1, 0), *(poll.cell(0, 1 + n % 2, 1 + n) for n in range(6))]
            # Number 1 gets four of these cells, and has room for three.
            assert caller.put(poll, *batch) == {5: "full"}
            assert api.metric('cells_rejected_total{reason="full"}') == 1
    # The room is counted anew after a start.
    with (
        running_hub(deployment, "--quota", "3", "--rate", "1") as hub,
        Api(hub, deployment) as api,
        Caller(hub, deployment).greet(people[0]) as caller,
        Caller(hub, deployment).greet(people[1]) as receiver,
    ):
        assert caller.put(poll, batch[5]) == {0: "full"}
        receiver.say(frames.Listen(poll.spec.survey))
        mail = receiver.mail(3)
        receiver.say(frames.Took(poll.spec.survey, [mail[0][0]]))
        settled(api, poll, waiting=5)
        assert caller.put(poll, batch[5]) == {}
        # Four at once, as many again on credit, and then one per second: these are more than that.
        refused = caller.put(poll, *(poll.cell(0, CURATOR, 100 + n) for n in range(20)))
        assert set(refused.values()) == {"flooding"}
        assert 20 - len(refused) == api.metric("cells_accepted_total") - 1
        assert api.metric('cells_rejected_total{reason="flooding"}') == len(refused)


def test_who_sends_too_fast_waits_and_loses_nothing(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    people, (curator,) = deployment.parties(2), deployment.parties(1, Role.curator, "c")
    poll = make_poll(people, curator)
    with (
        running_hub(deployment, "--rate", "200") as hub,
        Api(hub, deployment) as api,
    ):
        poll.begin(api)
        with Caller(hub, deployment).greet(people[0]) as caller:
            # Eight hundred at once; the rest comes at two hundred per second.
            begun = time.monotonic()
            for number in range(5):
                batch = [poll.cell(0, 1, 250 * number + n) for n in range(250)]
                caller.say(frames.Put(number, poll.spec.survey, batch))
            assert [caller.expect(frames.Stored).rejected for _ in range(5)] == [[]] * 5
            assert time.monotonic() - begun >= 1.0
        assert api.metric("cells_accepted_total") == 1250


def test_stop_and_second_start(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    people, (curator,) = deployment.parties(2), deployment.parties(1, Role.curator, "c")
    poll = make_poll(people, curator)
    sent = [poll.cell(0, 1, counter) for counter in range(64)]
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        poll.begin(api)
        api.ask("/v1/revocations", crl=deployment.revoke()).raise_for_status()
        with Caller(hub, deployment).greet(people[0]) as caller:
            for number, cell in enumerate(sent):
                caller.say(frames.Put(number, poll.spec.survey, [cell]))
            caller.expect(frames.Stored)
            hub.process.terminate()
            answered = 1 + caller.rest(frames.Stored)
            assert caller.closed()[0] == 1001
        assert hub.process.wait(PATIENCE) == 0
    assert '"draining"' in hub.log.read_text()
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        assert api.get("/v1/revocations").json()["crl"] is not None
        assert len(api.get("/v1/keys").json()["records"]) == 3
        with Caller(hub, deployment).greet(people[1]) as receiver:
            assert receiver.expect(frames.News) == frames.News(poll.spec.survey, "started")
            receiver.say(frames.Listen(poll.spec.survey))
            got = [cell for _, cell in receiver.mail(api.progress(poll)["waiting"])]
        assert got == sent[: len(got)]
        assert len(got) >= answered
        assert hub.stop() == 0


def test_kill_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    people, (curator,) = deployment.parties(2), deployment.parties(1, Role.curator, "c")
    poll = make_poll(people, curator)
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        poll.begin(api)
        with Caller(hub, deployment).greet(people[0]) as caller:
            for number in range(8):
                batch = [poll.cell(0, 1, 100 * number + n) for n in range(100)]
                caller.say(frames.Put(number, poll.spec.survey, batch))
            for _ in range(3):
                assert caller.expect(frames.Stored).rejected == []
            hub.kill()
    with contextlib.closing(sqlite3.connect(deployment.store)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (waiting,) = database.execute("SELECT sum(waiting) FROM bundles").fetchone()
    assert waiting >= 300
    assert waiting % 100 == 0  # a frame is stored as a whole
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        assert api.progress(poll)["waiting"] == waiting
        assert hub.stop() == 0


def test_store_holds_no_plaintext(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    people, (curator,) = deployment.parties(2), deployment.parties(1, Role.curator, "c")
    poll = make_poll(people, curator)
    report = b"a report that nobody but its recipient may read"
    records = {0: people[0].record(), 1: people[1].record()}
    links = [Links(me, people[me], poll.spec.survey, poll.digest, records) for me in range(2)]
    plain = cells.pack([(1, report)])[0][0]
    sealed = links[0].seal(1, 0, plain)
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        poll.begin(api)
        with (
            Caller(hub, deployment).greet(people[0]) as caller,
            Caller(hub, deployment).greet(people[1]) as receiver,
        ):
            assert caller.put(poll, sealed) == {}
            receiver.say(frames.Listen(poll.spec.survey))
            ((_, got),) = receiver.mail(1)
        files = [each for each in tmp_path.iterdir() if each.is_file()]
        assert any(sealed[-64:] in each.read_bytes() for each in files)
        assert not any(report in each.read_bytes() for each in files)
    assert links[1].open(got)[:2] == (0, plain)


def test_who_is_half_gone_does_not_keep_the_hub_from_ending_well(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    (person,) = deployment.parties(1)
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        api.enrol(person)
        with Caller(hub, deployment).greet(person) as caller:
            caller.begin_to_leave()
            # Answered on another line once the goodbye, which came before, has been taken in.
            for _ in range(5):
                api.get("/healthz")
            assert hub.stop() == 0, hub.log.read_text()


def test_two_hubs_on_one_database(tmp_path: Path, postgres_url: str) -> None:  # noqa: F811
    deployment = Deployment(tmp_path)
    people, (curator,) = deployment.parties(3), deployment.parties(1, Role.curator, "c")
    poll = make_poll(people, curator)
    survey = poll.spec.survey
    with (
        running_hub(deployment, store=postgres_url) as here,
        running_hub(deployment, store=postgres_url) as there,
        Api(here, deployment) as api,
        Api(there, deployment) as other,
    ):
        api.enrol(*people, curator)
        with (
            Caller(here, deployment).greet(people[0]) as sender,
            Caller(there, deployment).greet(people[1]) as receiver,
        ):
            receiver.say(frames.Listen(survey))
            poll.offer(api).raise_for_status()
            assert receiver.expect(frames.News) == frames.News(survey, "offered")
            other.ask(f"{poll.path}/start", start=poll.start([0, 1, 2])).raise_for_status()
            assert sender.expect(frames.News) == frames.News(survey, "offered")
            assert sender.expect(frames.News) == frames.News(survey, "started")
            sent = [poll.cell(0, 1, counter) for counter in range(3)]
            assert sender.put(poll, *sent) == {}
            mail = receiver.mail(3)
            assert [cell for _, cell in mail] == sent
            receiver.say(frames.Took(survey, [place for place, _ in mail]))
            settled(api, poll, sent=3, waiting=0, delivered=3)
            api.ask("/v1/revocations", crl=deployment.revoke(people[1])).raise_for_status()
            assert receiver.closed() == (1008, "revoked")
            assert sender.put(poll, poll.cell(0, 1, 9)) == {0: "revoked"}
        assert [each.stop() for each in (here, there)] == [0, 0]
