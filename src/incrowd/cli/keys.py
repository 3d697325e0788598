"""``incrowd keys``: an authority for development, and the keys of the parties it certifies."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from incrowd.cli.output import Format, FormatOption, emit, note

if TYPE_CHECKING:
    from cryptography import x509
    from rich.console import Console

    from incrowd.live.keys import PrivateKeys, Role

app = typer.Typer(
    help="Make, show, replace and withdraw the keys of the parties of live surveys.",
    no_args_is_help=True,
)

CaOption = Annotated[Path, typer.Option(help="The directory of the authority.")]


@app.command("ca")
def ca_command(
    directory: Annotated[Path, typer.Argument(help="A new directory for the authority.")],
    name: Annotated[str, typer.Option(help="Name of the authority.")] = "development authority",
    format: FormatOption = Format.table,
) -> None:
    """Make an authority: a key that certifies parties, with a list of withdrawn certificates."""
    from incrowd.live.authority import Authority

    made = Authority.create(name)
    made.save(directory)
    note(f"anyone who can read {directory} can certify keys: keep it off the machines of parties")
    _show([_authority(directory, made.certificate, 0)], format)


@app.command()
def issue(
    directory: Annotated[Path, typer.Argument(help="A new directory for the keys.")],
    ca: CaOption,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="Role of the party: device, curator, hub or helper.")
    ],
    name: Annotated[str, typer.Option(help="Name of the party.")],
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Make this many: NAME-00, NAME-01, …, each in its own directory."),
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="A name or address it is called by; may be repeated.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Make keys for a party, or for many, and certify them."""
    from incrowd.errors import FileNotWritable
    from incrowd.live.authority import Register
    from incrowd.live.keys import IDENTITY_FILE

    places = {name: directory}
    if count is not None:
        if Path(name).name != name:
            problem = "with --count it is the name of directories too: leave out slashes"
            raise typer.BadParameter(problem, param_hint="--name")
        # Rosters are in the order of names, so numbers have as many digits as the last one.
        names = [f"{name}-{index:0{len(str(count - 1))}}" for index in range(count)]
        places = {each: directory / each for each in names}
    for place in places.values():
        if (place / IDENTITY_FILE).exists():
            raise FileNotWritable(f"{place} already holds keys: choose another directory")
    made = Register(ca).issue(list(places), _role(role), host or ())
    for keys in made:
        keys.save(places[keys.name])
    _show([_party(places[keys.name], keys) for keys in made], format)


@app.command()
def rotate(
    directory: Annotated[Path, typer.Argument(help="The directory of the keys.")],
    format: FormatOption = Format.table,
) -> None:
    """Replace the key that others seal to; the one before is kept for surveys that still run."""
    from incrowd.live.keys import PrivateKeys

    keys = PrivateKeys.load(directory).rotate()
    keys.save(directory)
    _show([_party(directory, keys)], format)


@app.command()
def revoke(
    names: Annotated[list[str], typer.Argument(help="The names of the parties.")],
    ca: CaOption,
    hub: Annotated[
        str | None, typer.Option(help="Publish the list at this hub too, https://…")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Withdraw the certificates of parties, by writing the authority's revocation list anew."""
    from incrowd.live.authority import REVOKED_FILE, Register

    fresh = Register(ca).revoke(names)
    if hub is None:
        note(f"give {ca / REVOKED_FILE} to everyone who checks certificates")
    else:
        asyncio.run(_publish(hub, ca, (ca / REVOKED_FILE).read_bytes()))
    serials = [f"{each:x}" for each in fresh]
    payload = {"file": str(ca / REVOKED_FILE), "revoked": serials}
    emit(payload, lambda console: _render_revoked(console, serials), format)


async def _publish(hub: str, authority: Path, crl: bytes) -> None:
    from incrowd.live.authority import client_context
    from incrowd.live.client import HubClient

    async with HubClient(hub, client_context(authority)) as client:
        await client.revoke(crl)


@app.command()
def show(
    directory: Annotated[
        Path, typer.Argument(help="The directory of a party, of several, or of an authority.")
    ],
    format: FormatOption = Format.table,
) -> None:
    """Say whose keys a directory holds, and until when they are good."""
    from incrowd.errors import FileUnreadable
    from incrowd.live.authority import REVOKED_FILE, Authority, read_revoked
    from incrowd.live.keys import CERTIFICATE_FILE, PrivateKeys

    if (directory / REVOKED_FILE).exists():
        certificate = Authority.load(directory).certificate
        revoked = len(read_revoked(directory, certificate))
        _show([_authority(directory, certificate, revoked)], format)
        return
    places = [directory]
    if directory.is_dir() and not (directory / CERTIFICATE_FILE).exists():
        found = directory.glob(f"*/{CERTIFICATE_FILE}")
        places = sorted((file.parent for file in found), key=_natural)
    if not places:
        raise FileUnreadable(f"{directory} holds no keys: make some with 'incrowd keys issue'")
    _show([_party(place, PrivateKeys.load(place)) for place in places], format)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts device-2 before device-10."""
    parts = re.split(r"([0-9]+)", path.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _role(text: str) -> Role:
    from incrowd.live.keys import Role

    try:
        return Role(text)
    except ValueError:
        message = f"{text!r} is not one of {', '.join(Role)}"
        raise typer.BadParameter(message, param_hint="--role") from None


def _party(place: Path, keys: PrivateKeys) -> dict[str, Any]:
    from cryptography import x509

    record = keys.record()
    return {
        "directory": str(place),
        "name": keys.name,
        "role": str(keys.role),
        "identity": record.identity.hex(),
        "sealing_key": record.hpke.hex(),
        "sealing_serial": record.serial,
        **_certified(x509.load_der_x509_certificate(keys.certificate)),
    }


def _authority(place: Path, certificate: x509.Certificate, revoked: int) -> dict[str, Any]:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from cryptography.x509.oid import NameOID

    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    key = certificate.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {
        "directory": str(place),
        "name": str(name.value),
        "role": "authority",
        "identity": key.hex(),
        "revoked": revoked,
        **_certified(certificate),
    }


def _certified(certificate: x509.Certificate) -> dict[str, Any]:
    return {
        "certificate": f"{certificate.serial_number:x}",
        "valid_from": certificate.not_valid_before_utc.isoformat(),
        "valid_until": certificate.not_valid_after_utc.isoformat(),
    }


def _show(rows: list[dict[str, Any]], format: Format) -> None:
    emit({"keys": rows}, lambda console: _render(console, rows), format)


def _render(console: Console, rows: list[dict[str, Any]]) -> None:
    from incrowd.report.tables import TextTable
    from incrowd.report.terminal import facts_table, text_table

    if len(rows) == 1:
        only = ((key.replace("_", " "), str(value)) for key, value in rows[0].items())
        console.print(facts_table(only))
        return
    head = ("name", "role", "identity", "sealing key", "valid until", "directory")
    shown = []
    for row in rows:
        sealing = f"{row['sealing_key'][:16]} ({row['sealing_serial']})"
        who = (row["name"], row["role"], row["identity"][:16])
        shown.append((*who, sealing, row["valid_until"][:10], row["directory"]))
    console.print(text_table(TextTable(head, shown, frozenset(range(len(head))))))


def _render_revoked(console: Console, serials: list[str]) -> None:
    from incrowd.report.tables import TextTable
    from incrowd.report.terminal import text_table

    table = text_table(TextTable(("certificates withdrawn",), [(each,) for each in serials]))
    console.print(table if serials else "all of these were withdrawn before")
