"""Where the coordinator is: ``tcp://host:port``, or ``tcps://host:port`` for TLS; several, separated by commas."""

from __future__ import annotations

from typing import Final

import msgspec

from quoracy.core.bounds import whole
from quoracy.core.errors import ConfigError

PORT: Final = 7700
SCHEMES: Final = {"tcp": False, "tcps": True}
FIX: Final = "write tcp://HOST:PORT, or tcps://HOST:PORT for TLS, such as tcp://127.0.0.1:7700"


class Address(msgspec.Struct, frozen=True, array_like=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(url: str) -> tuple[list[Address], bool]:
    """The addresses, and whether to speak TLS. Raises ConfigError for anything else than such a URL."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator or scheme not in SCHEMES:
        raise ConfigError("url", url, FIX)
    addresses = []
    for part in rest.split(","):
        other, separator, place = part.strip().partition("://")
        if separator and other != scheme:
            raise ConfigError("url", url, "all addresses must be reached in the same way: tcp or tcps")
        address = parse_address(place if separator else part.strip())
        if address is None:
            raise ConfigError("url", url, FIX)
        addresses.append(address)
    return addresses, SCHEMES[scheme]


def parse_address(text: str) -> Address | None:
    """``host``, ``host:port`` or ``[v6]:port``, with or without a scheme; None if it is none of these."""
    text = text.partition("://")[2] if "://" in text else text
    text = text.removesuffix("/")
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            return None
        port = port[1:]
    else:
        host, _, port = text.partition(":")
    plain = host.isascii() and host.isprintable() and not any(mark in host for mark in "/@?# ")
    if not host or not plain or len(host) > 253:
        return None
    if not port:
        return Address(host, PORT)
    number = whole(port, 65535)
    return Address(host, number) if number else None
