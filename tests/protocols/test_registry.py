from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from incrowd.errors import InvalidParameter
from incrowd.protocols import PROTOCOLS, Protocol, load
from incrowd.protocols.runtime.delivery import Backoff
from incrowd.protocols.runtime.wire import envelope_bytes
from incrowd.protocols.settings import settings_type


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_every_protocol_has_the_shape(kind):
    protocol = load(kind)
    assert issubclass(protocol, Protocol)
    assert protocol.kind == kind
    assert PROTOCOLS.find(kind).summary
    assert "n" in settings_type(protocol).__struct_fields__


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_every_parameter_says_what_it_is_and_how_it_is_solved(kind):
    described = {
        field.name: field.type
        for field in msgspec.inspect.type_info(settings_type(load(kind))).fields
    }
    assert "n" in described
    solve = {}
    for name, info in described.items():
        assert isinstance(info, msgspec.inspect.Metadata), name
        assert info.extra_json_schema["description"], name
        solve[name] = info.extra.get("solve")
    if kind == "scrambled-query":
        # People beyond those behind one scrambler hide nobody; lies and dummies hide everybody.
        assert {solve[name] for name in ("redirect_probability", "sources", "dummies")} == {"min"}
        return
    if kind == "order-shuffle":
        assert not any(solve.values())  # No crowd makes its guarantees any stronger.
        return
    assert solve["n"] == "min"
    # Rounds of fresh reports cost privacy; rounds of a walk buy it.
    length = "steps" if kind == "token-walk" else "rounds"
    assert solve[length] == ("min" if kind == "network-shuffle" else "max")


def test_unknown_protocol_names_the_known():
    with pytest.raises(
        InvalidParameter, match="local, network-shuffle, order-shuffle, scrambled-query, token-walk"
    ):
        load("telepathy")


def test_the_registry_is_lazy():
    program = (
        "import sys, incrowd.protocols;"
        "print([name for name in sys.modules if name.startswith('incrowd.protocols.local')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_envelopes_of_later_rounds_are_never_smaller():
    sizes = [envelope_bytes(8, rounds) for rounds in (1, 128, 129, 70_000)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


@pytest.mark.parametrize("wrong", [{"first": 0}, {"factor": 0.5}, {"first": 9, "cap": 3}])
def test_backoff_is_checked(wrong):
    with pytest.raises(InvalidParameter, match="back-off"):
        Backoff(**wrong)
