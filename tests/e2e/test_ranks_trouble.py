"""What a single rank does when something is wrong: with its store, its twin, its beater, its settings, or with it."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import quoracy, told
from tests.e2e.ranks_crew import DEAD_S, RUN, Crew, next_it
from tests.sdk.live import alive, free_port, wait_for


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/store"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody can write to the store."""
    with ExitStack() as stack:
        for path in sorted(folder.glob("*.db")):
            connection = sqlite3.connect(path, isolation_level=None, timeout=20)
            stack.callback(connection.close)
            connection.execute("BEGIN IMMEDIATE")
        yield


def test_of_two_processes_with_one_rank_the_newer_wins_and_the_older_exits(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path) as crew:
        older = crew.start(0, "ends")
        next_it(older, lambda it: it["number"] >= 2)
        newer = crew.start(0, "ends")
        name, code, text, _ = older.hear("raised")
        assert (name, code) == ("Superseded", "superseded")
        assert "exit" in text
        assert older.wait() == 0
        assert newer.hear("it")["joined"]
        next_it(newer, lambda it: not it["joined"])
        crew.numbers_once()


def test_a_rank_that_cannot_reach_its_store_stops_itself_before_the_others_give_it_up(
    store: str, tmp_path: Path
) -> None:
    with Crew(store, tmp_path, t_dead_s=6.0) as crew:
        rank = crew.start(0, "ends")
        next_it(rank, lambda it: it["number"] >= 2)
        with locked(tmp_path / "store"):
            name, code, text, _ = rank.hear("raised")
        assert (name, code) == ("CutOff", "unreachable")
        assert "no word from the store for 4." in text
        assert "give this rank up after 6 s" in text
        assert "start the rank again" in text


def test_a_rank_whose_store_comes_back_in_time_goes_on(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, t_dead_s=12.0) as crew:
        rank = crew.start(0, "ends")
        at = next_it(rank, lambda it: it["number"] >= 2)
        with locked(tmp_path / "store"):
            pass
        later = next_it(rank, lambda it: it["number"] >= at["number"] + 20)
        assert not later["joined"]


def test_a_store_that_is_not_there_is_named_at_once_with_a_way_out(tmp_path: Path) -> None:
    for url in (f"tcpstore://127.0.0.1:{free_port()}", f"etcd://127.0.0.1:{free_port()}/x"):
        with Crew(url, tmp_path / "said") as crew:
            (tmp_path / "said").mkdir(exist_ok=True)
            name, code, text, _ = crew.start(0, "ends", t_dead_s=6.0).hear("raised")
        assert name == "Unreachable", text
        assert code in ("unreachable", "journal_busy")
        assert url in text
        assert "start the store" in text


def test_sigterm_lets_the_attempt_finish_and_the_others_do_not_wait(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2, t_dead_s=30.0) as crew:
        ranks = [crew.start(rank, "led") for rank in range(2)]
        for rank in ranks:
            rank.hear("it")
        ranks[1].kill(signal.SIGTERM)
        for rank in ranks:
            rank.tell("yes")
        assert [rank.hear("voted") for rank in ranks] == [[0, True], [0, True]]
        assert ranks[1].hear("over") == "Draining"
        assert ranks[1].wait() == 0
        ranks[0].tell("yes")
        assert ranks[0].hear("voted") == [1, True]
        assert next_it(ranks[0], lambda it: it["number"] == 2)["members"] == [0]
        left = [leaver for line in crew.look().lines for leaver in line.left]
        assert left == [("1", "SIGTERM")]


def test_sigterm_while_it_waits_to_be_let_in_ends_it(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2) as crew:
        rank = crew.start(0)
        crew.until(lambda looker: "0" in looker.crew.ranks, "it has joined")
        rank.kill(signal.SIGTERM)
        assert rank.hear("over") == "Draining"
        crew.until(lambda looker: looker.crew.ranks["0"].state.value == "Left", "it has left")


def test_sigterm_does_not_wait_for_ever_for_an_attempt_that_does_not_end(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2, t_dead_s=30.0) as crew:
        ranks = [crew.start(rank, "led", drain_s=0.5) for rank in range(2)]
        for rank in ranks:
            rank.hear("it")
        ranks[0].tell("yes")
        ranks[0].kill(signal.SIGTERM)
        assert ranks[0].hear("voted") == [0, False]
        assert ranks[0].hear("over") == "Draining"
        assert ranks[0].wait() == 0
        ranks[1].tell("yes")
        assert ranks[1].hear("voted") == [0, True]
        assert ranks[1].hear("it")["members"] == [1]


def test_ranks_that_leave_together_have_all_left(store: str, tmp_path: Path) -> None:
    """Each writes its own goodbye in, also if the entry of another came first."""
    with Crew(store, tmp_path, form_members=5, t_dead_s=20.0, look_s=0.1) as crew:
        ranks = [crew.start(rank, until=5) for rank in range(5)]
        for rank in ranks:
            assert rank.hear("over") is None
            assert rank.wait() == 0
        states = {(rank.state.value, rank.reason) for rank in crew.look().crew.ranks.values()}
        assert states == {("Left", "done")}


