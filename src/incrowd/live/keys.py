"""The keys of one party: what it keeps, and the record by which the others know it.

A party has two key pairs. Its *identity* (Ed25519) signs, and an authority certifies it in an
X.509 certificate that names the party and its role. Its *sealing key* (X25519, for HPKE) is what
others seal to; it is vouched for by the identity alone, so that it can be replaced without the
authority. A :class:`KeyRecord` holds the public halves, the certificate and that signature: anyone
with the authority's certificate can check it, wherever it came from.

On disk a party is a directory that only its owner can enter:

    identity.pem   certificate.pem   sealing-<serial>.pem

A survey is bound to the records of its roster, so replacing the sealing key leaves the previous one
in place for surveys that still run; the one before that is deleted, and with it the power to open
what was sealed to it.
"""

from __future__ import annotations

import datetime
import os
import re
import stat
import struct
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from incrowd.errors import FileNotWritable, FileUnreadable
from incrowd.live.reasons import Reason, Rejected

IDENTITY_FILE: Final = "identity.pem"
CERTIFICATE_FILE: Final = "certificate.pem"
_SEALING = re.compile(r"sealing-(\d{1,10})\.pem")

NAME_LIMIT: Final = 64
"""The longest common name that X.509 allows."""
_CERTIFICATE_LIMIT = 4096
RECORD_LIMIT: Final = 8192
_PEM_LIMIT = 64 * 1024

_DOMAIN = b"incrowd/key-record/1\0"
_PROBE = X25519PrivateKey.from_private_bytes(bytes(31) + b"\x01")
BAD_X509 = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.UnsupportedGeneralNameType,
)
"""Whatever reading a certificate or a revocation list may raise."""


class Role(StrEnum):
    """What the authority says a party may be."""

    device = "device"
    curator = "curator"
    hub = "hub"
    helper = "helper"


class KeyRecord(msgspec.Struct, frozen=True, array_like=True):
    """The public keys of one party, certified and signed."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LIMIT)]
    identity: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    hpke: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    serial: Annotated[int, msgspec.Meta(ge=1, lt=2**32)]
    certificate: Annotated[bytes, msgspec.Meta(max_length=_CERTIFICATE_LIMIT)]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]

    @property
    def certificate_serial(self) -> int:
        """The number under which the authority may withdraw the certificate."""
        return x509.load_der_x509_certificate(self.certificate).serial_number

    def encode(self) -> bytes:
        """The record as it travels."""
        return _ENCODER.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> KeyRecord:
        """The record that these bytes are; nothing in it is checked yet."""
        if len(data) > RECORD_LIMIT:
            raise Rejected(Reason.oversized, f"a key record has at most {RECORD_LIMIT} bytes")
        try:
            return _DECODER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Rejected(Reason.malformed, f"not a key record: {error}") from None

    def verify(self, signature: bytes, data: bytes) -> None:
        """Refuse data that this party's identity did not sign."""
        try:
            Ed25519PublicKey.from_public_bytes(self.identity).verify(signature, data)
        except (InvalidSignature, ValueError):
            raise Rejected(Reason.forged, f"not signed by {self.name!r}") from None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(KeyRecord)


def _signed(name: str, hpke: bytes, serial: int) -> bytes:
    title = name.encode()
    return _DOMAIN + struct.pack(">H", len(title)) + title + hpke + struct.pack(">Q", serial)


