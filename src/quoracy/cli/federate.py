"""``quoracy federate``: the coordinator of one federated task, until it is done."""

from __future__ import annotations

import asyncio
import os
import signal
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.text import Text

from quoracy.cli.asking import Json, plain, print_object
from quoracy.cli.rounds import round_line
from quoracy.cli.run import parse_settings
from quoracy.cli.same_run import check_same
from quoracy.cli.serve import check_folder, settle_memory
from quoracy.config import ServerConfig, load_config
from quoracy.coordinator import Running, open_coordinator
from quoracy.core.errors import ConfigError, Refusal, Refused
from quoracy.core.federated.code import modules_of
from quoracy.core.federated.config import Config
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run
from quoracy.core.wanted import wrong_settings
from quoracy.hosts.keys import Keys, prefix_of
from quoracy.learn.header import BadTensors
from quoracy.learn.tensors import TensorFile, digest_of

LOOK_S: Final = 0.1
OVER: Final = ("Finished", "Stopped")


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    run: str = ""
    """What the run is called; the name of the file, if it does not say."""
    initial: str = ""
    """A safetensors file with the weights to begin with, beside the task's file. Without it the first participant that
    can gives them."""
    label: str = ""
    task: dict[str, Any] = {}
    """The settings of the run, as in [runs.federated] of the server's file."""


