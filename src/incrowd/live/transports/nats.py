"""Cells through NATS JetStream: the stream is the mailbox.

One stream serves a whole deployment. A party's cells are published under
``incrowd.<survey>.<recipient>``, as many in one message as go into :data:`BATCH` bytes, one after
the other: every cell has the same size, so nothing needs decoding. The acknowledgement of a publish
says that the stream's file holds the message; a server with ``sync_interval: always`` gives it only
after the disk did, which is the setting that survives a power failure. A publish that is repeated
within the stream's window is recognised by its identifier and stored once.

The stream is a work queue: a message stays until the one consumer of its subject has acknowledged
it, so what was not taken is in the stream whatever becomes of the consumer. Opening therefore
replaces the consumer that an earlier run left behind, and everything not taken comes at once,
instead of after the server has given up waiting.

NATS does not tell a party who published. Anyone with access to the server can add rubbish, which
the receiver refuses because it was not sealed, or remove messages, which the sender cannot see:
give each party an account of its own if the server is open to others than the parties.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Final

from incrowd.extras import needed_extra
from incrowd.live.cells import CELL, Header, cell_id
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.transports.base import Delivery, Transport, Unreachable

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerConfig, StreamConfig

BATCH: Final = 512 * 1024
"""How many bytes travel in one message at most, below the server's limit of 1 MiB."""
_AT_ONCE: Final = 16
"""How many publishes of one party wait for their acknowledgement at the same time."""
_IN_HAND: Final = 32_768
"""How many messages the server hands out before it sees one acknowledged: more than the cells of
the largest message between parties, which are taken all together, in however small batches."""
_WAITING: Final = 64
"""How many messages wait here to be handed on; what is beyond waits in the client library up to
its limit of bytes, and after that in the stream."""
_CONFIRM: Final = 5.0
_DAY: Final = 24 * 3600.0
_FULL: Final = frozenset({10023, 10047, 10077})
"""The server's codes for: no resources, no storage, the stream's limits are reached."""


def _nats() -> ModuleType:
    with needed_extra("the NATS transport needs"):
        import nats
        import nats.aio.client
        import nats.errors
        import nats.js.api
        import nats.js.errors
    return nats


@dataclass
class _Message:
    """A message of several cells, and how many of them are not taken yet."""

    reply: str
    left: int