@dataclass(frozen=True)
class PrivateKeys:
    """Everything that makes one party itself; it never leaves that party's machine."""

    name: str
    identity: Ed25519PrivateKey
    hpke: X25519PrivateKey
    serial: int
    certificate: bytes

    @property
    def role(self) -> Role:
        """What the certificate says this party may be."""
        return _subject(x509.load_der_x509_certificate(self.certificate))[1]

    def record(self) -> KeyRecord:
        """What the others get to know."""
        hpke = self.hpke.public_key().public_bytes_raw()
        signature = self.identity.sign(_signed(self.name, hpke, self.serial))
        return KeyRecord(
            self.name,
            self.identity.public_key().public_bytes_raw(),
            hpke,
            self.serial,
            self.certificate,
            signature,
        )

    def rotate(self) -> PrivateKeys:
        """The same party with a new sealing key."""
        return PrivateKeys(
            self.name,
            self.identity,
            X25519PrivateKey.generate(),
            self.serial + 1,
            self.certificate,
        )

    def save(self, path: Path) -> None:
        """Write the keys; of older sealing keys only the one before this is kept."""
        private_directory(path)
        certificate = x509.load_der_x509_certificate(self.certificate)
        write_private(path / CERTIFICATE_FILE, certificate.public_bytes(Encoding.PEM))
        write_private(path / IDENTITY_FILE, private_pem(self.identity))
        write_private(path / _sealing_file(self.serial), private_pem(self.hpke))
        for serial in _serials(path):
            if serial < self.serial - 1:
                (path / _sealing_file(serial)).unlink()

    @classmethod
    def load(cls, path: Path, serial: int | None = None) -> PrivateKeys:
        """The keys in a directory, with the newest sealing key or the one of this serial."""
        certificate = load_certificate(path / CERTIFICATE_FILE)
        identity = load_key(path / IDENTITY_FILE)
        serials = _serials(path)
        if not serials:
            raise FileUnreadable(
                f"{path} holds no sealing key: make keys with 'incrowd keys issue'"
            )
        chosen = max(serials) if serial is None else serial
        hpke = load_key(path / _sealing_file(chosen))
        if not isinstance(identity, Ed25519PrivateKey) or not isinstance(hpke, X25519PrivateKey):
            raise FileUnreadable(
                f"{path} holds keys of another kind: make new ones with 'incrowd keys issue'"
            )
        if certificate.public_key() != identity.public_key():
            raise FileUnreadable(
                f"{path}: {CERTIFICATE_FILE} does not belong to {IDENTITY_FILE}: "
                "make both anew with 'incrowd keys issue'"
            )
        try:
            name, _ = _subject(certificate)
        except ValueError:
            raise FileUnreadable(
                f"{path / CERTIFICATE_FILE} names no party and role: make new keys with "
                "'incrowd keys issue'"
            ) from None
        return cls(name, identity, hpke, chosen, certificate.public_bytes(Encoding.DER))


def check(
    record: KeyRecord,
    authority: x509.Certificate,
    now: float,
    revoked: Collection[int] = (),
    role: Role | None = None,
) -> Role:
    """The role of the party that this record is for, or a refusal.

    ``now`` is in seconds since 1970; ``revoked`` are the serial numbers of withdrawn certificates.
    With ``role``, any other role is a forgery.
    """
    try:
        certificate = x509.load_der_x509_certificate(record.certificate)
        key = certificate.public_key()
    except BAD_X509 as error:
        raise Rejected(Reason.malformed, f"{record.name!r} has no certificate: {error}") from None
    if record.certificate[-65:] != b"\0" + certificate.signature:
        # A bit string may say that its last bits do not count: one certificate, two encodings.
        raise Rejected(Reason.malformed, f"the certificate of {record.name!r} is not in DER")
    name, granted = check_certificate(certificate, authority, now, revoked)
    if (
        name != record.name
        or not isinstance(key, Ed25519PublicKey)
        or key.public_bytes_raw() != record.identity
    ):
        raise Rejected(Reason.forged, f"the certificate of {record.name!r} is for another party")
    if role is not None and granted is not role:
        raise Rejected(Reason.forged, f"{name!r} is certified as {granted}, not as {role}")
    record.verify(record.signature, _signed(record.name, record.hpke, record.serial))
    try:
        # Some points give the same secret to everyone; nothing may be sealed to them.
        _PROBE.exchange(X25519PublicKey.from_public_bytes(record.hpke))
    except ValueError:
        raise Rejected(Reason.malformed, f"{name!r} has an unusable sealing key") from None
    return granted


