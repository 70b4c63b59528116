"""A store by its URL: what ranks that have no coordinator share."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Final
from urllib.parse import unquote

from quoracy.core.errors import ConfigError
from quoracy.ports import Journal, Mailbox, Pulse

FIX: Final = "write sqlite:///FOLDER, tcpstore://HOST:PORT, or etcd://HOST:PORT/PREFIX"

Ports = tuple[Journal, Pulse, Mailbox]


def open_store(url: str, timeout_s: float = 5.0, create: bool = True) -> Ports:
    """Each with a connection of its own. ``timeout_s``: after which an operation counts as failed. ``create``: a folder
    that is not there is made. Raises ConfigError for a URL that names no store, JournalError for a store that cannot be
    opened."""
    kinds, place, settings = _adapters(url, timeout_s, create)
    with ExitStack() as opened:
        journal, pulse, mailbox = (_open(kind, place, settings, opened) for kind in kinds)
        opened.pop_all()
    return journal, pulse, mailbox


def open_pulse(url: str, timeout_s: float = 5.0) -> Pulse:
    """For those who do nothing but beat."""
    (_, kind, _), place, settings = _adapters(url, timeout_s)
    opened: Pulse = kind(place, **settings)
    return opened


def _open(kind: Any, place: str, settings: dict[str, Any], opened: ExitStack) -> Any:
    port = kind(place, **settings)
    opened.callback(port.close)
    return port


def _adapters(url: str, timeout_s: float, create: bool = True) -> tuple[tuple[Any, Any, Any], str, dict[str, Any]]:
    """Journal, pulse and mailbox of that sort of store, and what they are told."""
    scheme, separator, rest = url.partition("://")
    if not separator or not rest.strip("/"):
        raise ConfigError("store", url, FIX)
    match scheme:
        case "sqlite":
            from quoracy.stores import sqlite

            folder = unquote(f"/{rest.lstrip('/')}" if rest.startswith("/") else rest)
            return (
                (sqlite.SqliteJournal, sqlite.SqlitePulse, sqlite.SqliteMailbox),
                folder,
                {"busy_timeout_s": timeout_s, "create": create},
            )
        case "etcd" | "etcds":
            from quoracy.stores import etcd

            settings = {"call_s": timeout_s, "patience_s": timeout_s}
            return (etcd.EtcdJournal, etcd.EtcdPulse, etcd.EtcdMailbox), url, settings
        case "tcpstore":
            from quoracy.stores import tcpstore

            kinds = (tcpstore.open_journal, tcpstore.open_pulse, tcpstore.open_mailbox)
            return kinds, url, {"timeout_s": timeout_s}
    raise ConfigError("store", url, FIX)
