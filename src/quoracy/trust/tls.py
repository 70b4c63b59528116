"""TLS for both ends: version 1.3 and nothing older.

Both ends are ours, so nobody needs an older version. 1.3 has no renegotiation, no compression, and no cipher that one
must know to avoid. Session tickets are off: a Python client never uses them, and every connection proves itself anew.
``SSLKEYLOGFILE`` is not honoured, so an environment variable cannot give the traffic away.
"""

from __future__ import annotations

import ssl
from os import PathLike
from pathlib import Path

from quoracy.core.errors import ConfigError
from quoracy.trust.files import read_file

FilePath = PathLike[str] | str


def server_context(cert: FilePath, key: FilePath) -> ssl.SSLContext:
    """``cert``: the server's certificate and what is between it and the authority, in PEM. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    read_file(Path(cert), "tls.cert")
    read_file(Path(key), "tls.key")
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError("tls.key", str(key), f"this key does not belong to {cert}") from None
        fix = f"this pair cannot be used ({error.reason or 'not PEM'}); both must be unencrypted PEM"
        raise ConfigError("tls.cert, tls.key", f"{cert}, {key}", fix) from None
    return context


def client_context(ca: FilePath | None = None, pinned: FilePath | None = None) -> ssl.SSLContext:
    """Which servers a client believes. Names are always checked. Raises ConfigError.

    ``ca``: those with a certificate from the authority in this file. ``pinned``: the one whose certificate is in this
    file, whoever signed it. Neither: those with a certificate from an authority this machine trusts.
    """
    if ca is not None and pinned is not None:
        raise ConfigError("ca, pinned", f"{ca}, {pinned}", "give one: an authority to believe, or one certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if ca is not None:
        _believe(context, Path(ca), "ca")
    elif pinned is not None:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _believe(context, Path(pinned), "pinned")
    else:
        context.load_default_certs()
    return context


def _believe(context: ssl.SSLContext, path: Path, what: str) -> None:
    content = read_file(path, what)
    try:
        context.load_verify_locations(cadata=content.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(what, str(path), "this file holds no certificate in PEM") from None


def _no_password() -> str:
    """Without this, OpenSSL would ask on the terminal and the server would hang."""
    raise ConfigError("tls.key", "an encrypted key", "nobody is there to type its password: decrypt it first")