class NatsTransport(Transport):
    """One party of one survey on a NATS server with JetStream."""

    def __init__(
        self,
        url: str,
        survey: bytes,
        number: int,
        *,
        tls: ssl.SSLContext | None = None,
        stream: str = "incrowd",
        room: int = 8 << 30,
        keep: float = 14 * _DAY,
        again: float = 60.0,
        patience: float = 30.0,
    ) -> None:
        """``number`` is this party's in cells.

        ``room`` and ``keep`` bound the stream, in bytes and seconds, if it does not exist yet. What
        was handed out and not taken comes again after ``again`` seconds; an answer of the server is
        awaited for ``patience`` seconds.
        """
        self._url = url
        self._survey = survey
        self._subject = f"incrowd.{survey.hex()}.{number}"
        self._consumer = f"{survey.hex()}-{number}"
        self._number = number
        self._tls = tls
        self._stream = stream
        self._room = room
        self._keep = keep
        self._again = again
        self._patience = patience
        self._client: Client | None = None
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._tokens = itertools.count(1)
        self._open: dict[int, _Message] = {}
        self._inbox: asyncio.Queue[Delivery | None] = asyncio.Queue(_WAITING)

    async def open(self) -> None:
        """Connect, see to the stream, and take over the party's subject."""
        if self._client is not None:
            return
        nats = _nats()
        client: Client = nats.aio.client.Client()
        opening = True

        async def failed(error: Exception) -> None:
            # Once open, the client library reports here what it recovers from by itself. Before
            # that it would go on trying, and nobody could say that there is no server.
            if opening:
                raise error

        try:
            async with asyncio.timeout(self._patience):
                await client.connect(
                    self._url,
                    tls=self._tls,
                    error_cb=failed,
                    reconnected_cb=self._listen_again,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=1,
                    # Nothing is buffered for a server that is away: the caller keeps the cells.
                    pending_size=4 * BATCH,
                )
                opening = False
                context = client.jetstream(timeout=self._patience)
                await self._ensure_stream(context)
                await self._replace_consumer(client, context)
        except (nats.errors.Error, OSError) as error:
            opening = False
            await client.close()
            raise Unreachable(f"no JetStream at {self._url}: {error!r}") from error
        except BaseException:
            opening = False
            await client.close()
            raise
        self._client = client

    async def send(self, cells: Sequence[bytes]) -> list[Reason | None]:
        """Publish the cells, and wait until the stream holds them."""
        answers: list[Reason | None] = [None] * len(cells)
        places: dict[int, list[int]] = {}
        for place, cell in enumerate(cells):
            try:
                places.setdefault(self._recipient(cell), []).append(place)
            except Rejected as error:
                answers[place] = error.reason
        most = BATCH // CELL
        batches = [
            (recipient, some[start : start + most])
            for recipient, some in places.items()
            for start in range(0, len(some), most)
        ]
        outcomes = await asyncio.gather(
            *(self._publish(to, [cells[place] for place in some]) for to, some in batches),
            return_exceptions=True,
        )
        for (_, some), outcome in zip(batches, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                raise outcome
            for place in some:
                answers[place] = outcome
        return answers

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """What the consumer hands out."""
        while (delivery := await self._inbox.get()) is not None:
            yield delivery

    async def took(self, tokens: Sequence[int]) -> None:
        """Acknowledge the messages of which every cell is taken."""
        done = []
        for token in tokens:
            message = self._open.pop(token, None)
            if message is None:
                continue
            message.left -= 1
            if message.left == 0:
                done.append(message.reply)
        await asyncio.gather(*map(self._acknowledge, done))

    async def close(self) -> None:
        """Leave; the consumer goes, and what it did not see taken stays in the stream."""
        client, self._client = self._client, None
        # What still waits here was not taken, and comes again.
        while self._inbox.full():
            self._inbox.get_nowait()
        self._inbox.put_nowait(None)
        if client is None:
            return
        nats = _nats()
        try:
            if client.is_connected:
                await client.jetstream(timeout=self._patience).delete_consumer(
                    self._stream, self._consumer
                )
        except (nats.errors.Error, OSError):
            pass  # The next run of this party replaces it.
        finally:
            await client.close()

    def _recipient(self, cell: bytes) -> int:
        header = Header.parse(cell)
        if header.survey != self._survey:
            raise Rejected(Reason.foreign)
        if header.sender != self._number:
            raise Rejected(Reason.forged)
        return header.recipient

    async def _publish(self, recipient: int, cells: Sequence[bytes]) -> Reason | None:
        nats = _nats()
        name = hashlib.sha256(b"".join(map(cell_id, cells))).hexdigest()
        async with self._slots:
            client = self._client
            if client is None or not client.is_connected:
                raise Unreachable(f"no connection to {self._url}")
            try:
                await client.jetstream(timeout=self._patience).publish(
                    f"incrowd.{self._survey.hex()}.{recipient}",
                    b"".join(cells),
                    stream=self._stream,
                    headers={"Nats-Msg-Id": name},
                )
            except nats.js.errors.APIError as error:
                if error.err_code in _FULL:
                    return Reason.full
                raise Unreachable(f"{self._url} refused cells: {error}") from error
            except (nats.errors.Error, OSError) as error:
                raise Unreachable(f"{self._url} did not confirm cells: {error!r}") from error
        return None

    async def _received(self, message: Msg) -> None:
        """Hand on a message; whatever is no row of cells can never be, and is dropped."""
        data = message.data
        if not data or len(data) > BATCH or len(data) % CELL:
            await self._acknowledge(message.reply)
            return
        cells = [data[start : start + CELL] for start in range(0, len(data), CELL)]
        tokens = list(itertools.islice(self._tokens, len(cells)))
        self._open.update(dict.fromkeys(tokens, _Message(message.reply, len(cells))))
        await self._inbox.put(Delivery(list(zip(tokens, cells, strict=True))))

    async def _acknowledge(self, reply: str) -> None:
        """Let the server forget a message, and hear that it did."""
        nats = _nats()
        client = self._client
        if client is None or not client.is_connected:
            return
        # What is lost here comes again, and is taken again.
        with contextlib.suppress(nats.errors.Error, OSError):
            await client.request(reply, b"+ACK", timeout=_CONFIRM)

    async def _ensure_stream(self, context: JetStreamContext) -> None:
        nats = _nats()
        try:
            await context.stream_info(self._stream)
        except nats.js.errors.NotFoundError:
            try:
                await context.add_stream(self._stream_config())
            except nats.js.errors.BadRequestError:
                # Another party made it in between, with limits of its own.
                await context.stream_info(self._stream)

    async def _replace_consumer(self, client: Client, context: JetStreamContext) -> None:
        nats = _nats()
        with contextlib.suppress(nats.js.errors.NotFoundError):
            await context.delete_consumer(self._stream, self._consumer)
        inbox = client.new_inbox()
        await client.subscribe(inbox, cb=self._received)
        self._config = self._consumer_config(inbox)
        await context.add_consumer(self._stream, self._config)

    async def _listen_again(self) -> None:
        """Name the consumer again, in case the server dropped it during a long absence."""
        nats = _nats()
        client = self._client
        if client is None:
            return
        # If the connection breaks again, the next one asks again.
        with contextlib.suppress(nats.errors.Error, OSError):
            await client.jetstream(timeout=self._patience).add_consumer(self._stream, self._config)

    def _stream_config(self) -> StreamConfig:
        api = _nats().js.api
        config: StreamConfig = api.StreamConfig(
            name=self._stream,
            subjects=["incrowd.*.*"],
            retention=api.RetentionPolicy.WORK_QUEUE,
            storage=api.StorageType.FILE,
            discard=api.DiscardPolicy.NEW,
            max_bytes=self._room,
            max_age=self._keep,
            max_msg_size=BATCH + 1024,
            duplicate_window=120,
        )
        return config

    def _consumer_config(self, inbox: str) -> ConsumerConfig:
        api = _nats().js.api
        config: ConsumerConfig = api.ConsumerConfig(
            name=self._consumer,
            durable_name=self._consumer,
            deliver_subject=inbox,
            deliver_policy=api.DeliverPolicy.ALL,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=self._again,
            filter_subject=self._subject,
            max_ack_pending=_IN_HAND,
            inactive_threshold=_DAY,
        )
        return config
