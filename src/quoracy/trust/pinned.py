"""TLS between members: certificates that everybody makes for itself, believed because of the key in them.

There is no authority. A member's certificate holds its Ed25519 key and is signed with it; the handshake proves that the
listener has that key, and the dialler holds it against the roster. TLS 1.3 only, and nothing is taken up again: every
connection proves itself anew.

Members send each other models, and much of what that takes of the processor is encrypting. So the OpenSSL that comes
with ``cryptography`` does it, by way of pyOpenSSL: Python's own ``ssl`` has that of the operating system, which may be
years older and a third as quick (docs/decisions/0022-tls-between-members.md).
"""

from __future__ import annotations

import datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

from quoracy.trust.keys import MemberKey

BEGIN: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
END: Final = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
"""The roster says how long a key counts, and no clock."""
SUITES: Final = b"TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384"
"""The quickest first."""
PARTIAL_WRITES: Final = 1
"""OpenSSL's SSL_MODE_ENABLE_PARTIAL_WRITE: every record would be a call of its own."""


def listening_context(key: MemberKey) -> SSL.Context:
    context = _context(SSL.TLS_SERVER_METHOD)
    context.set_options(SSL.OP_NO_TICKET)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    private, certificate = key.self_signed(_certificate())
    context.use_certificate(certificate)
    context.use_privatekey(private)
    return context


def dialling_context() -> SSL.Context:
    """Believes any certificate: whose key it holds is looked at afterwards, see ``key_in``."""
    return _context(SSL.TLS_CLIENT_METHOD)


def _context(method: int) -> SSL.Context:
    context = SSL.Context(method)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.set_tls13_ciphersuites(SUITES)
    context.clear_mode(PARTIAL_WRITES)
    return context


def key_in(certificate: x509.Certificate | None) -> bytes:
    """The key that whoever showed this certificate has proven to hold; empty if it is of another sort."""
    if certificate is None:
        return b""
    try:
        public = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return b""
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw) if isinstance(public, Ed25519PublicKey) else b""


def _certificate() -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quoracy member")])
    return (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN).not_valid_after(END)
    )  # fmt: skip
