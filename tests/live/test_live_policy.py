"""The owner's policy as a file: what it says, and one line for everything that is wrong with it."""

from __future__ import annotations

import math

import pytest

from incrowd.errors import FileUnreadable, InvalidConfig, MalformedConfig
from incrowd.live.policy import NetworkRule, Policy, key_text, read_key
from incrowd.live.policy_file import parse_policy, read_policy
from incrowd.protocols import PROTOCOLS

IDENTITY = bytes(range(32))
POLICY = f"""
version = 1
[budget]
epsilon = 4.0
delta = 1e-5
local_epsilon = 8.0
per_day = {{ epsilon = 1.0, surveys = 5 }}
[crowd]
min = 100
assume_colluding = 0.10
[consent]
mode = "standing"
on_refusal = "no-answer"
[[curator]]
key = "ed25519:{IDENTITY.hex()}"
columns = ["vote", "age", "district"]
max_epsilon = 1.0
max_local_epsilon = 4.0
protocols = ["network-shuffle", "trusted-shuffle"]
[column.vote]
type = "category"
values = ["keep", "drop", "no matter"]
[column.vote.coarse.opinion]
values = ["has one", "has none"]
groups = [["keep", "drop"], ["no matter"]]
[column.age]
type = "number"
bounds = [0, 120]
[column.age.coarse.generation]
values = ["under 18", "18 to 64", "65 and over"]
edges = [18, 65]
[column.district]
type = "category"
values = ["north", "south"]
complete = true
public = true
[network]
dial = ["127.0.0.1", "10.1.0.0/16", "::1"]
"""


def policy(*changes: tuple[str, str]) -> Policy:
    text = POLICY
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    return parse_policy(text, protocols=PROTOCOLS)


def test_policy_of_the_reference_file_holds_every_key():
    found = policy()
    assert (found.budget.epsilon, found.budget.delta, found.budget.local_epsilon) == (4, 1e-5, 8)
    assert found.budget.view == "curator"
    assert (found.budget.per_day.epsilon, found.budget.per_day.surveys) == (1, 5)
    assert (found.crowd.min, found.crowd.assume_colluding) == (100, 0.1)
    assert (found.consent.mode, found.consent.on_refusal) == ("standing", "no-answer")
    rule = found.rule_of(IDENTITY)
    assert rule is not None
    assert rule.columns == ("vote", "age", "district")
    assert (rule.max_epsilon, rule.max_local_epsilon) == (1, 4)
    assert rule.protocols == ("network-shuffle", "trusted-shuffle")
    assert found.rule_of(bytes(32)) is None
    assert found.column["district"].public
    assert found.column["district"].complete
    assert not found.column["vote"].public
    assert not found.column["vote"].complete


