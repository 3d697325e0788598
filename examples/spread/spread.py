"""A survey between four hosts with addresses of their own, on one machine.

Linux network namespaces stand in for machines: each has an interface, an address and nothing else,
and a bridge in a fifth namespace is the cable between them.

    10.77.0.1  hub          10.77.0.2, 10.77.0.3  devices          10.77.0.4  curator

The machine's own network is not touched. Everything is made anew and removed at the end, however
that comes. It needs Linux, the command ``ip`` and root:

    sudo .venv/bin/python examples/spread/spread.py                    # from device to device
    sudo .venv/bin/python examples/spread/spread.py --transport hub    # through the hub
"""

# Every program that is started here is named in this file.
# ruff: noqa: S603, S607

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
HUB, FIRST, SECOND, CURATOR = (f"10.77.0.{last}" for last in range(1, 5))
ADDRESSES = (HUB, FIRST, SECOND, CURATOR)
PORT = 8443
INCROWD = (sys.executable, "-m", "incrowd")
STOP_SECONDS = 30


def ip(*words: str) -> None:
    """Run ``ip``; what it complains about ends the script."""
    subprocess.run(["ip", *words], check=True)


class Network:
    """Namespaces on one bridge, by their addresses."""

    def __init__(self) -> None:
        self._prefix = f"incrowd-{os.getpid()}"
        self._bridge = f"{self._prefix}-bridge"

    def __enter__(self) -> Network:
        try:
            self._add(self._bridge)
            ip("-n", self._bridge, "link", "add", "bridge", "type", "bridge")
            ip("-n", self._bridge, "link", "set", "bridge", "up")
            for address in ADDRESSES:
                self._attach(address)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in (*map(self.name, ADDRESSES), self._bridge):
            if Path("/run/netns", name).exists():
                self._end(name)
                # Interfaces go with the namespace they are in.
                ip("netns", "del", name)

    @staticmethod
    def _end(name: str) -> None:
        """End what still runs on a host: a signal may come while a program is being started."""
        inside = subprocess.run(
            ["ip", "netns", "pids", name], check=True, stdout=subprocess.PIPE, text=True
        )
        for process in inside.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)

    def name(self, address: str) -> str:
        """The namespace with this address."""
        return f"{self._prefix}-{address}"

    def _add(self, name: str) -> None:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")

    def _attach(self, address: str) -> None:
        name, port = self.name(address), f"port{address.rpartition('.')[2]}"
        self._add(name)
        ip(
            *("-n", self._bridge, "link", "add", port, "type", "veth"),
            *("peer", "name", "eth0", "netns", name),
        )
        ip("-n", self._bridge, "link", "set", port, "master", "bridge", "up")
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")

    def command(self, address: str, words: Sequence[str]) -> list[str]:
        """The command line that runs ``incrowd`` on the host with this address."""
        return ["ip", "netns", "exec", self.name(address), *INCROWD, *words]


class Service:
    """A program on one of the hosts that says in JSON when it is ready, and what it did."""

    def __init__(self, network: Network, address: str, *words: str) -> None:
        # ``ip netns exec`` becomes the program, so a signal to this process reaches it.
        self._process = subprocess.Popen(
            network.command(address, words), stdout=subprocess.PIPE, text=True
        )
        self._what = f"{words[0]} on {address}"

    def line(self) -> Any:
        """The next line that it says."""
        said = self._process.stdout.readline() if self._process.stdout else ""
        if not said:
            sys.exit(f"the {self._what} ended: see its complaint above")
        return json.loads(said)

    def stop(self) -> None:
        """Let it finish what it is committing, and show its last words."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            for said in self._process.stdout:
                print(f"{self._what}: {said.strip()}", flush=True)
            self._process.stdout.close()


@contextmanager
def service(network: Network, address: str, *words: str) -> Iterator[Service]:
    """A program that runs for a while, and is ready."""
    running = Service(network, address, *words)
    try:
        running.line()
        yield running
    finally:
        running.stop()


def make_keys(folder: Path, people: int) -> None:
    """Keys of everyone, made in one place because this is one machine; and everyone's answer."""
    authority = str(folder / "authority")
    run("keys", "ca", authority)
    issue = ("--ca", authority, "--format", "json")
    run(
        "keys",
        "issue",
        str(folder / "hub"),
        "--role",
        "hub",
        "--name",
        "hub",
        "--host",
        HUB,
        *issue,
    )
    run("keys", "issue", str(folder / "curator"), "--role", "curator", "--name", "curator", *issue)
    write_policy(folder, shown_identity(folder / "curator"))
    with (HERE.parent / "canteen.csv").open(newline="") as file:
        votes = iter([row["vote"] for row in csv.DictReader(file)])
    for name, address, count in hosts(people):
        place = folder / address
        run(
            *("keys", "issue", str(place / "keys"), "--role", "device", "--name", name),
            *("--count", str(count), *issue),
        )
        answers = place / "answers.csv"
        answers.touch(mode=0o600)
        with answers.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["device", "vote"])
            rows.writerows((each.name, next(votes)) for each in sorted((place / "keys").iterdir()))


