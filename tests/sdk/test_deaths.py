"""A sidecar may be killed between any two of its actions. Whatever the moment, the script notices nothing: each barrier
is passed once and in order, each state reported once, in one and the same life.

Everything but sockets and processes is the real thing: the flows and the mirror of the training process, the bridge and
the session of the sidecar, and a host with its journal. The schedule of deliveries and deaths is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.cluster.events import WorkerReady
from quoracy.core.messages import Call
from quoracy.demo.account import read_account
from quoracy.hosts import InlineHost
from quoracy.sdk import pipe
from quoracy.sdk.bridge import Bridge
from quoracy.sdk.drain import Drain
from quoracy.sdk.errors import WorkerError
from quoracy.sdk.flowing import Flow
from quoracy.sdk.flows import Flows
from quoracy.sdk.line import State
from quoracy.sdk.mirror import Mirror
from quoracy.sdk.page import Page
from quoracy.sdk.session import Session, Stage
from quoracy.sdk.settings import Patience, about_worker, settings
from quoracy.stores import MemoryJournal
from quoracy.wire.frames import FrameReader, frame

RUN = "run"
STEPS = 3
SECOND = 1_000_000


class Wire:
    """In place of a line: always up, as long as its sidecar lives."""

    over = None
    outage = None
    state = State.UP

    def __init__(self, session: Session) -> None:
        self._session = session

    def tick(self, now_us: int) -> None:
        self._session.tick(now_us)

    def end(self, why: Any) -> None:
        self.over = why

    def moved(self, where: str, now_us: int) -> None:
        raise AssertionError("there is one host")

    turned_away = moved


class Beside:
    """A sidecar: what it has read of the training, and what it has written for it."""

    def __init__(self, name: str, host: InlineHost) -> None:
        self.name = name
        self.inbox: list[bytes] = []
        self.outbox: list[bytes] = []
        self._host = host
        self._reader = FrameReader()
        self._bridge: Bridge | None = None
        self._heard: list[Any] = []

    def hear_training(self, now_us: int) -> None:
        inbox, self.inbox = self.inbox, []
        for chunk in inbox:
            for body in self._reader.feed(chunk):
                message = pipe.to_sidecar.decode(body)
                if isinstance(message, pipe.Start):
                    told = message.settings
                    session = Session(told.run, told.member, message.secret, SECOND)
                    session.resume(message.known, message.restarts)
                    self._bridge = Bridge(session, Wire(session))  # type: ignore[arg-type]
                    session.connect(now_us)
                elif self._bridge is not None and isinstance(message, pipe.Do | pipe.Stand):
                    self._bridge.ask(message, now_us)

    def tell_training(self, now_us: int) -> None:
        if self._bridge is not None:
            self.outbox += [frame(message) for message in self._bridge.tell(now_us)]

    def ask_host(self, now_us: int) -> None:
        """What it has to say is written down for the training first, as the real one does."""
        if self._bridge is None:
            return
        self.tell_training(now_us)
        said = [(self.name, message) for message in self._bridge.session.take()]
        self._heard += [message for peer, message in self._host.exchange(said) if peer == self.name]

    def hear_host(self, now_us: int) -> None:
        heard, self._heard = self._heard, []
        for message in heard:
            if self._bridge is not None:
                self._bridge.session.receive(message, now_us)


class World:
    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.host = InlineHost(self.journal, RUN)
        self.host.create("cluster", {"heartbeat_timeout_s": 3600.0, "barrier_deadline_s": 3600.0})
        self.now_us = 0
        told = settings(
            None, RUN, "w1", token="", ca=None, key=None, about=about_worker(0, None), patience=Patience(give_up_s=None)
        )
        self.mirror = Mirror(told, b"secret")
        self.page = Page.create()
        self.flows = Flows(self.mirror, self.page, Drain(lambda: None), auto=True)
        self.passed: list[int] = []
        self.deaths = 0
        self.sidecar = Beside("sidecar 0", self.host)
        self.mirror.start()
        self.other = Session(RUN, "w2", b"other", SECOND)
        self.other.connect(0)
        self.other_step = 0
        self.script = self._script()
        self.done = False
        self.train()

    def _script(self) -> Flow[None]:
        yield from self.flows.begin()
        step = yield from self.flows.next_step("step")
        for number in range(step, step + STEPS):
            yield from self.flows.state("loading")
            passage = yield from self.flows.barrier("step", number, None)
            self.passed.append(passage.step)
            yield from self.flows.state("idle")

    def train(self) -> None:
        """The training reads what there is, and goes on as far as it can."""
        while self.sidecar.outbox:
            self.mirror.feed(self.sidecar.outbox.pop(0))
        try:
            next(self.script)
        except StopIteration:
            self.done = True
        self.sidecar.inbox += self.mirror.outbox
        self.mirror.outbox = []

    def kill(self) -> None:
        """What was written for the training can still be read; what it wrote is gone. Then another one starts."""
        for chunk in self.sidecar.outbox:
            self.mirror.feed(chunk)
        self.deaths += 1
        self.mirror.restarts += 1
        self.sidecar = Beside(f"sidecar {self.deaths}", self.host)
        self.mirror.start()
        self.train()

    def act_other(self) -> None:
        """The second worker, without any trouble: in step, and arriving whenever it can."""
        session = self.other
        session.tick(self.now_us)
        for peer, message in self.host.exchange([("other", message) for message in session.take()]):
            if peer == "other":
                session.receive(message, self.now_us)
            elif peer == self.sidecar.name:
                self.sidecar._heard.append(message)
        while session.notes:
            note = session.notes.popleft()
            assert note.what in ("joined", "answered", "passed"), note
            if note.what == "joined":
                session.wish(WorkerReady)
            elif note.what == "passed":
                self.other_step = note.value.step + 1
        standing = session.standing if session.stage is Stage.JOINED else None
        if standing is not None and standing.state == "Idle" and not session.waits_at("step"):
            begin = standing.barriers.get("step", (0, -1))[1] + 1
            if self.mirror.takes_part:
                session.arrive("step", max(begin, self.other_step), self.now_us)

    def turn(self, action: int) -> None:
        self.now_us += SECOND // 5
        acts = (
            lambda: self.sidecar.hear_training(self.now_us),
            lambda: self.sidecar.ask_host(self.now_us),
            lambda: self.sidecar.hear_host(self.now_us),
            lambda: self.sidecar.tell_training(self.now_us),
            self.train,
            self.act_other,
            self.kill,
        )
        acts[action]()


@given(st.lists(st.integers(0, 40), max_size=8), st.lists(st.integers(0, 6), max_size=20))
def test_whenever_a_sidecar_dies_the_script_goes_on_in_the_same_life(lives: list[int], disorder: list[int]) -> None:
    """Each sidecar lives for so many turns, the last one to the end; disorderly turns come in between."""
    live_through(lives, disorder)


def live_through(lives: list[int], disorder: list[int]) -> None:
    world = World()
    deaths = {sum(lives[: number + 1]) for number in range(len(lives))}
    try:
        for turn in range(800):
            if world.done:
                break
            world.turn(turn % 6)
            if turn in deaths:
                world.kill()
            if disorder and turn % 5 == 0 and not world.done:
                world.turn(disorder.pop())
        assert world.done, world.host.explain().sentence
        assert world.passed == list(range(world.passed[0], world.passed[0] + STEPS))
        account = read_account(world.journal.read(RUN, 1, 10_000), RUN)
        assert (account.joined["w1"], account.twice) == (1, [])
    finally:
        world.page.close()


def test_a_dead_sidecar_s_commands_are_said_again_under_the_same_number() -> None:
    world = World()
    sent: list[tuple[int, bytes]] = []
    try:
        for round_ in range(200):
            for action in (0, 1, 2, 3, 4):
                world.turn(action)
                bridge = world.sidecar._bridge
                command = None if bridge is None else bridge.session._command
                if command is not None and isinstance(command.message, Call):
                    sent.append((command.message.cause.seq, bytes(command.message.event)))
            world.turn(5)
            if world.done:
                break
            if round_ % 4 == 3:
                world.kill()
        by_number: dict[int, set[Any]] = {}
        for seq, event in sent:
            by_number.setdefault(seq, set()).add(event)
        assert world.done
        assert world.deaths >= 2
        assert all(len(events) == 1 for events in by_number.values())
    finally:
        world.page.close()


# -- this test can fail --------------------------------------------------------------------------------------------


def _forget_generations(patch: pytest.MonkeyPatch) -> None:
    settle = Mirror._settled

    def forgetful(self: Mirror, number: int, passage: Any) -> None:
        before = dict(self.known.after)
        settle(self, number, passage)
        self.known.after = before

    patch.setattr(Mirror, "_settled", forgetful)


def _forget_numbers(patch: pytest.MonkeyPatch) -> None:
    done = Mirror._done

    def forgetful(self: Mirror, number: int, answer: Any) -> None:
        before = self.known.seq
        done(self, number, answer)
        self.known.seq = before

    patch.setattr(Mirror, "_done", forgetful)


def _draw_another_nonce(patch: pytest.MonkeyPatch) -> None:
    resume = Session.resume

    def forgetful(self: Session, known: Any, restarts: int) -> None:
        resume(self, known, restarts)
        self._nonce = bytes([restarts]) * 16

    patch.setattr(Session, "resume", forgetful)


@pytest.mark.parametrize("plant", [_forget_generations, _forget_numbers, _draw_another_nonce])
def test_a_sidecar_that_forgets_something_is_found_out(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def many_lives() -> None:
        for gap in range(1, 60):
            live_through([gap] * 8, [])

    many_lives()
    plant(monkeypatch)
    with pytest.raises((AssertionError, WorkerError)):
        many_lives()
