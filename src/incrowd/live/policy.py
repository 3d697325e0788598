"""The owner's policy: what a device may do without asking, read from ``policy.toml``.

A policy is public in kind: it says which curators may ask for which columns, with which domains, at
which cost, and in how large a crowd. It never depends on an answer, and nothing here reads one: a
decision taken from a policy (``decide``) is then the same for every answer its owner may have.

Default deny: what the file does not name is declined. An offer's categories, their order and its
bounds must equal the policy's, or a coarsening that the policy names, so that no curator can learn
by the shape of a question who is able to answer it. Numbers may be ``inf`` where an owner wants no
bound; every bound has to be written down.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import ipaddress
import math
import re
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any, Final, Literal

import msgspec

from incrowd.errors import InvalidParameter
from incrowd.views import view_name

_KEY_BYTES: Final = 32
_SCHEME: Final = "ed25519:"
_URL_SAFE: Final = str.maketrans("-_", "+/")
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Wrong(ValueError):
    """A value of a known key is refused: ``key: problem; remedy``."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")


def _positive(value: float, key: str) -> None:
    if not value > 0:
        raise Wrong(key, f"expected a positive number, or inf for no bound, got {value}")


def _share(value: float) -> None:
    if not 0 <= value <= 1:
        raise Wrong("assume_colluding", f"expected a share between 0 and 1, got {value}")


def _names(values: tuple[str, ...]) -> None:
    if not values:
        raise Wrong("values", "missing; list the categories in order")
    if len(set(values)) != len(values):
        raise Wrong("values", "a category is listed twice; remove one")


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file; subclasses refuse wrong values when they are made."""


class PerDay(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on the surveys of any 24 hours."""

    epsilon: float = math.inf
    """Sum of ε towards the view of the budget."""
    surveys: int | None = None
    """Number of surveys."""

    def __post_init__(self) -> None:
        """Refuse bounds that allow nothing."""
        _positive(self.epsilon, "epsilon")
        if self.surveys is not None and self.surveys < 1:
            raise Wrong("surveys", f"expected a whole number of at least 1, got {self.surveys}")


