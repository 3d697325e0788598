"""``incrowd run --engine live``: what it is told, what it prints, and surveys of fewer people.

What happens on the network has tests of its own: here the people are drawn at once instead.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Call, Ended, assert_fails

from incrowd import errors
from incrowd.live.options import LiveOptions
from incrowd.live.run import LiveRun, LiveStatistics

PEOPLE = 120


class Network:
    """Stands where the network is: remembers what was asked of it."""

    def __init__(self) -> None:
        self.options = LiveOptions()
        self.people = 0
        self.failure: BaseException | None = None

    def __call__(self, protocol: Any, values: Any, task: Any, **more: Any) -> LiveRun:
        self.options, self.people = more["options"], len(values)
        for stage in ("starting the hub", "enrolling", "handing in"):
            more["progress"](stage, 1, 2)
        if self.failure is not None:
            raise self.failure
        drawn = vars(protocol.simulate(values, task=task, seed=1)) | {"seed": None}
        statistics = LiveStatistics(
            devices=len(values),
            hosts=2,
            transport=self.options.transport,
            cover=self.options.cover,
            round_seconds=0.5,
            seconds=9.25,
            cells_per_device=40.5,
            cells_sent=4860,
            cells_dummy=1215,
            bytes_per_device=41472.0,
            delivered=4860,
            in_flight=0,
            expired=3,
            rejected={"replayed": 2, "malformed": 0},
            missed_rounds=7,
        )
        return LiveRun(**drawn, live=statistics)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    made = Network()
    monkeypatch.setattr("incrowd.live.run.run_live", made)
    return made


@pytest.fixture
def walking(survey: Callable[..., Path]) -> Path:
    return survey(
        "mode\n" + "bus\nbike\ncar\n" * (PEOPLE // 3),
        protocol='kind = "network-shuffle"\ngraph = "regular:8"\nrounds = 6',
        budget="epsilon = 2.0\ndelta = 1e-3",
        randomizer="epsilon = 1.0",
        live="cover = true\nmin_crowd = 50",
    )


def payload(ended: Ended) -> dict[str, Any]:
    assert (ended.code, ended.err) == (0, ""), ended
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_live_run_has_keys_of_any_run(incrowd: Call, walking: Path, network: Network) -> None:
    found = payload(incrowd("run", walking, "--engine", "live", "--no-report", "--format", "json"))
    assert (found["engine"], found["seed"]) == ("live", None)
    assert found["live"]["cells_per_device"] == 40.5
    assert found["live"]["rejected"] == {"replayed": 2, "malformed": 0}
    assert found["budget"]["met"] is True
    assert [each["view"] for each in found["guarantees"]] == ["curator", "curator+hub", "everyone"]
    assert network.options == LiveOptions(cover=True, min_crowd=50)
    simulated = payload(incrowd("run", walking, "--no-report", "--seed", 1, "--format", "json"))
    assert (simulated["engine"], simulated["live"]) == ("simulate", None)
    assert list(simulated) == list(found)
    assert simulated["questions"][0]["rows"] == found["questions"][0]["rows"]


def test_live_table_shows_statistics(incrowd: Call, walking: Path, network: Network) -> None:
    shown = incrowd("run", walking, "--engine", "live", "--transport", "direct", "--no-report").out
    assert network.options.transport == "direct"
    assert "120 on 2 hosts, messages went directly between devices" in shown
    assert "cover traffic  on" in shown
    assert "40.5 cells and 41,472 bytes per device, 25.0 % of them dummies" in shown
    assert "replayed = 2" in shown
    assert "malformed" not in shown
    assert "rounds missed  7" in shown
    assert "curator+hub" in shown
    assert "seed" not in shown


def test_live_flags_override_survey_file(incrowd: Call, walking: Path, network: Network) -> None:
    words = (
        "run",
        walking,
        "--engine",
        "live",
        "--no-cover",
        "--round-seconds",
        "0.25",
        "--min-crowd",
        9,
    )
    ended = incrowd(*words, "--no-report")
    assert ended.code == 0
    assert network.options == LiveOptions(min_crowd=9, round_seconds=0.25)
    assert "cover traffic  off" in ended.out


def test_live_report_states_command_to_repeat(
    incrowd: Call, walking: Path, network: Network
) -> None:
    words = ("run", walking, "--engine", "live", "--no-cover", "--n", "90", "--nats", "nats://x")
    ended = incrowd(*words)
    assert ended.code == 0, ended
    assert network.people == 90
    page = Path("survey.report.html").read_text()
    assert f"incrowd run {walking} --n 90 --engine live --no-cover --nats nats://x" in page
    assert "<h2>How it ran</h2>" in page
    assert "none: a live device refuses one" in page
    assert "Everybody’s device ran on one machine" in page
    assert "This run was a simulation" not in page
    incrowd("run", walking, "--seed", "1", "--n", "90")
    page = Path("survey.report.html").read_text()
    assert f"incrowd run {walking} --n 90 --seed 1" in page
    assert "<h2>How it ran</h2>" not in page


@pytest.mark.parametrize("mode", [(), ("--engine", "actors")])
def test_devices_option_limits_people_in_all_modes(
    incrowd: Call, walking: Path, mode: tuple[str, ...]
) -> None:
    words = ("run", walking, "--n", "60", *mode, "--seed", "1", "--no-report")
    found = payload(incrowd(*words, "--format", "json"))
    assert found["people"] == found["parameters"]["n"] == found["reports"]["sent"] == 60


def test_devices_option_rejects_numbers_out_of_range(
    incrowd: Call, walking: Path, network: Network
) -> None:
    words = ("run", walking, "--engine", "live", "--no-report", "--n")
    assert_fails(incrowd(*words, 40), errors.InvalidCrowd, "--min-crowd must be at most the 40")
    assert incrowd(*words, 40, "--min-crowd", 30).code == 0
    assert_fails(incrowd(*words, 121), errors.InvalidCrowd, "the data have 120 rows; take fewer")


def test_live_failure_and_interrupt_keep_exit_codes(
    incrowd: Call, walking: Path, network: Network
) -> None:
    words = ("run", walking, "--engine", "live", "--no-report")
    network.failure = errors.MissingExtra("NATS needs nats: pip install 'incrowd[live]'")
    assert_fails(incrowd(*words), errors.MissingExtra, "incrowd[live]")
    network.failure = KeyboardInterrupt()
    ended = incrowd(*words)
    assert (ended.code, ended.out, ended.err) == (130, "", "")


def test_config_check_shows_the_live_table(
    incrowd: Call, walking: Path, survey: Callable[..., Path]
) -> None:
    found = payload(incrowd("check", walking, "--format", "json"))
    assert found["live"]["cover"] is True
    assert found["live"]["min_crowd"] == 50
    assert "cover = yes, transport = hub, min_crowd = 50" in incrowd("check", walking).out
    assert "min_crowd" not in incrowd("check", survey()).out
