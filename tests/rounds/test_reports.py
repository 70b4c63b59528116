"""What a participant says of its trainings, through every API: kept when the round is over, when the coordinator is
started again and when its journal is compacted; shown by HTTP, the command line and top."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from blake3 import blake3
from rich.console import Console
from safetensors.numpy import load, save
from tests.doors.talk import RUN
from tests.e2e.command import quoracy, told, until
from tests.rounds.party import KEYS, Participant, Parties, ended, model, play_round, put, put_bytes

from quoracy.cli.top import page
from quoracy.coordinator import Coordinator
from quoracy.wire.pb import federated_pb2 as pb
from quoracy.wire.pb.federated_pb2_grpc import FederatedStub

CONFUSION = [[5.0, 1.0], [2.0, 7.0]]
COMPACTED: dict[str, Any] = {"snapshot_every": 5, "segment_entries": 5, "keep_segments": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def coordinator(folder: Path) -> Iterator[Coordinator]:
    with Coordinator(folder=folder, grpc={"port": 0}, http={"port": 0}) as running:
        yield running


@pytest.fixture
def parties(coordinator: Coordinator) -> Iterator[Parties]:
    with Parties(coordinator) as parties:
        yield parties


def begun(coordinator: Coordinator, parties: Parties, folder: Path, scratch: Path, **config: Any) -> list[Participant]:
    coordinator.create(RUN, "federated", **({"clients": 2, "rounds": 1} | config))
    both = [parties.join("p1"), parties.join("p2")]
    play_round(folder, both[:1], -1, scratch)
    return both


def large(folder: Path, member: str, **arrays: Any) -> str:
    content = save(arrays)
    digest = str(blake3(content).hexdigest())
    put_bytes(folder, content, digest, member)
    return digest


def reports(coordinator: Coordinator, member: str) -> list[dict[str, Any]]:
    return list(coordinator.ask("reports", RUN, member=member)["rounds"])


def test_every_api_takes_metrics_of_any_shape_and_all_show_them(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    """p1 speaks TCP, p2 gRPC; each with a matrix in the offer and a larger one as an object."""
    one, other = begun(coordinator, parties, folder, tmp_path)
    big = np.arange(900, dtype=np.float32).reshape(30, 30)
    history = {"loss": [1.0, 0.5, 0.25], "accuracy": [0.1, 0.5, 0.9]}
    one.offer(
        one.assigned(0), put(folder, model(1.0), tmp_path, "p1"), samples=10, history=history,
        metrics={"loss": 0.25, "confusion": {"shape": [2, 2], "values": [5.0, 1.0, 2.0, 7.0]}},
        metrics_digest=large(folder, "p1", big=big),
    )  # fmt: skip
    said = pb.EndTrainingRoundRequest(
        run=RUN, participant="p2", incarnation=1, round=0, ticket=other.assigned(0)["ticket"], number_samples=10,
        digest=put(folder, model(3.0), tmp_path, "p2"), metrics_digest=large(folder, "p2", big=2 * big),
    )  # fmt: skip
    said.metrics["loss"].scalar = 0.75
    said.metrics["confusion"].array.MergeFrom(pb.Array(shape=[2, 2], values=[5.0, 1.0, 2.0, 7.0]))
    for name, values in history.items():
        said.history[name].values.extend(values)
    with grpc.insecure_channel(coordinator.addresses["grpc"].partition("://")[2]) as channel:
        assert list(FederatedStub(channel).EndTrainingRound(said, timeout=30).warnings) == []
    shown = ended(coordinator)
    assert shown["history"][0]["metrics"] == {"loss": 0.5, "confusion": CONFUSION}
    assert [party["updates"] for party in shown["participants"]] == [1, 1], "the initial weights are no update"
    with httpx.Client(base_url=f"{coordinator.addresses['http']}/api/runs/{RUN}/participants", trust_env=False) as http:
        for member, loss, times in (("p1", 0.25, 1), ("p2", 0.75, 2)):
            answer = http.get(f"/{member}/history").json()
            assert (answer["participant"], answer["of"], answer["next"], answer["given_up"]) == (member, 1, None, 0)
            (report,) = answer["rounds"]
            assert (report["round"], report["fate"], report["warnings"]) == (0, "Admitted", [])
            assert (report["metrics"], report["history"]) == ({"loss": loss, "confusion": CONFUSION}, history)
            assert report["arrays"]["shapes"] == {"big": [30, 30]}
            brought = http.get(f"/{member}/metrics/0")
            assert blake3(brought.content).hexdigest() == report["arrays"]["digest"]
            assert np.array_equal(load(brought.content)["big"], times * big)
        assert http.get("/nobody/history").json()["code"] == "unknown_member"
        assert "there are: p1, p2" in http.get("/nobody/history").json()["detail"]
        assert http.get("/p1/metrics/7").json()["code"] == "object_missing"
        assert http.get("/p1/metrics/x").json()["code"] == "malformed"
    printed = quoracy("federated", "history", RUN, "--participant", "p1", url=coordinator.url).stdout
    for part in ("loss █", "1 to 0.25", "confusion 2 x 2", "big 30 x 30", "admitted"):
        assert part in printed
    as_json = told(quoracy("federated", "history", RUN, "--participant", "p1", "--json", url=coordinator.url))
    assert as_json["value"]["rounds"][0]["history"] == history
    out = io.StringIO()
    for state in ("Waiting", "Left"):
        parted = [party | {"state": state} for party in shown["participants"]]
        Console(file=out, width=140, highlight=False).print(page(shown | {"participants": parted}, None))
    assert out.getvalue().count("round 0: loss 0.25  loss by epoch") == 2
    picture = tmp_path / "p1.svg"
    drawn = quoracy("federated", "history", RUN, "--participant", "p1", "--plot", str(picture), url=coordinator.url)
    assert drawn.returncode == 0
    assert picture.read_text().startswith("<svg")
    unknown = quoracy("federated", "history", RUN, "--participant", "nobody", url=coordinator.url)
    assert unknown.returncode != 0
    assert "Traceback" not in unknown.stdout + unknown.stderr
    assert "p1, p2" in unknown.stdout + unknown.stderr


BAD: dict[str, Any] = {
    "nan": float("nan"), "huge": 1e301, "words": "much", "ragged": [[1.0], [2.0, 3.0]], "many": [0.0] * 300,
    "wrong": {"shape": [3], "values": [1.0]},
}  # fmt: skip


def test_a_bad_metric_costs_the_metric_and_a_warning_through_every_api(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    one, other = begun(coordinator, parties, folder, tmp_path)
    standing = one.assigned(0)
    answer = one.offer(
        standing, put(folder, model(1.0), tmp_path, "p1"), metrics={"loss": 0.5} | BAD,
        history={"loss": [1.0, float("inf")]}, metrics_digest="no digest",
    )  # fmt: skip
    assert not hasattr(answer, "code"), answer
    assert one.verdict(standing)[3]
    assert len(one.standing()["warnings"]) == 8
    said = pb.EndTrainingRoundRequest(
        run=RUN, participant="p2", incarnation=1, round=0, ticket=other.assigned(0)["ticket"], number_samples=10,
        digest=put(folder, model(3.0), tmp_path, "p2"), metrics_digest="no digest",
    )  # fmt: skip
    said.metrics["loss"].scalar = 0.75
    said.metrics["nan"].scalar = float("nan")
    said.metrics["many"].list.values.extend([0.0] * 300)
    said.metrics["wrong"].array.MergeFrom(pb.Array(shape=[3], values=[1.0]))
    said.metrics["nothing"].SetInParent()
    said.history["loss"].values.extend([float("nan")])
    with grpc.insecure_channel(coordinator.addresses["grpc"].partition("://")[2]) as channel:
        warnings = list(FederatedStub(channel).EndTrainingRound(said, timeout=30).warnings)
    ended(coordinator)
    for member, loss in (("p1", 0.5), ("p2", 0.75)):
        (report,) = reports(coordinator, member)
        assert (report["fate"], report["metrics"], report["history"]) == ("Admitted", {"loss": loss}, {})
    assert warnings == report["warnings"]
    left_out = [warning.partition(" ")[0] for warning in warnings]
    assert sorted(left_out) == [
        "history.loss", "metrics.many", "metrics.nan", "metrics.nothing", "metrics.wrong", "metrics_digest",
    ]  # fmt: skip


def test_an_object_of_metrics_that_is_none_costs_nothing_but_itself(
    coordinator: Coordinator, parties: Parties, folder: Path, tmp_path: Path
) -> None:
    begun(coordinator, parties, folder, tmp_path, clients=1, rounds=6, max_metrics_bytes=1000, per_round=1, count_min=1)
    one = parties.all[0]
    parties.all[1].leave()
    forged = blake3(b"another").hexdigest()
    put_bytes(folder, b"forged", forged)
    pickled = blake3(b"pickle").hexdigest()
    put_bytes(folder, b"pickle", pickled)
    cases = [
        (blake3(b"missing").hexdigest(), "it was not uploaded"),
        (forged, "its content has the digest"),
        (pickled, "is left out"),
        (large(folder, "p1", big=np.zeros(1000)), "(max_metrics_bytes)"),
        (large(folder, "p1", bad=np.array([np.nan]), **{"n" * 65: np.zeros(2)}, good=np.zeros(3)), "not finite"),
        (large(folder, "p2", stolen=np.zeros(7)), "it was not uploaded"),
    ]
    for number, (digest, _) in enumerate(cases):
        standing = one.assigned(number)
        one.offer(standing, put(folder, model(float(number + 1)), tmp_path, "p1"), metrics_digest=digest)
        assert one.verdict(standing)[3]
    ended(coordinator)
    for report, (_, why) in zip(reports(coordinator, "p1"), cases, strict=True):
        assert any(why in warning for warning in report["warnings"]), (why, report)
    assert [report["arrays"]["shapes"] for report in reports(coordinator, "p1")] == [{}, {}, {}, {}, {"good": [3]}, {}]
    assert len(reports(coordinator, "p1")[4]["warnings"]) == 2
    assert KEYS.metrics(4, "p1") == f"{RUN}/metrics/4/p1"


def test_they_survive_a_restart_and_a_compaction(folder: Path, tmp_path: Path) -> None:
    history = {"loss": [1.0, 0.5]}
    with Coordinator(folder=folder, host=COMPACTED) as coordinator, Parties(coordinator) as parties:
        both = begun(coordinator, parties, folder, tmp_path, rounds=8)
        for number in range(8):
            for party in both:
                digest = put(folder, model(number + 1.0 + (party.member == "p2")), tmp_path, party.member)
                party.offer(party.assigned(number), digest, metrics={"loss": number / 8}, history=history)
        ended(coordinator)
        before = {member: reports(coordinator, member) for member in ("p1", "p2")}
        gone = until(lambda: coordinator.ask("journal", RUN, after=2**53, limit=1)["first"] > 30, "entries are deleted")
        assert gone
    assert [report["round"] for report in before["p1"]] == list(range(8))
    with Coordinator(folder=folder, host=COMPACTED) as coordinator:
        until(lambda: coordinator.show(RUN).get("phase") == "Finished", "it is read again")
        assert {member: reports(coordinator, member) for member in before} == before
        first = coordinator.ask("reports", RUN, member="p1", limit=3)
        assert ([report["round"] for report in first["rounds"]], first["of"]) == ([0, 1, 2], 8)
        rest = coordinator.ask("reports", RUN, member="p1", after=first["next"])
        assert ([report["round"] for report in rest["rounds"]], rest["next"]) == ([3, 4, 5, 6, 7], None)
        assert coordinator.show(RUN)["participants"][0]["last"]["round"] == 7
