"""How a member gets what it needs: the model from others, results through the relay, samples through the door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sdk.assigned import assigned
from tests.sdk.live import RUN, wait_for
from tests.sdk.witnessed_live import Witnessed, summaries

from quoracy.launch import journal_of

HTTP: dict[str, Any] = {"http": {"port": 0}}
TWO: dict[str, Any] = {"init_min_clients": 2, "min_clients": 2, "rounds_per_epoch": 10}
PACED = {"PACE_S": "0.02"}


def loaded(member: Any) -> list[str]:
    return [value[1] for topic, value in member.said if topic == "news" and value[0] == "loaded"]


def test_who_comes_late_waits_for_the_next_epoch_and_gets_the_model_from_the_others(tmp_path: Path) -> None:
    with Witnessed(tmp_path, total_steps=600, **TWO) as run:
        crew = run.member("crew", "m1", "m2", **PACED)
        wait_for(lambda: run.shown()["step"] > 0, "they train")
        late = run.member("plain", "m3", **PACED)
        run.wait_state("m3", "InStep")
        run.ask("stop", reason="enough")
        ended = summaries(late)
        models = {one["model"] for one in (*ended, *summaries(crew, count=2))}
        shown = run.wait_phase("Finished")
    assert models == {shown["checkpoint"]["model"]}
    assert "from the others" in loaded(late)[0]
    assert ended[0]["exchanged"]["taken_bytes"] > 0


def test_a_tensor_that_a_holder_has_changed_is_not_believed_and_another_gives_it(tmp_path: Path) -> None:
    with Witnessed(tmp_path, total_steps=600, **TWO) as run:
        honest, liar = run.member("crew", "m1", **PACED), run.member("corrupt", "m2", **PACED)
        wait_for(lambda: run.shown()["step"] > 0, "they train")
        late = run.member("plain", "m3", **PACED)
        run.wait_state("m3", "InStep")
        run.ask("stop", reason="enough")
        ended = summaries(late, liar, honest)
        assert {one["model"] for one in ended} == {run.wait_phase("Finished")["checkpoint"]["model"]}
    assert "from the others" in loaded(late)[0]
    assert ended[0]["exchanged"]["given_wrong"] == 1, "the one who lies was asked first"


def test_where_all_holders_give_a_changed_tensor_nothing_is_loaded_and_it_says_why(tmp_path: Path) -> None:
    with Witnessed(tmp_path, total_steps=600, checkpoint="none", **TWO | {"warmup_s": 3.0}) as run:
        run.member("corrupt", "m1", "m2", **PACED)
        wait_for(lambda: run.shown()["step"] > 0, "they train")
        late = run.member("plain", "m3", **PACED)
        while "cannot be loaded: tensor 'seen'" not in (said := late.hear("news")[1]):
            assert "from the others" not in said
        assert run.of("m3")["state"] in ("Warming", "Resyncing", "Pending")


def test_what_no_holder_gives_comes_from_the_store(tmp_path: Path) -> None:
    with Witnessed(tmp_path, total_steps=600, **TWO) as run:
        run.member("corrupt", "m1", "m2", **PACED)
        wait_for(lambda: run.shown()["step"] > 0, "they train")
        late = run.member("plain", "m3", **PACED)
        while not loaded(late):
            late.hear("news")
        assert "from the store" in loaded(late)[0]


def test_a_member_that_nobody_can_reach_takes_part_through_the_relay(tmp_path: Path) -> None:
    with Witnessed(tmp_path, HTTP) as run:
        one, crew = run.member("plain", "m1", "nowhere"), run.member("crew", "m2", "m3")
        ended = [*summaries(one), *summaries(crew, count=2)]
        shown = run.judge(*ended)
    out, *taken = (one["exchanged"] for one in ended)
    assert next(member for member in shown["members"] if member["id"] == "m1")["addresses"] == []
    assert out["relayed_out_bytes"] > 0
    assert out["given_bytes"] == 0
    assert all(one["relayed_in_bytes"] > 0 for one in taken)
    assert ended[0]["trained"] > 0


def test_samples_come_through_the_data_door_also_after_the_coordinator_was_killed(tmp_path: Path) -> None:
    data = {"kind": "door", "location": "digits"}
    with Witnessed(tmp_path, HTTP, data=data, init_min_clients=2) as run:
        members = [run.member("sampled", name) for name in ("m1", "m2")]
        wait_for(lambda: run.shown()["step"] > 0, "they train")
        run.restart()
        ended = summaries(*members)
        run.judge(*ended)
    assert [one["metrics"] for one in ended] == [{"held_out": 355.0}] * 2


def test_a_slow_member_is_given_fewer_batches(tmp_path: Path) -> None:
    config: dict[str, Any] = {"total_steps": 12, "rounds_per_epoch": 12, "global_batch_size_start": 48}
    with Witnessed(tmp_path, **config) as run:
        slow, crew = run.member("plain", "m1", PACE_S="0.2"), run.member("crew", "m2", "m3", PACE_S="0.02")
        run.judge(*summaries(slow), *summaries(crew, count=2))
        speeds = {member["id"]: member["speed"] for member in run.shown()["members"]}
        given = assigned(journal_of(run.folder / "server", RUN), RUN)
    assert speeds["m1"] < min(speeds["m2"], speeds["m3"]) / 2
    later = {name: sum(batches[2:]) for name, batches in given.items()}
    assert later["m1"] < min(later["m2"], later["m3"]) / 2, given


def test_results_that_are_needed_no_more_are_dropped(tmp_path: Path) -> None:
    with Witnessed(tmp_path, total_steps=40, rounds_per_epoch=40) as run:
        one, crew = run.member("told", "m1"), run.member("crew", "m2", "m3")
        one.tell("done\n" * 30)
        wait_for(lambda: run.shown()["step"] >= 25, "many rounds")
        (folder,) = (run.folder / "cache" / "m1").glob("member-*")
        kept = 8 * 3 + 2 * 3
        assert len(list((folder / "results").iterdir())) <= kept + 3
        one.tell("done\n" * 30)
        run.judge(*summaries(one), *summaries(crew, count=2))
