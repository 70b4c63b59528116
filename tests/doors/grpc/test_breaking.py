"""Nobody who was built against a released .proto file is broken: buf's rules, each with a break that it finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.grpc.breaking import breaks, described

from quoracy.docs.release import PROMISED, releases

ROOT = Path(__file__).parents[3]
RELEASES = releases(ROOT)
TEXT = (ROOT / PROMISED / "coordinator.proto").read_text(encoding="utf-8")
ROUNDS = (ROOT / PROMISED / "federated.proto").read_text(encoding="utf-8")


@pytest.mark.parametrize("release", RELEASES, ids=[folder.name for folder in RELEASES])
def test_no_release_is_broken(release: Path) -> None:
    assert breaks(described(release), described(ROOT / PROMISED)) == []


def test_the_last_release_is_compared_as_it_was() -> None:
    """With everything that it has in it, or a comparison would find nothing."""
    (first, *_) = RELEASES
    found = breaks(described(first), b"")
    assert found.count("file coordinator.proto is gone") == found.count("file federated.proto is gone") == 1
    assert {"service quoracy.v1.Coordinator is gone", "service quoracy.v1.Federated is gone"} <= set(found)
    assert sum(one.startswith("message ") for one in found) > 50


def written(folder: Path, coordinator: str = TEXT, federated: str = ROUNDS) -> Path:
    folder.mkdir()
    for name, text in (("coordinator.proto", coordinator), ("federated.proto", federated)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


TASK = "  string task = 11;\n"
GIVEN_UP = f'{TASK}  reserved 90, 92 to 94;\n  reserved "mood";\n'
RESUME = "  ORDER_COMMAND_RESUME = 3;\n"
NOT_SAID = f'{RESUME}  reserved 90;\n  reserved "ORDER_COMMAND_DANCE";\n'

PLANTED = [
    (TASK, "", "field quoracy.v1.HeartbeatRequest.task = 11 is gone and not reserved"),
    (TASK, "  reserved 11;\n", "HeartbeatRequest.task = 11 is gone and not reserved"),
    (TASK, '  reserved "task";\n', "HeartbeatRequest.task = 11 is gone and not reserved"),
    (TASK, "  string task = 91;\n", "field quoracy.v1.HeartbeatRequest.task = 11 has the number 91 now"),
    (TASK, "  string task = 91;\n  string other = 11;\n", "HeartbeatRequest.task = 11 has the number 91 now"),
    (TASK, "  bytes task = 11;\n", "HeartbeatRequest.task = 11: type was 9, is 12"),
    (TASK, "  repeated string task = 11;\n", "HeartbeatRequest.task = 11: label was 1, is 3"),
    (TASK, "  string work = 11;\n", "HeartbeatRequest.task = 11: name was 'task', is 'work'"),
    (TASK, "  optional string task = 11;\n", "task = 11: proto3_optional was False, is True"),
    (TASK, '  string task = 11 [json_name = "work"];\n', "task = 11: json_name was 'task', is 'work'"),
    ("HeartbeatRequest heartbeat = 4;", "Hello heartbeat = 4;", "type_name was '.quoracy.v1.HeartbeatRequest'"),
    ("  oneof answer {\n    Accepted accepted = 2;", "  Accepted accepted = 2;\n  oneof answer {", "moved to another"),
    ("message BarrierMark {", "message Mark {", "message quoracy.v1.BarrierMark is gone"),
    (GIVEN_UP, GIVEN_UP.replace("90, ", ""), "HeartbeatRequest: the number 90 is not reserved any more"),
    (GIVEN_UP, GIVEN_UP.replace("94", "93"), "HeartbeatRequest: the number 94 is not reserved any more"),
    (GIVEN_UP, f"{TASK}  string mood = 90;\n", "HeartbeatRequest: the number 90 is not reserved any more"),
    (GIVEN_UP, GIVEN_UP.replace('"mood"', '"food"'), "HeartbeatRequest: the name mood is not reserved any more"),
    (RESUME, "", "value quoracy.v1.OrderCommand.ORDER_COMMAND_RESUME is gone"),
    (RESUME, RESUME.replace("3", "33"), "ORDER_COMMAND_RESUME was 3, is 33"),
    (RESUME, RESUME.replace("RESUME", "GO_ON"), "value quoracy.v1.OrderCommand.ORDER_COMMAND_RESUME is gone"),
    (NOT_SAID, NOT_SAID.replace("90", "91"), "OrderCommand: the number 90 is not reserved any more"),
    (NOT_SAID, NOT_SAID.replace("DANCE", "SING"), "the name ORDER_COMMAND_DANCE is not reserved any more"),
    ("enum ReportedState {", "enum StateReported {", "enum quoracy.v1.ReportedState is gone"),
    ("  rpc Heartbeat(", "  rpc Beat(", "rpc quoracy.v1.Coordinator.Heartbeat is gone"),
    ("rpc GetRun(GetRunRequest)", "rpc GetRun(ListRunsRequest)", "Coordinator.GetRun: input_type was"),
    ("returns (GetRunResponse)", "returns (ListRunsResponse)", "Coordinator.GetRun: output_type was"),
    ("rpc Session(stream ClientMessages)", "rpc Session(ClientMessages)", "Session: client_streaming was True"),
    ("returns (stream ServerMessages)", "returns (ServerMessages)", "Session: server_streaming was True"),
    ("service Coordinator {", "service Conductor {", "service quoracy.v1.Coordinator is gone"),
    ("package quoracy.v1;", "package quoracy.v2;", "file coordinator.proto: package was 'quoracy.v1', is 'quoracy.v2'"),
    ("option go_package", "// option go_package", "file coordinator.proto: go_package was"),
    ("option java_package", "// option java_package", "file coordinator.proto: java_package was"),
]


@pytest.mark.parametrize(("old", "new", "named"), PLANTED, ids=[named for *_, named in PLANTED])
def test_a_planted_break_is_found_and_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    before = TEXT.replace(TASK, GIVEN_UP, 1) if old == GIVEN_UP else TEXT
    before = before.replace(RESUME, NOT_SAID, 1) if old == NOT_SAID else before
    assert old in before
    now = before.replace(old, new, 1)
    now = now.replace(" BarrierMark>", " Mark>") if "Mark {" in new else now
    now = now.replace("ReportedState state", "StateReported state") if "enum" in new else now
    found = breaks(described(written(tmp_path / "old", before)), described(written(tmp_path / "new", now)))
    assert any(named in one for one in found), found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TASK, '  reserved 11;\n  reserved "task";\n'),
        (TASK, f"{TASK}  string mood = 99;\n"),
        (TASK, GIVEN_UP),
        (RESUME, f"{RESUME}  ORDER_COMMAND_DANCE = 9;\n"),
        (RESUME, NOT_SAID),
        ("  rpc GetRun(", "  rpc Dance(GetRunRequest) returns (GetRunResponse);\n  rpc GetRun("),
        ("// What it works at, for people.", "// Whatever."),
    ],
    ids=["reserved", "a new field", "more reserved", "a new value", "a value to be reserved", "a new rpc", "words"],
)
def test_what_breaks_nobody_is_left_alone(tmp_path: Path, old: str, new: str) -> None:
    assert old in TEXT
    changed = written(tmp_path / "new", TEXT.replace(old, new, 1))
    assert breaks(described(written(tmp_path / "old")), described(changed)) == []


def test_what_participants_are_promised_is_looked_after_too(tmp_path: Path) -> None:
    renamed = written(tmp_path / "new", federated=ROUNDS.replace("uint64 ticket = 5;", "uint64 number = 5;"))
    found = breaks(described(written(tmp_path / "old")), described(renamed))
    assert found == ["field quoracy.v1.EndTrainingRoundRequest.ticket = 5: name was 'ticket', is 'number'"]
    (renamed / "federated.proto").unlink()
    gone = breaks(described(tmp_path / "old"), described(renamed))
    assert {"file federated.proto is gone", "service quoracy.v1.Federated is gone"} <= set(gone)


def test_another_file_breaks_nobody(tmp_path: Path) -> None:
    more = written(tmp_path / "new")
    (more / "other.proto").write_text('syntax = "proto3";\npackage quoracy.v1;\nmessage Other {}\n', encoding="utf-8")
    assert breaks(described(written(tmp_path / "old")), described(more)) == []
