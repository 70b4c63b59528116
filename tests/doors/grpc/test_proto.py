"""The .proto files: the code made from them is fresh, and their style holds. Whether they break anybody who was built
against them, ``test_breaking`` says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from google.protobuf import descriptor_pb2

from quoracy.core import messages
from quoracy.core.cluster import events, state, views
from quoracy.core.errors import CATALOG, Refusal, Retry
from quoracy.core.federated import events as rounds
from quoracy.core.machine import Admission
from quoracy.doors.federated import Assignment
from quoracy.doors.grpc import translate
from quoracy.wire import pb
from quoracy.wire.generate import FEDERATED, PROTO, WITNESSED, describe, generate, main
from quoracy.wire.pb import coordinator_pb2 as pb2
from quoracy.wire.pb import federated_pb2 as rounds_pb2

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "proto" / PROTO).read_text(encoding="utf-8")
ROUNDS = (ROOT / "proto" / FEDERATED).read_text(encoding="utf-8")


@pytest.mark.parametrize("which", [PROTO, FEDERATED, WITNESSED])
def test_the_generated_code_is_what_the_file_gives(which: str, tmp_path: Path) -> None:
    names = generate(ROOT / "proto", tmp_path, which)
    name = Path(which).stem
    assert names == [f"{name}_pb2.py", f"{name}_pb2.pyi", f"{name}_pb2_grpc.py"]
    kept = Path(str(pb.__file__)).parent
    stale = [name for name in names if (tmp_path / name).read_bytes() != (kept / name).read_bytes()]
    assert stale == [], "run: python -m quoracy.wire.generate"


def test_a_file_that_is_no_proto_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / PROTO
    path.parent.mkdir(parents=True)
    path.write_text(TEXT.replace("message Hello {", "message Hello"), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"coordinator\.proto"):
        generate(tmp_path, tmp_path)
    with pytest.raises(SystemExit, match=r"coordinator\.proto"):
        describe(tmp_path)


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "wire/pb" in capsys.readouterr().out


# -- in step with the core -----------------------------------------------------------------------------------------


BY_THE_HOST = set(Admission.__struct_fields__)
"""No member says that of itself."""
LISTENS = {"views"}
"""On a stream a member always listens: it has no connection for heartbeats beside it."""
OWN = {"member": "worker", "proof": "signature", "run": "closed"}
"""What is called otherwise there."""


@pytest.mark.parametrize(
    ("struct", "message"),
    [
        (events.WorkerRegistered, pb2.RegisterWorkerRequest),
        (events.WorkerIdle, pb2.ReportStateRequest),
        (events.WorkerLoading, pb2.ReportStateRequest),
        (events.WorkerLeft, pb2.DeregisterRequest),
        (events.Heartbeat, pb2.HeartbeatRequest),
        (events.Arrive, pb2.WaitAtBarrierRequest),
        (views.Standing, pb2.Standing),
        (views.Passage, pb2.WaitAtBarrierResponse),
        (state.Order, pb2.Order),
        (messages.Hello, pb2.Hello),
        (messages.Moved, pb2.Moved),
        (Refusal, pb2.ErrorDetail),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_that_the_core_has_can_be_said(struct: Any, message: Any) -> None:
    fields = {OWN.get(name, name) if name not in message.DESCRIPTOR.fields_by_name else name
              for name in struct.__struct_fields__}  # fmt: skip
    assert fields - set(message.DESCRIPTOR.fields_by_name) - BY_THE_HOST - LISTENS == set()


def test_every_state_and_every_order_has_its_number() -> None:
    states = {f"WORKER_STATE_{one.name}" for one in state.WorkerState if one is not state.WorkerState.ABSENT}
    assert set(pb2.WorkerState.keys()) == states | {"WORKER_STATE_UNSPECIFIED"}
    commands = {f"ORDER_COMMAND_{name.upper()}" for name in get_args(events.Command)}
    assert set(pb2.OrderCommand.keys()) == commands | {"ORDER_COMMAND_UNSPECIFIED"}
    assert set(translate.COMMAND_NAMES.values()) == set(get_args(events.Command))


def test_every_code_that_the_file_explains_is_in_the_catalog() -> None:
    explained = TEXT.partition("RETRY_CHANGED some codes")[2].partition("message ErrorDetail")[0]
    codes = {code for code in re.findall(r"`(\w+)`", explained) if "_" in code or code in CATALOG}
    assert len(codes) > 10
    assert codes - set(CATALOG) <= {"address", "why", "fix", "after"}
    assert {CATALOG[code].retry for code in codes & set(CATALOG)} == {Retry.CHANGED}


def test_the_file_has_every_sort_of_retry() -> None:
    assert set(pb2.Retry.keys()) == {f"RETRY_{sort.name}" for sort in Retry} | {"RETRY_UNSPECIFIED"}


# -- style ---------------------------------------------------------------------------------------------------------


def test_every_enum_begins_with_unspecified_and_names_itself() -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(describe(ROOT / "proto")).file
    enums = [enum for file in files if file.package == "quoracy.v1" for enum in file.enum_type]
    assert enums
    for enum in enums:
        prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.name).upper()
        assert (enum.value[0].name, enum.value[0].number) == (f"{prefix}_UNSPECIFIED", 0)
        assert all(value.name.startswith(f"{prefix}_") for value in enum.value)


def test_every_call_has_messages_of_its_own_and_says_what_it_is_for() -> None:
    calls = re.findall(r"(.*)\n  rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\);", TEXT)
    assert len(calls) == 15
    for above, name, streams, asked, _, answered in calls:
        assert above.strip().startswith("//"), name
        if not streams:
            assert (asked, answered) == (f"{name}Request", f"{name}Response")


def test_no_number_is_signed_where_it_counts_and_none_is_a_plain_int() -> None:
    assert re.findall(r"^\s+(?:int32|fixed|sfixed|float)\b.*", TEXT + ROUNDS, re.MULTILINE) == []


def test_every_call_of_a_participant_says_what_it_is_for() -> None:
    """The heartbeat's messages have another name than those of a worker's."""
    calls = re.findall(r"(.*)\n  rpc (\w+)\((\w+)\) returns \((\w+)\);", ROUNDS)
    assert [name for _, name, *_ in calls] == [
        "Rendezvous",
        "Heartbeat",
        "StartTrainingRound",
        "EndTrainingRound",
        "Leave",
    ]
    for above, name, asked, answered in calls:
        assert above.strip().startswith("//"), name
        assert (asked.removeprefix("Participant"), answered.removeprefix("Participant")) == (
            f"{name}Request", f"{name}Response",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("struct", "message", "own"),
    [
        (rounds.ParticipantJoined, rounds_pb2.RendezvousRequest, {"member": "participant", "proof": "signature"}),
        (
            rounds.UpdateOffered,
            rounds_pb2.EndTrainingRoundRequest,
            {"member": "participant", "samples": "number_samples"},
        ),
        (rounds.Beat, rounds_pb2.ParticipantHeartbeatRequest, {"member": "participant"}),
        (rounds.BeatSeen, rounds_pb2.ParticipantHeartbeatResponse, {}),
        (rounds.ParticipantLeft, rounds_pb2.LeaveRequest, {"member": "participant"}),
        (Assignment, rounds_pb2.StartTrainingRoundResponse, {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_of_a_participant_can_be_said(struct: Any, message: Any, own: dict[str, str]) -> None:
    fields = {own.get(name, name) for name in struct.__struct_fields__}
    assert fields - set(message.DESCRIPTOR.fields_by_name) - BY_THE_HOST - LISTENS == set()
