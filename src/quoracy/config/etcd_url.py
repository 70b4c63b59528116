"""Where journals are in etcd: ``etcd://host:port,host:port/prefix``, or ``etcds://`` for TLS."""

from __future__ import annotations

from typing import Final

import msgspec

from quoracy.core.bounds import whole
from quoracy.core.errors import ConfigError

PORT: Final = 2379
PREFIX: Final = "/quoracy"
SCHEMES: Final = {"etcd": False, "etcds": True}
MAX_PREFIX: Final = 256
FIX: Final = "write etcd://HOST:PORT/PREFIX, or etcds:// for TLS; several as HOST:PORT,HOST:PORT"


class EtcdAddress(msgspec.Struct, frozen=True):
    endpoints: tuple[str, ...]
    """host:port of every member that may be asked."""
    prefix: str = PREFIX
    """Everything that is kept there has a key that begins with this and a slash."""
    tls: bool = False

    def __str__(self) -> str:
        return f"{'etcds' if self.tls else 'etcd'}://{','.join(self.endpoints)}{self.prefix}"


def parse_etcd(url: str, field: str = "store.etcd") -> EtcdAddress:
    """Raises ConfigError for anything else than such a URL."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError(field, url, FIX)
    places, _, path = rest.partition("/")
    endpoints = [_endpoint(place.strip()) for place in places.split(",")]
    path = path.strip("/")
    good = path.isascii() and path.isprintable() and not any(mark in path for mark in " ?#,")
    if not good or len(path) > MAX_PREFIX:
        raise ConfigError(field, url, f"the prefix has at most {MAX_PREFIX} printable characters of ASCII: {FIX}")
    found = [endpoint for endpoint in endpoints if endpoint]
    if len(found) != len(endpoints):
        raise ConfigError(field, url, FIX)
    return EtcdAddress(tuple(found), f"/{path}" if path else PREFIX, SCHEMES[scheme])


def _endpoint(text: str) -> str:
    """host:port, or nothing if it is none."""
    host, separator, port = text.rpartition(":")
    if text.endswith("]") or not separator:
        host, port = text, str(PORT)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    plain = bare.isascii() and bare.isprintable() and not any(mark in bare for mark in "/@?# []")
    number = whole(port, 65535)
    if not bare or not plain or (":" in bare and bare == host) or not number:
        return ""
    return f"{host}:{number}"
