"""docs/coming-from.md: every name in the middle column of its tables is one of ours, and every default is real."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import typer

from quoracy.cli import app
from quoracy.config import ServerConfig
from quoracy.config.load import tables
from quoracy.core.cluster.state import WorkerState
from quoracy.core.federated import views as federated_views
from quoracy.core.federated.state import ParticipantState
from quoracy.core.federated.state import Phase as FederatedPhase
from quoracy.core.kinds import KINDS, PEERLESS
from quoracy.core.ranks.part import Stage
from quoracy.core.witnessed.state import MemberState
from quoracy.core.witnessed.state import Phase as WitnessedPhase
from quoracy.doors.http.routes import ROUTES
from quoracy.hosts.keys import Keys
from quoracy.wire.pb import coordinator_pb2, federated_pb2, witnessed_pb2

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
LOADING = Path(__file__).parents[2] / "src" / "quoracy" / "config" / "load.py"
SPAN = re.compile(r"`([^`]*)`")
HEAD = ["there", "here", "what is different, and why"]
ON_THE_WIRE = (coordinator_pb2, federated_pb2, witnessed_pb2)


class Row(NamedTuple):
    source: str
    table: str
    there: str
    here: str


class Source(NamedTuple):
    kind: str
    states: tuple[type[Enum], ...]
    more: frozenset[str] = frozenset()


SOURCES = {
    "Psyche": Source("witnessed", (WitnessedPhase, MemberState)),
    "Decentralised global iteration": Source("ranks", (Stage,)),
    "XAIN": Source(
        "federated",
        (FederatedPhase, ParticipantState),
        frozenset({federated_views.STANDBY, federated_views.ROUND, federated_views.FINISHED}),
    ),
    "Strata": Source("cluster", (WorkerState,)),
}
KEYS = {
    "<round>/global": Keys("run").model(7) == "run/7/global",
    "<round+1>/global": Keys("run").model(8) == "run/8/global",
    "<round>/<participant>": Keys("run").update(7, "p1") == "run/7/p1",
}


def rows() -> Iterator[Row]:
    source = table = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            source = line[3:]
        elif line.startswith("### "):
            table = line[4:]
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 3, line
            if cells != HEAD and not set(line) <= set("|- "):
                yield Row(source, table, cells[0], cells[1])


ROWS = list(rows())


# -- where a name is looked up -------------------------------------------------------------------------------------


def is_setting(name: str, value: str, kind: str) -> bool:
    """``name = value``: of a run of this kind, or of the server where the name has a table before it."""
    structs = dict(tables())
    table, _, field = name.rpartition(".")
    config: Any = PEERLESS.newest(kind).config() if kind == "ranks" else KINDS.newest(kind).config()
    owner = getattr(ServerConfig(), table, None) if table in structs else getattr(config, table) if table else config
    found = msgspec.to_builtins(getattr(owner, field))
    written = {True: "true", False: "false"}.get(found, str(found)) if isinstance(found, bool) else str(found)
    return written == value


def is_on_the_wire(name: str) -> bool:
    first, _, second = name.partition(".")
    for module in ON_THE_WIRE:
        service = module.DESCRIPTOR.services_by_name.get(first)
        if service is not None and second in service.methods_by_name:
            return True
        message = module.DESCRIPTOR.message_types_by_name.get(first)
        if message is not None and (not second or second in message.fields_by_name):
            return True
    return False


def is_in_the_code(name: str) -> bool:
    module, _, path = name.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        if part in getattr(found, "__struct_fields__", ()):
            return True
        found = getattr(found, part)
    return True


def is_command(words: list[str]) -> bool:
    command: Any = typer.main.get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return False
    return True


def is_ours(name: str, source: Source) -> bool:
    """By its shape."""
    states = {state.value for enum in source.states for state in enum} | source.more
    shapes: list[tuple[str, Callable[[], bool]]] = [
        (r"[\w.]+ = .*", lambda: is_setting(*name.split(" = ", 1), source.kind)),
        (r"[\w.]+ =", lambda: is_setting(name.removesuffix(" ="), "", source.kind)),
        (r"quoracy( [a-z]+)+", lambda: is_command(name.split()[1:])),
        (r"(GET|POST|PUT) /.*", lambda: name in {f"{route.method} {route.path}" for route in ROUTES}),
        (r"quoracy[\w.]*:[\w.]+", lambda: is_in_the_code(name)),
        (r"[A-Z]+_[A-Z_]+", lambda: f'environ.get("{name}"' in LOADING.read_text()),
        (r"<.*>.*", lambda: KEYS.get(name, False)),
        (r"\w+(\.\w+)?", lambda: name in states or is_on_the_wire(name)),
    ]
    for shape, look in shapes:
        if re.fullmatch(shape, name):
            try:
                return look()
            except (AttributeError, ImportError):
                return False
    return False


# -- tests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.source}-{row.there}"[:60])
def test_every_name_on_our_side_exists(row: Row) -> None:
    names = SPAN.findall(row.here)
    assert names or row.here == "nothing", row
    assert [name for name in names if not is_ours(name, SOURCES[row.source])] == [], row


def test_each_source_has_its_tables() -> None:
    assert {row.source for row in ROWS} == set(SOURCES)
    for source in SOURCES:
        titles = " ".join({row.table for row in ROWS if row.source == source})
        assert "States" in titles
        assert re.search("Messages|Functions", titles)
        assert re.search("[Ss]ettings", titles)


@pytest.mark.parametrize(
    ("source", "states"), [(name, source.states[0]) for name, source in SOURCES.items()], ids=list(SOURCES)
)
def test_every_state_of_ours_is_named(source: str, states: type[Enum]) -> None:
    named = {name for row in ROWS if row.source == source and row.table == "States" for name in SPAN.findall(row.here)}
    assert {state.value for state in states} - {"Absent"} <= named


@pytest.mark.parametrize(
    "name",
    [
        "WaitingForClients", "min_clients = 2", "min_client = 1", "data.sort = local", "Witnessed.Witness",
        "JoinRequest.run_id", "quoracy.core.ranks.part:Part.restart", "quoracy.core.nowhere:Part", "quoracy serve fast",
        "GET /api/nothing", "CHECKPOINT_FOLDER", "<round>/local", "something else", "grpc.keepalive_s = 11.0",
    ],
)  # fmt: skip
def test_a_name_that_is_not_ours_is_noticed(name: str) -> None:
    assert not is_ours(name, SOURCES["Psyche"])
