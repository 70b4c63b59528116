"""Where a server may listen without proof: on loopback, where only this machine can reach it."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from quoracy.core.errors import ConfigError


def is_loopback(host: str) -> bool:
    """Only what is loopback for certain: any name but ``localhost`` may lead anywhere, today or tomorrow."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def check_binding(host: str, tls: bool, tokens: bool, insecure: bool) -> None:
    """Raises ConfigError for an address that others can reach while they need prove nothing, or can listen."""
    if insecure or (tls and tokens) or is_loopback(host):
        return
    missing = " and ".join(
        [*(["TLS (tls.cert and tls.key; quoracy ca init makes them)"] * (not tls)),
         *(["tokens (access.tokens = \"required\")"] * (not tokens))]
    )  # fmt: skip
    fix = f"other machines can reach this address: add {missing}, or listen on 127.0.0.1, or accept it with --insecure"
    raise ConfigError("listen.host", host, fix)
