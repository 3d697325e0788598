"""The help text and the JSON of every command, as committed files.

``UPDATE_SNAPSHOTS=1 pytest tests/cli`` writes them again; read the difference before committing it.
Helps are compared word for word. JSON is compared key by key, without versions and paths, and with
numbers to one part in a thousand: a bound may become tighter, which is for other tests to judge.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import EXAMPLES, Call

from incrowd.protocols import PROTOCOLS

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATE = "UPDATE_SNAPSHOTS" in os.environ

DEVICE = ("run", "consent", "pause", "resume", "withdraw", "backup", "move", "restore")
POLICY = ("init", "check", "show")
CURATOR = ("open", "watch", "result", "close")
KEYS = ("ca", "issue", "rotate", "revoke", "show")
HELPS = [
    (),
    ("run",),
    ("init",),
    ("release",),
    ("account",),
    ("calibrate",),
    *((group, kind) for group in ("account", "calibrate") for kind in PROTOCOLS),
    ("check",),
    ("graph",),
    ("graph", "stats"),
    ("query",),
    ("hub",),
    ("ledger",),
    ("device",),
    *(("device", each) for each in DEVICE),
    ("device", "policy"),
    *(("device", "policy", each) for each in POLICY),
    ("curator",),
    *(("curator", each) for each in CURATOR),
    ("keys",),
    *(("keys", each) for each in KEYS),
]

NOISE = ("--sigma", "4", "--sensitivity", "1", "--delta", "1e-6")
AVERAGES = "SELECT age_range, AVG(insulin), COUNT(*) FROM patients GROUP BY age_range"
CROWD = ("--n", "1e4", "--delta", "1e-6")
RESULTS = {
    "account-trusted-shuffle": ("account", "trusted-shuffle", "--local-epsilon", "1", *CROWD),
    "account-trusted-shuffle-krr": (
        *(
            "account",
            "trusted-shuffle",
            "--local-epsilon",
            "1",
            "--randomizer",
            "krr",
            "--categories",
            "16",
        ),
        *(*CROWD, "--colluders", "100"),
    ),
    "account-trusted-shuffle-everyone": (
        *(
            "account",
            "trusted-shuffle",
            "--local-epsilon",
            "1",
            "--view",
            "everyone",
            "--rounds",
            "2",
            *CROWD,
        ),
    ),
    "account-local": ("account", "local", "--local-epsilon", "1", *CROWD),
    "calibrate-trusted-shuffle-local-epsilon": (
        "calibrate",
        "trusted-shuffle",
        "--epsilon",
        "0.5",
        *CROWD,
    ),
    "calibrate-trusted-shuffle-delta": (
        *(
            "calibrate",
            "trusted-shuffle",
            "--epsilon",
            "0.05",
            "--n",
            "1e4",
            "--local-epsilon",
            "1",
        ),
    ),
    "calibrate-local-local-epsilon": ("calibrate", "local", "--epsilon", "0.5", *CROWD),
    "check-commute": ("check", EXAMPLES / "commute.toml"),
    "run-commute": ("run", EXAMPLES / "commute.toml", "--seed", "7", "--no-report"),
    "run-minutes": ("run", EXAMPLES / "minutes.toml", "--seed", "7", "--no-report"),
    "run-rare-condition": ("run", EXAMPLES / "rare_condition.toml", "--seed", "7", "--no-report"),
    "account-network-shuffle": (
        *("account", "network-shuffle", "--graph", "friends.txt", "--rounds", "4"),
        *("--local-epsilon", "1", "--delta", "1e-3"),
    ),
    "account-network-shuffle-colluders": (
        *("account", "network-shuffle", "--graph", "friends.txt", "--rounds", "4"),
        *("--local-epsilon", "1", "--delta", "1e-3", "--colluders", "1"),
    ),
    "account-network-shuffle-stationary": (
        *("account", "network-shuffle", "--stationary", "--local-epsilon", "1", *CROWD),
    ),
    "calibrate-network-shuffle-rounds": (
        *("calibrate", "network-shuffle", "--graph", "crowd.txt", "--epsilon", "0.6"),
        *("--local-epsilon", "1", "--delta", "1e-3", "--randomizer", "krr", "--categories", "5"),
    ),
    "account-check-in": (
        *("account", "check-in", "--rate", "0.1", "--rounds", "20", "--local-epsilon", "2", *CROWD),
    ),
    "calibrate-check-in-rounds": (
        *(
            "calibrate",
            "check-in",
            "--rate",
            "0.1",
            "--local-epsilon",
            "2",
            "--epsilon",
            "0.2",
            *CROWD,
        ),
    ),
    "run-check-in": ("run", EXAMPLES / "check_in.toml", "--seed", "7", "--no-report"),
    "run-friends": ("run", EXAMPLES / "friends.toml", "--seed", "7", "--no-report"),
    "account-network-shuffle-family": (
        *("account", "network-shuffle", "--graph", "regular:8", "--n", "60", "--rounds", "6"),
        *("--local-epsilon", "1", "--delta", "1e-3"),
    ),
    "account-order-shuffle": (
        *("account", "order-shuffle", "--groups", "neighbours.json", "--alpha", "1"),
        *("--local-epsilon", "2"),
    ),
    "check-live": ("check", EXAMPLES / "live.toml"),
    "graph-stats": ("graph", "stats", "friends.txt"),
    "account-token-walk-sum": ("account", "token-walk", "--n", "200", "--steps", "400", *NOISE),
    "account-token-walk-public": (
        *("account", "token-walk", "--n", "200", "--steps", "400", "--path", "public", *NOISE),
        *("--view", "peer+hub", "--cap", "3"),
    ),
    "account-token-walk-ring": (
        *("account", "token-walk", "--topology", "ring", "--n", "200", "--laps", "3", *NOISE),
    ),
    "account-token-walk-graph": (
        *("account", "token-walk", "--topology", "graph", "--graph", "crowd.txt", "--steps", "80"),
        *("--cap", "3", *NOISE),
    ),
    "account-token-walk-histogram": (
        *("account", "token-walk", "--contribution", "histogram", "--n", "200", "--steps", "400"),
        *("--categories", "5", "--local-epsilon", "1", "--delta", "1e-6"),
    ),
    "calibrate-token-walk-sigma": (
        *("calibrate", "token-walk", "--n", "200", "--steps", "400", "--sensitivity", "1"),
        *("--delta", "1e-6", "--epsilon", "1"),
    ),
    "calibrate-token-walk-local-epsilon": (
        *("calibrate", "token-walk", "--contribution", "histogram", "--n", "200", "--steps", "400"),
        *("--categories", "5", "--delta", "1e-6", "--epsilon", "0.5"),
    ),
    "account-scrambled-query": (
        *(
            "account",
            "scrambled-query",
            "--targets",
            "8",
            "--redirect-probability",
            "0.1",
            "--sources",
            "100",
        ),
        *("--dummies", "50", "--delta", "1e-4"),
    ),
    "account-scrambled-query-release": (
        *(
            "account",
            "scrambled-query",
            "--targets",
            "8",
            "--redirect-probability",
            "0.1",
            "--sources",
            "100",
        ),
        *(
            "--dummies",
            "50",
            "--release-epsilon",
            "0.5",
            "--view",
            "curator+network",
            "--delta",
            "1e-4",
        ),
    ),
    "account-scrambled-query-local": (
        *(
            "account",
            "scrambled-query",
            "--hiding",
            "local",
            "--targets",
            "8",
            "--redirect-probability",
            "0.1",
        ),
        *("--dummies", "3", "--n", "100", "--delta", "0.1"),
    ),
    "calibrate-scrambled-query-dummies": (
        *(
            "calibrate",
            "scrambled-query",
            "--targets",
            "8",
            "--redirect-probability",
            "0.1",
            "--sources",
            "100",
        ),
        *("--epsilon", "1", "--delta", "1e-4"),
    ),
    "query-averages": (
        *("query", AVERAGES, "--data", EXAMPLES / "patients.csv"),
        *("--schema", EXAMPLES / "patients.toml", "--epsilon", "1", "--delta", "1e-4"),
        *("--seed", "7"),
    ),
    "query-release": (
        *("query", "SELECT bmi, COUNT(*) FROM patients GROUP BY bmi"),
        *("--data", EXAMPLES / "patients.csv", "--schema", EXAMPLES / "patients.toml"),
        *("--epsilon", "2", "--delta", "1e-4", "--release-epsilon", "1", "--seed", "7"),
    ),
    **{
        f"run-{name.replace('_', '-')}": (
            *("run", EXAMPLES / f"{name}.toml", "--seed", "7", "--no-report"),
        )
        for name in ("insulin", "token", "token_modes", "town")
    },
    **{
        f"check-{name.replace('_', '-')}": ("check", EXAMPLES / f"{name}.toml")
        for name in (
            *("check_in", "insulin", "minutes", "rare_condition", "token"),
            *("token_modes", "town"),
        )
    },
    "device-policy-check": ("device", "policy", "check", EXAMPLES / "policy.toml"),
    "device-policy-show": ("device", "policy", "show", EXAMPLES / "policy.toml"),
}


def kept(name: str, text: str) -> str:
    """The committed snapshot, written anew on request."""
    path = SNAPSHOTS / name
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return path.read_text()


def test_help_snapshots_cover_all_commands() -> None:
    from incrowd.cli.app import build

    def below(command: Any, words: tuple[str, ...]) -> list[tuple[str, ...]]:
        inner = getattr(command, "commands", {})
        return [words, *(each for name in inner for each in below(inner[name], (*words, name)))]

    assert sorted(HELPS) == sorted(below(build(), ()))


@pytest.mark.parametrize("words", HELPS, ids="-".join)
def test_help_equals_snapshot(incrowd: Call, words: tuple[str, ...]) -> None:
    ended = incrowd(*words, "--help")
    assert (ended.code, ended.err) == (0, "")
    text = "\n".join(line.rstrip() for line in ended.out.splitlines())
    text = text.strip() + "\n"
    assert text == kept("-".join(("help", *words)) + ".txt", text)


@pytest.mark.parametrize("name", RESULTS)
def test_json_equals_snapshot(incrowd: Call, name: str) -> None:
    Path("friends.txt").write_text("0 1\n1 2\n2 0\n2 3\n")
    Path("neighbours.json").write_text((EXAMPLES / "neighbours.json").read_text())
    known = (f"{u} {v}" for u in range(40) for v in range(u) if (u + v) % 3)
    Path("crowd.txt").write_text("\n".join(known))
    ended = incrowd(*RESULTS[name], "--format", "json")
    assert ended.code == 0, ended.err
    # A note is written of groups in which somebody is alone, and of a graph without names.
    assert name.endswith(("-town", "-friends")) or not ended.err, ended.err
    payload = normal(json.loads(ended.out))
    expected = json.loads(kept(f"{name}.json", json.dumps(payload, indent=2) + "\n"))
    assert_alike(payload, expected, name)


def normal(value: Any) -> Any:
    """The same without what depends on the machine, and in nine digits."""
    if isinstance(value, dict):
        return {
            key: None
            if key in ("versions", "survey", "report", "graph", "policy")
            else normal(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [normal(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def assert_alike(value: Any, expected: Any, where: str) -> None:
    assert type(value) is type(expected), where
    if isinstance(value, dict):
        assert list(value) == list(expected), where
        for key in value:
            assert_alike(value[key], expected[key], f"{where}.{key}")
    elif isinstance(value, list):
        assert len(value) == len(expected), where
        for index, pair in enumerate(zip(value, expected, strict=True)):
            assert_alike(*pair, f"{where}[{index}]")
    elif isinstance(value, float):
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-9), where
    else:
        assert value == expected, where
