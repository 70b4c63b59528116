"""Every setting of a server, with its default and why it is that. ``quoracy config example`` prints them as TOML."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from quoracy.config.binding import is_loopback
from quoracy.core.codec import us
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.core.messages import MAX_MESSAGE_BYTES

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


Port = Annotated[int, Meta(ge=0, le=65535)] | Literal["auto"]


class Grpc(msgspec.Struct, frozen=True):
    """The door for programs in any language. It listens on the host of ``listen``."""

    enabled: bool = True
    """Whether there is one."""
    port: Port = "auto"
    """auto takes 50051, or any free port if another program has that; 0 any free one. Whatever it is, it is said."""
    max_streams: Count = 1000
    """Session streams at once: a member has one, for heartbeats too. The next is refused as too_fast. Less than half of
    limits.max_connections_per_identity, so that idle streams alone cannot shut their own address out."""
    keepalive_s: Seconds = 10.0
    """How often the server asks a connection on which nothing is said whether it is still there, and at most."""
    keepalive_timeout_s: Seconds = 5.0
    """One that does not answer for so long is closed, and its streams with it."""
    keepalive_without_calls: bool = True
    """Whether both sides may ask so while no call is open."""
    min_ping_interval_s: Seconds = 5.0
    """Clients that ask more often, again and again, are sent away: set their keepalive to twice this, or slower, as in
    the example, where it is 10 seconds."""


class Http(msgspec.Struct, frozen=True):
    """The door for people, dashboards and scripts. It listens on the host of ``listen``."""

    enabled: bool = True
    """Whether there is one."""
    port: Port = "auto"
    """auto takes 3000, or any free port if another program has that; 0 any free one. Whatever it is, it is said."""
    max_streams: Count = 1000
    """Event streams at once. The next is refused as too_fast. Less than half of limits.max_connections_per_identity, so
    that idle streams alone cannot shut their own address out."""
    allowed_hosts: tuple[Text, ...] = ()
    """Names under which browsers may ask, beside loopback and the address that is listened on. Others are refused: a
    foreign page could otherwise make a browser ask under its own name."""
    allowed_origins: tuple[Text, ...] = ()
    """Pages of other servers that may ask, as https://name:port. None by default."""
    request_timeout_s: Seconds = 30.0
    """A request that has not come whole by then is given up, and so is a client that reads nothing for so long."""
    relay_blob_bytes: Size = 1024**3
    """The largest blob that a member of a witnessed run may pass on through this door. Only members that nobody can
    reach do that."""
    relay_total_bytes: Size = 4 * 1024**3
    """Of all such blobs together, in the object store. The oldest give way; after eight rounds all do."""


class Store(msgspec.Struct, frozen=True):
    """Where journals are kept."""

    kind: Literal["sqlite", "memory", "etcd"] = "sqlite"
    """sqlite for servers on one machine, etcd for servers on several. memory forgets every run when the process ends:
    for trials and benchmarks."""
    folder: Annotated[str, Meta(min_length=1, max_length=4096)] = "quoracy-data"
    """Journals, and the secret that tokens are made from, unless etcd keeps them. On a local disk: locks do not work
    over NFS."""
    etcd: Annotated[str, Meta(min_length=1, max_length=4096)] = "etcd://127.0.0.1:2379/quoracy"
    """Where etcd is, if that is the kind: etcd://host:port,host:port/prefix, or etcds:// for TLS. All servers with the
    same prefix serve the same runs, one at a time."""
    etcd_ca: Text = ""
    """With etcds://: the file of the authority to believe, in PEM. Empty: those that this machine trusts."""
    etcd_cert: Text = ""
    """With etcds://: the file of the certificate that this server shows to etcd, in PEM. Empty: none."""
    etcd_key: Text = ""
    """The key of that certificate, in PEM and not encrypted, and readable by its owner only."""
    objects: Text = ""
    """Where the weights of federated runs and the checkpoints of witnessed ones are kept: a folder, or
    s3://bucket/prefix?endpoint=https://host:port, which servers on several machines need. STORAGE_BACKEND=s3 with
    CHECKPOINT_BUCKET says the same. Empty: the folder objects in
    ``folder``, and with the kind memory a temporary one, since the process that aggregates cannot see this one's
    memory."""


