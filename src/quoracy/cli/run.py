"""``quoracy run``: create runs, look at them, stop them, and give their workers orders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, get_args

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from quoracy.cli.asking import (
    URL,
    Ca,
    Json,
    RunName,
    Timeout,
    Token,
    Url,
    asking,
    complete_kinds,
    plain,
    print_object,
)
from quoracy.cli.state_file import SUFFIX, StateFile, Wrong, read_state
from quoracy.cli.status import runs_table
from quoracy.cli.top import page
from quoracy.core.bounds import unbounded
from quoracy.core.cluster.events import Command
from quoracy.core.errors import CATALOG, ConfigError, ConfigErrors, shown
from quoracy.core.kinds import KINDS
from quoracy.sdk.client.ask import TIMEOUT_S

app = typer.Typer(
    help="Create runs, look at them, stop them, give their workers orders.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
COMMANDS: Final = get_args(Command)
FINISHED: Final = "Finished"
MAX_REASON: Final = 256


def complete_settings(incomplete: str) -> list[str]:
    return sorted(f"{name}=" for kind in KINDS for name in kind.config.__struct_fields__ if name.startswith(incomplete))


def complete_commands(incomplete: str) -> list[str]:
    return [command for command in COMMANDS if command.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(help="What the run is to be called, or a file with everything.", metavar="NAME|STATE.TOML"),
]
Reason = Annotated[str, typer.Option("--reason", help="Why: everybody who asks is told.")]
ASKED: Final = "an operator asked for it"
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; several are fine.", autocompletion=complete_settings),
]


@app.command()
def create(
    name: Name,
    url: Url = URL,
    kind: Annotated[str, typer.Option(help="Which kind of run.", autocompletion=complete_kinds)] = "",
    settings: Settings = None,
    label: Annotated[str, typer.Option(help="A note for people.")] = "",
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Create a run. What is not set is as the server's file says (`quoracy config show`).

    Without --kind it is of the kind cluster; with a file, of the kind that the file says, else witnessed.

    Examples:

        quoracy run create demo

        quoracy run create bert --set barrier_min=8 --set heartbeat_timeout_s=10

        quoracy run create state.toml
    """
    with asking("run create", url, token, ca, timeout, json) as talk:
        state = wished(name, kind, label, parse_settings(settings or []))
        shown = talk.ask("create", state.run, kind=state.kind, config=state.config, label=state.label)
        address = plain(shown.get("address") or url)
        said = f"run {plain(state.run)} is there; {how_to_join(state.kind, address, plain(state.run))}"
        if shown.get("phase") == "Paused":
            said += f"; it is paused: {plain(shown['reason'])}"
        talk.answer(shown, lambda console: _say(console, said))


def wished(name: str, kind: str, label: str, settings: dict[str, Any]) -> StateFile:
    """What is to be created: by its name, or as a file says, with what the command line says instead."""
    if not name.endswith(SUFFIX):
        return StateFile(name, kind or "cluster", label, settings)
    state = read_state(Path(name))
    if kind not in ("", state.kind):
        raise ConfigError("--kind", kind, f"leave it out: {name} says that it is {state.kind}")
    return StateFile(state.run, state.kind, label or state.label, state.config | settings)


@app.command()
def validate(
    file: Annotated[Path, typer.Argument(help="The run, as a file.", metavar="STATE.TOML")], json: Json = False
) -> None:
    """Look whether a run could be created from a file. Says everything that is wrong, each with its line, its value and
    what would do. Needs no coordinator.

    Examples:

        quoracy run validate state.toml

        quoracy run validate state.toml --json
    """
    try:
        state = read_state(file)
    except ConfigError as error:
        if json:
            found = [_fault(problem) for problem in (error.problems if isinstance(error, ConfigErrors) else (error,))]
            print_object({"command": "run validate", "ok": False, "errors": found})
            raise typer.Exit(CATALOG["config"].exit) from None
        raise
    if json:
        value = {"run": state.run, "kind": state.kind, "config": state.config}
        print_object({"command": "run validate", "ok": True, "value": value})
    else:
        _say(Console(highlight=False), f"{plain(file)} is fine: run {plain(state.run)} of the kind {state.kind}")


