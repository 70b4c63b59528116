"""``quorate serve``: a coordinator in this process, until it is told to stop.

Ready means: every run is read, and the port is open. Then one line is printed, and written to the ready file if one was
asked for. SIGTERM and SIGINT drain; a second one ends the process at once, which loses nothing that was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from quorate.config import ServerConfig, load_config
from quorate.coordinator import Running, open_coordinator
from quorate.core.errors import ConfigError, JournalError, Refusal, Refused
from quorate.core.shell import Stop
from quorate.hosts.log import Log
from quorate.sdk.settings import URL
from quorate.version import __version__

SPARE_FILES: Final = 256
"""Descriptors beside those of connections: journals, logs, threads."""
FIXES: Final = {
    "journal_newer": "serve it with that Quorate, or serve another folder: --folder",
    "journal_corrupt": "quorate journal verify {folder} names the damage, quorate journal repair {folder} mends it",
    "journal_busy": "another program writes there: wait for it, or end it",
    "journal_full": "make room on that disk, or serve another folder: --folder",
    "journal_broken": "see to the disk, or serve another folder: --folder",
}


def serve(
    config: Annotated[Path | None, typer.Option(help="The server's file; quorate config example prints one.")] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; all but loopback needs TLS and tokens.")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes any free one.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where journals and the server's secret are.")] = None,
    store: Annotated[str | None, typer.Option(help="sqlite; or memory, which forgets everything at the end.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to others without TLS and tokens.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warn or error.")] = None,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Logs as one JSON object a line.")] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="Is there while the server is ready, with its URL in it.")
    ] = None,
) -> None:
    """Serve runs until SIGTERM or Ctrl+C. Needs nothing: journals go to ./quorate-data, only this machine can connect.

    Options win over the environment, which wins over the file. A second server on the same folder (with a port of its
    own) follows the first and takes over when that one dies.

    Examples:

        quorate serve

        quorate serve --folder /srv/quorate --port 7701

        quorate serve --config quorate.toml --json-logs
    """
    wanted = {
        "listen.host": host,
        "listen.port": port,
        "store.folder": folder,
        "store.kind": store,
        "access.insecure": insecure or None,
        "log.level": log_level,
        "log.format": "json" if json_logs else None,
    }
    settings = load_config(config, wanted, os.environ)
    check_folder(Path(settings.store.folder))
    _allow_files(settings.limits.max_connections + SPARE_FILES)
    with _explaining(settings.store.folder), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, ready_file))


async def _serve(config: ServerConfig, ready_file: Path | None) -> None:
    log = Log(config.log.level, config.log.format)
    stopping = _on_signals(log)
    with _announcing(ready_file) as announce:
        async with open_coordinator(config, log) as running:
            announce(running.url)
            typer.echo(ready_line(config, running))
            await _either(stopping, running.server.broken)
        log.info("stopped", host=running.server.name)
    if running.server.broken.done():
        stopped = running.server.broken.result()
        raise Refused(Refusal(stopped.code, stopped.why, FIXES[stopped.code].format(folder=_folder(config))))


async def _either(stopping: asyncio.Event, broken: asyncio.Future[Stop]) -> None:
    """A server that cannot write is of no use, and keeps the next one from the lock: better to end, and to say why."""
    waiting = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((waiting, broken), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def ready_line(config: ServerConfig, running: Running) -> str:
    where = "journals in memory only" if config.store.kind == "memory" else f"journals in {_folder(config)}"
    if not running.server.serving:
        return f"quorate {__version__} follows on {running.url}, {where}: another server holds them; takes over from it"
    there = "" if running.url == URL else f" {running.url}"
    line = f"quorate {__version__} serves {running.url}, {where}; next: quorate run create NAME{there}"
    return line + ("; insecure: whoever reaches it owns every run" if config.access.insecure else "")


def _folder(config: ServerConfig) -> str:
    return str(Path(config.store.folder).absolute())


def _on_signals(log: Log) -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT. The second does not wait for anybody."""
    stopping = asyncio.Event()

    def stop(which: signal.Signals) -> None:
        if stopping.is_set():
            log.warn("ends at once", signal=which.name)
            os._exit(128 + which)
        log.info("draining: takes nobody in, writes what is under way, tells everybody", signal=which.name)
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
def _explaining(folder: str) -> Iterator[None]:
    """A journal that cannot be served: what is wrong with it, and what to do."""
    try:
        yield
    except JournalError as error:
        fix = FIXES.get(error.code, "see docs/journal.md").format(folder=folder)
        raise Refused(Refusal(error.code, str(error), fix)) from error
