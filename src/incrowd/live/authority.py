"""A development authority, and the TLS contexts that trust it and nobody else.

An authority is an Ed25519 key and a self-signed X.509 certificate in a directory of its own. It
certifies identities, one certificate per party with its name and :class:`~incrowd.live.keys.Role`,
and lists the withdrawn ones in an X.509 revocation list (CRL). It never sees a private key of a
party in use elsewhere: ``issue`` makes keys where it runs, which suits tests, laboratories and
one's own machines; a real deployment signs requests instead, and everything else stays the same.

TLS hides who talks to the hub from onlookers, and keeps strangers out where certificates are asked
of both sides. It protects no message: cells are sealed from end to end. Only TLS 1.3 is spoken.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from incrowd.errors import FileNotWritable, FileUnreadable, InvalidParameter
from incrowd.live.keys import (
    BAD_X509,
    CERTIFICATE_FILE,
    IDENTITY_FILE,
    NAME_LIMIT,
    PrivateKeys,
    Role,
    load_certificate,
    load_key,
    private_directory,
    private_pem,
    write_private,
)
from incrowd.live.reasons import Reason, Rejected

REVOKED_FILE: Final = "revoked.pem"
"""The revocation list, next to the authority's certificate; both may be handed to anyone."""
ISSUED_FILE: Final = "issued.jsonl"
"""One line per certificate ever issued: name, role, serial number in hexadecimal."""

_AUTHORITY_DAYS = 3650
_PARTY_DAYS = 825
_BACKDATED = datetime.timedelta(minutes=5)
"""Certificates begin a little early, for clocks that run behind."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LIST_LIMIT = 64 * 2**20
_ORGANIZATION = "incrowd"


@dataclass(frozen=True)
class Authority:
    """Who certifies the parties of a deployment."""

    key: Ed25519PrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, name: str = "development authority") -> Authority:
        """A new authority, good for ten years."""
        key = Ed25519PrivateKey.generate()
        subject = _subject(name)
        builder = (
            _builder(subject, subject, key.public_key(), _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        )
        return cls(key, builder.sign(key, None))

    @classmethod
    def load(cls, path: Path) -> Authority:
        """The authority in a directory."""
        certificate = load_authority_certificate(path)
        key = load_key(path / IDENTITY_FILE)
        if not isinstance(key, Ed25519PrivateKey) or certificate.public_key() != key.public_key():
            raise FileUnreadable(
                f"{path}: {IDENTITY_FILE} is not the key of {CERTIFICATE_FILE}: make a new "
                "authority with 'incrowd keys ca'"
            )
        return cls(key, certificate)

    def save(self, path: Path) -> None:
        """Write the authority, with a revocation list that is empty; never over another one."""
        if (path / IDENTITY_FILE).exists():
            raise FileNotWritable(f"{path} already holds keys: choose another directory")
        private_directory(path)
        write_private(path / IDENTITY_FILE, private_pem(self.key))
        write_private(path / REVOKED_FILE, self.revoke(()))
        write_private(path / CERTIFICATE_FILE, self.certificate.public_bytes(Encoding.PEM))

    def issue(
        self, name: str, role: Role, hosts: Sequence[str] = (), days: int = _PARTY_DAYS
    ) -> PrivateKeys:
        """New keys for one party; ``hosts`` are further names and addresses it answers to.

        Everyone answers on this machine's own names too, so that parties can talk over loopback.
        """
        key = Ed25519PrivateKey.generate()
        builder = (
            _builder(_subject(name, role), self.certificate.subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([_host(host) for host in (*_LOOPBACK, *hosts)]),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        certificate = builder.sign(self.key, None).public_bytes(Encoding.DER)
        return PrivateKeys(name, key, X25519PrivateKey.generate(), 1, certificate)

    def revoke(self, serials: Iterable[int], before: bytes | None = None) -> bytes:
        """A revocation list in PEM of these certificates and of those on the list ``before``."""
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        dates = {} if before is None else _entries(_verified(before, self.certificate))
        for serial in serials:
            dates.setdefault(serial, now)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - _BACKDATED)
            .next_update(now + datetime.timedelta(days=_AUTHORITY_DAYS))
        )
        for serial, date in sorted(dates.items()):
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(date)
            builder = builder.add_revoked_certificate(entry.build())
        return builder.sign(self.key, None).public_bytes(Encoding.PEM)


class _Issued(msgspec.Struct, frozen=True, array_like=True):
    name: str
    role: Role
    serial: str


class Register:
    """An authority in its directory, with what it issued and withdrew.

    A name has at most one valid certificate, since parties know each other by name. A certificate
    is written down before it is handed out, so that there is none that cannot be withdrawn.
    """

    def __init__(self, path: Path) -> None:
        self.authority = Authority.load(path)
        self._path = path
        self._revoked = read_revoked(path, self.authority.certificate)
        self._issued: dict[str, set[int]] = {}
        for each in _read_issued(path / ISSUED_FILE):
            self._issued.setdefault(each.name, set()).add(int(each.serial, 16))

    def issue(self, names: Sequence[str], role: Role, hosts: Sequence[str]) -> list[PrivateKeys]:
        """New keys for parties whose names are free."""
        for name in names:
            if self._issued.get(name, set()) - self._revoked:
                raise InvalidParameter(
                    f"{name!r} already has a certificate: choose another name, or withdraw it with "
                    "'incrowd keys revoke'"
                )
        made = [self.authority.issue(name, role, hosts) for name in names]
        lines = bytearray()
        for keys in made:
            serial = x509.load_der_x509_certificate(keys.certificate).serial_number
            self._issued.setdefault(keys.name, set()).add(serial)
            lines += msgspec.json.encode(_Issued(keys.name, role, f"{serial:x}")) + b"\n"
        file = self._path / ISSUED_FILE
        write_private(file, (_read(file) if file.exists() else b"") + lines)
        return made

    def revoke(self, names: Sequence[str]) -> list[int]:
        """Withdraw every certificate of these names; the serial numbers newly on the list."""
        for name in names:
            if name not in self._issued:
                raise InvalidParameter(f"no certificate was issued to {name!r}: check the name")
        fresh = sorted({serial for name in names for serial in self._issued[name]} - self._revoked)
        file = self._path / REVOKED_FILE
        write_private(file, self.authority.revoke(fresh, _read(file)))
        self._revoked |= set(fresh)
        return fresh


def _read_issued(file: Path) -> list[_Issued]:
    if not file.exists():
        return []
    try:
        issued = [msgspec.json.decode(line, type=_Issued) for line in _read(file).splitlines()]
        for each in issued:
            int(each.serial, 16)
    except (msgspec.DecodeError, ValueError):
        raise FileUnreadable(f"{file} is damaged: restore it from a copy") from None
    return issued


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(_LIST_LIMIT + 1)
    except OSError as error:
        raise FileUnreadable(f"cannot read {file}: {error.strerror}") from None
    if len(data) > _LIST_LIMIT:
        raise FileUnreadable(f"{file} has more than {_LIST_LIMIT} bytes")
    return data


def load_authority_certificate(path: Path) -> x509.Certificate:
    """The certificate of the authority in a directory, or in a file of its own."""
    file = path / CERTIFICATE_FILE if path.is_dir() else path
    certificate = load_certificate(file)
    ca = False
    with contextlib.suppress(*BAD_X509):
        ca = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    if not ca or not isinstance(certificate.public_key(), Ed25519PublicKey):
        raise FileUnreadable(f"{file} is not the certificate of an authority with an Ed25519 key")
    return certificate


def revoked_serials(data: bytes, authority: x509.Certificate) -> frozenset[int]:
    """The serial numbers on a revocation list in PEM that this authority has signed."""
    return frozenset(_entries(_verified(data, authority)))


def read_revoked(path: Path, authority: x509.Certificate) -> frozenset[int]:
    """The serial numbers on the revocation list in a file or in an authority's directory."""
    file = path / REVOKED_FILE if path.is_dir() else path
    try:
        return revoked_serials(_read(file), authority)
    except Rejected as error:
        raise FileUnreadable(
            f"{file} is no revocation list of this authority ({error}): "
            "write it anew with 'incrowd keys revoke'"
        ) from None