def check_certificate(
    certificate: x509.Certificate,
    authority: x509.Certificate,
    now: float,
    revoked: Collection[int] = (),
) -> tuple[str, Role]:
    """The name and role that the authority certified, if that holds now."""
    try:
        certificate.verify_directly_issued_by(authority)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        name, role = _subject(certificate)
    except InvalidSignature:
        raise Rejected(Reason.forged, "the authority did not sign this certificate") from None
    except BAD_X509 as error:
        raise Rejected(Reason.forged, f"not a certificate of the authority: {error}") from None
    if constraints.value.ca:
        raise Rejected(Reason.forged, "the certificate of an authority names no party")
    time = datetime.datetime.fromtimestamp(now, datetime.UTC)
    for each in (certificate, authority):
        if not each.not_valid_before_utc <= time <= each.not_valid_after_utc:
            raise Rejected(
                Reason.expired,
                f"the certificate of {name!r} or of its authority is valid from "
                f"{each.not_valid_before_utc:%Y-%m-%d} to {each.not_valid_after_utc:%Y-%m-%d}",
            )
    if certificate.serial_number in revoked:
        raise Rejected(Reason.revoked, f"the authority has withdrawn the certificate of {name!r}")
    return name, role


def _subject(certificate: x509.Certificate) -> tuple[str, Role]:
    """The name and the role in a certificate; ``ValueError`` unless it has one of each."""
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    (role,) = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
    return str(name.value), Role(str(role.value))


def private_directory(path: Path) -> None:
    """Make a directory that only its owner can enter."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise FileNotWritable(f"cannot make {path}: {error.strerror}") from None


def write_private(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file that only its owner can read, whole or not at all.

    Unless ``durable``, a power failure may bring back what was there before.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(handle)
        partial.replace(path)
        if durable:
            _sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise FileNotWritable(f"cannot write {path}: {error.strerror}") from None


def _sync(directory: Path) -> None:
    """Make a renaming durable, where directories can be synced."""
    if os.name == "posix":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_private(path: Path, what: str, limit: int = _PEM_LIMIT) -> bytes:
    """The bytes of a file that must be its owner's alone."""
    return _read(path, what, limit, private=True)


def _read(path: Path, what: str, limit: int, *, private: bool) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if private and os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise FileUnreadable(
                    f"{path} holds {what} that others can read: run 'chmod 600 {path}'"
                )
            data = file.read(limit + 1)
    except OSError as error:
        raise FileUnreadable(f"cannot read {path}: {error.strerror}") from None
    if len(data) > limit:
        raise FileUnreadable(f"{path} is too long for {what}")
    return data


def load_key(path: Path) -> object:
    """The private key in a PEM file that its owner alone can read."""
    data = read_private(path, "a private key")
    try:
        return load_pem_private_key(data, password=None)
    except BAD_X509:
        raise FileUnreadable(f"{path} is not a private key in PEM without a password") from None


def load_certificate(path: Path) -> x509.Certificate:
    """The certificate in a PEM file."""
    data = _read(path, "a certificate", _PEM_LIMIT, private=False)
    try:
        certificate = x509.load_pem_x509_certificate(data)
        certificate.public_key()
    except BAD_X509:
        raise FileUnreadable(f"{path} is not a certificate in PEM") from None
    return certificate


def _sealing_file(serial: int) -> str:
    return f"sealing-{serial}.pem"


def _serials(path: Path) -> list[int]:
    try:
        names = [entry.name for entry in path.iterdir()]
    except OSError as error:
        raise FileUnreadable(f"cannot read {path}: {error.strerror}") from None
    return sorted(int(match[1]) for name in names if (match := _SEALING.fullmatch(name)))


def private_pem(key: Ed25519PrivateKey | X25519PrivateKey) -> bytes:
    """A private key as it is kept on disk."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
