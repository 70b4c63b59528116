"""What the SDK of ranks refuses before it reaches a store, and what the example of the page does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples import ranks as example

import quoracy
from quoracy.core.kinds import PEERLESS
from quoracy.core.ranks.part import Turn
from quoracy.core.ranks.state import Decision
from quoracy.hosts.onlooker import Onlooker
from quoracy.hosts.peerless import Shared
from quoracy.sdk.ranks.events import decided
from quoracy.sdk.ranks.iteration import Iteration
from quoracy.stores.opening import open_pulse, open_store
from quoracy.stores.sqlite import SqliteJournal


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"rank": -1}, "rank = -1: a whole number from 0 on"),
        ({"rank": "3"}, "rank = '3'"),
        ({"rank": True}, "rank = True"),
        ({"rank": 8, "max_ranks": 8}, "rank = 8: a number from 0 to 7"),
        ({"t_dead_s": 0.0}, "t_dead_s"),
        ({"min_members": 0}, "min_members"),
        ({"form_members": 2, "min_members": 3}, "form_members = 2: at least min_members"),
        ({"beat_s": 29.0}, "beat_s = 29.0: 3 x beat_s + look_s at most dead_s"),
        ({"stop_s": 29.0}, "stop_s + op_s + 2 x look_s at most dead_s"),
        ({"paces_s": 1.0}, "paces_s = 1.0: no such setting; times are beat_s, look_s"),
        ({"drain_s": 0.0}, "drain_s = 0.0"),
        ({"run": ""}, "run"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_setting_that_cannot_be_is_named(settings: dict[str, Any], named: str) -> None:
    given: dict[str, Any] = {"store": "sqlite:///x", "run": "demo", "rank": 0}
    with pytest.raises(quoracy.ConfigError) as caught:
        quoracy.ranks(**(given | settings))
    assert named in str(caught.value)


@pytest.mark.parametrize("url", ["", "sqlite", "sqlite://", "redis://host:1", "tcpstore://host"])
def test_a_store_that_is_none_is_named(url: str) -> None:
    with pytest.raises(quoracy.ConfigError, match=r"store = .*tcpstore://"):
        open_store(url)


def test_a_pulse_alone_is_the_same_as_that_of_the_store(tmp_path: Path) -> None:
    journal, pulse, mailbox = open_store(f"sqlite://{tmp_path}")
    alone = open_pulse(f"sqlite://{tmp_path}")
    assert (alone.tally("r", "p", 1), pulse.tally("r", "p", 1)) == (1, 2)
    for port in (journal, pulse, mailbox, alone):
        port.close()


def test_outside_its_block_a_rank_says_so(tmp_path: Path) -> None:
    with pytest.raises(quoracy.ConfigError, match="inside its with block"):
        next(quoracy.ranks(f"sqlite://{tmp_path}", "demo", 0).iterations())


def test_a_rank_that_was_closed_stays_closed(tmp_path: Path) -> None:
    with quoracy.ranks(f"sqlite://{tmp_path}", "demo", 0, t_dead_s=5.0) as ranks:
        it = next(ranks.iterations())
        assert it.addresses.keys() == {0}
        assert it.missing() == []
        it.check()
    with pytest.raises(quoracy.ConfigError, match="only a learner"):
        it.ready()
    with pytest.raises(quoracy.Closed, match="rank 0 has left: done"):
        it.vote()
    with pytest.raises(quoracy.Closed):
        it.check()


def test_a_run_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    from quoracy.core.journal import RunCreated
    from quoracy.core.kinds import KINDS
    from quoracy.core.peer import Peer
    from quoracy.core.ranks.times import derive
    from quoracy.hosts.peerless import Peerless

    shared = Shared(*open_store(f"sqlite://{tmp_path}"))
    created = RunCreated("demo", "cluster", KINDS.newest("cluster").rules, {}, seeding="chain")
    peer = Peer("m", bytes(32), KINDS, created)
    Peerless(shared, "demo", derive(5.0)).drive(peer, peer.load())
    shared.close()
    with pytest.raises(quoracy.ConfigError, match="run = 'demo': choose another name"):
        quoracy.ranks(f"sqlite://{tmp_path}", "demo", 0).__enter__()
    journal = SqliteJournal(tmp_path)
    assert journal.last("demo") == 1
    journal.close()


def test_an_iteration_that_nobody_voted_on_counts_as_failed(tmp_path: Path) -> None:
    with quoracy.ranks(f"sqlite://{tmp_path}", "demo", 0, t_dead_s=5.0) as ranks:
        shown = []
        for it in ranks.iterations():
            shown.append((it.number, it.attempt))
            if len(shown) == 3:
                break
        assert shown == [(0, shown[0][1]), (0, shown[0][1] + 1), (0, shown[0][1] + 2)]
        again = next(ranks.iterations())
        assert again is it


def test_an_exception_in_the_loop_is_the_reason_for_which_it_left(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}"

    def fail() -> None:
        with quoracy.ranks(url, "demo", 0, t_dead_s=5.0) as ranks:
            for it in ranks.iterations():
                it.number //= 0

    with pytest.raises(ZeroDivisionError):
        fail()
    shared = Shared(*open_store(url))
    rank = Onlooker(shared, "demo", url).crew.ranks["0"]
    shared.close()
    assert (rank.state.value, rank.reason) == (
        "Left",
        "failed with ZeroDivisionError: integer division or modulo by zero",
    )


def test_the_group_is_named_by_the_attempt_and_its_members() -> None:
    class Loop:
        run, rank = "demo", 1

    def group(attempt: int, *members: str) -> str:
        turn = Turn(attempt, 3, list(members), 0, False, [], None)
        return Iteration(Loop(), turn, {}).group  # type: ignore[arg-type]

    names = {group(4, "1", "2"), group(5, "1", "2"), group(4, "1", "2", "3"), group(4, "12")}
    assert len(names) == 4
    assert group(4, "1", "2") == group(4, "1", "2")
    assert all(name.startswith("demo-") for name in names)


def test_a_record_in_a_sentence() -> None:
    gone = [("3", "no sign of life")]
    text = decided(Decision(7, 5, "repeated", "1", ["0", "1", "2"], ["0"], gone, ["2"], 0, 250_000, "1"))
    assert text == (
        "attempt 7 of iteration 5 repeated by rank 1; against: 0; rank 3 is given up: no sign of life; "
        "counted in: 2; 3 go on; last to come: 1, 250 ms after the first"
    )


def test_what_is_looked_up_late_is_there() -> None:
    for name in quoracy.__all__:
        assert getattr(quoracy, name) is not None
    assert PEERLESS.newest("ranks").name == "ranks"


def test_the_example_of_the_page(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/store"
    assert example.train(url, 0, 5) == 5
    assert example.train_awaiting(url, 1, 9) == 4
    command = [sys.executable, "-c", f"from examples.ranks import train; print(train({url!r}, 0, 200))"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as other:
        try:
            members = example.learn(url, 2, 200)
            out, _ = other.communicate(timeout=60)
        finally:
            other.kill()
    assert members[-1] == 2
    assert other.returncode == 0, out


def test_a_rank_in_training_says_so(tmp_path: Path) -> None:
    with quoracy.ranks(f"sqlite://{tmp_path}", "demo", 0) as ranks:
        next(ranks.iterations())
        assert ranks.explain().startswith("rank 0 is in stage Training; attempt 2 of iteration 0 (0 of 1 ranks")
    assert ranks.part.explain().startswith("rank 0 is in stage Stopped; ")
