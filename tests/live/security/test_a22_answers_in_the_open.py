"""A22: answers and private keys in logs, arguments, files of others, and the hub's store.

A whole survey of real processes keeps its files, which are then searched for what people answered
and for the bytes of every private key.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from incrowd.live.keys import CERTIFICATE_FILE, PrivateKeys, write_private
from incrowd.live.options import LiveOptions
from incrowd.live.policy import ColumnRule
from incrowd.live.policy_write import policy_text
from incrowd.live.run import run_live
from incrowd.protocols.local.spec import Local
from incrowd.protocols.trusted_shuffle.spec import TrustedShuffle
from incrowd.randomizers import KRR, Ternary
from incrowd.tasks import Mean
from incrowd.tasks.histogram import Histogram
from tests.live.crowds import crowd, until
from tests.live.policies import wide

VALUES = [f"0.{digits}" for digits in ("718281828459", "414213562373", "577215664901")]
STRANGE = ["tell-nobody-of-this", ""]


def commands() -> list[str]:
    """The command lines of all processes of this user, as anybody can read them."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def secrets_of(folder: Path) -> list[bytes]:
    """Every answer, and the raw bytes of every private key."""
    keys = [PrivateKeys.load(each.parent) for each in folder.rglob(CERTIFICATE_FILE)
            if each.parent.name != "authority"]  # fmt: skip
    raw = [
        key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        for each in keys
        for key in (each.identity, each.hpke)
    ]
    return [each.encode() for each in (*VALUES, STRANGE[0])] + raw


def test_answers_and_keys_of_a_live_run_are_with_their_owners_alone(tmp_path):
    folder = tmp_path / "run"
    seen: list[str] = []
    protocol = TrustedShuffle(Ternary(epsilon=1.0), n=len(VALUES) + len(STRANGE))
    run_live(
        protocol, np.array([*VALUES, *STRANGE]), Mean(bounds=(0, 1)),
        options=LiveOptions(round_seconds=0.5, timeout=20.0), delta=0.05, hosts=1, keep=folder,
        progress=lambda *_: seen.extend(commands()),
    )  # fmt: skip
    assert any("device run" in each for each in seen)
    secrets = secrets_of(folder)
    for each in seen:
        assert not any(secret in each.encode() for secret in secrets)
    places = [each for each in folder.rglob("*") if each.is_file()]
    assert any(each.suffix == ".log" for each in places)
    for place in places:
        content = place.read_bytes()
        held = [secret for secret in secrets if secret in content]
        if held:
            assert place.name == "answers.csv" or place.parent.name not in ("hub", "curator")
            assert place.suffix not in (".log", ".html")
            assert place.stat().st_mode & 0o077 == 0, place
    for name in ("hub.sqlite", "hub.sqlite-wal", "hub.log", "host-0.log", "curator.journal"):
        if (folder / name).exists():
            assert not any(secret in (folder / name).read_bytes() for secret in secrets), name


COLUMNS = {"diagnosis": ColumnRule(type="category", values=("none", "asthma", "hiv"))}
ROWS = ["diagnosis\nhiv\n", "diagnosis\n\n", "other\nhiv\n", "diagnosis\n\xffnonsense\n"]


def test_processes_with_other_answers_log_and_end_alike(hub, tmp_path):
    """Offers that omit a category, then one that does not; then every process is told to end."""

    async def main() -> None:
        async with crowd(hub, tmp_path, len(ROWS)) as people:
            policy = tmp_path / "policy.toml"
            policy.write_text(policy_text(wide(people.curator.identity, columns=COLUMNS)))
            processes = []
            for person, rows in enumerate(ROWS):
                place = tmp_path / f"device-{person}"
                place.mkdir()
                write_private(place / "answers.csv", rows.encode("latin-1"))
                with (place / "log").open("wb") as log:
                    processes.append(
                        subprocess.Popen(
                            [
                                *(sys.executable, "-m", "incrowd", "device", "run"),
                                *("--hub", people.network.hub, "--state", str(place / "state")),
                                *("--ca", str(people.network.authority)),
                                *("--keys", str(people.paths[person]), "--policy", str(policy)),
                                *("--answers", str(place / "answers.csv")),
                            ],
                            stdout=subprocess.PIPE,
                            stderr=log,
                        )
                    )
            try:
                for each in processes:
                    assert b"ready" in await asyncio.to_thread(each.stdout.readline)
                for kept in (("none", "asthma"), ("none", "hiv")):
                    await offered(people, Histogram(categories=kept))
                proposal = await offered(people, Histogram(categories=("none", "asthma", "hiv")))
                run = await people.conclude(await people.start(proposal))
                assert run.collected.received == len(ROWS)
                logs = [tmp_path / f"device-{each}" / "log" for each in range(len(ROWS))]
                await until(lambda: all(each.read_text().count("declined") == 2 for each in logs))
            finally:
                for each in processes:
                    each.send_signal(signal.SIGTERM)
                ends = [await asyncio.to_thread(each.communicate) for each in processes]
            assert {each.returncode for each in processes} == {0}
            assert len({said for said, _ in ends}) == 1
            assert len({each.read_text() for each in logs}) == 1

    asyncio.run(main())


async def offered(people, question):
    straight = Local(KRR(categories=len(question.labels), epsilon=1.0), n=len(ROWS))
    return await people.offered(
        protocol=straight, question=question, column="diagnosis", timeout=20.0
    )


def test_no_option_of_the_program_takes_an_answer(capsys):
    from incrowd.cli import main

    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(["device", "run", "--answer", "vote=keep"]))
    assert ended.value.code == 2
    assert "No such option" in " ".join(capsys.readouterr().err.split())
