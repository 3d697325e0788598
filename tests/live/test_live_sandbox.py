"""Computations in bounded processes: each ends, whatever it was asked to compute.

``eval`` stands for the accounting: its argument is the computation.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from incrowd.live.sandbox import Ended, Sandbox

CPU_SECONDS = 1
MEMORY_BYTES = 1 << 28


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox("builtins:eval", cpu_seconds=CPU_SECONDS, memory_bytes=MEMORY_BYTES)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("computation", "ended", "answer"),
    [
        (b"b'answer'", Ended.done, b"answer"),
        (b"bytes(10 ** 6)", Ended.done, bytes(10**6)),
        (b"b''", Ended.done, b""),
        (b"sum(iter(int, 1))", Ended.time, b""),
        (b"bytes(1 << 29)", Ended.memory, b""),
        (b"1 / 0", Ended.failed, b""),
        (b"exit()", Ended.failed, b""),
        (b"__import__('os').abort()", Ended.failed, b""),
        (b"__import__('os').kill(__import__('os').getpid(), 9)", Ended.failed, b""),
    ],
)
def test_call_ends_within_its_bounds(sandbox, computation, ended, answer):
    assert sandbox.call(computation) == (ended, answer)


def test_call_leaves_nothing_behind_for_the_next_one(sandbox):
    """Every computation begins in the same state, however the one before ended."""
    assert sandbox.call(b"globals().setdefault('left', b'first')") == (Ended.done, b"first")
    assert sandbox.call(b"globals().setdefault('left', b'second')") == (Ended.done, b"second")


def test_calls_from_many_threads_get_their_own_answers(sandbox):
    numbers = [str(number).encode() for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda each: sandbox.call(b"b'%b'" % each), numbers))
    assert answers == [(Ended.done, each) for each in numbers]


def test_server_ends_with_the_process_that_started_it():
    """Also when that is killed: nothing is left that holds its memory."""
    code = (
        "import os, signal; from incrowd.live.sandbox import Sandbox; "
        "told = Sandbox('builtins:eval').call(b\"str(__import__('os').getppid()).encode()\")[1]; "
        "os.write(1, told); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert done.returncode == -signal.SIGKILL
    while _runs(int(done.stdout)):
        time.sleep(0.02)


def _runs(process: int) -> bool:
    """Whether a process is there, and not only its entry that no parent has asked for."""
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(process, 0)
        stat = Path(f"/proc/{process}/stat")
        return not stat.parent.parent.is_dir() or stat.read_text().rpartition(")")[2][1] != "Z"
    return False


def test_call_that_is_stuck_is_ended():
    """It uses no CPU time, and would hold up its curator for ever."""
    brief = Sandbox("builtins:eval", cpu_seconds=0)
    assert brief.call(b"__import__('signal').pause()") == (Ended.failed, b"")
    brief.close()


def test_call_after_the_server_has_ended_starts_another(sandbox):
    first = sandbox.call(b"str(__import__('os').getppid()).encode()")[1]
    os.kill(int(first), 9)
    second = sandbox.call(b"str(__import__('os').getppid()).encode()")[1]
    assert first != second
    sandbox.close()
    assert sandbox.call(b"b'again'") == (Ended.done, b"again")
