"""Execution of a page as its reader would do it: all blocks in order, in one folder.

* An ``sh`` block runs in a shell of its own with real processes; variables last from block to
  block, as in one terminal.
* An ``sh`` block whose first line is a comment with ``keep it running`` goes on in the background.
  The next block begins when it has printed a line of JSON that says that it is ready.
* ``python`` blocks share one namespace.
* A ``toml`` block whose first line is a comment with the name of a file is saved under that name.
* A block below ``<!-- not run: reason -->`` is left out.

The generator writes the outputs of such pages from it, and the tests execute every block. The port
that pages name is replaced by a free one, so that several walks do not disturb each other.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PORT = "8443"
"""Port that pages name."""
PATIENCE = 300.0
"""Seconds after which a block counts as hanging: no block takes a tenth of it."""

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?^```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.M | re.S,
)
_SAVED = re.compile(r"# (?P<name>[\w-]+\.toml)\b.*\n")
_STAGE = re.compile(r"[\w ,]+ …")
"""A stage that takes long names itself: which ones do depends on the machine."""
_SETTINGS = {
    "COLUMNS": "90",
    "NO_COLOR": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TERMINAL_WIDTH": "90",
    "_TYPER_FORCE_DISABLE_TERMINAL": "1",
}
_BASH = shutil.which("bash") or "bash"
_BEFORE = "set -euo pipefail\n[ ! -f .variables ] || . ./.variables\nset -a\n"
_AFTER = "{ export -p; declare -f; } > .variables\n"
"""Variables and functions of one block are there in the next: they wait in a file in between."""


class BlockFailed(Exception):
    """A block of a page did not do what its reader expects."""


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    code: str
    position: int
    reason: str | None
    """Why it is not run; ``None`` for one that is."""

    @property
    def background(self) -> bool:
        """Whether it goes on while later blocks run."""
        return "keep it running" in self.code.partition("\n")[0]


def walked_pages() -> list[Path]:
    """Pages whose blocks are all executed: the tutorial and the how-to guides."""
    return [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]


def beside(page: Path) -> Path | None:
    """The examples, beside which guides are read; the tutorial begins in an empty folder."""
    return ROOT / "examples" if page.parent.name == "how-to" else None


def blocks_of(text: str) -> list[Block]:
    """Fenced blocks of a page, in order."""
    return [
        Block(found["language"], found["code"], found.start(), found["reason"])
        for found in _BLOCK.finditer(text)
    ]


class Walkthrough:
    """One walk through a page; a folder of its own is made at the first block and removed.

    Args:
        text: The page.
        beside: A directory that stands in the folder from the beginning, such as the examples.

    """

    def __init__(self, text: str, beside: Path | None = None) -> None:
        self._waiting = blocks_of(text)
        self._beside = beside
        self._namespace: dict[str, Any] = {}
        self._folder = Path()
        self._port = ""
        self._running: list[_Background] = []
        self._ending = contextlib.ExitStack()
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.close()

    def output_above(self, position: int) -> str:
        """Run the blocks that begin before this position; return the last one's output."""
        while self._waiting and self._waiting[0].position < position:
            self._run(self._waiting.pop(0))
        return self._last

    def finish(self) -> str:
        """Run all blocks that are left, and end background ones as Ctrl-C does."""
        while self._waiting:
            self._run(self._waiting.pop(0))
        for each in reversed(self._running):
            if code := each.stop():
                raise BlockFailed(f"exit code {code} when it was stopped:\n{each.code}{each.log()}")
        return self._last

    def _run(self, block: Block) -> None:
        if block.reason is not None:
            return
        if self._folder == Path():
            self._make_folder()
        code = block.code.replace(PORT, self._port)
        if block.language == "sh":
            said = self._keep(code) if block.background else self._shell(code)
        elif block.language == "python":
            said = self._python(code)
        else:
            if block.language == "toml" and (found := _SAVED.match(code)):
                (self._folder / found["name"]).write_text(code, encoding="utf-8")
            return
        lines = [line.rstrip() for line in said.splitlines() if not _STAGE.fullmatch(line)]
        self._last = "\n".join(lines).replace(self._port, PORT)

    def _make_folder(self) -> None:
        self._folder = Path(self._ending.enter_context(tempfile.TemporaryDirectory()))
        if self._beside is not None:
            shutil.copytree(self._beside, self._folder / self._beside.name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])

    def _shell(self, code: str) -> str:
        done = subprocess.run(  # noqa: S603  the commands are those of our own pages
            [_BASH, "-c", f"{_BEFORE}{code}{_AFTER}"],
            cwd=self._folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            logs = "".join(each.log() for each in self._running)
            raise BlockFailed(f"exit code {done.returncode}:\n{code}{done.stdout}{logs}")
        return done.stdout

    def _keep(self, code: str) -> str:
        running = _Background(code, self._folder / f".log-{len(self._running)}")
        self._running.append(running)
        self._ending.callback(running.stop)
        return running.ready()

    def _python(self, code: str) -> str:
        printed = io.StringIO()
        with contextlib.chdir(self._folder), contextlib.redirect_stdout(printed):
            exec(compile(code, "<block>", "exec"), self._namespace)  # noqa: S102
        return printed.getvalue()


class _Background:
    """A block that goes on running, in a process group of its own."""

    def __init__(self, code: str, log: Path) -> None:
        self.code = code
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(  # noqa: S603  as above
                [_BASH, "-c", _BEFORE + code],
                cwd=log.parent,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def ready(self) -> str:
        """Lines on standard output up to the one that says that it is ready."""
        said = ""
        with _after(PATIENCE, self._kill):
            for line in self._process.stdout or ():
                said += line
                if _says_ready(line):
                    return said
        raise BlockFailed(f"it ended before it was ready:\n{self.code}{said}{self.log()}")

    def stop(self) -> int:
        """Interrupt it if it still runs, wait, and return its exit code."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.communicate()
        return self._process.returncode

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)

    def log(self) -> str:
        """Everything on standard error so far."""
        return self._log.read_text(encoding="utf-8")


@contextlib.contextmanager
def _after(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Act if the body takes longer."""
    timer = threading.Timer(seconds, act)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _says_ready(line: str) -> bool:
    with contextlib.suppress(ValueError):
        told = json.loads(line)
        return isinstance(told, dict) and told.get("ready") is True
    return False


def _environment() -> Mapping[str, str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **_SETTINGS, "PATH": programs}