class Allowance(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A budget for life; sums are exact."""

    epsilon: float
    """Sum of ε towards ``view``."""
    delta: float
    """Sum of δ."""
    local_epsilon: float
    """Sum of the local ε0, which holds if every other party colludes."""
    view: str = "curator"
    """Parties towards whom ε is summed; without a guarantee towards them, the local one counts."""
    per_day: PerDay = PerDay()
    """Bounds on any 24 hours."""

    def __post_init__(self) -> None:
        """Refuse budgets that are no numbers or allow nothing."""
        _positive(self.epsilon, "epsilon")
        _positive(self.local_epsilon, "local_epsilon")
        if not 0 <= self.delta < 1:
            raise Wrong("delta", f"expected a number of at least 0 and below 1, got {self.delta}")
        try:
            msgspec.structs.force_setattr(self, "view", view_name(self.view))
        except InvalidParameter as error:
            raise Wrong("view", str(error)) from error


class CrowdRule(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The crowds that the owner takes part in."""

    min: int
    """Smallest number of people, whatever the survey asks for."""
    assume_colluding: float
    """Share of the roster that is assumed to help the curator; charges hold against them."""

    def __post_init__(self) -> None:
        """Refuse crowds of nobody, and shares that are none."""
        if self.min < 1:
            raise Wrong("min", f"expected a whole number of at least 1, got {self.min}")
        _share(self.assume_colluding)


class Consent(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Standing consent, or a question to the owner for every survey."""

    mode: Literal["standing", "ask"] = "standing"
    """``ask`` joins alike and asks until the start; silence is refusal."""
    on_refusal: Literal["no-answer", "leave"] = "no-answer"
    """Take part with the reserved value, or leave, which others see."""


class CuratorRule(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one curator, pinned by its identity key, may ask for."""

    key: str
    """Identity key, ``ed25519:`` and 32 bytes in base64 or hexadecimal digits."""
    columns: tuple[str, ...]
    """Columns it may ask for."""
    max_epsilon: float
    """Most ε of one survey, and of its open reservations together."""
    max_local_epsilon: float
    """Most local ε0 of one survey, and of its open reservations together."""
    protocols: tuple[str, ...]
    """Protocols it may use."""
    budget: Allowance | None = None
    """A budget of its own; its surveys are then decided from that alone."""
    assume_colluding: float | None = None
    """In place of the share in ``[crowd]``."""

    def __post_init__(self) -> None:
        """Refuse a key that is none, and limits that allow nothing."""
        try:
            msgspec.structs.force_setattr(self, "key", key_text(read_key(self.key)))
        except InvalidParameter as error:
            raise Wrong("key", str(error)) from error
        _positive(self.max_epsilon, "max_epsilon")
        _positive(self.max_local_epsilon, "max_local_epsilon")
        if self.assume_colluding is not None:
            _share(self.assume_colluding)

    @property
    def identity(self) -> bytes:
        """The key as 32 bytes."""
        return read_key(self.key)


class Coarsening(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A coarser set of categories that a column may be asked for instead.

    Of a number: ``edges`` cut its bounds, and the first category lies below the first edge, each
    edge belonging to the category above it. Of a category: ``groups`` lists the values of each.
    """

    values: tuple[str, ...]
    """Names of the categories, in the order that an offer must have."""
    edges: tuple[float, ...] = ()
    """Of a number: where one category ends and the next begins."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Of a category: which values each coarse one stands for."""

    def __post_init__(self) -> None:
        """Refuse names, edges and groups that do not fit each other."""
        _names(self.values)
        if bool(self.edges) == bool(self.groups):
            raise Wrong("edges", "give either edges (of a number) or groups (of a category)")
        if self.edges:
            if len(self.edges) != len(self.values) - 1:
                raise Wrong(
                    "edges",
                    f"{len(self.values)} values need {len(self.values) - 1} edges between them, "
                    f"got {len(self.edges)}",
                )
            if not all(low < high for low, high in pairwise(self.edges)):
                raise Wrong("edges", "expected increasing numbers; sort them")
        elif len(self.groups) != len(self.values):
            raise Wrong("groups", f"{len(self.values)} values need as many groups, got "
                         f"{len(self.groups)}")  # fmt: skip


class ColumnRule(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One column: its domain, and whether it may leave in the clear."""

    type: Literal["category", "number", "text"]
    """``text`` is for public columns without a domain, such as the groups of a release."""
    values: tuple[str, ...] = ()
    """Of a category: its values in order."""
    bounds: tuple[float, float] | None = None
    """Of a number: the least and the largest."""
    complete: bool = False
    """Everybody has a value: an offer may go without the reserved outcome ``no answer``."""
    public: bool = False
    """The value may be sent in the clear, such as a place of a release."""
    coarse: dict[str, Coarsening] = {}
    """Coarser sets of categories that may be asked for instead, by name."""

    def __post_init__(self) -> None:
        """Refuse a domain of another type."""
        if self.type == "category":
            _names(self.values)
        elif self.values:
            raise Wrong("values", f"a {self.type} has none; remove them or write type = category")
        if self.type == "number":
            if self.bounds is None:
                raise Wrong("bounds", "missing; add bounds = [low, high]")
            low, high = self.bounds
            if not low <= high:
                raise Wrong("bounds", f"expected [low, high], got [{low}, {high}]")
        elif self.bounds is not None:
            raise Wrong("bounds", f"a {self.type} has none; remove them or write type = number")
        if self.type == "text" and not self.public:
            raise Wrong("public", "a text has no domain to be randomized in; write public = true")
        for name, each in self.coarse.items():
            self._check_coarsening(name, each)

    def _check_coarsening(self, name: str, coarsening: Coarsening) -> None:
        place = f"coarse.{name}"
        if self.type == "number" and self.bounds is not None:
            low, high = self.bounds
            if not coarsening.edges:
                raise Wrong(f"{place}.edges", "missing; a number is cut at edges")
            if not (low < coarsening.edges[0] and coarsening.edges[-1] <= high):
                raise Wrong(f"{place}.edges", "expected numbers inside the bounds of the column")
        elif self.type == "category":
            if not coarsening.groups:
                raise Wrong(f"{place}.groups", "missing; a category is coarsened by groups")
            if sorted(chain(*coarsening.groups)) != sorted(self.values):
                raise Wrong(f"{place}.groups", "every value of the column must be in one group")
        else:
            raise Wrong(place, "a text cannot be coarsened; remove the table")
        taken = [self.values, *(each.values for key, each in self.coarse.items() if key != name)]
        if coarsening.values in taken:
            raise Wrong(f"{place}.values", "another table has the same; give them other names")

    def matches(
        self, values: tuple[str, ...] | None, bounds: tuple[float, float] | None
    ) -> str | None:
        """The coarsening that a declared domain equals.

        Returns:
            Its name, an empty text for the column's own domain, or none where no domain is equal.

        """
        if values is None:
            return "" if bounds is not None and bounds == self.bounds else None
        if bounds is None:
            if self.type == "category" and values == self.values:
                return ""
            for name, coarsening in self.coarse.items():
                if values == coarsening.values:
                    return name
        return None

    def coarsened(self, name: str, raw: str | None) -> str | None:
        """The coarse category of a raw value; none where it is missing or outside the domain.

        A number outside the bounds counts as the nearer bound.
        """
        coarsening = self.coarse[name]
        if raw is None:
            return None
        if coarsening.edges:
            try:
                number = float(raw)
            except ValueError:
                return None
            if math.isnan(number):
                return None
            return coarsening.values[bisect.bisect_right(coarsening.edges, number)]
        for value, group in zip(coarsening.values, coarsening.groups, strict=True):
            if raw in group:
                return value
        return None


class NetworkRule(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses that the direct transport may dial besides public ones."""

    dial: tuple[str, ...] = ()
    """Loopback and private addresses or networks, such as ``127.0.0.1`` or ``10.1.0.0/16``."""

    def __post_init__(self) -> None:
        """Refuse what is no network, and networks that are never dialled."""
        for index, each in enumerate(self.dial):
            try:
                network = ipaddress.ip_network(each)
            except ValueError as error:
                raise Wrong(
                    f"dial[{index}]", f"{error}; write an address or a network such as 10.1.0.0/16"
                ) from error
            if network.is_link_local or network.is_multicast:
                raise Wrong(
                    f"dial[{index}]", "link-local and multicast addresses are never dialled"
                )

    def allows(self, address: str) -> bool:
        """Whether this address (not a host name) may be dialled."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        if mapped is not None:
            found = mapped
        if found.is_link_local or found.is_multicast or found.is_unspecified:
            return False
        # The loopback address of IPv6 lies in a reserved block.
        if found.is_reserved and not found.is_loopback:
            return False
        if found.is_global:
            return True
        return any(_within(found, ipaddress.ip_network(each)) for each in self.dial)


class Policy(_Table, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an owner allows; what it does not name is declined."""

    version: Literal[1]
    budget: Allowance
    crowd: CrowdRule
    consent: Consent = Consent()
    curator: tuple[CuratorRule, ...] = ()
    column: dict[str, ColumnRule] = {}
    network: NetworkRule = NetworkRule()

    def __post_init__(self) -> None:
        """Refuse two entries for one key, and columns without a domain."""
        seen: dict[str, int] = {}
        for index, each in enumerate(self.curator):
            if (first := seen.setdefault(each.key, index)) != index:
                raise Wrong(
                    f"curator[{index}].key",
                    f"the same key as in curator[{first}]; keep one of the two entries",
                )
            for position, name in enumerate(each.columns):
                if name not in self.column:
                    raise Wrong(
                        f"curator[{index}].columns[{position}]",
                        f"{name!r} has no domain; add a table [column.{name}]",
                    )

    def rule_of(self, identity: bytes) -> CuratorRule | None:
        """The entry of the curator with this identity key."""
        wanted = key_text(identity)
        return next((each for each in self.curator if each.key == wanted), None)

    def allowance_of(self, rule: CuratorRule) -> Allowance:
        """The budget from which the surveys of this entry are decided."""
        return self.budget if rule.budget is None else rule.budget

    def colluders(self, identity: bytes, roster: int) -> int:
        """Number of people on a roster who are assumed to collude with this curator."""
        rule = self.rule_of(identity)
        share = self.crowd.assume_colluding
        if rule is not None and rule.assume_colluding is not None:
            share = rule.assume_colluding
        # As it is written: the double 0.1 is above a tenth, and would make 11 of 100.
        return math.ceil(Fraction(repr(share)) * roster)


def read_key(text: str) -> bytes:
    """The 32 bytes of an identity key that is written ``ed25519:…`` in base64 or hexadecimal."""
    digits = text.removeprefix(_SCHEME)
    if text.startswith(_SCHEME):
        try:
            if re.fullmatch(r"[0-9a-fA-F]{64}", digits):
                return bytes.fromhex(digits)
            padded = digits.rstrip("=") + "=" * (-len(digits.rstrip("=")) % 4)
            found = base64.b64decode(padded.translate(_URL_SAFE), validate=True)
            if len(found) == _KEY_BYTES:
                return found
        except (binascii.Error, ValueError):
            pass
    raise InvalidParameter(
        f"expected {_SCHEME} and an identity key of 32 bytes in base64 or hexadecimal digits, "
        f"got {text!r}; 'incrowd keys show' prints it"
    )


def key_text(identity: bytes) -> str:
    """An identity key as policies write it."""
    return _SCHEME + identity.hex()


def _within(address: Any, network: _Network) -> bool:
    return bool(address.version == network.version and address in network)