class Workshop(msgspec.Struct, frozen=True):
    """The processes beside the server that touch weights: they look at updates, aggregate and evaluate them. They are
    started when a federated run needs them first."""

    at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """Updates that are looked at at the same time. More is of use where objects come over a network."""
    modules: tuple[Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$", max_length=256)], ...] = ()
    """Modules that the settings of a run may name code from, with evaluation and with aggregation.of: such code runs
    with all that this server may do. None by default, so that whoever may create a run cannot run anything here."""
    code_timeout_s: Seconds = 600.0
    """Functions for evaluation and aggregation rules of your own that take longer are ended; the run pauses and says
    so."""


class Tls(msgspec.Struct, frozen=True):
    """Encryption, and the proof that this is the server. Both or neither."""

    cert: Text = ""
    """A file in PEM: the server's certificate and those between it and the authority. Empty: no TLS."""
    key: Text = ""
    """The key of that certificate, in PEM and not encrypted, since nobody is there to type a password."""


class Access(msgspec.Struct, frozen=True):
    """Who may come in."""

    tokens: Literal["auto", "required", "off"] = "auto"
    """auto asks for none on loopback, and for one everywhere else. Where none is asked it is the server's own user that
    needs none, as the kernel says whose a connection is: other users of the machine show one all the same, unless
    ``insecure`` lets them in."""
    session_s: Annotated[float, Meta(ge=1.0, le=31_536_000)] = 86_400.0
    """How long the session token of a member is good. While the member beats, it gets a newer one when half of that is
    over: so it ends only for those who are gone."""
    insecure: bool = False
    """Listen on an address that others can reach, without TLS or without tokens. Whoever reaches the port owns every
    run: on loopback every user of this machine."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """What connections may do. An identity is the token that a connection has shown, or the address that it comes from
    as long as it has shown none. The limits stop accidents and floods; a fleet of a thousand workers behind one address
    stays far below them."""

    max_frame_bytes: Annotated[int, Meta(ge=1024, le=MAX_MESSAGE_BYTES)] = MAX_MESSAGE_BYTES
    """A longer message ends its connection before it is read. No message of ours is as long."""
    max_connections: Count = 20_000
    """In all. Each needs a file descriptor: see ulimit -n. The next is refused as too_fast. A member over TCP has two,
    one for its session and one for its heartbeats."""
    max_connections_per_identity: Count = 4_000
    """Four times the default size of a fleet: each member has two, and all may connect anew before the old connections
    are given up."""
    messages_per_s: Count = 50_000
    """Of one identity, in the long run. About what one server can take."""
    burst_messages: Count = 100_000
    """So many at once. More than one read can hold, or a full read could never pass."""
    bytes_per_s: Size = 128 * 1024 * 1024
    """Of one identity, in the long run."""
    burst_bytes: Size = 256 * 1024 * 1024
    """So many at once."""
    weights_bytes_per_s: Annotated[int, Meta(ge=0, le=2**40)] = 0
    """Of the weights that one identity moves through the HTTP API, each way, in the long run; they are not counted
    among bytes_per_s. 0: as fast as network and disk take them. Whoever is faster is slowed down, never refused, and
    in any case all identities get their turns."""
    max_unsent_bytes: Size = 8 * 1024 * 1024
    """Of answers, what may wait for a client that does not read. One that lets more pile up is cut off and may connect
    anew. Views do not count: of those that were not read only the newest of each are kept."""
    greet_timeout_s: Seconds = 10.0
    """A connection that has not said who it is by then is closed: it holds a place that others need."""
    idle_timeout_s: Seconds = 300.0
    """One that says nothing for so long is closed: its other end may be gone without a word. Not while heartbeats of a
    member that speaks through it come on another connection."""


class HostSettings(msgspec.Struct, frozen=True):
    """How runs are served."""

    max_waiting: Count = 100_000
    """Messages in the queue of one run; the next is refused as overloaded."""
    snapshot_every: Count = 1000
    """Entries between two snapshots: what a restart folds at most."""
    segment_entries: Count = 10_000
    """When a snapshot covers twice as many entries in the hot store, the older half moves into an archived segment, a
    file of its own. Nothing is lost by that. Larger ones are fewer files; commits wait a little while one is sealed."""
    keep_segments: Annotated[int, Meta(ge=0, le=1_000_000_000)] | Literal["all"] = "all"
    """Archived segments of each run that are kept; older ones are deleted, and whoever asks for their entries is told
    so. all keeps every entry for ever."""
    beat_s: Seconds = 0.5
    """How often a serving host shows the others that it is alive."""
    takeover_s: Seconds = 3.0
    """A serving host silent for longer is replaced. Six beats, so that a slow disk does not cost the term."""
    stagger_s: Seconds = 0.2
    """Followers that would replace a silent host wait a drawn number of these on top, 0 to 7, so that not all try at
    once and all but one in vain. Long enough for an append to be seen by the others. A store with a lock, such as
    SQLite, needs no such wait."""
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
            stagger_us=us(self.stagger_s),
            retry_us=us(self.retry_s),
            max_tries=self.max_tries,
            slow_write_us=us(self.slow_write_s),
        )


class SeriesSettings(msgspec.Struct, frozen=True):
    """How numbers went: history for people, in series.db beside the journals. A series that is written every second
    takes 11,520 buckets of about 75 bytes after a month with these settings: 0.9 MB, or 430 MB for 500 of them. Most
    are written once in a heartbeat and take less."""

    sample_s: Annotated[float, Meta(ge=0.1, le=3600)] = 1.0
    """How often everything is looked at. A thousand workers cost about 2 ms each time."""
    workers_followed: Annotated[int, Meta(ge=0, le=10_000)] = 50
    """Workers with curves of their own, those of the lowest ranks. All others are in the fleet's: lowest, mean and
    highest."""
    max_series_per_run: Count = 500
    """The next is left out and told, unless one rests that has not been written for an hour: that one gives way."""
    max_series: Count = 2000
    """Of all runs together."""
    seconds_kept_s: Annotated[int, Meta(ge=60, le=31_536_000)] = 3600
    """How long each second is kept: 3,600 buckets."""
    tens_kept_s: Annotated[int, Meta(ge=60, le=31_536_000)] = 6 * 3600
    """How long every ten seconds are kept as one: 2,160 buckets. Not shorter than seconds_kept_s."""
    minutes_kept_s: Annotated[int, Meta(ge=60, le=31_536_000)] = 24 * 3600
    """How long every minute is kept: 1,440 buckets. Not shorter than tens_kept_s."""
    ten_minutes_kept_s: Annotated[int, Meta(ge=600, le=315_360_000)] = 30 * 24 * 3600
    """How long every ten minutes are kept: 4,320 buckets. Not shorter than minutes_kept_s."""

    def kept(self) -> tuple[tuple[int, int], ...]:
        """(width, for how long) of each tier. A coarser one is kept at least as long as the finer ones."""
        tiers: list[tuple[int, int]] = []
        widths = (1, 10, 60, 600)
        spans = (self.seconds_kept_s, self.tens_kept_s, self.minutes_kept_s, self.ten_minutes_kept_s)
        for width_s, keep_s in zip(widths, spans, strict=True):
            tiers.append((width_s, max(keep_s, width_s, tiers[-1][1] if tiers else 0)))
        return tuple(tiers)


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
    grpc: Grpc = Grpc()
    http: Http = Http()
    store: Store = Store()
    tls: Tls = Tls()
    access: Access = Access()
    limits: ConnectionLimits = ConnectionLimits()
    host: HostSettings = HostSettings()
    series: SeriesSettings = SeriesSettings()
    workshop: Workshop = Workshop()
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