def _fault(problem: ConfigError) -> dict[str, Any]:
    line, name = (problem.line, problem.name) if isinstance(problem, Wrong) else (0, problem.field)
    value = shown(problem.value) if any(unbounded(problem.value)) else problem.value
    return {"line": line, "field": name, "value": value, "fix": problem.fix}


def how_to_join(kind: str, address: str, name: str) -> str:
    if kind == "federated":
        return f'participants join with quoracy.participate("{address}", run="{name}", ...)'
    if kind == "witnessed":
        return f"members join with quoracy join {address} --run {name} --trainer module:Trainer"
    return f'workers join with quoracy.connect("{address}", run="{name}")'


@app.command("list")
def list_(url: Url = URL, token: Token = "", ca: Ca = None, timeout: Timeout = TIMEOUT_S, json: Json = False) -> None:
    """The runs, each with what it is waiting for.

    Examples:

        quoracy run list

        quoracy run list --json
    """
    with asking("run list", url, token, ca, timeout, json) as talk:
        runs = talk.ask("runs")
        none = "there is no run yet: quoracy run create NAME"
        talk.answer(runs, lambda console: console.print(runs_table(runs)) if runs else _say(console, none))


@app.command()
def show(
    run: RunName, url: Url = URL, token: Token = "", ca: Ca = None, timeout: Timeout = TIMEOUT_S, json: Json = False
) -> None:
    """Everything about one run: where it stands, what it is waiting for, every barrier and every worker.

    Examples:

        quoracy run show demo

        quoracy run show demo --json
    """
    with asking("run show", url, token, ca, timeout, json) as talk:
        shown = talk.ask("show", run)
        talk.answer(shown, lambda console: console.print(page(shown)))


