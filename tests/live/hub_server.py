"""A real hub in a process of its own, with real keys, and the surveys and callers to talk to it."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from incrowd.live import cells, frames, task
from incrowd.live.authority import Authority, client_context
from incrowd.live.keys import PrivateKeys, Role
from tests.live.specs import DESCRIBED, changed

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds after which something that must happen is taken to never happen."""
_COMMAND = "import typer; from incrowd.cli.hub import hub; typer.run(hub)"


@dataclass
class Deployment:
    """An authority, the hub's keys and its store, all under one directory."""

    root: Path
    authority: Authority = field(default_factory=Authority.create)
    crl: bytes | None = None

    def __post_init__(self) -> None:
        self.authority.save(self.root / "authority")
        self.authority.issue("hub", Role.hub).save(self.root / "hub")

    @property
    def store(self) -> Path:
        return self.root / "hub.db"

    @property
    def tls(self) -> ssl.SSLContext:
        return client_context(self.root / "authority")

    def parties(self, count: int, role: Role = Role.device, name: str = "p") -> list[PrivateKeys]:
        return [self.authority.issue(f"{name}{index:04}", role) for index in range(count)]

    def revoke(self, *keys: PrivateKeys) -> bytes:
        """The next revocation list, with these as well."""
        from cryptography import x509

        serials = [x509.load_der_x509_certificate(each.certificate).serial_number for each in keys]
        self.crl = self.authority.revoke(serials, self.crl)
        return self.crl


