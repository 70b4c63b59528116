"""The small parts of a participant: its name, its cache, its bridge, what it may report."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from blake3 import blake3

from quoracy.core.errors import ConfigError, ObjectsUnreachable, Refusal
from quoracy.core.federated.events import Array, ParticipantLeft, UpdateOffered
from quoracy.core.federated.views import Standing
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Answered, Call, Told, Welcome
from quoracy.objects import MemoryObjects
from quoracy.sdk.client.address import Address
from quoracy.sdk.client.connection import Connection
from quoracy.sdk.client.errors import Ended
from quoracy.sdk.client.memory import Memory
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.client.vitals import Vitals
from quoracy.sdk.federated.client import ParticipantClient
from quoracy.sdk.federated.session import Offer, ParticipantSession
from quoracy.sdk.federated.task import Ledger, Returned, Task, returned_metrics
from quoracy.sdk.federated.weights import Depot, StoreWeights
from quoracy.sdk.federated.weights_cache import Cache
from quoracy.wire.frames import frame
from quoracy.wire.messages import Greeted

S = 1_000_000
DIGEST = "ab" * 32

# -- names ---------------------------------------------------------------------------------------------------------

NAMES = """
import sys
from quoracy.sdk.client.names import lasting_name
print(lasting_name("run"), flush=True)
sys.stdin.read()
"""


def called(home: Path, *arguments: str, folder: Path | None = None) -> tuple[str, subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", NAMES, *arguments], env=os.environ | {"XDG_STATE_HOME": str(home)}, cwd=folder,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process.stdout.readline().strip(), process


def end(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def test_a_participant_without_a_name_has_the_same_one_after_it_was_killed(tmp_path: Path) -> None:
    first, process = called(tmp_path, "--data", "a")
    end(process)
    again, process = called(tmp_path, "--data", "a")
    end(process)
    assert first == again != ""


def test_two_that_are_started_in_the_same_way_have_names_of_their_own_and_keep_them(tmp_path: Path) -> None:
    one, first = called(tmp_path)
    two, second = called(tmp_path)
    assert one != two
    end(second)
    again, third = called(tmp_path)
    end(first, third)
    assert again == two, "the place that was left, not a new one"


def test_another_command_or_folder_makes_another_name(tmp_path: Path) -> None:
    one, first = called(tmp_path, "--data", "a")
    end(first)
    two, second = called(tmp_path, "--data", "b")
    end(second)
    three, third = called(tmp_path, "--data", "a", folder=tmp_path)
    end(third)
    assert len({one, two, three}) == 3


# -- the cache -----------------------------------------------------------------------------------------------------


def digest(content: bytes) -> str:
    return str(blake3(content).hexdigest())


def test_a_model_is_fetched_once_however_many_want_it(tmp_path: Path) -> None:
    fetched: list[Path] = []
    slow = threading.Event()

    def fetch(part: Path) -> None:
        slow.wait(0.2)
        fetched.append(part)
        part.write_bytes(b"model")

    threads = [threading.Thread(target=Cache(tmp_path).get, args=(digest(b"model"), fetch)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fetched) == 1
    assert (tmp_path / digest(b"model")).read_bytes() == b"model"


def test_what_was_fetched_in_part_is_gone_on_with(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def interrupted(part: Path) -> None:
        part.write_bytes(b"mo")
        raise ObjectsUnreachable("gone")

    with pytest.raises(ObjectsUnreachable):
        cache.get(digest(b"model"), interrupted)
    assert not (tmp_path / digest(b"model")).exists()

    def rest(part: Path) -> None:
        assert part.read_bytes() == b"mo"
        part.write_bytes(b"model")

    assert cache.get(digest(b"model"), rest).read_bytes() == b"model"


def test_a_damaged_model_is_fetched_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.get(digest(b"model"), lambda part: void(part.write_bytes(b"model")))
    path.write_bytes(b"m?del")
    assert cache.get(digest(b"model"), lambda part: void(part.write_bytes(b"model"))).read_bytes() == b"model"


def void(_value: Any) -> None:
    """For a lambda that must return nothing."""


def test_only_the_newest_models_are_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for content in (b"one", b"two", b"three", b"four"):
        path = cache.get(digest(content), lambda part, content=content: void(part.write_bytes(content)))  # type: ignore[misc]
        os.utime(path, (len(list(tmp_path.iterdir())), 1_000 + content[0]))
    assert len([path for path in tmp_path.iterdir() if not path.name.startswith(".")]) == 2
    assert (tmp_path / digest(b"four")).exists()


def test_what_a_killed_participant_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, new = Cache(tmp_path).temporary(), Cache(tmp_path).temporary()
    for path in (old, new):
        path.write_bytes(b"update")
    os.utime(old, (0, 0))
    Cache(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


# -- metrics -------------------------------------------------------------------------------------------------------


def test_metrics_are_numbers_or_arrays_of_any_shape() -> None:
    large = np.arange(600.0).reshape(20, 30)
    sent = returned_metrics(
        {
            "a": np.float32(0.5), "b": (1, 2), "c": np.array([1.0]), "d": np.array(3.0), "e": [[1, 2], [3, 4], [5, 6]],
            "f": np.arange(8).reshape(2, 2, 2), "g": torch.ones(2, 2, requires_grad=True), "h": True, "i": [],
            "large": large,
        }
    )  # fmt: skip
    assert sent.small == {
        "a": 0.5, "b": [1.0, 2.0], "c": [1.0], "d": 3.0, "e": Array((3, 2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        "f": Array((2, 2, 2), [float(n) for n in range(8)]), "g": Array((2, 2), [1.0] * 4), "h": 1.0, "i": [],
    }  # fmt: skip
    assert list(sent.large) == ["large"]
    assert sent.large["large"].shape == (20, 30)
    assert sent.warnings == []
    assert returned_metrics(None) == Returned({}, {}, [])


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("much", "is no number"), (None, "is no number"), ([1, [2]], "no array"), (np.ones((0, 2)), "has no numbers"),
        (float("nan"), "not finite"), ([0.0, float("inf")], "not finite"), (1e301, "too large"), (1j, "is no number"),
        (np.full((30, 30), np.nan), "not finite"), (10**400, "is no number"), (np.array(["x"]), "is no number"),
    ],
)  # fmt: skip
def test_a_bad_metric_costs_the_metric_and_a_warning(bad: Any, why: str) -> None:
    sent = returned_metrics({"bad": bad, "good": 1.0})
    assert (sent.small, sent.large) == ({"good": 1.0}, {})
    (warning,) = sent.warnings
    assert warning.startswith("metrics.bad is left out: ")
    assert why in warning


def test_names_and_their_number_are_bounded() -> None:
    assert returned_metrics([1]).warnings == ["metrics: list is no dict of names and numbers, and is left out"]
    sent = returned_metrics({7: 1.0, "": 1.0, "n" * 65: 1.0, **{f"m{n}": 0.0 for n in range(33)}})
    assert len(sent.small) == 32
    assert [warning.partition(" is left out")[0] for warning in sent.warnings] == [
        "metrics.7", "metrics.", "metrics." + "n" * 60, "metrics.m32",
    ]  # fmt: skip


def test_what_is_told_of_epochs_never_ends_a_training() -> None:
    page = Memory.create()
    ledger = Ledger(page, lambda: True, lambda: None, lambda _number, _metrics: None)
    task = Task("run", "p1", 0, 1, 300, 0, {}, None, ledger)
    names = {f"m{n:02}": 1.0 for n in range(40)}
    task.epoch(0, loss="much", **{"not a name": 2.0}, confusion=np.ones(3), **names)
    for number in range(1, 300):
        task.epoch(number, loss=float(number))
    task.progress(metrics={"loss": object()})
    assert len(ledger.history) == 32
    assert "loss" not in ledger.history, "32 others were there before"
    assert ledger.history["not a name"] == [2.0], "a heartbeat cannot show it, the history can"
    assert len(page.read_metrics()) == 16
    said = "; ".join(ledger.warnings)
    for part in ("'much' is no number", "confusion: array", "m39: left out of the history"):
        assert part in said
    assert len(ledger.warnings) == len(set(ledger.warnings)), "each is said once"
    page.close()


def test_a_history_is_as_long_as_an_offer_has_room_for() -> None:
    page = Memory.create()
    ledger = Ledger(page, lambda: True, lambda: None, lambda _number, _metrics: None)
    task = Task("run", "p1", 0, 1, 300, 0, {}, None, ledger)
    for number in range(300):
        task.epoch(number, loss=float(number))
    assert ledger.history == {"loss": [float(number) for number in range(256)]}
    assert ledger.warnings == ["loss, epoch 256 and on: the history has 256 numbers of each name"]
    page.close()


# -- the client ----------------------------------------------------------------------------------------------------

RESULT = {"incarnation": 1, "heartbeat_interval_s": 1.0, "heartbeat_timeout_s": 10.0, "seat": 2}


def standing(ticket: int = 5, offered: bool = False) -> Standing:
    return Standing(1, "Training", "ROUND", 3, ticket, offered, 9, 1, 3, DIGEST, 10, {"lr": 0.5}, None, "")


class Desk:
    """A participant's client without its socket."""

    def __init__(self) -> None:
        memory = Memory.create()
        self.session = ParticipantSession("run", "p1", b"secret", S)
        self.connection = Connection(self.session, [Address("here", 7700)], "", None, lambda: 1.0, 0)
        settings = Settings("run", "p1", [Address("here", 7700)], False)
        self.client = ParticipantClient(settings, self.session, self.connection, memory, Vitals(memory, os.getpid(), 0))
        self.connect()

    def connect(self) -> None:
        assert self.connection.connect_to(10 * S) is not None
        self.connection.connected(0)
        self.hears(Greeted(2, b"c" * 32, "quoracy", "member"))
        self.session.take()

    def hears(self, *messages: Any) -> None:
        self.client.received(b"".join(frame(message) for message in messages), 0)

    def joined(self) -> Desk:
        self.hears(Welcome("p1", 0, 1, 1), Answered(Cause("p1", 0, 0), Accepted(2, RESULT)))
        self.hears(Told("p1", 1, "standing", standing()))
        return self

    def calls(self) -> list[tuple[int, str]]:
        """Number and type of each command that goes out."""
        self.session.tick(0)
        sent = [message for message in self.session.take() if isinstance(message, Call)]
        return [(call.cause.seq, msgspec.msgpack.decode(call.event)[0]) for call in sent if call.cause.seq]


