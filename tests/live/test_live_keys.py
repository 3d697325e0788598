"""Keys, their records, the authority, and TLS between parties that it certified."""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import socket
import ssl
import threading
import time

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from incrowd.errors import FileNotWritable, FileUnreadable, InvalidParameter
from incrowd.live import authority as authorities
from incrowd.live.authority import Authority, Register, client_context, server_context
from incrowd.live.keys import (
    RECORD_LIMIT,
    KeyRecord,
    PrivateKeys,
    Role,
    check,
    load_certificate,
    private_pem,
)
from incrowd.live.reasons import Reason, Rejected

NOW = time.time() + 3600
"""Ahead of every certificate that a test makes, however long after this line it runs."""
YEAR = 365 * 86400
CA = Authority.create()
KEYS = CA.issue("ada", Role.device)
RECORD = KEYS.record()
OTHER = CA.issue("bob", Role.device)
REVOKED = CA.revoke([7, 8])


def refusal(call, *arguments):
    with pytest.raises(Rejected) as caught:
        call(*arguments)
    return caught.value.reason


def changed(record=RECORD, **fields):
    return msgspec.structs.replace(record, **fields)


def test_a_record_travels_and_checks():
    data = RECORD.encode()
    assert len(data) < 1024
    assert KeyRecord.decode(data) == RECORD
    assert check(RECORD, CA.certificate, NOW) is Role.device
    assert check(RECORD, CA.certificate, NOW, role=Role.device) is Role.device
    for role in Role:
        assert check(CA.issue("x", role).record(), CA.certificate, NOW) is role
    assert KEYS.role is Role.device


def test_a_record_is_refused_for_its_reason():
    serial = x509.load_der_x509_certificate(RECORD.certificate).serial_number
    ca = CA.certificate
    assert refusal(check, RECORD, ca, NOW, {serial}) is Reason.revoked
    assert refusal(check, RECORD, ca, NOW + 3 * YEAR) is Reason.expired
    assert refusal(check, RECORD, ca, NOW - YEAR) is Reason.expired
    assert refusal(check, RECORD, ca, NOW, (), Role.curator) is Reason.forged
    # Another authority of the same name did not sign it.
    assert refusal(check, RECORD, Authority.create().certificate, NOW) is Reason.forged
    assert refusal(check, RECORD, Authority.create("x").certificate, NOW) is Reason.forged
    for fields in (
        {"name": "bob"},
        {"identity": OTHER.record().identity},
        {"certificate": OTHER.certificate},
        {"hpke": OTHER.record().hpke},
        {"serial": 2},
        {"signature": bytes(64)},
    ):
        assert refusal(check, changed(**fields), ca, NOW) is Reason.forged
    assert refusal(check, changed(certificate=b""), ca, NOW) is Reason.malformed
    assert refusal(check, changed(certificate=b"x" * 99), ca, NOW) is Reason.malformed


def test_an_authority_is_no_party():
    keys = PrivateKeys("x", CA.key, KEYS.hpke, 1, CA.certificate.public_bytes(Encoding.DER))
    assert refusal(check, keys.record(), CA.certificate, NOW) is Reason.forged


