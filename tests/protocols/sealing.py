"""Sealers with real cryptography, for parties that are played by tests."""

from __future__ import annotations

from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from incrowd.live import cells
from incrowd.live.links import HpkeSealer
from incrowd.protocols.api import Protocol
from incrowd.protocols.runtime.actor import Address, device


def sealers(protocol: Protocol) -> dict[Address, HpkeSealer]:
    """One for everybody, with keys of their own."""
    addresses = [*protocol.helpers, *map(device, range(protocol.n))]
    keys = {address: SimpleNamespace(hpke=X25519PrivateKey.generate()) for address in addresses}
    records = {
        cells.number(address): SimpleNamespace(hpke=own.hpke.public_key().public_bytes_raw())
        for address, own in keys.items()
    }
    return {
        address: HpkeSealer(cells.number(address), own, b"s" * 16, b"c" * 32, records)
        for address, own in keys.items()
    }
