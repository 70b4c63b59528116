"""A private authority for people who have none: its own key and certificate, and certificates for servers.

Keys are ECDSA on P-256, which every TLS client and browser takes. An authority lasts ten years; a server's certificate
825 days, the longest that Apple's clients accept. ``issue`` makes the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from quoracy.core.errors import ConfigError
from quoracy.trust.files import create_new, read_file, read_secret

AUTHORITY_DAYS: Final = 3650
SERVER_DAYS: Final = 825
ALWAYS: Final = ("localhost", "127.0.0.1", "::1")
"""Every server is also reachable from its own machine."""
_EARLIER: Final = timedelta(days=1)
"""Certificates begin a day ago, for machines whose clocks are behind."""


class Issued(msgspec.Struct, frozen=True):
    """The files of one certificate, the names it is good for, and its last day."""

    cert: str
    key: str
    hosts: list[str]
    until: str


class Founded(msgspec.Struct, frozen=True):
    authority: Issued
    server: Issued


def create_authority(
    folder: Path, hosts: Sequence[str] = (), days: int = SERVER_DAYS, now: datetime | None = None
) -> Founded:
    """``ca.key``, ``ca.crt``, ``server.key`` and ``server.crt``. Raises ConfigError if one is there, and makes none."""
    now = now or datetime.now(UTC)
    _check_wish("server", hosts, days)
    _free(folder, "server")
    key_path, cert_path = _free(folder, "ca")
    key = generate_private_key(SECP256R1())
    name = _name(f"Quoracy private authority {x509.random_serial_number():x}"[:64])
    until = now + timedelta(days=AUTHORITY_DAYS)
    built = (
        _builder(key, name, name, now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, SHA256())
    )
    _write(key_path, key, cert_path, built)
    authority = Issued(str(cert_path), str(key_path), [], _day(until))
    return Founded(authority, issue(folder, "server", hosts, days, now))


def issue(
    folder: Path, name: str, hosts: Sequence[str], days: int = SERVER_DAYS, now: datetime | None = None
) -> Issued:
    """``NAME.key`` and ``NAME.crt``, signed by the authority in the folder. Raises ConfigError if either is there."""
    now = now or datetime.now(UTC)
    reached = _check_wish(name, hosts, days)
    signer_key, signer = _load(folder)
    until = min(now + timedelta(days=days), signer.not_valid_after_utc)
    key_path, cert_path = _free(folder, name)
    key = generate_private_key(SECP256R1())
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key())
    built = (
        _builder(key, _name(reached[0][:64]), signer.subject, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in reached]), critical=False)
        .add_extension(signed_by, critical=False)
        .sign(signer_key, SHA256())
    )
    _write(key_path, key, cert_path, built)
    return Issued(str(cert_path), str(key_path), reached, _day(until))


def _check_wish(name: str, hosts: Sequence[str], days: int) -> list[str]:
    """All names the certificate will be good for."""
    if not 1 <= days <= AUTHORITY_DAYS:
        raise ConfigError("--days", days, f"from 1 to {AUTHORITY_DAYS}")
    plain = name.replace("-", "").replace("_", "")
    if not (plain.isascii() and plain.isalnum()) or name == "ca":
        raise ConfigError("--name", name, "letters, digits, '-' and '_', and not ca")
    for host in hosts:
        _alternative(host)
    return list(dict.fromkeys([*hosts, *ALWAYS]))


def _free(folder: Path, name: str) -> tuple[Path, Path]:
    """Where key and certificate go, if nothing is there: neither is written when one of them would be refused."""
    paths = folder / f"{name}.key", folder / f"{name}.crt"
    for path in paths:
        if path.exists():
            raise ConfigError("--folder", str(path), "this file is there already and is not overwritten")
    return paths


def _write(key_path: Path, key: EllipticCurvePrivateKey, cert_path: Path, cert: x509.Certificate) -> None:
    create_new(key_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), "--folder")
    create_new(cert_path, cert.public_bytes(Encoding.PEM), "--folder")


def _load(folder: Path) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
    key_path, cert_path = folder / "ca.key", folder / "ca.crt"
    try:
        key = load_pem_private_key(read_secret(key_path, "authority's key"), password=None)
        cert = x509.load_pem_x509_certificate(read_file(cert_path, "authority's certificate"))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError("--folder", str(folder), "ca.key or ca.crt in it is damaged") from None
    if not isinstance(key, EllipticCurvePrivateKey) or cert.public_key() != key.public_key():
        raise ConfigError("--folder", str(folder), "ca.key and ca.crt in it do not belong together")
    return key, cert


def _builder(
    key: EllipticCurvePrivateKey, subject: x509.Name, issuer: x509.Name, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    plain = host.removeprefix("*.").replace("-", "").replace(".", "")
    if not (plain.isascii() and plain.isalnum()) or len(host) > 253:
        fix = "a name like train.example.org or an address like 192.0.2.7, without scheme and port"
        raise ConfigError("--host", host, fix)
    return x509.DNSName(host)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"