@pytest.mark.parametrize("how", ["call", "regex"])
def test_heartbeats_go_on_while_the_training_holds_the_gil(store: str, tmp_path: Path, how: str) -> None:
    with Crew(store, tmp_path, form_members=2) as crew:
        holder = crew.start(0, "holds_gil", how=how, held_s=2 * DEAD_S)
        other = crew.start(1)
        assert holder.hear("held") >= 2 * DEAD_S
        it = next_it(holder, lambda it: it["number"] >= 2)
        assert not it["joined"]
        assert next_it(other, lambda it: it["number"] >= 3)["members"] == [0, 1]
        assert all(line.decision.gone == [] for line in crew.look().lines)


def test_fewer_than_min_members_wait_until_enough_are_back(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, min_members=2) as crew:
        ranks = [crew.start(rank) for rank in range(2)]
        next_it(ranks[0], lambda it: it["number"] >= 2)
        ranks[1].kill(signal.SIGKILL)
        ranks[1].wait()
        status = told(quoracy("ranks", "status", store, "--run", RUN, "--json"))["value"]
        number = status["number"]
        assert not ranks[0].said("over")
        crew.start(1)
        crew.until_number(number + 3)
        sizes = {len(line.decision.members) for line in crew.look().lines}
        assert min(sizes) == 2
        crew.numbers_once()


def test_whoever_waits_for_a_member_in_vain_can_ask_whether_it_will_come(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=3) as crew:
        ranks = [crew.start(rank, "led") for rank in range(3)]
        for rank in ranks:
            rank.hear("it")
        ranks[0].tell("missing")
        assert ranks[0].hear("missing") == []
        ranks[1].kill(signal.SIGKILL)

        def missing() -> bool:
            ranks[0].tell("missing")
            return bool(ranks[0].hear("missing") == [1])

        wait_for(missing, "its silence is noticed in the middle of an attempt")


def test_a_member_that_has_become_another_process_is_missing_at_once(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2, t_dead_s=60.0, beat_s=0.5) as crew:
        ranks = [crew.start(rank, "led") for rank in range(2)]
        for rank in ranks:
            rank.hear("it")
        ranks[1].kill(signal.SIGKILL)
        crew.start(1, "led")

        def missing() -> bool:
            ranks[0].tell("missing")
            return bool(ranks[0].hear("missing") == [1])

        wait_for(missing, "its new life is noticed, long before it would be given up")


def test_a_learner_is_counted_in_when_it_is_ready(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path) as crew:
        first = crew.start(0)
        next_it(first, lambda it: it["number"] >= 2)
        late = crew.start(1, learner=True)
        assert late.hear("learner") == [0]
        it = late.hear("it")
        assert it["joined"]
        assert it["members"] == [0, 1]


def test_a_beater_that_dies_or_stands_still_is_replaced_in_the_same_life(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2, t_dead_s=6.0) as crew:
        ranks = [crew.start(rank, env={"QUORACY_LOG": "warn"}) for rank in range(2)]
        beater = ranks[0].hear("in")
        next_it(ranks[0], lambda it: it["number"] >= 2)
        os.kill(beater, signal.SIGKILL)
        wait_for(lambda: "it is gone" in ranks[0].errors, "it is replaced")
        second = ranks[1].hear("in")
        os.kill(second, signal.SIGSTOP)
        wait_for(lambda: "it stands still" in ranks[1].errors, "it is replaced as well")
        wait_for(lambda: not alive(second), "the stopped one is gone")
        number = crew.look().crew.number
        crew.until_number(number + 30)
        lives = {name: rank.incarnation for name, rank in crew.look().crew.ranks.items()}
        assert lives == {"0": 1, "1": 1}


def test_a_beater_ends_with_its_training(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path) as crew:
        rank = crew.start(0)
        beater = rank.hear("in")
        rank.kill(signal.SIGKILL)
        rank.wait()
        wait_for(lambda: not alive(beater), "nobody beats for the dead")


def test_a_forked_child_is_told_that_the_rank_is_its_parents(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path) as crew:
        rank = crew.start(0, "forks")
        code, text = rank.hear("child")
        assert code == "not_yours"
        assert "in the child process" in text
        assert rank.hear("voted") is True
        assert rank.wait() == 0


def test_scripts_that_await_do_the_same_and_can_be_cancelled(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2) as crew:
        ranks = [crew.start(rank, "awaits", until=5) for rank in range(2)]
        for number, rank in enumerate(ranks):
            rank.hear("over")
            assert rank.wait() == 0
            assert rank.said("voted") == [[number, True] for number in range(5)]
            assert rank.said("cancelled") == [1 + number]
        crew.numbers_once()


