"""The whole life of workers that are written against the .proto file alone, beside a real coordinator."""

from __future__ import annotations

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