def test_work_reaches_the_training_and_its_offer_the_coordinator() -> None:
    desk = Desk().joined()
    assert desk.client.work is not None
    assert (desk.client.work.round, desk.client.work.ticket) == (3, 5)
    desk.client.offer(Offer(3, 5, 10, DIGEST))
    assert desk.calls() == [(1, "update-offered")]
    assert desk.client.wants(desk.client.work)


def test_an_answer_to_the_session_s_own_command_is_not_taken_for_the_answer_to_a_request() -> None:
    desk = Desk().joined()
    desk.client.offer(Offer(3, 5, 10, DIGEST))
    left = desk.client.command(ParticipantLeft, reason="drained")
    assert desk.calls() == [(1, "update-offered")]
    desk.hears(Answered(Cause("p1", 1, 1), Accepted(7)))
    assert desk.client.answer(left) is None, "that was the offer's"
    assert desk.calls() == [(2, "participant-left")]
    desk.hears(Answered(Cause("p1", 1, 2), Accepted(8)))
    assert desk.client.answer(left) == Accepted(8)


def test_an_offer_that_was_not_answered_is_sent_again_on_the_next_connection() -> None:
    desk = Desk().joined()
    desk.client.offer(Offer(3, 5, 10, DIGEST))
    assert desk.calls() == [(1, "update-offered")]
    desk.connection.closed("it closed the connection", 0)
    assert desk.connection.connect_to(10 * S) is not None
    desk.connection.connected(0)
    desk.hears(Greeted(2, b"c" * 32, "quoracy", "member"))
    assert desk.calls() == [(1, "update-offered")], "under the same number: it may have arrived"