def certificate(key, *, role="device", ca=False, constrained=True):
    """What a careless authority might sign."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "ada")]
    if role is not None:
        names.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role))
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    builder = x509.CertificateBuilder(
        CA.certificate.subject, x509.Name(names), key, 5, now, now + datetime.timedelta(days=9)
    )
    if constrained:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), True)
    return builder.sign(CA.key, None).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    "options", [{"role": None}, {"role": "boss"}, {"ca": True}, {"constrained": False}]
)
def test_a_certificate_must_name_a_party(options):
    made = certificate(KEYS.identity.public_key(), **options)
    assert refusal(check, changed(certificate=made), CA.certificate, NOW + 60) is Reason.forged


def test_a_certificate_must_hold_the_identity():
    good = certificate(KEYS.identity.public_key())
    assert check(changed(certificate=good), CA.certificate, NOW + 60) is Role.device
    bad = certificate(ec.generate_private_key(ec.SECP256R1()).public_key())
    assert refusal(check, changed(certificate=bad), CA.certificate, NOW + 60) is Reason.forged


def test_nobody_seals_to_a_point_that_everyone_can_open():
    for point in (bytes(32), b"\1" + bytes(31)):
        signature = KEYS.identity.sign(
            b"incrowd/key-record/1\0" + b"\0\3ada" + point + (1).to_bytes(8, "big")
        )
        record = changed(hpke=point, signature=signature)
        assert refusal(check, record, CA.certificate, NOW) is Reason.malformed


def test_long_records_are_refused_before_they_are_read():
    assert refusal(KeyRecord.decode, bytes(RECORD_LIMIT + 1)) is Reason.oversized
    for fields in ({"name": ""}, {"name": "x" * 65}, {"identity": b""}, {"serial": 0}):
        assert refusal(KeyRecord.decode, changed(**fields).encode()) is Reason.malformed


@given(st.binary(max_size=300))
def test_any_bytes_are_no_record(data):
    assert refusal(KeyRecord.decode, data) is Reason.malformed


def test_one_certificate_has_one_encoding():
    """The number of unused bits before the signature, which a lenient reader would skip."""
    for seed in range(8):
        record = CA.issue(f"twice-{seed}", Role.device).record()
        loose = bytearray(record.certificate)
        loose[-65] = 1
        damaged = msgspec.structs.replace(record, certificate=bytes(loose))
        assert refusal(check, damaged, CA.certificate, NOW) is Reason.malformed


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@given(st.lists(st.tuples(st.integers(0, len(RECORD.encode()) - 1), st.integers(1, 255))))
def test_a_damaged_record_is_refused(flips):
    data = bytearray(RECORD.encode())
    for at, bits in flips:
        data[at] ^= bits
    if bytes(data) == RECORD.encode():
        return
    with pytest.raises(Rejected):
        check(KeyRecord.decode(bytes(data)), CA.certificate, NOW)


def test_rotation_replaces_the_sealing_key_alone():
    new = KEYS.rotate()
    record = new.record()
    assert (record.serial, record.identity) == (2, RECORD.identity)
    assert record.hpke != RECORD.hpke
    assert check(record, CA.certificate, NOW) is Role.device


def test_keys_are_kept_for_their_owner_alone(tmp_path):
    place = tmp_path / "a" / "ada"
    KEYS.save(place)
    assert PrivateKeys.load(place).record() == RECORD
    assert sorted(file.name for file in place.iterdir()) == [
        "certificate.pem",
        "identity.pem",
        "sealing-1.pem",
    ]
    if os.name == "posix":
        assert place.stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in place.iterdir()} == {0o600}


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
@pytest.mark.parametrize("name", ["identity.pem", "sealing-1.pem"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_keys_that_others_can_read_are_refused(tmp_path, name, mode):
    KEYS.save(tmp_path)
    (tmp_path / name).chmod(mode)
    with pytest.raises(FileUnreadable, match=f"chmod 600 {tmp_path / name}"):
        PrivateKeys.load(tmp_path)
    (tmp_path / name).chmod(0o400)
    assert PrivateKeys.load(tmp_path).name == "ada"


def test_the_previous_sealing_key_stays_for_running_surveys(tmp_path):
    KEYS.save(tmp_path)
    second = KEYS.rotate()
    second.save(tmp_path)
    third = second.rotate()
    third.save(tmp_path)
    assert PrivateKeys.load(tmp_path).record() == third.record()
    assert PrivateKeys.load(tmp_path, 2).record() == second.record()
    with pytest.raises(FileUnreadable, match=r"sealing-1\.pem: No such file"):
        PrivateKeys.load(tmp_path, 1)


def test_damaged_key_files_are_named(tmp_path):
    def expect(match):
        with pytest.raises(FileUnreadable, match=match):
            PrivateKeys.load(tmp_path)
        KEYS.save(tmp_path)

    expect("cannot read")
    (tmp_path / "identity.pem").write_bytes(b"no key")
    expect("not a private key")
    (tmp_path / "identity.pem").write_bytes(private_pem(KEYS.hpke))
    expect("another kind")
    (tmp_path / "identity.pem").write_bytes(private_pem(OTHER.identity))
    expect("does not belong")
    (tmp_path / "certificate.pem").write_bytes(b"no certificate")
    expect("not a certificate")
    (tmp_path / "certificate.pem").write_bytes(b"x" * 70000)
    expect("too long")
    (tmp_path / "sealing-1.pem").unlink()
    expect("no sealing key")
    nameless = x509.load_der_x509_certificate(certificate(KEYS.identity.public_key(), role=None))
    (tmp_path / "certificate.pem").write_bytes(nameless.public_bytes(Encoding.PEM))
    expect("names no party")
    with pytest.raises(FileNotWritable, match="cannot make"):
        KEYS.save(tmp_path / "identity.pem" / "x")


def test_an_authority_is_saved_once(tmp_path):
    CA.save(tmp_path / "ca")
    loaded = Authority.load(tmp_path / "ca")
    assert loaded.certificate == CA.certificate
    assert check(loaded.issue("eve", Role.helper).record(), CA.certificate, NOW) is Role.helper
    assert authorities.read_revoked(tmp_path / "ca", CA.certificate) == frozenset()
    with pytest.raises(FileNotWritable, match="already holds keys"):
        Authority.create().save(tmp_path / "ca")
    (tmp_path / "ca" / "identity.pem").write_bytes(private_pem(Ed25519PrivateKey.generate()))
    with pytest.raises(FileUnreadable, match="is not the key of"):
        Authority.load(tmp_path / "ca")
    KEYS.save(tmp_path / "ada")
    with pytest.raises(FileUnreadable, match="not the certificate of an authority"):
        Authority.load(tmp_path / "ada")
    until = CA.certificate.not_valid_after_utc.timestamp()
    assert 9.9 * YEAR < until - NOW < 10.1 * YEAR


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "a\nb"])
def test_strange_names_are_not_certified(name):
    with pytest.raises(InvalidParameter, match="a name has"):
        CA.issue(name, Role.device)


def test_strange_hosts_are_not_certified():
    with pytest.raises(InvalidParameter, match="is not a host"):
        CA.issue("hub", Role.hub, ["häb.example"])


def test_hosts_are_in_the_certificate():
    keys = CA.issue("hub", Role.hub, ["hub.example", "192.0.2.1"])
    names = x509.load_der_x509_certificate(keys.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert names.value.get_values_for_type(x509.DNSName) == ["localhost", "hub.example"]
    addresses = names.value.get_values_for_type(x509.IPAddress)
    assert list(map(str, addresses)) == ["127.0.0.1", "::1", "192.0.2.1"]


def test_a_revocation_list_grows_and_is_verified():
    assert authorities.revoked_serials(REVOKED, CA.certificate) == {7, 8}
    longer = CA.revoke([9], before=REVOKED)
    assert authorities.revoked_serials(longer, CA.certificate) == {7, 8, 9}
    read = authorities.revoked_serials
    stranger = Authority.create()
    assert refusal(read, stranger.revoke([1]), CA.certificate) is Reason.forged
    assert refusal(read, REVOKED, Authority.create("x").certificate) is Reason.forged
    assert refusal(read, b"", CA.certificate) is Reason.malformed
    with pytest.raises(Rejected):
        CA.revoke([1], before=stranger.revoke([2]))


REVOKED_DER = x509.load_pem_x509_crl(REVOKED).public_bytes(Encoding.DER)


@given(st.lists(st.tuples(st.integers(0, len(REVOKED_DER) - 1), st.integers(0, 255)), max_size=5))
@example([(REVOKED_DER.index(b"\2\1\1") + 2, 63)])
def test_a_damaged_revocation_list_is_refused(changes):
    data = bytearray(REVOKED_DER)
    for at, byte in changes:
        data[at] = byte
    pem = base64.encodebytes(data)
    pem = b"-----BEGIN X509 CRL-----\n" + pem + b"-----END X509 CRL-----\n"
    if data == REVOKED_DER:
        assert authorities.revoked_serials(pem, CA.certificate) == {7, 8}
        return
    with pytest.raises(Rejected):
        authorities.revoked_serials(pem, CA.certificate)


@given(st.one_of(st.binary(max_size=300), st.integers(0, len(REVOKED)).map(lambda n: REVOKED[:n])))
def test_any_bytes_are_no_revocation_list(data):
    with contextlib.suppress(Rejected):
        assert authorities.revoked_serials(data, CA.certificate) == {7, 8}


def test_long_revocation_lists_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(authorities, "_LIST_LIMIT", 100)
    assert refusal(authorities.revoked_serials, REVOKED, CA.certificate) is Reason.oversized
    (tmp_path / "list.pem").write_bytes(REVOKED)
    with pytest.raises(FileUnreadable, match="more than 100 bytes"):
        authorities.read_revoked(tmp_path / "list.pem", CA.certificate)


def test_a_register_gives_a_name_to_one_party_at_a_time(tmp_path):
    Authority.create().save(tmp_path)
    (keys,) = Register(tmp_path).issue(["ada"], Role.device, ())
    register = Register(tmp_path)
    with pytest.raises(InvalidParameter, match="'ada' already has a certificate"):
        register.issue(["bob", "ada"], Role.device, ())
    with pytest.raises(InvalidParameter, match="'bob': check the name"):
        register.revoke(["ada", "bob"])
    (serial,) = register.revoke(["ada"])
    assert register.revoke(["ada"]) == []
    ca = register.authority.certificate
    revoked = authorities.read_revoked(tmp_path, ca)
    assert revoked == {serial}
    assert refusal(check, keys.record(), ca, NOW, revoked) is Reason.revoked
    (new,) = Register(tmp_path).issue(["ada"], Role.device, ())
    assert check(new.record(), ca, NOW, revoked) is Role.device
    (tmp_path / "issued.jsonl").write_bytes(b'["ada","device","xyz"]\n')
    with pytest.raises(FileUnreadable, match="is damaged"):
        Register(tmp_path)
    (tmp_path / "revoked.pem").write_bytes(REVOKED)
    with pytest.raises(FileUnreadable, match="no revocation list of this authority"):
        Register(tmp_path)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Directories of an authority, a stranger's, a hub and a device."""
    root = tmp_path_factory.mktemp("tls")
    Authority.create().save(root / "ca")
    Authority.create().save(root / "stranger")
    for issuer, name, role in (
        ("ca", "hub", Role.hub),
        ("ca", "ada", Role.device),
        ("ca", "eve", Role.device),
        ("stranger", "mallory", Role.device),
    ):
        (keys,) = Register(root / issuer).issue([name], role, ())
        keys.save(root / name)
    Register(root / "ca").revoke(["eve"])
    return root