def _verified(data: bytes, authority: x509.Certificate) -> x509.CertificateRevocationList:
    if len(data) > _LIST_LIMIT:
        raise Rejected(Reason.oversized, f"a revocation list has at most {_LIST_LIMIT} bytes")
    key = authority.public_key()
    try:
        crl = x509.load_pem_x509_crl(data)
        signed = (
            isinstance(key, Ed25519PublicKey)
            and crl.issuer == authority.subject
            and crl.is_signature_valid(key)
        )
    except BAD_X509 as error:
        raise Rejected(Reason.malformed, f"not a revocation list: {error}") from None
    if not signed:
        raise Rejected(Reason.forged, "the authority did not sign this revocation list")
    return crl


def _entries(crl: x509.CertificateRevocationList) -> dict[int, datetime.datetime]:
    return {entry.serial_number: entry.revocation_date_utc for entry in crl}


def _subject(name: str, role: Role | None = None) -> x509.Name:
    if not name.strip() or len(name) > NAME_LIMIT or not name.isprintable():
        raise InvalidParameter(
            f"a name has 1 to {NAME_LIMIT} printable characters, got {name[: 2 * NAME_LIMIT]!r}"
        )
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION)]
    if role is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, str(role)))
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    return x509.Name(attributes)


def _host(host: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InvalidParameter(
            f"{host!r} is not a host: give an address or a name in ASCII"
        ) from None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def server_context(
    keys: Path, clients: Path | None = None, revoked: Path | None = None
) -> ssl.SSLContext:
    """TLS for a party that is called, from its directory of keys.

    With ``clients``, callers must show a certificate of the authority in that directory or file,
    and with ``revoked`` one that is not on this revocation list.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, clients, revoked)
    return _with_keys(context, keys)


def client_context(
    authority: Path, keys: Path | None = None, revoked: Path | None = None
) -> ssl.SSLContext:
    """TLS for a party that calls: the other side must be certified by this authority.

    With ``keys``, this party shows its own certificate too.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _trust(context, authority, revoked)
    if keys is None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context
    return _with_keys(context, keys)


def _trust(context: ssl.SSLContext, authority: Path, revoked: Path | None) -> None:
    certificate = load_authority_certificate(authority)
    pem = certificate.public_bytes(Encoding.PEM).decode()
    if revoked is not None:
        read_revoked(revoked, certificate)
        file = revoked / REVOKED_FILE if revoked.is_dir() else revoked
        context.load_verify_locations(cafile=str(file))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    context.load_verify_locations(cadata=pem)


def renew_keys(context: ssl.SSLContext, keys: Path) -> None:
    """Use the keys that are in the directory now for the connections to come."""
    _with_keys(context, keys)


def _with_keys(context: ssl.SSLContext, keys: Path) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Loading checks that the files are there, fit each other and are private.
    PrivateKeys.load(keys)
    context.load_cert_chain(keys / CERTIFICATE_FILE, keys / IDENTITY_FILE)
    return context