def test_an_offer_for_which_nobody_waits_any_more_is_dropped() -> None:
    desk = Desk().joined()
    desk.hears(Told("p1", 1, "standing", standing(ticket=6)))
    assert desk.client.work is not None
    assert desk.client.work.ticket == 6
    assert [(outcome.ticket, outcome.judged) for outcome in desk.client.outcomes] == [(5, False)]
    desk.client.offer(Offer(3, 5, 10, DIGEST))
    assert desk.calls() == []


def test_one_whose_offer_cannot_be_taken_leaves_and_its_training_is_told_why() -> None:
    desk = Desk().joined()
    work = desk.client.work
    assert work is not None
    desk.client.offer(Offer(3, 5, 10, DIGEST))
    assert desk.calls() == [(1, "update-offered")]
    desk.hears(Answered(Cause("p1", 1, 1), Refusal("too_large", "it takes 2 MB", "send less")))
    assert not desk.client.wants(work)
    assert not desk.client.finished, "its place is handed back first"
    assert desk.calls() == [(2, "participant-left")]
    desk.hears(Answered(Cause("p1", 1, 2), Accepted(8)))
    ended = desk.client.ended
    assert isinstance(ended, Ended)
    assert (ended.code, ended.why) == ("too_large", "it takes 2 MB")


def test_a_lost_incarnation_fails_what_was_asked_and_keeps_the_work() -> None:
    desk = Desk().joined()
    desk.client.offer(Offer(3, 5, 10, DIGEST))
    asked = desk.client.command(UpdateOffered, round=3, ticket=4, samples=1, digest=DIGEST)
    desk.hears(Told("p1", 1, "standing", msgspec.structs.replace(standing(), state="Lost", reason="silent")))
    answer = desk.client.answer(asked)
    assert isinstance(answer, Refusal)
    assert answer.code == "member_gone"
    assert desk.client.work is not None


