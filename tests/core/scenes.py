"""One host per state of every table of a kind, so that bad input can be tried in each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.core import byhand, tally
from tests.core.byhand import Hand
from tests.core.cluster.yard import standing
from tests.core.federated.scenes import SCENES as FEDERATED_SCENES
from tests.core.scribe import created
from tests.core.witnessed.scenes import SCENES as WITNESSED_SCENES

from quoracy.core.cluster.events import (
    RunStopped,
    WorkerCheckpointing,
    WorkerLeft,
    WorkerLoading,
    WorkerReady,
    WorkerTraining,
)
from quoracy.core.cluster.kind import KIND as CLUSTER
from quoracy.core.federated.kind import KIND as FEDERATED
from quoracy.core.machine import Kind
from quoracy.core.members import Cause
from quoracy.core.ranks.events import RankArrived, RankBeat, RankJoined, RankLeft
from quoracy.core.ranks.events import RunStopped as RanksStopped
from quoracy.core.ranks.kind import KIND as RANKS
from quoracy.core.run import Kinds
from quoracy.core.witnessed.kind import KIND as WITNESSED

Key = tuple[str, str]


def _fleet(*moves: Any) -> Hand:
    """Worker v is ready; w goes through these. A move of None is a loss."""
    yard = standing("v")
    for move in moves:
        if move is None:
            yard.lose("w")
        elif move == "register":
            yard.register("w")
        else:
            yard.say(move, "w")
    return yard.hand


def _barrier(*arrivals: tuple[str, int]) -> Hand:
    yard = standing("v", "w")
    for name, step in arrivals:
        yard.arrive(name, step, "w")
    return yard.hand


def _closed() -> Hand:
    yard = standing("v", "w")
    yard.order(RunStopped("enough"))
    return yard.hand


def _tally(counted: int, end: bool) -> Hand:
    hand = byhand.serving(tally.KINDS, created("tally", {"goal": 3, "most": 3}))
    for name in ("v", "w"):
        hand.call(name, Cause(name, 0, 0), tally.Joined(name, 0, bytes([7] * 16)))
        hand.land()
    if counted:
        hand.call("w", Cause("w", 1, 1), tally.Counted("w", 1, counted))
        hand.land()
    if end:
        hand.order(tally.Ended("enough"))
        hand.land()
    hand.actions.clear()
    return hand


def _crew(*moves: str, form_members: int = 0) -> Hand:
    """Rank 0 has come; 1 goes through these."""
    hand = byhand.serving(Kinds((RANKS,)), created("ranks", {"form_members": form_members}))
    hand.call("0", Cause("0", 0, 0), RankJoined("0", 0, bytes([7] * 16)))
    hand.land_all()
    for move in moves:
        _move(hand, move)
        hand.land_all()
    hand.actions.clear()
    return hand


def _move(hand: Hand, move: str) -> None:
    match move:
        case "join" | "learn":
            hand.call("1", Cause("1", 0, 0), RankJoined("1", 0, bytes([7] * 16), learner=move == "learn"))
        case "counted in":
            hand.sign("0", RankArrived("0", 1, 2, True))
        case "given up":
            hand.sign("0", RankArrived("0", 1, 3, True))
            for beat in range(1, 8):
                hand.sign("0", RankBeat("0", 1, beat))
                hand.tick(5_000_000)
                hand.land_all()
        case "leave":
            hand.call("1", Cause("1", 1, 1), RankLeft("1", 1))
        case "stop":
            hand.order(RanksStopped("enough"))


READY = ("register", WorkerReady)
SCENES: dict[str, dict[Key, Callable[[], Hand]]] = {
    "cluster": {
        ("run", "Open"): lambda: _fleet(),
        ("run", "Closed"): _closed,
        ("worker", "Absent"): lambda: _fleet(),
        ("worker", "Initializing"): lambda: _fleet("register"),
        ("worker", "Idle"): lambda: _fleet(*READY),
        ("worker", "LoadingData"): lambda: _fleet(*READY, WorkerLoading),
        ("worker", "Training"): lambda: _fleet(*READY, WorkerLoading, WorkerTraining),
        ("worker", "Checkpointing"): lambda: _fleet(*READY, WorkerLoading, WorkerTraining, WorkerCheckpointing),
        ("worker", "Recovering"): lambda: _fleet("register", None, *READY),
        ("worker", "Failed"): lambda: _fleet("register", None),
        ("worker", "Left"): lambda: _fleet("register", WorkerLeft),
        ("barrier generation", "Open"): lambda: _barrier(("v", 1)),
        ("barrier generation", "Released"): lambda: _barrier(("v", 1), ("w", 1)),
        ("barrier generation", "Aborted"): lambda: _barrier(("v", 1), ("w", 2)),
    },
    "federated": FEDERATED_SCENES,
    "ranks": {
        ("run", "Forming"): lambda: _crew(form_members=3),
        ("run", "Running"): lambda: _crew("join", "counted in"),
        ("run", "Closed"): lambda: _crew("join", "stop"),
        ("rank", "Absent"): _crew,
        ("rank", "Waiting"): lambda: _crew("join"),
        ("rank", "Learning"): lambda: _crew("learn"),
        ("rank", "Member"): lambda: _crew("join", "counted in"),
        ("rank", "Lost"): lambda: _crew("join", "counted in", "given up"),
        ("rank", "Left"): lambda: _crew("join", "leave"),
    },
    "tally": {
        ("tally", "Counting"): lambda: _tally(1, False),
        ("tally", "Full"): lambda: _tally(3, False),
        ("tally", "Over"): lambda: _tally(1, True),
    },
    "witnessed": WITNESSED_SCENES,
}
KINDS: dict[str, Kind] = {
    "cluster": CLUSTER, "federated": FEDERATED, "ranks": RANKS, "tally": tally.KIND, "witnessed": WITNESSED,
}  # fmt: skip
MEMBERS = {
    "cluster": ("v", "w"), "federated": ("v", "w"), "ranks": ("0", "1"), "tally": ("v", "w"), "witnessed": ("v", "w"),
}  # fmt: skip
"""Two of each kind's scenes. The second is the one that a scene is about."""
EVERY = [(kind, key) for kind, scenes in SCENES.items() for key in scenes]


def scene_id(value: Any) -> str:
    return value if isinstance(value, str) else "-".join(value)
