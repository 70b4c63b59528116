"""Reading settings. Later ones win: the defaults, the file, the environment, the command line.

Everything that is wrong is found before anything is said: unknown names, wrong values, values that do not go together.
Each is told with its field, what it was, where it came from, and what would do.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.config.binding import check_binding
from quoracy.config.etcd_url import parse_etcd
from quoracy.config.objects_url import parse_objects
from quoracy.config.settings import ServerConfig
from quoracy.core.bounds import unbounded, whole
from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.core.kinds import KINDS
from quoracy.core.wanted import wanted

COMMAND_LINE: Final = "the command line"
BACKENDS: Final = ("local", "s3")
S3: Final = "s3://"
_LEVELS: Final = {"trace": "debug", "warning": "warn"}
_KNOWN_LEVELS: Final = ("debug", "info", "warn", "error")


class Settings(msgspec.Struct, frozen=True):
    """A configuration, and where each value that was given came from, by field."""

    config: ServerConfig
    sources: dict[str, str]


def load_config(path: Path | None, overrides: Mapping[str, Any], environ: Mapping[str, str]) -> ServerConfig:
    """``overrides`` as in ``{"listen.port": 7701}`` or ``{"listen": {"port": 7701}}``; None means not given. Raises
    ConfigErrors."""
    return read_settings(path, overrides, environ).config


def read_settings(path: Path | None, overrides: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    reading = _Reading()
    if path is not None:
        reading.take_table("", _parse(path), str(path))
    reading.take_environment(environ)
    reading.take_table("", overrides, COMMAND_LINE)
    return reading.finish()


def known_fields() -> dict[str, Any]:
    """Every field by its full name, as ``listen.port``, with its type."""
    return {
        f"{table}.{field.name}": field.type for table, struct in tables() for field in msgspec.structs.fields(struct)
    }


def tables() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Every table of the file with the struct it becomes, in the order of the file."""
    for field in msgspec.structs.fields(ServerConfig):
        if field.name != "runs":
            yield field.name, field.type
    for kind in KINDS:
        yield f"runs.{kind.name}", kind.config