@dataclass
class RunningHub:
    """A hub that listens."""

    url: str
    process: subprocess.Popen[str]
    log: Path

    def stop(self) -> int:
        """Ask it to stop, as a service manager would, and wait."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """As if the power failed."""
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def running_hub(
    deployment: Deployment, *options: str, store: str | None = None
) -> Iterator[RunningHub]:
    """A hub on a free port; stopped at the end if it still runs."""
    log = deployment.root / "hub.log"
    arguments = [
        *("--keys", str(deployment.root / "hub")),
        *("--ca", str(deployment.root / "authority" / "certificate.pem")),
        *("--store", store or str(deployment.store)),
        *options,
    ]
    with (
        log.open("a") as errors,
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, log.read_text()
            ready = msgspec.json.decode(line)
            assert ready["ready"] is True
            yield RunningHub(ready["url"], process, log)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(PATIENCE)
                finally:
                    process.kill()


class Api(httpx.Client):
    """The control plane, with the few requests that every test makes."""

    def __init__(self, hub: RunningHub, deployment: Deployment) -> None:
        super().__init__(base_url=hub.url, verify=deployment.tls, timeout=PATIENCE, trust_env=False)

    def ask(self, path: str, **body: Any) -> httpx.Response:
        return self.post(
            path, content=msgspec.json.encode(body), headers={"content-type": "application/json"}
        )

    def enrol(self, *parties: PrivateKeys) -> None:
        for party in parties:
            self.ask("/v1/keys", record=party.record().encode()).raise_for_status()

    def metric(self, name: str) -> int:
        """One sample, such as ``cells_rejected_total{reason="full"}``."""
        text = self.get("/metrics").raise_for_status().text
        (line,) = (each for each in text.splitlines() if each.startswith(f"incrowd_hub_{name} "))
        return int(line.rpartition(" ")[2])

    def until(self, name: str, value: int) -> None:
        """Wait until a metric has this value."""
        _until(lambda: (self.metric(name) == value, self.metric(name)))

    def progress(self, poll: Poll) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"{poll.path}/progress").raise_for_status().json()
        return found


@dataclass(frozen=True)
class Poll:
    """A survey ready to be offered."""

    spec: task.Spec
    signed: bytes
    roster: bytes
    graph: bytes | None
    digest: bytes
    people: Sequence[PrivateKeys]
    curator: PrivateKeys

    @property
    def path(self) -> str:
        return f"/v1/surveys/{self.spec.survey.hex()}"

    def offer(self, api: Api) -> httpx.Response:
        return api.ask("/v1/surveys", task=self.signed, roster=self.roster, graph=self.graph)

    def join(self, number: int) -> bytes:
        return task.encode_join(task.join_task(self.digest, number, self.people[number].identity))

    def start(self, numbers: Sequence[int], at: float | None = None) -> bytes:
        start = task.Start(
            digest=self.digest,
            at=time.time() if at is None else at,
            promises=[],
            joins=[task.join_task(self.digest, n, self.people[n].identity) for n in numbers],
        )
        return task.encode_signed(task.sign_start(start, self.curator.identity))

    def begin(self, api: Api) -> None:
        """Enrol everyone, offer, and start with everyone."""
        api.enrol(*self.people, self.curator)
        self.offer(api).raise_for_status()
        api.ask(f"{self.path}/start", start=self.start(range(len(self.people)))).raise_for_status()

    def cell(
        self, sender: int, recipient: int, counter: int, *, kind: int = cells.DATA, **other: Any
    ) -> bytes:
        """A cell whose header is true and whose inside is noise, as the hub sees any cell."""
        fields: dict[str, Any] = {
            "kind": kind,
            "survey": self.spec.survey,
            "sender": sender,
            "recipient": recipient,
            "round": 0,
            "session": sender.to_bytes(16, "big"),
            "counter": counter,
            "wrapped": os.urandom(cells.WRAPPED),
        }
        return cells.Header(**(fields | other)).pack() + os.urandom(cells.CELL - cells.HEADER)


def make_poll(
    people: Sequence[PrivateKeys], curator: PrivateKeys, graph: Any = None, **changes: Any
) -> Poll:
    """A survey that these people could be asked to take part in."""
    roster, roster_hash = task.encode_roster([each.record() for each in people])
    drawn, graph_hash = (None, None) if graph is None else task.encode_graph(graph)
    fields: dict[str, Any] = {
        "survey": os.urandom(16),
        "question": "Do you cycle to work?",
        "questions": [
            task.Described(text="", column="cycles", task={}, parameters={}, randomizer={})
        ],
        "protocol": "local",
        "people": len(people),
        "roster": roster_hash,
        "graph": graph_hash,
        "helpers": {"curator": curator.record()},
        "timing": task.Timing(),
        "cover": False,
        "transport": "hub",
        "min_crowd": 1,
        "promises": [],
        "expires": time.time() + 3600,
    }
    known = {*task.Spec.__struct_fields__, *DESCRIBED}
    spec = changed(task.Spec(**fields), **{k: v for k, v in changes.items() if k in known})
    signed = task.sign_task(spec, curator.identity)
    return Poll(
        spec, task.encode_signed(signed), roster, drawn, task.digest_of(signed), people, curator
    )


def settled(api: Api, poll: Poll, **totals: object) -> None:
    """Wait until the totals of a survey are these; what was said is not yet what is committed."""

    def look() -> tuple[bool, object]:
        found = api.progress(poll)
        return found.items() >= totals.items(), found

    _until(look)


def _until(look: Callable[[], tuple[bool, object]]) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        happened, found = look()
        if happened:
            return
        assert time.monotonic() < end, found
        time.sleep(0.02)


class Caller:
    """One party's WebSocket, frame by frame."""

    def __init__(self, hub: RunningHub, deployment: Deployment) -> None:
        # Not the client with threads: its two share one TLS object, and now and then lose bytes.
        self._runner = asyncio.Runner()
        self._socket: ClientConnection = self._runner.run(
            self._connect(hub.url.replace("https:", "wss:") + "/v1/cells", deployment.tls)
        )
        self.news: list[frames.News] = []
        self._aside: list[frames.FromHub] = []

    @staticmethod
    async def _connect(url: str, tls: ssl.SSLContext) -> ClientConnection:
        return await connect(
            url, ssl=tls, compression=None, max_size=frames.FRAME_LIMIT, open_timeout=PATIENCE,
            ping_interval=None, proxy=None,
        )  # fmt: skip

    def _recv(self, patience: float = PATIENCE) -> bytes:
        async def next_frame() -> bytes:
            async with asyncio.timeout(patience):
                return await self._socket.recv(decode=False)

        return self._runner.run(next_frame())

    def greet(self, keys: PrivateKeys) -> Self:
        nonce = self.expect(frames.Challenge).nonce
        identity = keys.identity.public_key().public_bytes_raw()
        self.say(frames.Hello(identity, keys.identity.sign(frames.hello_bytes(nonce))))
        self.expect(frames.Welcome)
        return self

    def say(self, frame: Any) -> None:
        self.say_bytes(frames.encode(frame))

    def say_bytes(self, data: bytes | str) -> None:
        self._runner.run(self._socket.send(data))

    def begin_to_leave(self) -> None:
        """Say goodbye, and stay on the line without waiting for the answer."""

        async def goodbye() -> None:
            self._socket.protocol.send_close(1000)
            self._socket.send_data()

        self._runner.run(goodbye())

    def expect(self, kind: type[T]) -> T:
        """The next frame of this kind; news are gathered, other frames wait for their turn."""
        for index, frame in enumerate(self._aside):
            if isinstance(frame, kind):
                del self._aside[index]
                return frame
        while True:
            got = frames.decode_from_hub(self._recv())
            if isinstance(got, frames.News):
                self.news.append(got)
            if isinstance(got, kind):
                return got
            self._aside.append(got)

    def put(self, poll: Poll, *batch: bytes, number: int = 1) -> dict[int, str]:
        """Put cells; the refused ones and why."""
        self.say(frames.Put(number, poll.spec.survey, list(batch)))
        stored = self.expect(frames.Stored)
        assert stored.number == number
        return {place: str(reason) for place, reason in stored.rejected}

    def mail(self, count: int) -> list[tuple[int, bytes]]:
        """So many cells that are delivered, and not one more in the last frame."""
        got: list[tuple[int, bytes]] = []
        while len(got) < count:
            got += self.expect(frames.Mail).cells
        assert len(got) == count
        return got

    def idle(self) -> bool:
        """Whether nothing more comes for a moment."""
        try:
            self._aside.append(frames.decode_from_hub(self._recv(0.2)))
        except TimeoutError:
            return True
        return False

    def rest(self, kind: type[Any]) -> int:
        """How many more frames of this kind come before the hub closes."""
        count = sum(isinstance(frame, kind) for frame in self._aside)
        try:
            while True:
                got = frames.decode_from_hub(self._recv())
                count += isinstance(got, kind)
        except ConnectionClosed:
            return count

    def closed(self) -> tuple[int, str]:
        """Read on until the hub closes: the code and the reason."""
        self.rest(object)
        reason = self._socket.close_reason
        assert self._socket.close_code is not None
        return self._socket.close_code, reason or ""

    def close(self) -> None:
        with suppress(RuntimeError):
            self._runner.run(self._socket.close())
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
