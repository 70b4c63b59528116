"""Every setting of a server, with its default and why it is that. ``quorate config example`` prints them as TOML."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from quorate.config.binding import is_loopback
from quorate.core.codec import us
from quorate.core.kinds import KINDS
from quorate.core.limits import Limits
from quorate.core.messages import MAX_MESSAGE_BYTES

Seconds = Annotated[float, Meta(ge=0.001, le=31_536_000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Size = Annotated[int, Meta(ge=1024, le=2**40)]
Text = Annotated[str, Meta(max_length=4096)]


class Listen(msgspec.Struct, frozen=True):
    """Where members connect."""

    host: Annotated[str, Meta(min_length=1, max_length=253)] = "127.0.0.1"
    """Only this machine can reach it. Any other address needs TLS and tokens."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 7700
    """0 takes any free port and says which."""
    advertise: Annotated[str, Meta(max_length=128)] = ""
    """The address that other hosts send members to, as tcp://name:port, or tcps:// with TLS. Empty: host and port;
    set it where those cannot be reached from outside, as with 0.0.0.0 or in a container."""


class Store(msgspec.Struct, frozen=True):
    """Where journals are kept."""

    kind: Literal["sqlite", "memory"] = "sqlite"
    """memory forgets every run when the process ends: for trials and benchmarks."""
    folder: Annotated[str, Meta(min_length=1, max_length=4096)] = "quorate-data"
    """Journals, and the secret that tokens are made from. On a local disk: locks do not work over NFS."""


class Tls(msgspec.Struct, frozen=True):
    """Encryption, and the proof that this is the server. Both or neither."""

    cert: Text = ""
    """A file in PEM: the server's certificate and those between it and the authority. Empty: no TLS."""
    key: Text = ""
    """The key of that certificate, in PEM and not encrypted, since nobody is there to type a password."""


class Access(msgspec.Struct, frozen=True):
    """Who may come in."""

    tokens: Literal["auto", "required", "off"] = "auto"
    """auto asks for none on loopback, where every user of this machine is trusted, and for one everywhere else."""
    insecure: bool = False
    """Listen on an address that others can reach, without TLS or without tokens. Whoever reaches the port owns every
    run."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """What connections may do. An identity is the address that they come from. The limits stop accidents and floods; a
    fleet of a thousand workers behind one address stays far below them."""

    max_frame_bytes: Annotated[int, Meta(ge=1024, le=MAX_MESSAGE_BYTES)] = MAX_MESSAGE_BYTES
    """A longer message ends its connection before it is read. No message of ours is as long."""
    max_connections: Count = 10_000
    """In all. Each needs a file descriptor: see ulimit -n."""
    max_connections_per_identity: Count = 2_000
    """Twice the default size of a fleet, so that all may connect anew before the old connections are given up."""
    messages_per_s: Count = 50_000
    """Of one identity, in the long run. About what one server can take."""
    burst_messages: Count = 100_000
    """So many at once. More than one read can hold, or a full read could never pass."""
    bytes_per_s: Size = 128 * 1024 * 1024
    """Of one identity, in the long run."""
    burst_bytes: Size = 256 * 1024 * 1024
    """So many at once."""
    max_unsent_bytes: Size = 8 * 1024 * 1024
    """What may wait for a client that does not read. One that lets more pile up is cut off and may connect anew."""
    greet_timeout_s: Seconds = 10.0
    """A connection that has not said who it is by then is closed: it holds a place that others need."""
    idle_timeout_s: Seconds = 300.0
    """One that says nothing for so long is closed: its other end may be gone without a word."""


class HostSettings(msgspec.Struct, frozen=True):
    """How runs are served."""

    max_waiting: Count = 100_000
    """Messages in the queue of one run; the next is refused as overloaded."""
    snapshot_every: Count = 1000
    """Entries between two snapshots: what a restart folds at most."""
    beat_s: Seconds = 0.5
    """How often a serving host shows the others that it is alive."""
    takeover_s: Seconds = 3.0
    """A serving host silent for longer is replaced. Six beats, so that a slow disk does not cost the term."""
    retry_s: Seconds = 0.2
    """Before an append that found no room is tried again."""
    max_tries: Count = 50
    """Of one append, before the host stops and says so."""
    slow_write_s: Seconds = 1.0
    """An append that takes longer is named as what the run is waiting for."""
    drain_s: Seconds = 10.0
    """After SIGTERM: how long members have to hear of it and commands under way to be written, before the end."""

    def limits(self) -> Limits:
        return Limits(
            max_waiting=self.max_waiting,
            snapshot_every=self.snapshot_every,
            beat_us=us(self.beat_s),
            takeover_us=us(self.takeover_s),
            retry_us=us(self.retry_s),
            max_tries=self.max_tries,
            slow_write_us=us(self.slow_write_s),
        )


class Log(msgspec.Struct, frozen=True):
    """What the server writes to standard error."""

    level: Literal["debug", "info", "warn", "error"] = "info"
    """info tells each decision with its reason once; debug every message."""
    format: Literal["text", "json"] = "text"
    """text for people, json (one object a line) for machines."""


def _default_runs() -> dict[str, Any]:
    return {kind.name: kind.config() for kind in KINDS}


class ServerConfig(msgspec.Struct, frozen=True):
    listen: Listen = Listen()
    store: Store = Store()
    tls: Tls = Tls()
    access: Access = Access()
    limits: ConnectionLimits = ConnectionLimits()
    host: HostSettings = HostSettings()
    log: Log = Log()
    runs: dict[str, Any] = msgspec.field(default_factory=_default_runs)
    """For each kind: the configuration of a new run, where whoever creates it says nothing else."""

    def tls_on(self) -> bool:
        return bool(self.tls.cert)

    def tokens_required(self) -> bool:
        """What ``access.tokens`` comes to. Without TLS a token could be overheard, so --insecure asks for none either
        unless it is told to."""
        if self.access.tokens == "auto":
            return not (self.access.insecure or is_loopback(self.listen.host))
        return self.access.tokens == "required"

    def new_run(self, kind: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """The configuration of a new run: what its creator wants, and the defaults for the rest."""
        defaults = self.runs.get(kind)
        return dict(wanted) if defaults is None else {**msgspec.to_builtins(defaults), **wanted}