def federate(
    file: Annotated[Path, typer.Argument(help="The task.", metavar="TASK.TOML")],
    clients: Annotated[int | None, typer.Option(help="How many must be registered. Wins over the file.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds. Wins over the file.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of the run; several are fine.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The server's file: where to listen, TLS, tokens, stores.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen; all but loopback needs TLS and tokens.")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes any free one.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the journal and the weights are.")] = None,
    json: Json = False,
) -> None:
    """Coordinate one federated task, and exit when all rounds are over and every participant knows.

    Killed and started again with the same settings, it goes on where it was. Participants join with
    quoracy participate, or with quoracy.participate in a script.

    Examples:

        quoracy federate task.toml

        quoracy federate task.toml --clients 20 --rounds 50

        quoracy federate task.toml --set aggregation='{"rule": "median"}'
    """
    task = read_task(file)
    more = {"clients": clients, "rounds": rounds} | parse_settings(settings or [])
    wished = task.task | {name: value for name, value in more.items() if value is not None}
    modules = modules_of(wished)
    wanted = {"listen.host": host, "listen.port": port, "store.folder": folder, "log.level": "warn"}
    server = load_config(config, wanted, os.environ)
    listed = tuple(dict.fromkeys([*server.workshop.modules, *modules]))  # whoever starts this wrote both
    server = msgspec.structs.replace(server, workshop=msgspec.structs.replace(server.workshop, modules=listed))
    checked = _checked(server, task.run, wished)
    check_folder(Path(server.store.folder))
    console = Console(highlight=False, stderr=json)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        shown = runner.run(_federate(server, task, file, checked, console))
    if json:
        print_object({"command": "federate", "ok": shown["phase"] == "Finished", "value": shown})
    raise typer.Exit(0 if shown["phase"] == "Finished" else 1)


def read_task(file: Path) -> Task:
    """Raises ConfigError with everything that is wrong."""
    try:
        given = tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError("TASK.TOML", str(file), f"cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("TASK.TOML", str(file), f"is no TOML: {error}") from None
    for wrong in wrong_settings(given, Task):
        raise wrong
    task = msgspec.convert(given, Task)
    return task if task.run else msgspec.structs.replace(task, run=file.stem)


def _checked(server: ServerConfig, run: str, wished: dict[str, Any]) -> Config:
    """The settings of the run, defaults and all. Raises ConfigErrors with everything that is wrong."""
    given = server.new_run("federated", wished)
    Run.create(KINDS, RunCreated(run, "federated", KINDS.newest("federated").rules, given))
    return msgspec.convert(given, Config)


async def _federate(server: ServerConfig, task: Task, file: Path, wished: Config, console: Console) -> dict[str, Any]:
    stopping = asyncio.Event()
    for which in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(which, stopping.set)
    async with open_coordinator(server) as running:
        settle_memory()
        known = {run["run"]: run["kind"] for run in await running.ask("runs")}
        if task.run not in known:
            if task.initial:
                digest = await _upload(running, task, file.parent / task.initial)
                wished = msgspec.structs.replace(wished, initial=digest)
            await running.ask(
                "create", task.run, kind="federated", config=msgspec.to_builtins(wished), label=task.label
            )
        else:
            shown = await _check_same(running, task, file, wished)
            if shown["phase"] in OVER and not shown["here"]:
                said = plain(shown["explanation"]["sentence"])
                console.print(f"task {plain(task.run)} is {shown['phase'].lower()} already: {said}")
                console.print("  another run in its file, or another --folder, begins a new one")
                for row in shown["history"]:
                    console.print(round_line(row))
                return shown
        goes_on = " goes on" if task.run in known else ""
        console.print(f"task {plain(task.run)}{goes_on} on {running.url}; participants join with")
        console.print(f"  quoracy participate {running.url} --run {plain(task.run)} --trainer module:function --data …")
        return await _follow(running, task.run, console, stopping)


async def _check_same(running: Running, task: Task, file: Path, wished: Config) -> dict[str, Any]:
    """What the run that exists shows. Raises ConfigErrors if it is not the one that is asked for."""
    known: dict[str, Any] = await running.ask("settings", task.run)
    if known["kind"] != "federated":
        why = f"there is such a run of the kind {known['kind']}: choose another name"
        raise ConfigError("run", task.run, why)
    shown: dict[str, Any] = await running.ask("show", task.run)
    before = msgspec.to_builtins(msgspec.convert(known["config"], Config))
    now = msgspec.to_builtins(wished)
    if not task.initial:
        now["initial"] = now["initial"] or before["initial"]
    elif (path := file.parent / task.initial).exists():
        now["initial"] = digest_of(path)
    else:
        now["initial"] = before["initial"]  # it was brought when the run was created
    over = f" and is {shown['phase'].lower()}" if shown["phase"] in OVER else ""
    fix = "set that, or begin a new one with another run in the file or another --folder"
    check_same(task.run, before, now, fix, over)
    return shown


async def _upload(running: Running, task: Task, path: Path) -> str:
    """The initial weights, which are examined as everybody's are. -> their digest."""
    shelf = running.service.shelf
    if shelf is None:
        raise ConfigError("initial", str(path), "this server has no object store")
    try:
        TensorFile(path).close()
    except BadTensors as error:
        raise ConfigError("initial", str(path), f"is no file of weights: {error}") from None
    except OSError as error:
        raise ConfigError("initial", str(path), f"cannot be read ({error.strerror})") from None
    keys = Keys(prefix_of(task.run))
    digest = digest_of(path)

    def put(objects: Any) -> None:
        objects.put_file(keys.blob(digest), path, digest)
        objects.alias(keys.blob(digest), keys.model(0))

    await shelf.do(put)
    return digest


async def _follow(running: Running, run: str, console: Console, stopping: asyncio.Event) -> dict[str, Any]:
    """Every round as it ends, and every new thing that is waited for, until all have gone home."""
    told, said = -1, ""
    while True:
        shown: dict[str, Any] = await running.ask("show", run)
        for row in shown["history"]:
            if row["round"] > told and row["done_s"]:
                told = row["round"]
                console.print(round_line(row))
        sentence = shown["reason"] if shown["phase"] == "Paused" else shown["phase"]
        if sentence != said and shown["phase"] in ("Standby", "Paused", "Finished", "Stopped"):
            said = sentence
            console.print(Text(f"  {plain(shown['explanation']['sentence'])}", "dim"))
        if shown["phase"] in OVER and not shown["here"]:
            return shown
        if stopping.is_set():
            why = f"round {shown['round']} of {shown['rounds']} is not over"
            raise Refused(Refusal("draining", why, "start it again with the same folder: it goes on where it was"))
        await asyncio.sleep(LOOK_S)