def handshake(server, client, host="127.0.0.1"):
    """The TLS version and the certificate that the server saw; ``SSLError`` from either side."""
    seen, failures = [], []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)

        def serve():
            raw, _ = listener.accept()
            raw.settimeout(30)
            try:
                with server.wrap_socket(raw, server_side=True) as tls:
                    tls.sendall(b"hello")
                    seen.append((tls.version(), tls.getpeercert(binary_form=True)))
                    tls.recv(1)
            except OSError as error:
                failures.append(error)
            finally:
                raw.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=30) as raw,
                client.wrap_socket(raw, server_hostname=host) as tls,
            ):
                assert tls.recv(5) == b"hello"
        finally:
            thread.join()
    if failures:
        raise failures[0]
    return seen[0]


def test_tls_with_a_certified_hub(places):
    server, client = server_context(places / "hub"), client_context(places / "ca")
    for host in ("127.0.0.1", "localhost", "::1"):
        assert handshake(server, client, host) == ("TLSv1.3", None)


def test_tls_of_both_sides(places):
    server = server_context(places / "hub", places / "ca", places / "ca")
    client = client_context(places / "ca" / "certificate.pem", places / "ada", places / "ca")
    version, shown = handshake(server, client)
    assert version == "TLSv1.3"
    assert x509.load_der_x509_certificate(shown) == load_certificate(
        places / "ada" / "certificate.pem"
    )


def test_tls_1_2_is_refused(places):
    old = client_context(places / "ca")
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(server_context(places / "hub"), old)
    server = server_context(places / "hub")
    server.minimum_version = ssl.TLSVersion.TLSv1_2
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(server, client_context(places / "ca"))


@pytest.mark.parametrize("name", ["mallory", "eve", None])
def test_callers_without_a_valid_certificate_are_refused(places, name):
    server = server_context(places / "hub", places / "ca", places / "ca")
    client = client_context(places / "ca", places / name if name else None)
    with pytest.raises(ssl.SSLError):
        handshake(server, client)


def test_a_hub_of_another_authority_or_name_is_refused(places):
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server_context(places / "mallory"), client_context(places / "ca"))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server_context(places / "hub"), client_context(places / "ca"), "other.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(
            server_context(places / "eve"),
            client_context(places / "ca", revoked=places / "ca" / "revoked.pem"),
        )


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
def test_tls_does_not_start_with_keys_that_others_can_read(tmp_path):
    KEYS.save(tmp_path)
    (tmp_path / "identity.pem").chmod(0o644)
    with pytest.raises(FileUnreadable, match="chmod 600"):
        server_context(tmp_path)
