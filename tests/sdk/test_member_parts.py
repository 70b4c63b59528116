"""The parts of a member, one by one: jobs, models, results, folders, the line to the door, and what it keeps saying."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sdk.live import wait_for

from quoracy.core.errors import ConfigError, Refusal
from quoracy.core.members import Accepted, Cause
from quoracy.core.messages import Answered, Declined, Sign, Told, Welcome
from quoracy.core.witnessed.facts import (
    Apply,
    Blob,
    BlobGivenUp,
    BlobHeld,
    Fetch,
    Load,
    ModelApplied,
    ModelNotApplied,
    Store,
    Train,
    Work,
)
from quoracy.core.witnessed.views import Pointer, Result, RoundShown
from quoracy.learn.witnessed.encodings import encoding_of
from quoracy.learn.witnessed.manifest import model_hash
from quoracy.learn.witnessed.results import encode, layout_of
from quoracy.learn.witnessed.trainer import Result as Trained
from quoracy.sdk.client.errors import Draining, Ejected, Unreachable, from_refusal
from quoracy.sdk.client.session import Stage
from quoracy.sdk.witnessed.api import join
from quoracy.sdk.witnessed.blobs import Blobs
from quoracy.sdk.witnessed.events import MemberNews, Teller
from quoracy.sdk.witnessed.exchange import Fetched
from quoracy.sdk.witnessed.folder import Folder
from quoracy.sdk.witnessed.jobs import Evaluate, Jobs, NotWanted
from quoracy.sdk.witnessed.models import Models
from quoracy.sdk.witnessed.session import MemberSession
from quoracy.sdk.witnessed.taking import Taking
from quoracy.sdk.witnessed.work import Workroom

WORK = Work(0, 1, 0, 1, ((0, 2),), 5, b"m" * 32)


def pointer(step: int) -> Pointer:
    return Pointer("p2p", step, b"m" * 32)


# -- jobs ------------------------------------------------------------------------------------------------------------


def test_a_load_replaces_the_one_before_it_also_if_that_is_under_way() -> None:
    jobs = Jobs()
    jobs.put(Load(pointer(1)))
    first = jobs.take()
    assert first is not None
    jobs.check()
    jobs.put(Load(pointer(2)))
    jobs.put(Load(pointer(3)))
    assert not first.wanted
    with pytest.raises(NotWanted):
        jobs.check()
    second = jobs.take()
    assert second is not None
    assert second.action == Load(pointer(3))
    jobs.check()


def test_work_that_nobody_waits_for_is_not_begun_and_the_same_work_may_be_asked_for_again() -> None:
    jobs = Jobs()
    jobs.put(Train(WORK))
    jobs.cease(WORK)
    jobs.put(Train(WORK))
    job = jobs.take()
    assert job is not None
    assert job.wanted
    jobs.check()
    jobs.cease(WORK)
    with pytest.raises(NotWanted):
        jobs.check()


def test_the_end_lets_what_counts_be_applied_and_nothing_else() -> None:
    jobs = Jobs()
    for action in (Train(WORK), Apply(5, 0, 1, ()), Store(5, b"m" * 32), Evaluate()):
        jobs.put(action)
    jobs.end()
    job = jobs.take()
    assert job is not None
    assert isinstance(job.action, Apply)
    jobs.check()
    assert jobs.take() is None


def test_an_end_with_an_error_ends_what_is_under_way_and_is_raised_by_the_next_take() -> None:
    jobs = Jobs()
    jobs.put(Train(WORK))
    jobs.put(Apply(5, 0, 1, ()))
    jobs.take()
    jobs.end(Draining("SIGTERM came", None))
    with pytest.raises(Draining):
        jobs.check()
    with pytest.raises(Draining):
        jobs.take()


def test_one_evaluation_waits_at_most() -> None:
    jobs = Jobs()
    jobs.put(Evaluate())
    jobs.put(Evaluate())
    assert jobs.take() is not None
    jobs.end()
    assert jobs.take() is None


# -- models ----------------------------------------------------------------------------------------------------------


class Offering:
    """An exchange of which only the giving side is asked."""

    def __init__(self) -> None:
        self.offered: dict[bytes, bytes] = {}
        self.relayed: list[bytes] = []
        self.fetches: dict[bytes, Any] = {}
        self.cancelled: list[bytes] = []

    def offer(self, digest: bytes, source: Any, *, relay: bool = False) -> None:
        self.offered[digest] = source.read_bytes() if isinstance(source, Path) else bytes(source)
        if relay:
            self.relayed.append(digest)

    def withdraw(self, digest: bytes) -> None:
        self.offered.pop(digest, None)

    def fetch(self, digest: bytes, *_args: Any, **_more: Any) -> None:
        self.fetches[digest] = _args[3]

    def cancel(self, digest: bytes) -> None:
        self.cancelled.append(digest)


def weights(number: float) -> dict[str, Any]:
    return {"w": np.full(4, number, np.float32), "same": np.ones(3, np.float32)}


def test_the_last_two_models_are_offered_also_after_a_roll_back() -> None:
    exchange: Any = Offering()
    models = Models(exchange)
    for step in (38, 39, 40):
        models.keep(step, weights(step))
    models.keep(20, weights(20))
    kept = {model_hash(weights(40)), model_hash(weights(20))}
    assert kept <= exchange.offered.keys()
    assert len(exchange.offered) == 2 + 2 + 1, "two manifests, two tensors that differ, and one they share"
    assert models.weights(20, model_hash(weights(20)))["w"][0] == 20


def test_a_kept_model_does_not_change_with_the_trainers() -> None:
    exchange: Any = Offering()
    models, mine = Models(exchange), weights(1)
    manifest = models.keep(1, mine)
    mine["w"] += 1
    digest = next(entry.digest for entry in manifest.entries if entry.name == "w")
    assert exchange.offered[digest] == np.full(4, 1, np.float32).tobytes()


def test_a_model_is_lent_through_the_relay_when_asked_for() -> None:
    exchange: Any = Offering()
    models = Models(exchange)
    manifest = models.keep(3, weights(3))
    assert exchange.relayed == []
    models.lend(3, manifest.model)
    assert set(exchange.relayed) == {manifest.model, *(entry.digest for entry in manifest.entries)}


# -- the workroom ----------------------------------------------------------------------------------------------------


class Simple:
    def __init__(self) -> None:
        self.number = 0.0

    def load(self, given: Any) -> None:
        self.number = 0.0 if given is None else float(given["w"][0])

    def train(self, batch_ids: Any) -> Trained:
        return Trained({"w": np.ones(4, np.float32), "same": np.ones(3, np.float32)}, len(batch_ids))

    def apply(self, results: Any) -> None:
        for result in results:
            self.number += float(result.arrays["w"][0])

    def weights(self) -> Any:
        return weights(self.number)

    def evaluate(self) -> dict[str, float]:
        return {}


class Room:
    def __init__(self, folder: Path) -> None:
        exchange: Any = Offering()
        self.exchange = exchange
        self.trainer: Any = Simple()
        self.blobs = Blobs("demo", folder / "results", 1, encoding_of({}))
        newcomer: Any = self
        self.given: dict[int, Any] = {}
        self.work = Workroom(
            "m1", self.trainer, encoding_of({}), self.blobs, Models(exchange), newcomer, newcomer,
            lambda: folder / "new", lambda: None,
        )  # fmt: skip

    def fetch(self, job: Load) -> tuple[int, Any]:
        return job.pointer.step, weights(job.pointer.step)


def test_a_load_that_was_replaced_in_its_last_moment_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    room = Room(tmp_path)
    assert room.work.load(Load(pointer(3)), lambda: True) is not None
    assert room.work.load(Load(pointer(9)), lambda: False) is None
    assert (room.work.step, room.work.model) == (3, model_hash(weights(3)))
    assert room.trainer.number == 3.0


def test_a_sealed_result_that_cannot_be_read_is_reported_and_nothing_is_applied_meanwhile(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.work.load(Load(pointer(3)), lambda: True)
    about = room.blobs.about(0, 1, 0, 1, "m2", ((0, 1),), room.work.model)
    good = encode(room.trainer.train([0]), about, encoding_of({}), layout_of(weights(0)))
    results = tuple(
        Result(assignment, 1, "m2", room.blobs.put(blob), len(blob), room.work.model)
        for assignment, blob in enumerate((good, good.replace(b'"m2"', b'"m9"')))
    )
    told: list[Any] = []
    outcome = room.work.apply(Apply(3, 0, 1, results), lambda *why: told.append(why))
    assert outcome == ModelNotApplied(3, (results[1].digest,))
    assert (room.work.step, room.trainer.number) == (3, 3.0)
    (bad,) = told
    assert bad[:2] == ("m2", 1)
    outcome = room.work.apply(Apply(3, 0, 1, results[:1]), lambda *why: told.append(why))
    assert isinstance(outcome, ModelApplied)
    assert (room.work.step, room.trainer.number, len(told)) == (4, 4.0, 1)


# -- results ---------------------------------------------------------------------------------------------------------


class Taken:
    def __init__(self, folder: Path) -> None:
        self.room = Room(folder)
        self.room.work.load(Load(pointer(3)), lambda: True)
        self.told: list[Any] = []
        self.bad: list[Any] = []
        work = self.room.work
        self.taking = Taking(
            self.room.exchange, self.room.blobs, lambda: (work.model, work.layout), self.told.append,
            lambda *why: self.bad.append(why),
        )  # fmt: skip

    def blob(self, member: str = "m2") -> tuple[bytes, Blob]:
        room = self.room
        about = room.blobs.about(0, 1, 0, 1, member, ((0, 1),), room.work.model)
        blob = encode(room.trainer.train([0]), about, encoding_of({}), layout_of(weights(0)))
        digest = room.blobs.put(blob)
        return digest, Blob(0, 1, Result(0, 1, "m2", digest, len(blob), room.work.model), ((0, 1),))


def test_a_result_is_held_and_offered_when_its_header_says_what_the_run_says(tmp_path: Path) -> None:
    taken = Taken(tmp_path)
    digest, blob = taken.blob()
    taken.taking.fetch(Fetch(blob, ("m2",), "attest"))
    assert digest not in taken.room.exchange.offered
    taken.room.exchange.fetches[digest](Fetched(digest, True))
    assert taken.told == [BlobHeld(digest)]
    assert digest in taken.room.exchange.offered


def test_a_result_of_somebody_else_is_not_held_and_people_are_told(tmp_path: Path) -> None:
    taken = Taken(tmp_path)
    digest, blob = taken.blob("m9")
    taken.taking.fetch(Fetch(blob, ("m2",), "attest"))
    taken.room.exchange.fetches[digest](Fetched(digest, True))
    assert taken.told == [BlobGivenUp(digest)]
    assert digest not in taken.room.exchange.offered
    assert "member is 'm9', it should be 'm2'" in taken.bad[0][2]


def test_a_result_larger_than_one_can_be_is_not_fetched(tmp_path: Path) -> None:
    taken = Taken(tmp_path)
    digest = b"d" * 32
    huge = Blob(0, 1, Result(0, 1, "m2", digest, 2**53 - 1, b"m" * 32), ((0, 1),))
    taken.taking.fetch(Fetch(huge, ("m2",), "attest"))
    assert taken.room.exchange.fetches == {}
    assert taken.told == [BlobGivenUp(digest)]


def test_what_went_away_while_it_was_looked_at_is_given_up_and_not_waited_for(tmp_path: Path) -> None:
    taken = Taken(tmp_path)
    digest, blob = taken.blob()
    taken.taking.fetch(Fetch(blob, ("m2",), "attest"))
    taken.room.blobs.path(digest).unlink()
    taken.room.exchange.fetches[digest](Fetched(digest, True))
    assert taken.told == [BlobGivenUp(digest)]


def test_a_dropped_result_goes_with_all_that_a_fetch_has_left(tmp_path: Path) -> None:
    taken = Taken(tmp_path)
    digest, blob = taken.blob()
    other, _ = taken.blob("m3")
    taken.taking.fetch(Fetch(blob, ("m2",), "attest"))
    path = taken.room.blobs.path(digest)
    for left in (f".{path.name}.part", f".{path.name}.stretches"):
        path.with_name(left).touch()
    taken.taking.drop((digest,))
    assert [found.name for found in path.parent.iterdir()] == [other.hex()]
    assert taken.room.exchange.cancelled == [digest]


# -- folders ---------------------------------------------------------------------------------------------------------


def test_what_a_killed_process_has_left_is_removed_by_the_next_and_what_lives_stays(tmp_path: Path) -> None:
    living, dead = Folder(tmp_path), tmp_path / "member-dead"
    dead.mkdir()
    (dead / ".lock").touch()
    (dead / "results").mkdir()
    mine = Folder(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living.path, mine.path])
    for folder in (living, mine):
        folder.remove()
        folder.remove()
    assert list(tmp_path.iterdir()) == []


# -- news ------------------------------------------------------------------------------------------------------------


def test_a_callback_that_raises_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_news: MemberNews) -> None:
        raise ValueError("the printer is on fire")

    Teller("m1", fails).over("finished", "")
    assert "a callback must not cost a training" in caplog.text


def test_trouble_is_told_once() -> None:
    told: list[str] = []
    teller = Teller("m1", lambda news: told.append(news.text))
    for text in ("one", "one", "two", "one"):
        teller.trouble(text)
    assert told == ["one", "two", "one"]


# -- what it keeps saying --------------------------------------------------------------------------------------------


def welcome(incarnation: int) -> Welcome:
    return Welcome("m1", incarnation, 1, 1)


def joined() -> MemberSession:
    session = MemberSession("demo", "m1", b"s" * 32)
    session.connect(0)
    session.receive(welcome(0), 1)
    result = {"incarnation": 1, "heartbeat_interval_s": 5.0, "heartbeat_timeout_s": 30.0}
    session.receive(Answered(Cause("m1", 0, 0), Accepted(2, result)), 2)
    assert session.stage is Stage.JOINED
    session.take()
    return session


def shown(phase: str, round_: int) -> Told:
    view = RoundShown(phase, 0, round_, round_, b"s" * 16, ("m1",), (1,), ((0, 1),), 0, (), 0, "")
    return Told("m1", 1, "round", view)


def said(session: MemberSession) -> int:
    return sum(isinstance(message, Sign) for message in session.take())


def test_a_signal_that_came_too_late_is_no_reason_to_hang_up() -> None:
    session = joined()
    session.notes.clear()
    late = Refusal("wrong_step", "it speaks of round 0; the run is at round 1", "look")
    session.receive(Declined("m1", 1, "attest", late), 3)
    assert [note.what for note in session.notes] == []
    session.receive(Declined("m1", 1, "attest", Refusal("member_gone", "lost", "join again")), 4)
    assert [note.what for note in session.notes] == ["lost"]


def test_one_that_was_found_to_lie_ends_for_good() -> None:
    session = joined()
    session.receive(Declined("m1", 1, "attest", Refusal("ejected", "it lied", "ask")), 3)
    assert session.stage is Stage.ENDED
    assert isinstance(from_refusal(Refusal("ejected", "it lied", "ask")), Ejected)


# -- settings --------------------------------------------------------------------------------------------------------


def test_join_names_what_is_wrong_before_anything_is_begun(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="trainer = None"):
        join("tcp://127.0.0.1:1", None, "demo")
    with pytest.raises(ConfigError, match=r"member = '\.\./up'"):
        join("tcp://127.0.0.1:1", "nothing", "demo", member="../up")
    with pytest.raises(ConfigError, match="listen = 'here'"):
        join("tcp://127.0.0.1:1", "nothing", "demo", member="m1", identity=tmp_path / "k", listen="here")


def test_a_coordinator_that_is_not_there_is_given_up_after_give_up_s_and_nothing_is_left(tmp_path: Path) -> None:
    before = threading.active_count()
    settings: dict[str, Any] = {"member": "m1", "identity": tmp_path / "k", "cache": tmp_path, "give_up_s": 0.2}
    with pytest.raises(Unreachable):
        join("tcp://127.0.0.1:1", "nothing", "demo", **settings)
    wait_for(lambda: threading.active_count() <= before, "its threads have ended")
    assert not list(tmp_path.glob("member-*"))
