"""Computations on bytes from strangers, each in a process of its own with bounded time and memory.

A *server* process is started when the first computation is asked for. It has the accounting loaded
and does nothing itself: each request is computed in a fork of it, under limits of the operating
system on CPU time and address space, and ends with that fork. Importing the accounting takes about
a second, a fork a few milliseconds, hence the server stays for a while after the last request.

Requests and replies are plain bytes in frames: number, status, length, payload. Nothing is
unpickled. Few forks run at the same time; the others wait in the server, in order.
"""

from __future__ import annotations

import atexit
import enum
import importlib
import os
import resource
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from incrowd.errors import ProtocolFailed

CPU_SECONDS: Final = 30
"""CPU time of one computation."""
MEMORY_BYTES: Final = 1 << 30
"""Memory of one computation, besides what the server had loaded before."""
_AT_ONCE: Final = 2
_IDLE_SECONDS: Final = 120.0
_LATEST: Final = 20
"""A fork that has not ended after this multiple of its CPU time is stuck, and is killed."""
_HEAD: Final = struct.Struct("<QBI")
_CHUNK: Final = 1 << 16
_NO_MEMORY, _FAILED = 3, 4

Work = Callable[[bytes], bytes]


class Ended(enum.IntEnum):
    """The way in which a computation ended."""

    done = 0
    """With a reply."""
    time = 1
    """It used up its CPU time."""
    memory = 2
    """It used up its memory."""
    failed = 3
    """In any other way."""


class Sandbox:
    """Client of one server process; may be used from many threads."""

    def __init__(
        self, work: str, *, cpu_seconds: int = CPU_SECONDS, memory_bytes: int = MEMORY_BYTES
    ) -> None:
        """``work`` names a function of bytes, as ``module:function``.

        A function ``warm`` in the same module is called once, before the first fork.
        """
        self._words = [work, str(cpu_seconds), str(memory_bytes)]
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._count = 0

    def call(self, payload: bytes) -> tuple[Ended, bytes]:
        """Compute in a bounded process; blocks until that has ended."""
        for _ in range(2):
            with self._lock:
                if self._server is None or not self._server.alive:
                    if self._server is not None:
                        self._server.close()
                    self._server = _Server(self._words)
                self._count += 1
                asked = self._server.ask(self._count, payload)
            try:
                return asked.result()
            except EOFError:
                # The server had left just then, as it does after a while without requests.
                continue
        raise ProtocolFailed("the process that examines offers does not stay alive")

    def close(self) -> None:
        """End the server process; a later call starts another one."""
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None


