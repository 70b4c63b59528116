"""One host per state of the witnessed tables, so that bad input can be tried in each of them."""

from __future__ import annotations

from collections.abc import Callable

from tests.core.byhand import Hand
from tests.core.witnessed.camp import LOST_S, Camp, camping, training

from quoracy.core.witnessed.events import RunPaused, RunStopped

Key = tuple[str, str]


def _run(phase: str) -> Hand:
    camp = camping("v", "w", rounds_per_epoch=1, init_min_clients=3 if phase == "WaitingForMembers" else 2)
    if phase in ("RoundTrain", "RoundWitness", "Cooldown"):
        camp.load("v", "w")
    if phase in ("RoundWitness", "Cooldown"):
        camp.commit()
        camp.hold()
    if phase == "Cooldown":
        camp.hash()
    if phase in ("Paused", "Finished"):
        camp.order(RunPaused() if phase == "Paused" else RunStopped())
    assert camp.phase == phase
    return camp.hand


def _member(state: str) -> Hand:
    """Of w, beside v; in a round, but for those who are not in one."""
    if state == "Warming":
        camp = camping("v", "w", init_min_clients=2)
    elif state in ("Absent", "Pending"):
        camp = training("v")
    else:
        camp = training("v", "w", strikes_max=0)
    match state:
        case "Pending":
            camp.join("w")
        case "Resyncing":
            camp.join("w")
        case "Left":
            camp.leave("w")
        case "Lost":
            camp.pass_s(LOST_S, "w")
        case "Removed":
            _strike_out(camp)
        case "Done":
            camp.order(RunStopped())
            camp.turn()
            camp.cool()
    assert state == (camp.states() | {"w": camp.states().get("w", "Absent")})["w"]
    return camp.hand


def _strike_out(camp: Camp) -> None:
    """It does not do its work."""
    camp.hash()
    camp.commit("v")
    camp.pass_s(camp.round.allowed_us / 1e6, pace_s=10.0)
    camp.hold()


SCENES: dict[Key, Callable[[], Hand]] = {
    **{
        ("run", phase): (lambda phase=phase: _run(phase))  # type: ignore[misc]
        for phase in ("WaitingForMembers", "Warmup", "RoundTrain", "RoundWitness", "Cooldown", "Paused", "Finished")
    },
    **{
        ("member", state): (lambda state=state: _member(state))  # type: ignore[misc]
        for state in ("Absent", "Pending", "Warming", "InStep", "Resyncing", "Left", "Lost", "Removed", "Done")
    },
}
