"""TLS between members: certificates that everybody makes for itself, believed because of the key in them.

There is no authority. A member's certificate holds its Ed25519 key and is signed with it; the handshake proves that the
listener has that key, and the dialler holds it against the roster. TLS 1.3 only, and no session tickets: every
connection proves itself anew.
"""

from __future__ import annotations

import datetime
import os
import ssl
import tempfile
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from quorate.trust.keys import MemberKey

BEGIN: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
END: Final = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
"""The roster says how long a key counts, and no clock."""


def listening_context(key: MemberKey) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    with tempfile.TemporaryDirectory(prefix="quorate-tls-") as folder:
        path = Path(folder) / "member.pem"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.self_signed(_certificate()))
        context.load_cert_chain(path)
    return context


def dialling_context() -> ssl.SSLContext:
    """Believes any certificate: whose key it holds is looked at afterwards, see ``key_in``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def key_in(certificate: bytes | None) -> bytes:
    """The key that whoever showed this certificate has proven to hold; empty if it is of another sort."""
    if not certificate:
        return b""
    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return b""
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw) if isinstance(public, Ed25519PublicKey) else b""


def _certificate() -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quorate member")])
    return (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN).not_valid_after(END)
    )  # fmt: skip