class _Server:
    def __init__(self, words: list[str]) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(  # noqa: S603  its own module, without a shell
            [sys.executable, "-m", "incrowd.live.sandbox", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            # An interrupt of this process must not reach it: it ends when its input does.
            start_new_session=True,
        )
        self._asked: dict[int, Future[tuple[Ended, bytes]]] = {}
        self._lock = threading.Lock()
        self.alive = True
        self._listener = threading.Thread(target=self._listen, name="sandbox", daemon=True)
        self._listener.start()
        atexit.register(self.close)

    def ask(self, number: int, payload: bytes) -> Future[tuple[Ended, bytes]]:
        asked: Future[tuple[Ended, bytes]] = Future()
        with self._lock:
            if not self.alive:
                asked.set_exception(EOFError())
                return asked
            self._asked[number] = asked
        try:
            _write(self._input, _HEAD.pack(number, 0, len(payload)) + payload)
        except (OSError, ValueError):
            # It has left; the listener says so to everybody who waits.
            self.close()
        return asked

    def close(self) -> None:
        """End the process, and wait until the listener has noticed."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.wait()
        self._listener.join()
        atexit.unregister(self.close)

    @property
    def _input(self) -> int:
        return -1 if self._process.stdin is None else self._process.stdin.fileno()

    def _listen(self) -> None:
        output = -1 if self._process.stdout is None else self._process.stdout.fileno()
        while (frame := _read(output)) is not None:
            number, status, payload = frame
            with self._lock:
                asked = self._asked.pop(number)
            asked.set_result((Ended(status), payload))
        with self._lock:
            self.alive = False
            pending = list(self._asked.values())
            self._asked.clear()
        for each in pending:
            each.set_exception(EOFError())
        if self._process.stdout is not None:
            self._process.stdout.close()


# The server process.


@dataclass
class _Fork:
    number: int
    process: int
    latest: float
    received: list[bytes] = field(default_factory=list)


def serve(work: Work, cpu_seconds: int, memory_bytes: int) -> None:
    """Answer requests on standard input until it ends, or for a while after the last."""
    forks: dict[int, _Fork] = {}
    waiting: deque[tuple[int, bytes]] = deque()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        while True:
            ready = selector.select(_LATEST * cpu_seconds / 10 if forks else _IDLE_SECONDS)
            if not ready and not forks:
                return
            for fork in forks.values():
                if time.monotonic() > fork.latest:
                    os.kill(fork.process, signal.SIGKILL)
            for key, _ in ready:
                if key.fd == 0:
                    frame = _read(0)
                    if frame is None:
                        _kill(forks)
                        return
                    waiting.append((frame[0], frame[2]))
                elif chunk := os.read(key.fd, _CHUNK):
                    forks[key.fd].received.append(chunk)
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    _reply(forks.pop(key.fd))
            while waiting and len(forks) < _AT_ONCE:
                number, payload = waiting.popleft()
                source, fork = _forked(work, number, payload, cpu_seconds, memory_bytes)
                forks[source] = fork
                selector.register(source, selectors.EVENT_READ)


def _forked(
    work: Work, number: int, payload: bytes, cpu_seconds: int, memory_bytes: int
) -> tuple[int, _Fork]:
    source, sink = os.pipe()
    process = os.fork()
    if process:
        os.close(sink)
        return source, _Fork(number, process, time.monotonic() + _LATEST * cpu_seconds)
    code = _FAILED
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        most = _mapped() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _write(sink, work(payload))
        code = 0
    except MemoryError:
        code = _NO_MEMORY
    finally:
        # Whatever happened, this copy of the server must not go on as one.
        os._exit(code)


def _mapped() -> int:
    """Address space of this process in bytes, where the system tells."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _reply(fork: _Fork) -> None:
    _, ended = os.waitpid(fork.process, 0)
    if os.WIFSIGNALED(ended):
        status = Ended.time if os.WTERMSIG(ended) == signal.SIGXCPU else Ended.failed
    else:
        codes = {0: Ended.done, _NO_MEMORY: Ended.memory}
        status = codes.get(os.WEXITSTATUS(ended), Ended.failed)
    payload = b"".join(fork.received) if status is Ended.done else b""
    _write(1, _HEAD.pack(fork.number, status, len(payload)) + payload)


def _kill(forks: dict[int, _Fork]) -> None:
    for each in forks.values():
        os.kill(each.process, signal.SIGKILL)
        os.waitpid(each.process, 0)


# Frames.


def _write(sink: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sink, rest) :]


def _read(source: int) -> tuple[int, int, bytes] | None:
    """The next frame, or none at the end."""
    head = _exactly(source, _HEAD.size)
    if head is None:
        return None
    number, status, length = _HEAD.unpack(head)
    payload = _exactly(source, length)
    return None if payload is None else (number, status, payload)


def _exactly(source: int, length: int) -> bytes | None:
    parts, left = [], length
    while left:
        part = os.read(source, min(left, 1 << 20))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def main() -> None:
    """Run as a server; the arguments are those of :class:`Sandbox`."""
    work, cpu_seconds, memory_bytes = sys.argv[1:]
    place, _, name = work.partition(":")
    module = importlib.import_module(place)
    getattr(module, "warm", int)()
    serve(getattr(module, name), int(cpu_seconds), int(memory_bytes))


if __name__ == "__main__":
    main()
