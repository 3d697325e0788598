"""A survey between hosts with addresses of their own, made of network namespaces."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "spread" / "spread.py"
PEOPLE = 16


def why_not() -> str | None:
    """Why namespaces cannot be made here."""
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        return "network namespaces need Linux and the command ip"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"incrowd-probe-{os.getpid()}"
    for words in (
        ["netns", "add", name],
        ["-n", name, "link", "add", "port", "type", "veth", "peer", "name", "eth0"],
        ["-n", name, "link", "add", "bridge", "type", "bridge"],
    ):
        tried = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if tried.returncode:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
            return f"network namespaces are not permitted here: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


@pytest.fixture(autouse=True)
def left_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if reason := why_not():
        pytest.skip(reason)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []


def namespaces(process: int) -> list[Path]:
    """The namespaces that a run of the script has made."""
    return list(Path("/run/netns").glob(f"incrowd-{process}-*"))


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "--people", str(PEOPLE), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("transport", ["direct", pytest.param("hub", marks=pytest.mark.slow)])
def test_a_survey_between_hosts(transport: str) -> None:
    with start("--transport", transport) as running:
        said, complaints = running.communicate()
    assert running.returncode == 0, said + complaints
    assert f"transport {transport}" in said
    assert f"{PEOPLE} of {PEOPLE} arrived" in said
    assert "curator+hub" in said
    assert namespaces(running.pid) == []


def test_everything_is_removed_when_it_is_stopped() -> None:
    with start() as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        made = namespaces(running.pid)
        running.send_signal(signal.SIGTERM)
        _, complaints = running.communicate()
    assert "devices at 10.77.0.2 are enrolled" in first, complaints
    assert len(made) == 5
    assert running.returncode == 1
    assert namespaces(running.pid) == []
