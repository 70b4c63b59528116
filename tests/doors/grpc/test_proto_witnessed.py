"""witnessed.proto: in step with the core, and in the style of the others."""

from __future__ import annotations

import re
from typing import Any

import pytest

from quoracy.core.errors import CATALOG
from quoracy.core.machine import Admission
from quoracy.core.witnessed import events, views
from quoracy.core.witnessed.state import MemberState, Phase
from quoracy.doors.grpc import witnesses
from quoracy.wire.generate import ROOT, WITNESSED
from quoracy.wire.pb import witnessed_pb2 as pb

TEXT = (ROOT / "proto" / WITNESSED).read_text(encoding="utf-8")
CALLS = re.findall(r"(.*)\n  rpc (\w+)\((\w+)\) returns \((\w+)\);", TEXT)


def test_every_call_says_what_it_is_for_and_has_messages_of_its_own() -> None:
    """Those of Heartbeat and Leave have another name than the same of workers and participants."""
    names = [name for _, name, *_ in CALLS]
    assert names[:10] == [
        "Join", "Leave", "Heartbeat", "Loaded", "Commit", "Attest", "Holds", "HealthCheck", "CheckpointDone",
        "ModelHash",
    ]  # fmt: skip
    for above, name, asked, answered in CALLS:
        assert above.strip().startswith("//"), name
        own = (asked.removeprefix("Member"), answered.removeprefix("Member"))
        assert own == (f"{name}Request", f"{name}Response")


def test_every_call_is_answered() -> None:
    works = witnesses.WitnessCalls(None, None, None).works()  # type: ignore[arg-type]
    assert works.keys() == {name for _, name, *_ in CALLS}
    assert {name: request.DESCRIPTOR.name for name, (request, _) in works.items()} == {
        name: asked for _, name, asked, _ in CALLS
    }


def test_no_number_is_signed_where_it_counts_and_none_is_a_plain_int() -> None:
    assert re.findall(r"^\s+(?:int32|int64|fixed|sfixed|float)\b.*", TEXT, re.MULTILINE) == []


BY_THE_HOST = set(Admission.__struct_fields__)
"""No member says that of itself."""


@pytest.mark.parametrize(
    ("struct", "message", "own"),
    [
        (events.MemberJoined, pb.JoinRequest, {"proof": "signature"}),
        (events.MemberLeft, pb.MemberLeaveRequest, {}),
        (events.ResultCommitted, pb.CommitRequest, {}),
        (events.CheckpointStored, pb.CheckpointDoneRequest, {"seen": "digest"}),
        (events.TwoFacedShown, pb.ShowTwoFacedRequest, {}),
        (events.Beat, pb.MemberHeartbeatRequest, {}),
        (events.BeatSeen, pb.MemberHeartbeatResponse, {}),
        (events.Loaded, pb.LoadedRequest, {}),
        (events.Attest, pb.AttestRequest, {}),
        (events.Holds, pb.HoldsRequest, {}),
        (events.ModelHash, pb.ModelHashRequest, {}),
        (events.HealthCheck, pb.HealthCheckRequest, {}),
        (events.Taken, pb.AttestResponse, {}),
        (views.Standing, pb.MemberStanding, {}),
        (views.Pointer, pb.ModelPointer, {}),
        (views.RoundShown, pb.RoundShown, {"left_us": "left_s"}),
        (views.Result, pb.RoundResult, {}),
        (views.Peer, pb.MemberPeer, {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_of_a_member_can_be_said(struct: Any, message: Any, own: dict[str, str]) -> None:
    fields = {own.get(name, name) for name in struct.__struct_fields__}
    assert fields - set(message.DESCRIPTOR.fields_by_name) - BY_THE_HOST == set()


def test_every_phase_and_every_state_has_its_number() -> None:
    assert witnesses.PHASES.keys() == {phase.value for phase in Phase}
    assert set(witnesses.PHASES.values()) == set(pb.WitnessedPhase.values()) - {0}
    assert witnesses.STATES.keys() == {state.value for state in MemberState} - {MemberState.ABSENT.value}
    assert set(witnesses.STATES.values()) == set(pb.MemberState.values()) - {0}
    assert set(witnesses.SOURCES.values()) == set(pb.ModelSource.values()) - {0}
    assert set(witnesses.STATUSES.values()) == set(pb.JoinStatus.values()) - {0}


def test_every_code_that_the_file_explains_is_in_the_catalog() -> None:
    explained = TEXT.partition("What to do, by code")[2].partition("syntax =")[0]
    codes = set(re.findall(r"^//   `(\w+)`", explained, re.MULTILINE))
    assert len(codes) >= 5
    assert codes - set(CATALOG) == set()
