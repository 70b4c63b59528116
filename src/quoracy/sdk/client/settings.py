"""What ``connect``, ``participate`` and ``join`` have in common: where, as whom, with which token; checked once."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.core.errors import ConfigError, Refusal, Retry
from quoracy.core.machine import Join
from quoracy.sdk.client.address import Address, parse_url

URL: Final = "tcp://127.0.0.1:7700"
MAX_MEMBER: Final = 64


class Timeouts(msgspec.Struct, frozen=True):
    """How long a worker waits for what."""

    connect_timeout_s: float = 30.0
    """For the first connection, and until the join is answered. A coordinator that is started at the same moment is
    there by then; a wrong address is noticed before anybody goes to lunch."""
    give_up_s: float | None = 600.0
    """For a coordinator that went away in the middle. As long as a barrier's deadline; None waits for ever."""
    drain_s: float = 20.0
    """After SIGTERM, for the barrier under way. Less than the 30 s after which most platforms kill."""
    leave_s: float = 5.0
    """For the answer to a goodbye. A coordinator that does not get it notices the silence."""
    retry_s: float = 1.0
    """Before something unanswered is said again on the same connection."""


class Settings(msgspec.Struct, frozen=True):
    run: str
    member: str
    addresses: list[Address]
    tls: bool
    ca: str | None = None
    token: str = ""
    key: str | None = None
    about: dict[str, Any] = {}
    timeouts: Timeouts = Timeouts()
    wait: bool = False
    """For a run that is not there: wait until somebody creates it."""

    def waits_out(self, refusal: Refusal) -> bool:
        """Whether the run is not there, and waited for."""
        return self.wait and refusal.code == "unknown_run"

    def passes(self, refusal: Refusal) -> bool:
        """Whether one that was turned away may be let in later: somebody may leave, a run that is waited for come."""
        return refusal.retry is Retry.LATER or self.waits_out(refusal)


def settings(
    url: str | None,
    run: str | None,
    member: str | None,
    *,
    token: str | None,
    ca: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
    about: dict[str, Any],
    timeouts: Timeouts,
    joins: type[Join],
    called: Callable[[], str] | None = None,
    wait: bool = False,
) -> Settings:
    """Arguments first, then the environment, then what suits a laptop. Raises ConfigError. ``about``: what ``joins``
    says beside who joins. ``called``: gives a name to a member that has none."""
    env = os.environ
    addresses, tls = parse_url(url or env.get("QUORACY_URL") or URL)
    run = run or env.get("QUORACY_RUN")
    if not run:
        raise ConfigError("run", run, "name the run: run=..., or set QUORACY_RUN")
    if len(run) > 128:
        raise ConfigError("run", run, "at most 128 characters")
    token = env.get("QUORACY_TOKEN", "") if token is None else token
    _check_about(about, joins)
    for name in Timeouts.__struct_fields__:
        value = getattr(timeouts, name)
        if value is not None and not 0 < value < 1e9:
            raise ConfigError(name, value, "more than 0 seconds")
    ca = env.get("QUORACY_CA") if ca is None and tls else ca
    if ca is not None and not tls:
        raise ConfigError("ca", str(ca), "only used with TLS: write tcps:// instead of tcp://")
    return Settings(
        run,
        check_member(member or env.get("QUORACY_MEMBER") or (called or default_member)()),
        addresses,
        tls,
        None if ca is None else str(Path(ca).absolute()),
        token,
        _key_path(key, bool(token)),
        about,
        timeouts,
        wait,
    )


def check_member(member: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", member):
        raise ConfigError("member", member, "1 to 64 letters, digits, '.', '_' and '-'")
    return member


def default_member() -> str:
    """Host and process: no two at the same time have it. One that wants to be known again after a restart is named."""
    pid = f"-{os.getpid()}"
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "host"
    return host[: MAX_MEMBER - len(pid)] + pid


def _key_path(key: str | os.PathLike[str] | None, token: bool) -> str | None:
    """Where tokens are asked for, ids are bound to keys: a worker without one gets that of its user."""
    named = key or os.environ.get("QUORACY_KEY")
    if named:
        return str(Path(named).absolute())
    if not token:
        return None
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return str(Path(home).absolute() / "quoracy" / "member.key")


def _check_about(about: dict[str, Any], joins: type[Join]) -> None:
    event = joins("m", 0, bytes(16), b"", **about)
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=joins)
    except (msgspec.ValidationError, TypeError) as error:
        raise ConfigError(", ".join(name for name in about if name != "address"), about, str(error)) from None