def log_levels(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What the environment says about the log, with the variable that says so; the last one wins."""
    if level := _rust_level(environ.get("RUST_LOG", "")):
        yield level, "RUST_LOG"
    if level := environ.get("QUORACY_LOG", "").strip().lower():
        yield _LEVELS.get(level, level), "QUORACY_LOG"


class _Reading:
    """Values as they come in, and all that is wrong with them."""

    def __init__(self) -> None:
        self.types = known_fields()
        self.tables = {name for name, _ in tables()} | {"runs"}
        self.given: dict[str, tuple[Any, str]] = {}
        self.problems: list[ConfigError] = []

    def take_table(self, name: str, table: Mapping[str, Any], source: str) -> None:
        for key, value in table.items():
            field = f"{name}.{key}" if name else key
            if field not in self.tables:
                self.take(field, value, source)
            elif isinstance(value, Mapping):
                self.take_table(field, value, source)
            elif value is not None:
                self.problems.append(ConfigError(field, value, f"this is a table: write [{field}] above ({source})"))

    def take_environment(self, environ: Mapping[str, str]) -> None:
        """A variable that is set to nothing counts as not set."""
        for level, variable in log_levels(environ):
            self.take("log.level", level, variable)
        if folder := environ.get("QUORACY_DATA", ""):
            self.take("store.folder", folder, "QUORACY_DATA")
        if interval := environ.get("HEARTBEAT_INTERVAL", "").strip():
            if (interval_ms := whole(interval, 10**15)) is not None:
                self.take("runs.cluster.heartbeat_interval_s", interval_ms / 1000, "HEARTBEAT_INTERVAL")
            else:
                self.problems.append(ConfigError("HEARTBEAT_INTERVAL", interval, "a whole number of milliseconds"))

        self._take_backend(environ.get("STORAGE_BACKEND", "").strip(), environ.get("CHECKPOINT_BUCKET", "").strip())

    def _take_backend(self, backend: str, bucket: str) -> None:
        """Where objects are kept, in the words of other coordinators. Without STORAGE_BACKEND the bucket is some other
        program's."""
        before = str(self.given.get("store.objects", ("", ""))[0])
        if backend not in ("", *BACKENDS):
            self.problems.append(ConfigError("STORAGE_BACKEND", backend, f"one of: {', '.join(BACKENDS)}"))
        elif backend == "local" and before.startswith(S3):
            self.take("store.objects", "", "STORAGE_BACKEND")
        elif backend == "s3" and bucket:
            self.take("store.objects", bucket if bucket.startswith(S3) else S3 + bucket, "CHECKPOINT_BUCKET")
        elif backend == "s3" and not before.startswith(S3):
            fix = "the bucket for STORAGE_BACKEND=s3, as NAME or s3://NAME/PREFIX?endpoint=https://HOST:PORT"
            self.problems.append(ConfigError("CHECKPOINT_BUCKET", bucket, fix))

    def take(self, field: str, value: Any, source: str) -> None:
        if field in self.types:
            if value is not None:
                self.given[field] = (str(value) if isinstance(value, Path) else value, source)
            return
        near = get_close_matches(field, [*self.types, *self.tables], 1)
        fix = f"there is no such setting; {f'did you mean {near[0]}?' if near else 'quoracy config example shows all'}"
        self.problems.append(ConfigError(field, value, f"{fix} ({source})"))

    def finish(self) -> Settings:
        values: dict[str, Any] = {}
        for field, (value, source) in self.given.items():
            try:
                values[field] = _convert(value, self.types[field])
            except ValueError:
                self.problems.append(ConfigError(field, value, f"{wanted(self.types[field])} ({source})"))
        config = _build(values)
        bad = {problem.field for problem in self.problems}
        for concerned, check in _CHECKS:
            if not bad.intersection(concerned):
                self._check(check, config, "")
        for kind in KINDS:
            name = f"runs.{kind.name}"
            if not any(field.startswith(name) for field in bad):
                self._check(kind.check_config, config.runs[kind.name], name + ".")
        if self.problems:
            raise ConfigErrors(self.problems)
        return Settings(config, {field: source for field, (_, source) in self.given.items()})

    def _check(self, check: Callable[[Any], None], config: Any, prefix: str) -> None:
        try:
            check(config)
        except ConfigError as error:
            self.problems.append(ConfigError(prefix + error.field, error.value, error.fix))


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        fix = f"this file cannot be read ({error.strerror}); quoracy config example prints one to begin with"
    except UnicodeDecodeError:
        fix = "this file is not UTF-8"
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, and lists as deep
        fix = f"this file is not TOML: {error}"
    raise ConfigErrors([ConfigError("--config", str(path), fix)])


def _convert(value: Any, wanted_type: Any) -> Any:
    """Raises ValueError. TOML can write nan and inf, and numbers of any length."""
    if any(unbounded(value)):
        raise ValueError
    return msgspec.convert(value, wanted_type)


def _build(values: Mapping[str, Any]) -> ServerConfig:
    made: dict[str, Any] = {}
    for table, struct in tables():
        given = {
            field.rpartition(".")[2]: value for field, value in values.items() if field.rpartition(".")[0] == table
        }
        made[table] = struct(**given)
    runs = {kind.name: made.pop(f"runs.{kind.name}") for kind in KINDS}
    return ServerConfig(**made, runs=runs)


def _rust_level(text: str) -> str | None:
    """The level in RUST_LOG, if it has one for us. What it says about other programs is not ours to judge."""
    found = None
    for part in text.lower().split(","):
        target, _, level = part.strip().rpartition("=")
        level = _LEVELS.get(level, level)
        if level in _KNOWN_LEVELS and target in ("", "quoracy"):
            found = level
    return found


# -- values that do not go together --------------------------------------------------------------------------------


def _check_pair(config: ServerConfig) -> None:
    if bool(config.tls.cert) != bool(config.tls.key):
        missing = "key" if config.tls.cert else "cert"
        raise ConfigError(f"tls.{missing}", "", "TLS needs the certificate and its key: set both or neither")


def _check_reach(config: ServerConfig) -> None:
    check_binding(config.listen.host, config.tls_on(), config.tokens_required(), config.access.insecure)


def _check_bursts(config: ServerConfig) -> None:
    limits = config.limits
    if limits.burst_bytes < limits.max_frame_bytes:
        fix = f"at least limits.max_frame_bytes ({limits.max_frame_bytes}), or the longest message could never pass"
        raise ConfigError("limits.burst_bytes", limits.burst_bytes, fix)


def _check_unsent(config: ServerConfig) -> None:
    limits = config.limits
    if limits.max_unsent_bytes < limits.max_frame_bytes:
        fix = f"at least limits.max_frame_bytes ({limits.max_frame_bytes}), or one long answer would cut a client off"
        raise ConfigError("limits.max_unsent_bytes", limits.max_unsent_bytes, fix)


def _check_shares(config: ServerConfig) -> None:
    limits = config.limits
    if limits.max_connections_per_identity > limits.max_connections:
        fix = f"at most limits.max_connections ({limits.max_connections})"
        raise ConfigError("limits.max_connections_per_identity", limits.max_connections_per_identity, fix)


def _check_beats(config: ServerConfig) -> None:
    if config.host.takeover_s < 2 * config.host.beat_s:
        fix = f"at least twice host.beat_s ({config.host.beat_s:g}), or one late beat costs the term"
        raise ConfigError("host.takeover_s", config.host.takeover_s, fix)


def _check_etcd(config: ServerConfig) -> None:
    store = config.store
    tls = parse_etcd(store.etcd).tls
    for field in ("etcd_ca", "etcd_cert", "etcd_key"):
        if not tls and (value := getattr(store, field)):
            raise ConfigError(f"store.{field}", value, f"only with TLS: write etcds:// in store.etcd ({store.etcd})")
    if bool(store.etcd_cert) != bool(store.etcd_key):
        missing = "etcd_key" if store.etcd_cert else "etcd_cert"
        raise ConfigError(f"store.{missing}", "", "a certificate needs its key: set both or neither")


def _check_objects(config: ServerConfig) -> None:
    if config.store.objects:
        parse_objects(config.store.objects)


_CHECKS: Final[tuple[tuple[tuple[str, ...], Callable[[ServerConfig], None]], ...]] = (
    (("tls.cert", "tls.key"), _check_pair),
    (("listen.host", "tls.cert", "tls.key", "access.tokens", "access.insecure"), _check_reach),
    (("limits.burst_bytes", "limits.max_frame_bytes"), _check_bursts),
    (("limits.max_unsent_bytes", "limits.max_frame_bytes"), _check_unsent),
    (("limits.max_connections", "limits.max_connections_per_identity"), _check_shares),
    (("host.beat_s", "host.takeover_s"), _check_beats),
    (("store.etcd", "store.etcd_ca", "store.etcd_cert", "store.etcd_key"), _check_etcd),
    (("store.objects",), _check_objects),
)
"""What each check looks at: where one of those is wrong already, there is nothing more to say."""
