"""``quoracy serve``: a coordinator in this process, until it is told to stop.

Ready means: every run is read, and the port is open. Then one line is printed, and written to the ready file if one was
asked for. SIGTERM and SIGINT drain; a second one ends the process at once, which loses nothing that was acknowledged.

With ``--json`` that line is one object, ``url, host, folder, store, serving, version, pid``, and the last line another:
``command, ok, seconds, measurements, notes`` as of every verb, and ``error`` with ``code, why, fix`` if it failed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
import uvloop

from quoracy.cli import reason
from quoracy.cli.asking import plain
from quoracy.cli.run import how_to_join
from quoracy.cli.same_run import begin
from quoracy.cli.state_file import StateFile, read_state
from quoracy.config import ServerConfig, load_config
from quoracy.coordinator import Running, open_coordinator
from quoracy.core.errors import ConfigError, JournalError, QuoracyError, Refusal, Refused
from quoracy.core.shell import Stop
from quoracy.hosts.log import Log
from quoracy.report import Measurement, Report
from quoracy.sdk.client.settings import URL
from quoracy.version import __version__

SPARE_FILES: Final = 256
"""Descriptors beside those of connections: journals, logs, threads."""
WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - named, not listened on
FIXES: Final = {
    "journal_newer": "serve it with that Quoracy, or serve another folder: --folder",
    "journal_older": "serve it with that Quoracy, or begin anew in another folder: --folder",
    "journal_corrupt": "quoracy journal verify {folder} names the damage, quoracy journal repair {folder} mends it",
    "journal_busy": "another program writes there: wait for it, or end it",
    "journal_full": "make room on that disk, or serve another folder: --folder",
    "journal_broken": "see to the disk, or serve another folder: --folder",
    "outcome_unknown": "see to the disk, then start it again: what was written is there",
}
FIXES_ETCD: Final = {
    "journal_newer": "serve it with that Quoracy, or use another prefix: --store etcd://HOST:PORT/PREFIX",
    "journal_older": "serve it with that Quoracy, or use another prefix: --store etcd://HOST:PORT/PREFIX",
    "journal_corrupt": "restore etcd from a backup of it, or use another prefix: see docs/etcd.md",
    "journal_busy": "see to etcd, then start this again: nothing is lost",
    "journal_full": "make room in etcd (see docs/etcd.md), then start this again: nothing is lost",
    "journal_broken": "see to etcd, then start this again: nothing is lost",
    "outcome_unknown": "see to etcd, then start this again: what was written is there",
}


def serve(
    state: Annotated[
        Path | None,
        typer.Argument(help="A run to begin with, as a file: created if it is missing.", metavar="[STATE.TOML]"),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The server's file; quoracy config example prints one.")] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; all but loopback needs TLS and tokens.")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes any free one.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where journals and the server's secret are.")] = None,
    store: Annotated[
        str | None,
        typer.Option(help="sqlite; etcd://HOST:PORT/PREFIX; or memory, which forgets everything at the end."),
    ] = None,
    module: Annotated[
        list[str] | None,
        typer.Option(help="A module that settings of runs may name code from; several are fine. Wins over the file."),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to others without TLS and tokens.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warn or error.")] = None,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Logs as one JSON object a line.")] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="Is there while the server is ready, with its URL in it.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object as the first line, when ready, and one as the last.")
    ] = False,
) -> None:
    """Serve runs until SIGTERM or Ctrl+C. Needs nothing: journals go to ./quoracy-data, only this machine can connect.

    With a file of a run, as `quoracy run create` takes it, that run is there when the server is ready. A run of that
    name with other settings is refused.

    Options win over the environment, which wins over the file. A second server on the same folder (with a port of its
    own) follows the first and takes over when that one dies.

    Examples:

        quoracy serve

        quoracy serve state.toml

        quoracy serve --folder /srv/quoracy --port 7701

        quoracy serve --config quoracy.toml --json-logs

        quoracy serve --port 0 --json

        quoracy serve --store etcd://10.0.0.1:2379,10.0.0.2:2379/quoracy
    """
    wanted = {
        "listen.host": host,
        "listen.port": port,
        "store.folder": folder,
        "store.kind": "etcd" if store and "://" in store else store,
        "store.etcd": store if store and "://" in store else None,
        "workshop.modules": module or None,
        "access.insecure": insecure or None,
        "log.level": log_level,
        "log.format": "json" if json_logs else None,
    }
    with _reporting(json) as report:
        settings = load_config(config, wanted, os.environ)
        begins = None if state is None else read_state(state)
        check_folder(Path(settings.store.folder))
        _allow_files(settings.limits.max_connections + SPARE_FILES)
        with _explaining(settings), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, begins, ready_file, json, report))


async def _serve(
    config: ServerConfig, state: StateFile | None, ready_file: Path | None, json: bool, report: Report
) -> None:
    log = Log(config.log.level, config.log.format)
    stopping = _on_signals(log, report)
    with _announcing(ready_file) as announce:
        async with open_coordinator(config, log) as running:
            begun = None
            if state is not None and running.server.serving:
                begun = await begin(running, config, state)
            elif state is not None:
                log.warn("the run of the file is not looked for: another server holds the journals", run=state.run)
            settle_memory()
            announce(running.url)
            typer.echo(_as_line(ready_facts(config, running, begun)) if json else ready_line(config, running, begun))
            await _either(stopping, running.server.broken)
        log.info("stopped", host=running.server.name)
        report.measurements = [Measurement("runs", len(running.server.runs), "runs")]
    if running.server.broken.done():
        stopped = running.server.broken.result()
        raise Refused(Refusal(stopped.code, stopped.why, _fix(stopped.code, config)))


async def _either(stopping: asyncio.Event, broken: asyncio.Future[Stop]) -> None:
    """A server that cannot write is of no use, and keeps the next one from the lock: better to end, and to say why."""
    waiting = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((waiting, broken), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def settle_memory() -> None:
    """What is here when a server begins to serve stays: no later collection has to look through it, which would take
    tens of milliseconds in which nobody is answered."""
    gc.collect()
    gc.freeze()


def ready_line(config: ServerConfig, running: Running, begun: dict[str, Any] | None = None) -> str:
    """``begun``: the run it was started with, as it is shown."""
    where = "journals in memory only" if config.store.kind == "memory" else f"journals in {_place(config)}"
    if not running.server.serving:
        return f"quoracy {__version__} follows on {running.url}, {where}: another server holds them; takes over from it"
    there = "" if running.url == URL else f" {running.url}"
    doors = [address for door, address in running.addresses.items() if door != "tcp"]
    serves = f"{running.url}{' and ' if doors else ''}{', '.join(doors)}"
    line = f"quoracy {__version__} serves {serves}, {where}; "
    if begun is None:
        line += f"next: quoracy run create NAME{there}"
    else:
        run = plain(begun["run"])
        line += f"run {run} is {begun['phase']}; {how_to_join(begun['kind'], running.url, run)}"
    if config.listen.host in WILDCARDS and not config.listen.advertise:
        line += f"; nobody can connect to {config.listen.host}: set listen.advertise to the name that others use"
    return line + ("; insecure: whoever reaches it owns every run" if config.access.insecure else "")


def ready_facts(config: ServerConfig, running: Running, begun: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same for programs."""
    more = {} if begun is None else {"run": begun["run"]}
    return more | {
        "url": running.url, "host": running.server.name, "folder": _folder(config), "store": config.store.kind,
        "serving": running.server.serving, "version": __version__, "pid": os.getpid(), "doors": running.addresses,
    }  # fmt: skip