def shown_identity(keys: Path) -> str:
    """The identity key of a party, as the program shows it."""
    words = [*INCROWD, "keys", "show", str(keys), "--format", "json"]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    return str(json.loads(done.stdout)["keys"][0]["identity"])


def write_policy(folder: Path, curator: str) -> None:
    """The policy of every device, with the curator's key in its place."""
    text = (HERE / "policy.toml").read_text(encoding="utf-8")
    (folder / "policy.toml").write_text(text.replace("ed25519:CURATOR", f"ed25519:{curator}"))


def hosts(people: int) -> list[tuple[str, str, int]]:
    """The hosts of devices: their devices' name, address and number."""
    return [("first", FIRST, people // 2), ("second", SECOND, people - people // 2)]


def run(*words: str) -> None:
    """Run ``incrowd`` where this script runs, silently unless it complains."""
    subprocess.run([*INCROWD, *words], check=True, stdout=subprocess.DEVNULL)


def survey_file(folder: Path, transport: str) -> Path:
    """The survey, for this transport."""
    text = (HERE / "survey.toml").read_text(encoding="utf-8")
    file = folder / "survey.toml"
    file.write_text(text.replace('transport = "hub"', f'transport = "{transport}"'))
    return file


def ask(network: Network, folder: Path, people: int, transport: str) -> None:
    """Start hub and devices, run the survey as its curator, and print what came out."""
    make_keys(folder, people)
    trust = ("--ca", str(folder / "authority" / "certificate.pem"))
    url = f"https://{HUB}:{PORT}"
    with ExitStack() as stack:
        stack.enter_context(
            service(
                *(network, HUB, "hub", "--keys", str(folder / "hub"), *trust),
                *("--store", str(folder / "hub.sqlite"), "--host", HUB, "--port", str(PORT)),
                *("--log-format", "text"),
            )
        )
        for _, address, count in hosts(people):
            place = folder / address
            stack.enter_context(
                service(
                    *(network, address, "device", "run", "--hub", url, *trust),
                    *("--keys", str(place / "keys"), "--count", str(count)),
                    *("--answers", str(place / "answers.csv"), "--state", str(place / "state")),
                    *("--listen", address, "--policy", str(folder / "policy.toml")),
                )
            )
            print(f"{count} devices at {address} are enrolled", flush=True)
        curator = (
            *("--hub", url, *trust, "--keys", str(folder / "curator")),
            *("--state", str(folder / "curator-state")),
        )

        def command(*words: str) -> str:
            done = subprocess.run(
                network.command(CURATOR, ["curator", *curator, *words]),
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            return done.stdout

        file = survey_file(folder, transport)
        opened = json.loads(command("open", str(file), "--expires-in", "1", "--format", "json"))
        survey = opened["survey"]
        print(f"survey {survey} is open, transport {transport}", flush=True)
        direct = ("--listen", CURATOR, "--dial", "10.77.0.0/24")
        reached = direct if transport == "direct" else ()
        command("watch", survey, "--wait", "60", "--lead", "5", "--no-report", *reached)
        print(command("result", survey, "--no-report"), flush=True)
        command("close", survey)


def stop(*_: object) -> NoReturn:
    """A termination signal ends the script as an interrupt does: by way of the clean-up."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Once is enough: cleaning up takes a moment.
    sys.exit("stopped")


def main() -> None:
    """Check what is needed, build the network, ask, and remove everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--transport", choices=["direct", "hub"], default="direct")
    parser.add_argument("--people", type=int, default=16, help="devices on both hosts together")
    asked = parser.parse_args()
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        sys.exit("network namespaces need Linux and the command ip")
    if os.geteuid() != 0:
        sys.exit("network namespaces need root: run it with sudo")
    signal.signal(signal.SIGTERM, stop)
    with tempfile.TemporaryDirectory(prefix="incrowd-spread-") as folder, Network() as network:
        ask(network, Path(folder), asked.people, asked.transport)


if __name__ == "__main__":
    main()
