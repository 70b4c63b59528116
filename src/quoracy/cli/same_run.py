"""A run that is wished for and may be there already: it is the same one only if every setting is."""

from __future__ import annotations

from typing import Any

import msgspec

from quoracy.cli.state_file import StateFile
from quoracy.config import ServerConfig
from quoracy.coordinator import Running
from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.core.kinds import KINDS


def check_same(run: str, before: dict[str, Any], now: dict[str, Any], fix: str, over: str = "") -> None:
    """Raises ConfigErrors with both values of each setting that differs. ``over``: what the run has come to, if so."""
    other = [
        ConfigError(name, now[name], f"the run {run} exists with {name} = {before[name]!r}{over}: {fix}")
        for name in now
        if now[name] != before[name]
    ]
    if other:
        raise ConfigErrors(other)


async def begin(running: Running, server: ServerConfig, state: StateFile) -> dict[str, Any]:
    """Create the run of the file if it is missing. Returns what it shows. Raises ConfigErrors if there is another one
    of this name."""
    if state.run not in {run["run"] for run in await running.ask("runs")}:
        wish = {"kind": state.kind, "config": state.config, "label": state.label}
        created: dict[str, Any] = await running.ask("create", state.run, **wish)
        return created
    known: dict[str, Any] = await running.ask("settings", state.run)
    if known["kind"] != state.kind:
        why = f"the run {state.run} exists and is of the kind {known['kind']}: choose another run_id"
        raise ConfigError("kind", state.kind, why)
    shape = KINDS.newest(state.kind).config
    before, now = (
        msgspec.to_builtins(msgspec.convert(config, shape))
        for config in (known["config"], server.new_run(state.kind, state.config))
    )
    check_same(state.run, before, now, "set that, or begin a new one with another run_id or another --folder")
    shown: dict[str, Any] = await running.ask("show", state.run)
    return shown
