"""What belongs to a server and to no run: a fold like any other."""

from __future__ import annotations

import pytest
from tests.core.scribe import Scribe

from quoracy.core import serverwide
from quoracy.core.errors import Refusal
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import SERVER
from quoracy.core.members import Cause
from quoracy.core.run import Decided, Run, fold
from quoracy.core.serverwide import KeyUsed, ServerWide


def key(number: int, request: int = 0) -> KeyUsed:
    return KeyUsed(number.to_bytes(16, "big"), request.to_bytes(16, "big"), "stop", "demo")


def begun() -> Scribe:
    return Scribe(SERVER, RunCreated(serverwide.RUN, "server", 1, {}))


def book_of(run: Run) -> list[KeyUsed]:
    assert isinstance(run.machine, ServerWide)
    return list(run.machine.book.keys.values())


def test_a_key_stands_for_one_request() -> None:
    scribe = begun()
    scribe.write((Cause("@op", 0, 1), key(1)))
    assert isinstance(scribe.decide(Cause("@op", 0, 2), key(1)), Decided)
    refusal = scribe.decide(Cause("@op", 0, 3), key(1, 9))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.why) == ("contradiction", "the key has stood for another request: stop of demo")


def test_the_newest_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serverwide, "MAX_KEYS", 3)
    scribe = begun()
    for number in range(5):
        scribe.write((Cause("@op", 0, number + 1), key(number)))
    assert book_of(scribe.run) == [key(2), key(3), key(4)]


def test_it_is_folded_and_restored_like_a_run() -> None:
    scribe = begun()
    for number in range(3):
        scribe.write((Cause("@op", 0, number + 1), key(number)))
    again = fold(SERVER, serverwide.RUN, scribe.payloads)
    assert again is not None
    saved = again.snapshot()
    restored = Run.restore(SERVER, serverwide.RUN, saved.n, saved.root, saved.pages)
    assert book_of(restored) == book_of(scribe.run) == [key(0), key(1), key(2)]
    assert restored.state_digest() == scribe.run.state_digest()