@contextmanager
def _reporting(json: bool) -> Iterator[Report]:
    """How it went, as the last line if that is wanted, whether it was stopped or has failed."""
    report = Report("serve")
    began = time.monotonic()

    def end(more: dict[str, Any]) -> None:
        report.seconds = time.monotonic() - began
        if json:
            typer.echo(_as_line(msgspec.json.decode(report.as_json()) | more))

    try:
        yield report
    except QuoracyError as error:
        why, fix = reason(error)
        report.failures.append(f"{error.code}: {why}")
        end({"error": {"code": error.code, "why": why, "fix": fix}})
        raise
    end({})


def _as_line(facts: dict[str, Any]) -> str:
    return msgspec.json.encode(facts).decode()


def _folder(config: ServerConfig) -> str:
    return str(Path(config.store.folder).absolute())


def _place(config: ServerConfig) -> str:
    return config.store.etcd if config.store.kind == "etcd" else _folder(config)


def _fix(code: str, config: ServerConfig) -> str:
    fixes = FIXES_ETCD if config.store.kind == "etcd" else FIXES
    return fixes.get(code, "see docs/journal.md").format(folder=_folder(config))


def _on_signals(log: Log, report: Report) -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT. The second does not wait for anybody."""
    stopping = asyncio.Event()

    def stop(which: signal.Signals) -> None:
        if stopping.is_set():
            log.warn("ends at once", signal=which.name)
            os._exit(128 + which)
        log.info("draining: takes nobody in, writes what is under way, tells everybody", signal=which.name)
        report.notes.append(f"drained after {which.name}")
        stopping.set()

    for which in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(which, stop, which)
    return stopping


@contextmanager
def _announcing(path: Path | None) -> Iterator[Callable[[str], None]]:
    """The ready file: there whole or not at all, and only while the server is."""

    def announce(url: str) -> None:
        if path is None:
            return
        try:
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            temporary.write_text(f"{url}\n")
            temporary.replace(path)
        except OSError as error:
            raise ConfigError("--ready-file", str(path), f"cannot be written ({error.strerror})") from None

    def remove() -> None:
        with suppress(OSError):
            if path is not None:
                path.unlink()

    remove()
    try:
        yield announce
    finally:
        remove()


def check_folder(folder: Path) -> None:
    """Raises ConfigError for one that cannot be written: better now and in one line than by the first commit."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fix = f"cannot be written ({error.strerror}): choose a folder of yours on a local disk, with --folder"
        raise ConfigError("store.folder", str(folder), fix) from None


def _allow_files(wanted: int) -> None:
    """As many descriptors as the system lets us have without asking anybody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextmanager
def _explaining(config: ServerConfig) -> Iterator[None]:
    """A journal that cannot be served: what is wrong with it, and what to do."""
    try:
        yield
    except JournalError as error:
        raise Refused(Refusal(error.code, str(error), _fix(error.code, config))) from error
