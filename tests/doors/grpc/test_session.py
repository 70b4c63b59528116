"""The Session stream: what it carries, in how many writes, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from tests.doors.crowds import Sessions
from tests.doors.grpc.conftest import opened
from tests.doors.grpc.talk import RUN, Chat, Talk, door, fresh, place
from tests.e2e.command import until
from tests.soak import soaking

from quoracy.coordinator import Coordinator
from quoracy.core.errors import Refusal
from quoracy.doors.grpc import session
from quoracy.wire.messages import Goodbye
from quoracy.wire.pb import coordinator_pb2 as pb

S = grpc.StatusCode
MANY = 1500
"""Heartbeats that fit into one message of 64 KiB."""


def arrive(worker: str, step: int, after: int = 0, incarnation: int = 1) -> pb.WaitAtBarrierRequest:
    return pb.WaitAtBarrierRequest(
        run=RUN, worker=worker, incarnation=incarnation, barrier="step", step=step, after=after
    )


def test_a_whole_life_on_one_stream(coordinator: Coordinator, talk: Talk) -> None:
    with talk.session() as chat:
        joined = chat.ready("w1")
        assert (joined.worker, joined.incarnation, joined.rank) == ("w1", 1, 0)
        chat.say(arrive=arrive("w1", 0))
        passage = chat.hear("passage").passage
        assert (passage.released, passage.generation, passage.step, passage.of) == (True, 1, 0, 1)
        assert chat.beat("w1", 1).seq == 1
        left = pb.DeregisterRequest(run=RUN, worker="w1", incarnation=1, seq=2, reason="done")
        chat.say(leave=left)
        assert chat.hear("answered").answered.seq == 2
        assert "no worker is here" in coordinator.explain(RUN)


def test_many_items_in_one_write_are_answered_in_one(talk: Talk) -> None:
    with talk.session() as chat:
        chat.ready("w1")
        beats = [pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=seq) for seq in range(1, 101)]
        batch = pb.ClientMessages(messages=[pb.ClientMessage(heartbeat=beat) for beat in beats])
        chat.raw(batch.SerializeToString())
        answers = next(chat.stream).messages
        assert [answer.heartbeat.seq for answer in answers] == list(range(1, 101))


def test_what_does_not_fit_into_one_write_comes_in_several(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_WRITE_BYTES", 200)
    with talk.session() as chat:
        chat.ready("w1")
        beats = [pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=seq) for seq in range(1, 101)]
        chat.raw(pb.ClientMessages(messages=[pb.ClientMessage(heartbeat=beat) for beat in beats]).SerializeToString())
        seen: list[int] = []
        while len(seen) < 100:
            batch = next(chat.stream)
            assert 1 < batch.ByteSize() <= 200
            seen += [answer.heartbeat.seq for answer in batch.messages]
        assert seen == list(range(1, 101))


def test_two_workers_on_two_streams_and_many_on_one_meet(talk: Talk) -> None:
    with talk.session() as one, talk.session() as two:
        for chat, workers in ((one, ["w1"]), (two, ["w2", "w3"])):
            for worker in workers:
                chat.ready(worker)
        one.say(arrive=arrive("w1", 4))
        assert one.beat("w1", 1).seq == 1
        two.say(arrive=arrive("w2", 4))
        two.say(arrive=arrive("w3", 4))
        assert one.hear("passage").passage.order == 0
        assert {two.hear("passage").worker, two.hear("passage").worker} == {"w2", "w3"}


def test_an_order_comes_at_once_and_with_heartbeats_until_it_was_heard(coordinator: Coordinator, talk: Talk) -> None:
    with talk.session() as chat:
        chat.ready("w1")
        order = pb.OrderWorkersRequest(run=RUN, command=pb.ORDER_COMMAND_RECONFIGURE)
        order.arguments.update({"batch": 8, "rate": 0.5, "names": ["a", "b"]})
        talk.call(order)
        told = chat.hear("order").order
        assert (told.command, told.number) == (pb.ORDER_COMMAND_RECONFIGURE, 1)
        assert dict(told.arguments) == {"batch": 8, "rate": 0.5, "names": told.arguments["names"]}
        entries = coordinator.ask("journal", RUN)["entries"]
        written = [event["arguments"] for entry in entries for event in entry["events"] if "arguments" in event]
        assert repr(written) == "[{'batch': 8, 'names': ['a', 'b'], 'rate': 0.5}]"
        assert chat.beat("w1", 1).order.number == 1
        chat.say(heartbeat=pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=2, order=1))
        assert not chat.hear("heartbeat").heartbeat.HasField("order")


def test_what_a_heartbeat_tells_is_shown(talk: Talk) -> None:
    told = {"step": 7, "epoch": 2, "progress": 9, "cpu": 0.25, "gpu": 0.5, "memory": 0.75, "task": "warm-up"}
    with talk.session() as chat:
        chat.ready("w1")
        beat = pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=1, metrics={"loss": 0.3}, **told)  # type: ignore[arg-type]
        chat.say(heartbeat=beat)
        chat.hear("heartbeat")
        (shown,) = talk.call(pb.GetRunRequest(run=RUN)).run.workers
        assert {name: getattr(shown, name) for name in told} == told
        assert dict(shown.metrics) == {"loss": 0.3}


def test_a_second_stream_under_the_same_id_supersedes_the_first(talk: Talk) -> None:
    with talk.session() as old, talk.session() as new:
        old.ready("w1")
        assert new.ready("w1").incarnation == 2
        assert old.hear("standing").standing.incarnation == 2
        old.say(arrive=arrive("w1", 0))
        assert old.hear("declined").declined.error.code == "superseded"


def test_a_life_goes_on_through_another_stream(talk: Talk) -> None:
    with talk.session() as first:
        first.ready("w1")
        first.say(arrive=arrive("w1", 0))
        first.hear("passage")
    with talk.session() as second:
        second.say(hello=pb.Hello(run=RUN, worker="w1", incarnation=1))
        assert second.hear("welcome").welcome.incarnation == 1
        standing = second.hear("standing").standing
        assert (standing.state, standing.barriers["step"].generation) == (pb.WORKER_STATE_TRAINING, 1)
        assert second.hear("passage").passage.generation == 1
        second.say(arrive=arrive("w1", 0))
        assert second.hear("passage").passage.generation == 1
        second.say(arrive=arrive("w1", 1, after=1))
        assert second.hear("passage").passage.generation == 2


def test_refusals_on_a_stream_leave_it_open(talk: Talk) -> None:
    with talk.session() as chat:
        chat.say(hello=pb.Hello(run="nowhere", worker="w1"))
        assert chat.hear("declined").declined.error.code == "unknown_run"
        chat.say(hello=pb.Hello(run=RUN, worker="x" * 200))
        assert chat.hear("declined").declined.error.code == "malformed"
        chat.say(register=pb.RegisterWorkerRequest(run=RUN, worker="w1", nonce=b"short"))
        assert chat.hear("answered").answered.refused.code == "malformed"
        chat.say(report=pb.ReportStateRequest(run=RUN, worker="w1", incarnation=1, seq=1))
        assert "ready, loading" in chat.hear("answered").answered.refused.fix
        chat.say(report=pb.ReportStateRequest(run=RUN, worker="w1", incarnation=1, state=pb.REPORTED_STATE_READY))
        assert "1, 2, 3" in chat.hear("answered").answered.refused.fix
        chat.say(heartbeat=pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=1))
        assert chat.hear("declined").declined.error.code == "unknown_worker"
        assert chat.ready("w1").incarnation == 1


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff\xff\xff",
        b"\x0a\x02\xff\xff",
        pb.ClientMessages(messages=[pb.ClientMessage()]).SerializeToString(),
        b"\x0a\x03\xfa\x3e\x00",
    ],
    ids=["no message", "no item", "an item that says nothing", "an item of another version"],
)
def test_what_cannot_be_read_ends_the_stream_and_nothing_else(talk: Talk, bad: bytes) -> None:
    with talk.session() as chat, talk.session() as other:
        other.ready("w2")
        chat.ready("w1")
        chat.raw(bad)
        was, told = chat.ended()
        assert (was, told.code) == (S.INVALID_ARGUMENT, "malformed")
        assert chat.said("goodbye")[-1].goodbye.error == told
        assert other.beat("w2", 1).seq == 1


def test_a_client_that_is_done_gets_what_it_is_owed_and_a_good_end(coordinator: Coordinator, talk: Talk) -> None:
    with talk.session() as chat:
        chat.ready("w1")
        chat.done()
        assert list(chat.stream) == []
        assert chat.stream.code() is S.OK
    until(lambda: not door(coordinator).streams, "the stream is gone")


def test_a_client_that_goes_without_a_word_leaves_nothing_behind(coordinator: Coordinator) -> None:
    with Talk(place(coordinator)) as talk:
        talk.create()
        with talk.session() as chat:
            chat.ready("w1")
            assert len(door(coordinator).streams) == 1
    until(lambda: not door(coordinator).streams, "the stream is gone")
    assert door(coordinator).meter.connections() == 0
    desk = coordinator._open().server.runs[RUN].host.desk
    assert desk is not None
    assert desk.peers == {}


def test_there_are_only_so_many_streams(tmp_path: Path) -> None:
    with opened(tmp_path, grpc={"max_streams": 1}) as running, Talk(place(running)) as talk:
        talk.create()
        with talk.session() as chat:
            chat.ready("w1")
            with talk.session() as more:
                was, told = more.ended()
                assert (was, told.code) == (S.RESOURCE_EXHAUSTED, "too_fast")
                assert "grpc.max_streams" in told.why
            assert chat.beat("w1", 1).seq == 1
        until(lambda: not door(running).streams, "the place is free again")
        with talk.session() as next_one:
            assert next_one.ready("w1").incarnation == 2


CROWD = 300 if soaking("hostile") else 60
"""That come at the same moment, five times. How many a client's library can bear depends on what else its machine does:
beyond, some calls end with an inner error of its own."""


@pytest.mark.soak("hostile", shorter=True)
def test_everybody_who_is_turned_away_learns_why(tmp_path: Path) -> None:
    """Also a client that is still writing when the call would end, whose library would tell it of an inner error."""

    async def crowd(address: str) -> dict[tuple[str, str], int]:
        async with Sessions(address) as sessions:
            for _ in range(5):
                await sessions.come(CROWD)
            return dict(sessions.told)

    with opened(tmp_path, grpc={"max_streams": 1}) as running:
        running.create(RUN)
        told = asyncio.run(crowd(place(running)))
    assert told == {("OK", "welcome"): 1, ("RESOURCE_EXHAUSTED", "too_fast"): 5 * CROWD - 1}


def test_one_address_has_only_so_many_streams_and_calls(tmp_path: Path) -> None:
    with opened(tmp_path, limits={"max_connections_per_identity": 1}) as running, Talk(place(running)) as talk:
        talk.create()
        with talk.session() as chat:
            chat.ready("w1")
            with talk.session() as more:
                was, told = more.ended()
                assert (was, told.code) == (S.RESOURCE_EXHAUSTED, "too_fast")
                assert "127.0.0.1" in told.why
            assert talk.refused(pb.GetStatusRequest())[1].code == "too_fast"


def test_a_stream_that_is_too_fast_is_ended(tmp_path: Path) -> None:
    limits = {"messages_per_s": 1, "burst_messages": 50}
    with opened(tmp_path, limits=limits) as running, Talk(place(running)) as talk:
        talk.create()
        with talk.session() as chat:
            chat.ready("w1")
            beat = pb.ClientMessage(heartbeat=pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=1))
            chat.raw(pb.ClientMessages(messages=[beat] * 60).SerializeToString())
            was, told = chat.ended()
            assert (was, told.code) == (S.RESOURCE_EXHAUSTED, "too_fast")
            assert "messages" in told.why


def test_a_stream_that_says_nothing_is_ended(tmp_path: Path) -> None:
    limits = {"idle_timeout_s": 0.3}
    with opened(tmp_path, limits=limits) as running, Talk(place(running)) as talk, talk.session() as chat:
        assert "nothing was said" in chat.ended()[1].why


def test_a_client_that_never_reads_is_cut_off_and_harms_nobody(tmp_path: Path) -> None:
    """What waits for it stays below the limit, and when it reads at last it is told."""
    limits = {"max_unsent_bytes": 64 * 1024, "max_frame_bytes": 64 * 1024, "burst_messages": 10_000_000}
    with opened(tmp_path, limits=limits) as running, Talk(place(running)) as talk:
        talk.create()
        with Talk(place(running)) as slow, slow.session(timeout_s=60.0) as deaf, contextlib.ExitStack() as stack:
            deaf.ready("w1")
            (stream,) = door(running).streams
            other = stack.enter_context(talk.session(60.0))
            other.ready("w2")
            beat = pb.ClientMessage(heartbeat=pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=7, seq=1))
            batch = pb.ClientMessages(messages=[beat] * 3500).SerializeToString()

            def flooded() -> bool:
                deaf.raw(batch)
                return stream._over.done()

            until(flooded, "it is cut off")
            assert other.beat("w2", 1).seq == 1
            until(lambda: stream._out == [], "nothing is kept for it")
            stream.send(Goodbye(Refusal("bug", "more to say", "nothing")))
            assert stream._out == []
            assert len(stream._outbox) == 0
            was, told = deaf.ended()
            assert (was, told.code) == (S.RESOURCE_EXHAUSTED, "too_fast")
            assert "limits.max_unsent_bytes" in told.why


def test_a_stream_that_is_not_read_stays_and_finds_the_newest_of_each_view(tmp_path: Path) -> None:
    limits = {"max_unsent_bytes": 64 * 1024, "max_frame_bytes": 64 * 1024, "burst_messages": 10_000_000}
    with opened(tmp_path, limits=limits) as running, Talk(place(running)) as talk:
        talk.create()
        with talk.session(timeout_s=60.0) as chat:
            chat.ready("w1")
            (stream,) = door(running).streams
            seq = 0

            def held_back() -> bool:
                nonlocal seq
                beats = [pb.HeartbeatRequest(run=RUN, worker="w1", incarnation=1, seq=seq + n) for n in range(MANY)]
                seq += MANY
                batch = pb.ClientMessages(messages=[pb.ClientMessage(heartbeat=beat) for beat in beats])
                chat.raw(batch.SerializeToString())
                return len(stream._outbox) > 0

            until(held_back, "it does not read")
            for _ in range(10):
                held_back()
            until(lambda: len(stream._outbox) == 1, "one reply waits, to the newest")
            assert not stream._over.done()
            replies = 0
            while chat.hear("heartbeat").heartbeat.seq != seq - 1:
                replies += 1
            assert replies < seq - 5 * MANY


def test_draining_tells_every_stream_and_refuses_new_ones(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with opened(tmp_path) as running:
            talk = stack.enter_context(Talk(place(running)))
            talk.create()
            chat = stack.enter_context(talk.session())
            chat.ready("w1")
            running._loop.call_soon_threadsafe(door(running).hush)
            until(lambda: door(running).hushed, "hushed")
            assert talk.refused(pb.GetStatusRequest())[1].code == "draining"
            with talk.session() as late:
                assert late.ended()[0] is S.UNAVAILABLE
        was, told = chat.ended()
        assert (was, told.code) == (S.UNAVAILABLE, "draining")
        assert chat.said("goodbye")[-1].goodbye.error == told


def test_whoever_waits_at_a_barrier_when_the_server_stops_is_told_to_ask_again(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with opened(tmp_path) as running:
            talk = stack.enter_context(Talk(place(running)))
            talk.create(barrier_min=2)
            talk.ready("w1")
            wait = pb.WaitAtBarrierRequest(run=RUN, worker="w1", incarnation=1, barrier="step", step=0)
            waiting = stack.enter_context(ThreadPoolExecutor(1)).submit(talk.refused, wait, 60.0)
            until(lambda: "barrier step" in running.explain(RUN), "it stands there")
        was, told = waiting.result()
        assert (was, told.code) == (S.UNAVAILABLE, "draining")


def test_what_is_said_after_the_hush_is_not_taken(coordinator: Coordinator, talk: Talk) -> None:
    with talk.session() as chat:
        chat.ready("w1")
        entry = coordinator.show(RUN)["entry"]
        coordinator._loop.call_soon_threadsafe(door(coordinator).hush)
        until(lambda: door(coordinator).hushed, "hushed")
        chat.say(leave=pb.DeregisterRequest(run=RUN, worker="w1", incarnation=1, seq=2))
        chat.done()
        assert list(chat.stream) == []
        assert coordinator.show(RUN)["entry"] == entry


def test_the_first_reason_for_an_end_is_the_one_that_is_told(coordinator: Coordinator, talk: Talk) -> None:
    with talk.session() as chat:
        chat.ready("w1")
        stream = next(iter(door(coordinator).streams))

        def end_twice() -> None:
            stream.end(Refusal("draining", "first", "go on"))
            stream.end(Refusal("bug", "second", "go on"))

        coordinator._loop.call_soon_threadsafe(end_twice)
        assert chat.ended()[1].why == "first"


def test_an_id_can_be_left_to_the_server(talk: Talk) -> None:
    nonce = fresh()
    joined = talk.join("", nonce=nonce)
    assert joined.worker == f"w-{nonce.hex()[:16]}"
    assert talk.join("", nonce=nonce) == joined
    with talk.session() as chat:
        chat.say(register=pb.RegisterWorkerRequest(run=RUN, nonce=bytes(16)))
        assert chat.hear("answered").worker == "w-0000000000000000"


def test_a_chat_that_hears_nothing_says_so(talk: Talk) -> None:
    """The tests' own ears: an end without a reason is not taken for one with."""
    with talk.session() as chat:
        chat.done()
        with pytest.raises(AssertionError, match="without a reason"):
            Chat.ended(chat)
