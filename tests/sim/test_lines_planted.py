"""Bugs in what the SDK and the TCP door do with connections and heartbeats: each is planted, and some seed finds it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.test_planted import _believes_signals

from quoracy.core.desk import Desk
from quoracy.core.messages import Declined, ToMember
from quoracy.doors import outbox, tcp
from quoracy.doors.outbox import Outbox
from quoracy.doors.service import Service
from quoracy.sdk.client.connection import PROBES, Connection, State
from quoracy.sdk.client.heartbeat import Sender
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.session import Session
from quoracy.sdk.cluster.session import WorkerSession
from quoracy.sim import cluster, federated, live, witnessed

SEEDS = range(1, 120)
LIVES: dict[str, type[Any]] = {"cluster": cluster.Life, "federated": federated.Life, "witnessed": witnessed.Life}


def found_by(checker: str, *only: str, kind: str = "cluster") -> str:
    """What the first seed that breaks this promise says, in lives in which nothing but this goes wrong."""
    for seed in SEEDS:
        life = LIVES[kind](seed)
        life.faults.only = only
        violation: str = life.live().violation
        if violation.startswith(f"{checker}:"):
            return violation
    pytest.fail(f"{len(SEEDS)} lives with a planted bug, and {checker} noticed nothing")


@pytest.mark.parametrize("kind", LIVES)
def test_heartbeats_that_stop_while_the_training_does_not_read_are_noticed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Sender.tick

    def only_now_and_then(self: Sender, now_us: int) -> None:
        if now_us - self._answered_us < 600_000 or now_us - self._answered_us > 3_500_000:
            whole(self, now_us)

    monkeypatch.setattr(Sender, "tick", only_now_and_then)
    monkeypatch.setattr(Sender, "wake_us", lambda self: None)
    assert "could have been heard" in found_by("heartbeats", "hold_the_gil", kind=kind)


def test_a_heartbeat_connection_that_does_not_notice_that_it_is_dead_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Connection._deaf_us
    monkeypatch.setattr(Connection, "_deaf_us", lambda self: 10**9 if self._heartbeats else whole(self))
    assert "could have been heard" in found_by("heartbeats", "break_heartbeats", "hold_the_gil")


def test_a_session_that_does_not_beat_while_its_heartbeat_process_is_stopped_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker says other things often enough. A participant that waits for its turn does not."""
    monkeypatch.setattr(Memory, "beats_for", lambda *_: True)
    assert "could have been heard" in found_by("heartbeats", "stop_heartbeats", kind="federated")


def test_a_member_that_does_not_learn_that_it_was_declared_dead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Session.receive

    def deaf(self: Session, message: ToMember, now_us: int) -> None:
        if not isinstance(message, Declined):
            whole(self, message, now_us)

    monkeypatch.setattr(Session, "receive", deaf)
    monkeypatch.setattr(WorkerSession, "_new_life", lambda self, _why, _now_us: None)
    assert "does not know it" in found_by("heartbeats", "freeze")


def test_a_view_that_is_overtaken_by_an_older_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Outbox.take

    def newest_first(self: Outbox) -> list[bytes]:
        return whole(self)[::-1]

    def every_view(self: Outbox, encoded: bytes, _view: Any = None) -> None:
        PUT(self, encoded)

    monkeypatch.setattr(Outbox, "put", every_view)
    monkeypatch.setattr(Outbox, "take", newest_first)
    assert "older than one it has read" in found_by("views", "many_orders")


PUT = Outbox.put


def test_a_newest_view_that_is_never_shown_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def oldest(self: Outbox, encoded: bytes, view: Any = None) -> None:
        if view is None or view not in self._waiting:
            PUT(self, encoded, view)

    monkeypatch.setattr(Outbox, "put", oldest)
    assert "never shown the newest" in found_by("views", "many_orders")


def test_views_that_pile_up_for_somebody_who_does_not_read_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "view_of", lambda _message, _run: None)
    monkeypatch.setattr(tcp, "view_of", lambda _message, _run: None)
    assert "views wait" in found_by("unread", "many_orders")


def test_a_client_that_never_connects_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Connection._down

    def resigned(self: Connection, why: str, now_us: int, *rest: Any) -> None:
        was_up = self.state is State.UP
        whole(self, why, now_us, *rest)
        if was_up and not self._heartbeats:
            self._connect_us = 2**60

    monkeypatch.setattr(Connection, "_down", resigned)
    found_by("progress", "break_session")


def test_a_process_that_asks_to_be_woken_at_once_while_nobody_answers_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def impatient(self: Connection) -> int:
        return self._heard_us + self._deaf_us() // PROBES

    monkeypatch.setattr(Connection, "_listen_until_us", impatient)
    assert "woken at once" in found_by("idle", "stop_host")


def test_a_door_that_believes_whoever_says_hello_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was superseded speaks on, as its successor."""
    monkeypatch.setattr(Service, "_speaks", lambda *_: True)
    monkeypatch.setattr(Desk, "hear", _believes_signals)
    found_by("lives", "impostor")


def test_without_a_planted_bug_nothing_is_noticed() -> None:
    assert [live(seed).violation for seed in range(1, 4)] == [""] * 3
