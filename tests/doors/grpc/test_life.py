"""The whole life of workers that are written against the .proto file alone, beside a real coordinator."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.doors.grpc.strangers import RUN, Stranger, free_port, generated, serve
from tests.e2e.command import quoracy, seen, until

STEPS = 12


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(tmp_path_factory.mktemp("strangers") / "made")


def create(url: str, **config: object) -> None:
    options = [part for name, value in config.items() for part in ("--set", f"{name}={value}")]
    created = quoracy("run", "create", RUN, url, *options)
    assert created.returncode == 0, created.stderr


@pytest.mark.parametrize("ways", [("unary", "unary"), ("stream", "stream"), ("unary", "stream")], ids="-".join)
def test_two_strangers_meet_at_every_barrier_and_leave(tmp_path: Path, made: Path, ways: tuple[str, str]) -> None:
    port = free_port()
    with serve(tmp_path / "journals", port) as server:
        create(server.url, barrier_min=2, heartbeat_interval_s=0.1)
        with Stranger(made, ways[0], port, "w1", STEPS) as one, Stranger(made, ways[1], port, "w2", STEPS) as two:
            assert (one.ended(), two.ended()) == (0, 0), one.errors + two.errors
            assert one.passed == two.passed == [(step + 1, step) for step in range(STEPS)]
        assert "no worker is here" in quoracy("explain", RUN, server.url).stdout


@pytest.mark.parametrize("ways", [("unary", "unary"), ("stream", "stream")], ids="-".join)
def test_a_coordinator_that_is_killed_and_started_again_costs_nobody_anything(
    tmp_path: Path, made: Path, ways: tuple[str, str]
) -> None:
    port, steps = free_port(), 200
    first = serve(tmp_path / "journals", port)
    with first:
        create(first.url, barrier_min=2, heartbeat_interval_s=0.1)
        with Stranger(made, ways[0], port, "w1", steps) as one, Stranger(made, ways[1], port, "w2", steps) as two:
            until(lambda: len(one.passed) >= 5 and len(two.passed) >= 5, "some barriers")
            first.kill()
            assert len(one.passed) < steps
            with serve(tmp_path / "journals", port):
                assert (one.ended(), two.ended()) == (0, 0), one.errors + two.errors
            assert one.passed == two.passed == [(step + 1, step) for step in range(steps)]


def test_the_newest_process_of_an_id_goes_on_and_the_older_one_ends(tmp_path: Path, made: Path) -> None:
    port = free_port()
    with serve(tmp_path / "journals", port) as server:
        create(server.url, barrier_min=2, heartbeat_interval_s=0.1)
        with Stranger(made, "stream", port, "w1", 1) as old:
            until(lambda: seen(server.url, "show", RUN).get("workers"), "the first life")
            assert "w1" in quoracy("run", "show", RUN, server.url).stdout
            with Stranger(made, "stream", port, "w1", 1) as new:
                assert old.ended() == 1
                assert "superseded" in old.errors
                with Stranger(made, "unary", port, "w2", 1) as other:
                    assert (new.ended(), other.ended()) == (0, 0), new.errors + other.errors


@pytest.mark.parametrize("way", ["unary", "stream", "http", "tcp"])
def test_workers_and_the_coordinator_are_killed_and_everybody_comes_back(tmp_path: Path, made: Path, way: str) -> None:
    """Nobody is let through alone, nobody arrives behind, and nothing is aborted but a barrier at which w1 was left
    alone for a moment: all of them come back to it."""
    port, steps = free_port(), 120
    table = {"http": "http", "tcp": "listen"}.get(way, "grpc")
    off = "".join(f"[{door}]\nenabled = false\n" for door in ("grpc", "http") if door != table)
    (tmp_path / "quoracy.toml").write_text(f"{off}[{table}]\nport = {port}\n")
    with ExitStack() as stack:
        first = stack.enter_context(serve(tmp_path / "journals", port, tcp=table == "listen"))
        create(first.url, barrier_min=2, heartbeat_interval_s=0.1)

        def begin(name: str) -> Stranger:
            return stack.enter_context(Stranger(made, way, port, name, steps))

        one, two = begin("w1"), begin("w2")
        until(lambda: len(one.passed) >= 5, "some barriers")
        two.process.kill()
        again, newcomer = begin("w2"), begin("w3")
        until(lambda: len(again.passed) >= 3 and len(newcomer.passed) >= 3, "both take part")
        first.kill()
        second = stack.enter_context(serve(tmp_path / "journals", port, tcp=table == "listen"))
        ended = [worker.ended() for worker in (one, again, newcomer)]
        assert ended == [0, 0, 0], one.errors + again.errors + newcomer.errors
        assert [step for _, step in one.passed] == list(range(steps))
        for worker in (again, newcomer):
            passed = [step for _, step in worker.passed]
            assert passed == list(range(passed[0], steps))
        (barrier,) = seen(second.url, "show", RUN)["barriers"]
        assert barrier["released"] == steps
        entries = seen(second.url, "journal", RUN, limit=1000)["entries"]
        aborted = [event for entry in entries for event in entry["events"] if event["type"] == "barrier-aborted"]
        assert all("barrier_min = 2" in event["reason"] for event in aborted), aborted
