"""A client that asks and never reads, against a real server: it costs a bounded amount of memory, is cut off, and
nobody else has to wait for it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Raw
from tests.doors.talk import Talk
from tests.e2e.command import Serving, Working, quoracy, until

from quoracy.core.cluster.events import WorkerRegistered
from quoracy.core.codec import encode
from quoracy.core.members import Cause
from quoracy.core.messages import Call
from quoracy.doors.tcp import MAX_ASKED
from quoracy.wire.frames import frame
from quoracy.wire.messages import Ask, Replied

RUN, STEPS = "demo", 1_000_000
CROWD = 200
"""Workers of another run: somebody to tell much about."""
QUESTION = frame(Ask(7, "show", "crowd", {}))
MAX_UNSENT_BYTES = 1024 * 1024
SLACK_BYTES = 32 * 1024 * 1024
"""What the interpreter and the allocator take for themselves under load."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    file = tmp_path / "quoracy.toml"
    file.write_text(f"[limits]\nmax_unsent_bytes = {MAX_UNSENT_BYTES}\nidle_timeout_s = 1.0\n")
    with Serving(tmp_path / "runs", "--config", file) as server:
        beats = ("--set=heartbeat_interval_s=0.2", "--set=heartbeat_timeout_s=30")
        assert quoracy("run", "create", RUN, server.url, "--set=barrier_min=2", *beats).returncode == 0
        assert quoracy("run", "create", "crowd", server.url, "--set=heartbeat_timeout_s=3600").returncode == 0
        with Talk(server.url) as talk:
            names = [f"w{number}" for number in range(CROWD)]
            joins = [Raw(encode(WorkerRegistered(name, 0, bytes(16)))) for name in names]
            talk.say(*[Call("crowd", Cause(name, 0, 0), join) for name, join in zip(names, joins, strict=True)])
            until(lambda: len(talk.ask("show", "crowd").value["workers"]) == CROWD, "the crowd")
        yield server


def peak_bytes(server: Serving) -> int:
    """The most memory that it ever held."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


class Unread:
    """Somebody who asks and asks, reads nothing, and connects anew when it is cut off."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._talk = Talk(url)
        self.cut_off = 0

    def ask_more(self) -> None:
        try:
            self._talk.raw(QUESTION * MAX_ASKED)
        except OSError:
            self.cut_off += 1
            self.close()
            self._talk = Talk(self._url)

    def close(self) -> None:
        self._talk.socket.close()


def test_whoever_does_not_read_is_cut_off_while_others_pass_barriers(server: Serving, tmp_path: Path) -> None:
    with contextlib.ExitStack() as ends:
        started = [Working(tmp_path, server.url, RUN, name, STEPS) for name in ("w1", "w2")]
        workers = [ends.enter_context(worker) for worker in started]
        until(lambda: all(len(worker.passed) > 5 for worker in workers), "barriers")
        until(lambda: server.sockets() == server.idle_sockets + 4, "each has its session and its heartbeats")
        held, before_bytes = server.sockets(), peak_bytes(server)
        goal = max(len(worker.passed) for worker in workers) + 30

        def enough() -> bool:
            unread.ask_more()
            return unread.cut_off >= 3 and all(len(worker.passed) > goal for worker in workers)

        with contextlib.closing(Unread(server.url)) as unread:
            until(enough, "it is cut off each time, and the others go on all the while")
        until(lambda: server.sockets() == held, "its place is free again")
        assert len(server.log("a client does not read")) >= 3
        assert peak_bytes(server) - before_bytes < MAX_UNSENT_BYTES + SLACK_BYTES
        assert [worker.process.poll() for worker in workers] == [None, None]
        assert server.log("worker lost") == []
        for worker in workers:
            passed = worker.passed
            assert passed == [(step + 1, step) for step in range(len(passed))]


def test_a_packet_full_of_questions_costs_no_more_than_a_few_replies(server: Serving) -> None:
    """Twenty thousand replies would be half a gigabyte; they must not be made before anybody looks how many wait."""
    before_bytes = peak_bytes(server)
    with Talk(server.url) as talk:
        talk.raw(QUESTION * 20_000)
        until(lambda: server.log("connection closed") or server.log("a client does not read"), "given up")
    assert peak_bytes(server) - before_bytes < MAX_UNSENT_BYTES + SLACK_BYTES


def test_every_question_is_replied_to_and_too_many_at_once_are_refused(server: Serving) -> None:
    with Talk(server.url) as talk:
        talk.say(*[Ask(number, "status") for number in range(MAX_ASKED + 4)])
        replies: list[Replied] = sorted((talk.hear(Replied) for _ in range(MAX_ASKED + 4)), key=lambda one: one.number)
        assert [reply.number for reply in replies] == list(range(MAX_ASKED + 4))
        refusals = [reply.refusal for reply in replies]
        assert refusals[:MAX_ASKED] == [None] * MAX_ASKED
        assert [refusal.code for refusal in refusals[MAX_ASKED:] if refusal is not None] == ["overloaded"] * 4
        assert talk.ask("status").refusal is None, "and it may go on asking"