def test_one_who_is_told_to_come_later_asks_ever_more_seldom() -> None:
    desk = Desk()
    session = desk.session
    desk.hears(Welcome("p1", 0, 1, 1))
    session.take()
    asked, now_us = [0], 0
    later = Refusal("come_later", "full", "wait")
    while len(asked) < 7:
        session.receive(Answered(Cause("p1", 0, 0), later), now_us)
        while not session.take():
            now_us += S // 10
            session.tick(now_us)
        asked.append(now_us)
    assert [(after - before) // S for before, after in pairwise(asked)] == [1, 2, 4, 8, 16, 16]
    assert [note.what for note in session.notes] == ["refused"] * 6


@pytest.mark.parametrize(
    ("advised_s", "wait_s"),
    [(2.5, 2.5), (0.3, 0.3), (7200.0, 600.0)],
)
def test_one_who_is_told_when_to_come_asks_then(advised_s: float, wait_s: float) -> None:
    desk = Desk()
    session = desk.session
    desk.hears(Welcome("p1", 0, 1, 1))
    session.take()
    asked, now_us = [0], 0
    while len(asked) < 4:
        session.receive(Answered(Cause("p1", 0, 0), Refusal("come_later", "full", "wait", advised_s)), now_us)
        while not session.take():
            now_us += S // 10
            session.tick(now_us)
        asked.append(now_us)
    assert [(after - before) / S for before, after in pairwise(asked)] == [wait_s] * 3


# -- where weights are ---------------------------------------------------------------------------------------------


def depot(told: dict[str, str], tmp_path: Path, way: Any = "auto") -> Depot:
    return Depot(
        "run", lambda: told, Cache(tmp_path / "cache"), way=way, store="", token="", ca=None, on_progress=lambda: None
    )  # fmt: skip


@pytest.mark.parametrize(
    ("store", "way", "found"),
    [
        ("here", "auto", "StoreWeights"),
        ("here", "http", "HttpWeights"),
        ("file:///nowhere/at/all", "auto", "HttpWeights"),
        ("", "auto", "HttpWeights"),
        ("s3://bucket/prefix?endpoint=http://127.0.0.1:9", "auto", "HttpWeights"),
    ],
)
def test_the_store_is_used_by_those_who_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str, way: str, found: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    told = {"store": f"file://{tmp_path}" if store == "here" else store, "http": "http://127.0.0.1:9", "prefix": "run"}
    assert type(depot(told, tmp_path, way)._found()).__name__ == found


def test_the_door_is_shown_the_token_and_the_number_of_one_life(tmp_path: Path) -> None:
    """A participant that is between two lives waits: its join token would open nothing."""
    lives = [(0, "")]
    found = Depot(
        "run", dict, Cache(tmp_path / "cache"), way="http", store="", token="join", ca=None, on_progress=lambda: None,
        participant="p1", life=lambda: lives[-1],
    )._line("http://127.0.0.1:9")  # fmt: skip
    for between in ((0, ""), (2, "")):
        lives.append(between)
        with pytest.raises(ObjectsUnreachable, match="p1 waits to be let in again"):
            found._token()
    for life in ((1, "first"), (2, "second")):
        lives.append(life)
        assert (found._token(), found._who()) == (life[1], {"member": "p1", "incarnation": life[0]})


def test_credentials_open_the_way_to_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    told = {"store": "s3://bucket/prefix?endpoint=http://127.0.0.1:9", "http": "http://127.0.0.1:9", "prefix": "run"}
    assert type(depot(told, tmp_path)._found()).__name__ == "StoreWeights"


@pytest.mark.parametrize("told", [{"store": "", "http": ""}, {"store": "file:///nowhere", "http": ""}])
def test_no_way_to_the_weights_is_said(tmp_path: Path, told: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="the coordinator names"):
        depot(told | {"prefix": "run"}, tmp_path)._found()


def test_a_store_that_is_not_on_this_machine_is_read_through_the_cache(tmp_path: Path) -> None:
    store, cache = MemoryObjects(), Cache(tmp_path / "cache")
    weights = StoreWeights(store, "run")
    (tmp_path / "update").write_bytes(b"model")
    weights.upload(tmp_path / "update", digest(b"model"))
    weights.upload(tmp_path / "update", digest(b"model"))
    assert store.get(f"run/blobs/{digest(b'model')}", 100) == b"model"
    assert weights.fetch(digest(b"model"), cache) == tmp_path / "cache" / digest(b"model")
    store.delete(f"run/blobs/{digest(b'model')}")
    assert weights.fetch(digest(b"model"), cache).read_bytes() == b"model", "fetched once"