@app.command()
def stop(
    run: RunName,
    url: Url = URL,
    reason: Reason = ASKED,
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """End a run, for good. Its workers are told, with the reason; its journal stays. A witnessed run finishes its round
    and keeps its model first.

    Examples:

        quoracy run stop demo --reason "the loss is low enough"
    """
    with asking("run stop", url, token, ca, timeout, json) as talk:
        done = talk.ask("stop", run, reason=check_reason(reason))
        said = f"run {plain(run)} {_stops(talk.ask('show', run))} (entry {done['entry']})"
        talk.answer(done, lambda console: _say(console, said))


def _stops(shown: dict[str, Any]) -> str:
    if shown.get("stopping") and shown["phase"] != FINISHED:
        return f"stops when its round is sealed and its model kept; it is {plain(shown['phase'])} now"
    return "is stopped"


@app.command()
def pause(
    run: RunName,
    url: Url = URL,
    reason: Reason = ASKED,
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Pause a federated or witnessed run: what is under way is finished, no round begins before it is resumed.

    Examples:

        quoracy run pause hospital --reason "the test set is wrong"
    """
    with asking("run pause", url, token, ca, timeout, json) as talk:
        done = talk.ask("pause", run, reason=check_reason(reason))
        said = f"run {plain(run)} pauses (entry {done['entry']}); quoracy run resume {plain(run)} lets it go on"
        talk.answer(done, lambda console: _say(console, said))


@app.command()
def resume(
    run: RunName, url: Url = URL, token: Token = "", ca: Ca = None, timeout: Timeout = TIMEOUT_S, json: Json = False
) -> None:
    """Let a paused run go on, where it was: what had failed is tried again.

    Examples:

        quoracy run resume hospital
    """
    with asking("run resume", url, token, ca, timeout, json) as talk:
        done = talk.ask("resume", run)
        said = f"run {plain(run)} goes on (entry {done['entry']})"
        talk.answer(done, lambda console: _say(console, said))


@app.command()
def readmit(
    run: RunName,
    participant: Annotated[str, typer.Option("--participant", "--member", help="Whom.")],
    url: Url = URL,
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Let somebody back in: a participant whose updates were refused too often, a member that was proven to lie. It has
    to join again.

    Examples:

        quoracy run readmit hospital --participant clinic-3
    """
    with asking("run readmit", url, token, ca, timeout, json) as talk:
        done = talk.ask("readmit", run, member=participant)
        said = f"{plain(participant)} may join again (entry {done['entry']})"
        talk.answer(done, lambda console: _say(console, said))


@app.command()
def order(
    run: RunName,
    command: Annotated[
        str, typer.Option(help=f"One of: {', '.join(COMMANDS)}.", autocompletion=complete_commands, metavar="COMMAND")
    ],
    url: Url = URL,
    worker: Annotated[str, typer.Option(help="Whom.")] = "",
    everybody: Annotated[bool, typer.Option("--all", help="All workers that are here.")] = False,
    settings: Settings = None,
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Give one worker an order, or all of them. It is told with the answer to its next heartbeat.

    Examples:

        quoracy run order demo --worker w3 --command pause

        quoracy run order demo --all --command checkpoint

        quoracy run order demo --worker w3 --command reconfigure --set batch_size=16
    """
    with asking("run order", url, token, ca, timeout, json) as talk:
        if bool(worker) == everybody:
            raise ConfigError("--worker", worker, "name one worker with --worker, or all with --all")
        if command not in COMMANDS:
            raise ConfigError("--command", command, f"one of: {', '.join(COMMANDS)}")
        done = talk.ask("order", run, member=worker, command=command, arguments=parse_settings(settings or []))
        whom = plain(worker) if worker else f"{done.get('workers', 0)} workers"
        said = f"{whom} will hear: {command} (order {done.get('order')}, entry {done['entry']})"
        talk.answer(done, lambda console: _say(console, said))


@app.command("roll-back")
def roll_back(
    run: RunName,
    reason: Reason,
    url: Url = URL,
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Send every worker back to its last checkpoint. What they did since, and every older token, is void.

    Examples:

        quoracy run roll-back demo --reason "the loss exploded at step 4100"
    """
    with asking("run roll-back", url, token, ca, timeout, json) as talk:
        done = talk.ask("roll-back", run, reason=check_reason(reason))
        said = f"run {plain(run)} is rolled back (entry {done['entry']})"
        talk.answer(done, lambda console: _say(console, said))


@app.command("drop-barrier")
def drop_barrier(
    run: RunName,
    barrier: Annotated[str, typer.Argument(help="The barrier's name, as quoracy top shows it.")],
    reason: Annotated[str, typer.Option(help="For those who stand there, and for the journal.")] = "",
    url: Url = URL,
    token: Token = "",
    ca: Ca = None,
    timeout: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Abort a barrier: whoever stands there is told so, and goes on as after any other abort.

    Examples:

        quoracy run drop-barrier demo epoch-7 --reason "w3 waits there alone"
    """
    with asking("run drop-barrier", url, token, ca, timeout, json) as talk:
        done = talk.ask("drop-barrier", run, barrier=barrier, reason=check_reason(reason or "an operator dropped it"))
        said = f"barrier {plain(barrier)} of run {plain(run)} is aborted (entry {done['entry']})"
        talk.answer(done, lambda console: _say(console, said))


def parse_settings(given: list[str]) -> dict[str, Any]:
    """``key=value`` each. A value is what JSON makes of it (8, 2.5, true, [1, 2]), else the text itself."""
    settings: dict[str, Any] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise ConfigError("--set", text, "write KEY=VALUE, as in barrier_min=8")
        if key.strip() in settings:
            raise ConfigError("--set", text, f"{key.strip()} is set twice: which is it?")
        try:
            settings[key.strip()] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            settings[key.strip()] = value
    return settings


def check_reason(reason: str) -> str:
    if not reason.strip():
        raise ConfigError("--reason", reason, "say why: it is what everybody will be told")
    if len(reason) > MAX_REASON:
        raise ConfigError("--reason", reason, f"at most {MAX_REASON} characters")
    return reason


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