def test_policy_with_the_least_keys_allows_no_curator():
    found = parse_policy(
        "version = 1\n[budget]\nepsilon = 1\ndelta = 0\nlocal_epsilon = inf\n"
        "[crowd]\nmin = 1\nassume_colluding = 0\n"
    )
    assert found.curator == ()
    assert found.column == {}
    assert found.network.dial == ()
    assert found.budget.local_epsilon == math.inf


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("version = 1", "version = 2", "version: expected 1; write version = 1"),
        ("version = 1", "", "version: expected 1; write version = 1"),
        ("[crowd]", "[krowd]", "krowd: unknown key; did you mean crowd?"),
        ("epsilon = 4.0", "epsilon = 0", "budget.epsilon: expected a positive number"),
        ("epsilon = 4.0", "epsilon = nan", "budget.epsilon: expected a positive number"),
        ("epsilon = 4.0", "epsilon = '4'", "budget.epsilon: expected number, got text"),
        ("epsilon = 4.0", "epsilon = true", "budget.epsilon: expected number, got true or false"),
        ("delta = 1e-5", "delta = 1", "budget.delta: expected a number of at least 0 and below 1"),
        ("delta = 1e-5", "delta = nan", "budget.delta: expected a number of at least 0"),
        ("local_epsilon = 8.0", "", "budget.local_epsilon: missing; add this key"),
        ("local_epsilon = 8.0", 'local_epsilon = 8.0\nview = "x"', "budget.view: unknown view 'x'"),
        ("surveys = 5", "surveis = 5", "budget.per_day.surveis: unknown key; did you mean surveys"),
        ("surveys = 5", "surveys = 0", "budget.per_day.surveys: expected a whole number"),
        ("min = 100", "min = 0", "crowd.min: expected a whole number of at least 1"),
        ("min = 100", "", "crowd.min: missing; add this key"),
        ("= 0.10", "= 1.5", "crowd.assume_colluding: expected a share between 0 and 1"),
        ('"standing"', '"silent"', 'consent.mode: expected "ask" or "standing"'),
        ('"no-answer"', '"lie"', 'consent.on_refusal: expected "leave" or "no-answer"'),
        ("ed25519:", "rsa:", "curator[0].key: expected ed25519: and an identity key of 32 bytes"),
        (IDENTITY.hex(), IDENTITY.hex()[2:], "curator[0].key: expected ed25519:"),
        ("max_epsilon = 1.0", "max_epsilon = -1", "curator[0].max_epsilon: expected a positive"),
        ("max_epsilon = 1.0", "", "curator[0].max_epsilon: missing; add this key"),
        (
            "max_epsilon = 1.0",
            "max_epsilon = 1.0\nbudget = { epsilon = 1, deltta = 0 }",
            "curator[0].budget.deltta: unknown key; did you mean delta?",
        ),
        ('"trusted-shuffle"', '"trusted-shufle"', "curator[0].protocols[1]: unknown protocol"),
        ('"age", ', '"sex", ', "curator[0].columns[1]: 'sex' has no domain; add a table [column."),
        ("[0, 120]", "[120, 0]", "column.age.bounds: expected [low, high]"),
        ("[0, 120]", "[0]", "column.age.bounds: expected list of length 2, got 1"),
        ("bounds = [0, 120]", "", "column.age.bounds: missing; add bounds = [low, high]"),
        (
            '["north", "south"]',
            '["north", "north"]',
            "column.district.values: a category is listed",
        ),
        ('["north", "south"]', "[1, 2]", "column.district.values[0]: expected text, got whole"),
        ("complete = true", "complet = true", "column.district.complet: unknown key; did you mean"),
        (
            '[column.vote]\ntype = "category"',
            "[column]\nx = 3\n[column.vote]",
            "column.x: expected a",
        ),
        ("edges = [18, 65]", "edges = [18]", "column.age.coarse.generation.edges: 3 values need 2"),
        (
            "edges = [18, 65]",
            "edges = [65, 18]",
            "column.age.coarse.generation.edges: expected inc",
        ),
        ("edges = [18, 65]", "edges = [18, 165]", "column.age.coarse.generation.edges: expected n"),
        ("edges = [18, 65]", "", "column.age.coarse.generation.edges: give either edges"),
        (', ["no matter"]]', "]", "column.vote.coarse.opinion.groups: 2 values need as many"),
        ('["keep", "drop"], [', '["keep"], [', "column.vote.coarse.opinion.groups: every value"),
        (
            '"has one", "has none"]\ngroups = [["keep", "drop"], ["no matter"]]',
            '"keep", "drop", "no matter"]\ngroups = [["drop"], ["keep"], ["no matter"]]',
            "column.vote.coarse.opinion.values: another table has the same",
        ),
        ('type = "number"', 'type = "text"', "column.age.bounds: a text has none"),
        ('"127.0.0.1"', '"localhost"', "network.dial[0]: 'localhost' does not appear to be"),
        ('"127.0.0.1"', '"169.254.169.254"', "network.dial[0]: link-local and multicast"),
        ('"127.0.0.1"', '"224.0.0.1"', "network.dial[0]: link-local and multicast"),
    ],
)
def test_policy_with_a_wrong_value_is_refused_in_one_line(before, after, line):
    with pytest.raises(InvalidConfig) as caught:
        policy((before, after))
    assert str(caught.value).startswith(f"policy.toml: {line}")
    assert "\n" not in str(caught.value)