def test_a_rank_with_other_settings_than_the_run_is_refused_by_name(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, min_members=1) as crew:
        crew.start(0).hear("it")
        others: list[dict[str, Any]] = [{"t_dead_s": 9.0}, {"min_members": 3}, {"max_ranks": 7}]
        for other in others:
            ((name, value),) = other.items()
            ended, code, text, _ = crew.start(1, "ends", **other).hear("raised")
            assert (ended, code) == ("ConfigError", "config")
            assert f"{name} = {value!r}: run '{RUN}' was created with" in text
        crew.settings = {}
        assert crew.start(1).hear("it")["members"] == [0, 1]


def test_stages_and_records_are_logged_where_they_are_wanted(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path) as crew:
        rank = crew.start(0, until=3, env={"QUORACY_LOG": "debug"})
        rank.hear("over")
        rank.wait()
        stages = [line.rpartition("rank 0: ")[2] for line in rank.errors.splitlines() if "DEBUG" in line]
        assert stages[:6] == ["Joining", "NewIteration", "Training", "Ready", "Consensus", "Advance"]
        assert stages[-1] == "Stopped"
        assert "attempt 2 of iteration 0 committed by rank 0" in rank.errors
        loud = crew.start(0, "ends", env={"QUORACY_LOG": "loud"})
        assert "QUORACY_LOG = 'loud': one of: debug" in loud.hear("raised")[2]


# -- from outside ---------------------------------------------------------------------------------------------------


def test_an_operator_stops_the_run_and_every_loop_ends(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=2) as crew:
        ranks = [crew.start(rank) for rank in range(2)]
        next_it(ranks[0], lambda it: it["number"] >= 2)
        result = quoracy("ranks", "stop", store, "--run", RUN, "--reason", "the loss is flat", "--json")
        assert told(result)["value"]["entry"] > 2
        for rank in ranks:
            assert rank.hear("over") == "RunClosed"
            assert rank.wait() == 0
        again = quoracy("ranks", "stop", store, "--run", RUN, "--reason", "x")
        assert again.returncode == 5
        late = crew.start(5)
        assert late.hear("over") == "RunClosed"
        shown = quoracy("ranks", "log", store, "--run", RUN)
        assert "the run was stopped: the loss is flat" in shown.stdout


def test_status_and_log_tell_from_outside_who_is_there_and_what_happened(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path, form_members=3) as crew:
        ranks = [crew.start(rank) for rank in range(3)]
        next_it(ranks[0], lambda it: it["number"] >= 2)
        ranks[1].kill(signal.SIGKILL)
        decision, _ = crew.until_gone(1)
        value = told(quoracy("ranks", "status", store, "--run", RUN, "--json"))["value"]
        assert value["phase"] == "Running"
        assert value["number"] > decision.number
        states = [(rank["state"], rank["beating"]) for rank in value["ranks"]]
        assert states == [("Member", True), ("Lost", False), ("Member", True)]
        assert value["ranks"][0]["beat_age_s"] < DEAD_S
        text = quoracy("ranks", "status", store, "--run", RUN).stdout
        assert "crew Running" in text
        assert "Lost" in text
        log = told(quoracy("ranks", "log", store, "--run", RUN, "--faults", "--json"))["value"]["attempts"]
        given_up = next(each for each in log if each["gone"])
        assert given_up["gone"][0]["rank"] == "1"
        assert (given_up["in"], given_up["members"]) == (["0", "1", "2"], ["0", "2"])
        assert given_up["deciding_us"] > DEAD_S * 1e6 / 2
        assert given_up["training_us"] > 0
        assert given_up["decider"] in ("0", "2")
        assert log[0]["outcome"] == "formed"
        shown = quoracy("ranks", "log", store, "--run", RUN, "--faults").stdout
        assert "1 given up: no sign of" in shown
        head, formed, counted_in, *_ = shown.splitlines()
        assert head.split() == ["at", "attempt", "of", "outcome", "by", "in", "train", "wait", "decide", "last"]
        assert formed.split()[2:7:2] == ["1", "formed", "none"]
        assert counted_in.strip() == "counted in 0-2"


def test_what_is_not_there_is_named_with_the_exit_code_of_the_catalog(store: str, tmp_path: Path) -> None:
    with Crew(store, tmp_path) as crew:
        crew.start(0, until=1).hear("over")
    result = quoracy("ranks", "status", store, "--run", "other", "--json")
    assert (result.returncode, told(result)["error"]["code"]) == (4, "unknown_run")
    result = quoracy("ranks", "log", f"sqlite://{tmp_path}/nothing", "--run", RUN)
    assert result.returncode == 2
    assert not (tmp_path / "nothing").exists()
    result = quoracy("ranks", "log", "redis://x", "--run", RUN)
    assert result.returncode == 2
    assert "sqlite:///FOLDER" in result.stderr.replace("\n", " ")
    result = quoracy("ranks", "status", f"etcd://127.0.0.1:{free_port()}/x", "--run", RUN, "--timeout", "1")
    assert result.returncode in (7, 9)
    assert "start the store" in result.stderr.replace("\n", " ")