def test_policy_with_one_key_twice_is_refused():
    entry = POLICY[POLICY.index("[[curator]]") : POLICY.index("[column.vote]")]
    with pytest.raises(InvalidConfig, match=r"curator\[1\]\.key: the same key as in curator\[0\]"):
        policy((entry, entry + entry))


def test_policy_file_that_is_no_toml_is_refused_with_its_place(tmp_path):
    with pytest.raises(MalformedConfig, match=r"policy\.toml: line 1, column 9"):
        parse_policy("version 1")
    with pytest.raises(FileUnreadable, match="cannot read the policy"):
        read_policy(tmp_path / "none.toml")
    (tmp_path / "policy.toml").write_bytes(b"version = 1 # \xff")
    with pytest.raises(MalformedConfig, match="not UTF-8"):
        read_policy(tmp_path / "policy.toml")


@pytest.mark.parametrize(
    "text",
    [
        IDENTITY.hex(),
        IDENTITY.hex().upper(),
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
    ],
)
def test_key_in_hexadecimal_or_base64_is_the_same_key(text):
    assert read_key(f"ed25519:{text}") == IDENTITY
    assert policy((IDENTITY.hex(), text)).rule_of(IDENTITY) is not None
    assert key_text(IDENTITY) == f"ed25519:{IDENTITY.hex()}"


def test_key_in_url_safe_base64_is_the_same_key():
    assert read_key("ed25519:" + "_-" * 21 + "8") == read_key("ed25519:" + "/+" * 21 + "8=")


@pytest.mark.parametrize(
    ("share", "roster", "colluders"),
    [(0.1, 100, 10), (0.1, 101, 11), (0.0, 1000, 0), (0.3, 10, 3), (1, 7, 7), (0.001, 5, 1)],
)
def test_colluders_are_the_share_as_written_rounded_up(share, roster, colluders):
    assert policy(("= 0.10", f"= {share}")).colluders(IDENTITY, roster) == colluders
    # An entry's own share counts for that curator alone.
    own = policy(("max_epsilon = 1.0", f"max_epsilon = 1.0\nassume_colluding = {share}"))
    assert own.colluders(IDENTITY, roster) == colluders
    assert own.colluders(bytes(32), 100) == 10


@pytest.mark.parametrize(
    ("raw", "coarse"),
    [
        ("0", "under 18"), ("17.9", "under 18"), ("18", "18 to 64"), ("64", "18 to 64"),
        ("65", "65 and over"), ("120", "65 and over"), ("-3", "under 18"), ("500", "65 and over"),
        ("", None), ("old", None), ("nan", None), (None, None),
    ],
)  # fmt: skip
def test_number_is_coarsened_at_its_edges(raw, coarse):
    assert policy().column["age"].coarsened("generation", raw) == coarse


@pytest.mark.parametrize(
    ("raw", "coarse"),
    [
        ("keep", "has one"),
        ("drop", "has one"),
        ("no matter", "has none"),
        ("x", None),
        (None, None),
    ],
)
def test_category_is_coarsened_by_its_groups(raw, coarse):
    assert policy().column["vote"].coarsened("opinion", raw) == coarse


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("127.0.0.1", True), ("127.0.0.2", False), ("10.1.200.3", True), ("10.2.0.1", False),
        ("::1", True), ("93.184.216.34", True), ("2606:4700::1111", True),
        ("169.254.169.254", False), ("fe80::1", False), ("224.0.0.1", False), ("ff02::1", False),
        ("0.0.0.0", False), ("::", False), ("255.255.255.255", False), ("192.168.1.1", False),
        ("fd00::1", False), ("::ffff:127.0.0.1", True), ("::ffff:169.254.169.254", False),
        ("::ffff:192.168.1.1", False), ("localhost", False), ("", False),
    ],
)  # fmt: skip
def test_dial_allows_public_and_listed_addresses_alone(address, allowed):
    assert policy().network.allows(address) is allowed


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.0.1", "::1", "169.254.169.254"])
def test_dial_allows_no_loopback_or_private_address_by_default(address):
    assert not NetworkRule().allows(address)
