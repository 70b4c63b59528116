"""A participant's logic, hand in hand with a real host: no network, no threads, every message in a test's hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core import byhand
from tests.core.federated.study import Study, studying, weights

from quoracy.core.federated.events import BeatSeen, RunPaused, RunStopped, UpdateOffered
from quoracy.core.federated.views import Standing
from quoracy.core.messages import Answered, Call, Hello, Told
from quoracy.core.shell import Received
from quoracy.sdk.client.session import Stage
from quoracy.sdk.federated.session import LOOK_AGAIN, Offer, ParticipantSession, Work

SECOND = 1_000_000


class Pair:
    """One participant of a study whose messages go through; ``cut``: what the host says is lost."""

    def __init__(self, study: Study, member: str = "p", secret: bytes = b"s" * 32) -> None:
        self.study = study
        self.logic = ParticipantSession(byhand.RUN, member, secret)
        self.peer = f"{member}-{len(secret)}-{secret[:1].hex()}"
        self.cut = False
        self.heard: list[Any] = []
        self.notes: list[tuple[str, Any]] = []
        self.logic.connect(self.now)
        self.talk()

    @property
    def now(self) -> int:
        return self.study.hand.now_us

    def talk(self) -> None:
        """Until both have nothing more to say."""
        for _ in range(20):
            sent = self.logic.take()
            for message in sent:
                if not self.cut:
                    self.listen(self.study._at_rest(self.study.hand.report(Received(self.peer, message))))
            while self.logic.notes:
                note = self.logic.notes.popleft()
                self.notes.append((note.what, note.value))
            if not sent:
                return
        raise AssertionError("they never stop talking")

    def listen(self, actions: list[Any]) -> None:
        for peer, message in byhand.sent(actions):
            if peer == self.peer and not self.cut:
                self.heard.append(message)
                self.logic.receive(message, self.now)

    def tick(self, seconds: float = 1.0) -> None:
        self.study.hand.now_us += int(seconds * SECOND)
        self.logic.tick(self.now)
        self.talk()

    def does(self, act: Any, *args: Any) -> None:
        """Somebody else does something, of which this one may hear."""
        told = self.study._at_rest

        def listening(actions: list[Any]) -> list[Any]:
            everything = told(actions)
            self.listen(everything)
            return everything

        self.study._at_rest = listening  # type: ignore[method-assign]
        try:
            act(*args)
        finally:
            self.study._at_rest = told  # type: ignore[method-assign]
        self.talk()

    def offer(self, mark: str = "mine") -> bool:
        work = self.logic.work
        assert work is not None
        taken = self.logic.offer(Offer(work.round, work.ticket, 5, weights(mark), 10, {"loss": 1.0}))
        self.logic.tick(self.now)
        self.talk()
        return taken

    def said(self, what: str) -> list[Any]:
        return [value for named, value in self.notes if named == what]


def paired(*others: str, **config: Any) -> Pair:
    """p and these are all drawn for round 0."""
    study = studying(*others, **({"clients": len(others) + 1} | config))
    return Pair(study)


def test_it_joins_trains_offers_hears_the_verdict_and_goes_on() -> None:
    pair = paired("a", epochs=3, hyper={"lr": 0.1})
    (work,) = pair.said("train")
    assert work == Work(0, 2, 3, 0, "0" * 64, 0, {"lr": 0.1}, 10)
    assert pair.offer()
    assert pair.logic.waits
    pair.does(pair.study.judge, "p")
    assert [verdict.admitted for verdict in pair.said("verdict")] == [True]
    assert pair.logic.work is None
    pair.does(pair.study.update, "a")
    pair.does(pair.study.aggregate)
    assert [work.round for work in pair.said("train")] == [0, 1]
    assert pair.said("train")[1].weights == weights("g1")


def test_one_that_was_given_up_goes_on_with_what_it_is_training() -> None:
    pair = paired("a")
    pair.study.lose("p")
    assert pair.study.who("p").state.value == "Lost"
    pair.tick()
    assert pair.said("lost")
    assert (pair.logic.stage, pair.logic.incarnation) == (Stage.JOINED, 2)
    assert len(pair.said("train")) == 1
    assert pair.offer()
    pair.does(pair.study.judge, "p")
    assert pair.study.fates()["p"] == "Admitted"


def test_one_that_was_given_up_offers_what_it_has_trained_meanwhile() -> None:
    pair = paired("a")
    pair.cut = True
    assert pair.offer()
    pair.study.lose("p")
    pair.cut = False
    pair.tick()
    assert pair.logic.incarnation == 2
    assert pair.study.fates()["p"] == "Offered"
    assert pair.logic.waits
    assert len(pair.said("train")) == 1


def test_a_new_process_does_not_train_what_an_earlier_one_has_offered() -> None:
    pair = paired("a")
    pair.offer()
    second = Pair(pair.study, secret=b"other" * 8)
    assert second.said("train") == []
    assert second.logic.waits
    second.does(pair.study.judge, "p")
    assert [verdict.admitted for verdict in second.said("verdict")] == [True]


def test_one_that_is_training_hears_that_an_earlier_offer_is_looked_at_and_stops() -> None:
    pair = paired("a")
    work = pair.logic.work
    assert work is not None
    standing = msgspec.structs.replace(pair.study.standing("p"), offered=True)
    pair.logic.receive(Told("p", 1, "standing", standing), pair.now)
    pair.talk()
    assert len(pair.said("drop")) == 1
    assert not pair.logic.offer(Offer(0, work.ticket, 5, weights("mine")))


def test_the_older_of_two_processes_ends() -> None:
    pair = paired("a")
    Pair(pair.study, secret=b"other" * 8)
    pair.tick(5.0)
    (refusal,) = pair.said("ended")
    assert (refusal.code, pair.logic.stage) == ("superseded", Stage.ENDED)


def test_an_old_standing_brings_no_old_ticket_back() -> None:
    pair = paired("a")
    old = pair.study.standing("p")
    pair.offer()
    pair.does(pair.study.judge, "p")
    pair.does(pair.study.update, "a")
    pair.does(pair.study.aggregate)
    newest = pair.logic.work
    assert newest is not None
    pair.logic.receive(Told("p", 1, "standing", old), pair.now)
    assert pair.logic.work == newest


def test_a_ticket_that_is_void_is_dropped_and_the_next_is_asked_for() -> None:
    pair = paired("a", time_max_s=20.0, standby_max_s=500.0)
    pair.cut = True
    pair.study.pass_s(20.0)
    assert pair.study.fates()["p"] == "Dropped"
    pair.cut = False
    pair.offer()
    (dropped,) = pair.said("drop")
    assert dropped.endswith("not counted (not done within 20.0 s)")
    assert pair.logic.work is None
    assert pair.logic.standing is not None
    assert pair.logic.standing.phase == "STANDBY"


def test_a_heartbeat_that_is_answered_with_something_else_than_it_knows_makes_it_ask() -> None:
    pair = paired("a")
    assert pair.logic.standing is not None
    same = BeatSeen(1, "ROUND", 0)
    pair.logic.receive(Told("p", 1, "heartbeat", same), pair.now)
    assert [m for m in pair.logic.take() if isinstance(m, Hello)] == []
    for other in (BeatSeen(2, "STANDBY", 0), BeatSeen(3, "ROUND", 1)):
        pair.logic.receive(Told("p", 1, "heartbeat", msgspec.to_builtins(other)), pair.now)
        assert len([m for m in pair.logic.take() if isinstance(m, Hello)]) == 1
        pair.logic._hello = None


def test_in_standby_the_number_of_the_next_round_is_no_news() -> None:
    pair = paired("a", "b", per_round=1, clients=3, seed=1)
    standing = pair.logic.standing
    assert standing is not None
    idle = msgspec.structs.replace(standing, phase="STANDBY", ticket=0, state="Waiting")
    pair.logic.receive(Told("p", 1, "standing", idle), pair.now)
    pair.logic.take()
    pair.logic.receive(Told("p", 1, "heartbeat", BeatSeen(9, "STANDBY", 7)), pair.now)
    assert [m for m in pair.logic.take() if isinstance(m, Hello)] == []


def test_who_waits_for_a_verdict_asks_now_and_then() -> None:
    """The news of it may be lost, and the next round look just like this one."""
    pair = paired("a")
    pair.offer()
    pair.cut = True
    pair.does(pair.study.judge, "p")
    pair.cut = False
    assert pair.said("verdict") == []
    for _ in range(LOOK_AGAIN + 1):
        pair.tick()
    assert [verdict.admitted for verdict in pair.said("verdict")] == [True]


def test_an_answer_that_comes_after_the_next_round_began_is_not_taken_for_this_ones() -> None:
    pair = paired("a")
    assert pair.logic.work is not None
    pair.logic.offer(Offer(0, pair.logic.work.ticket, 5, weights("mine")))
    pair.logic.tick(pair.now)
    (call,) = [m for m in pair.logic.take() if isinstance(m, Call)]
    answer = pair.study._at_rest(pair.study.hand.report(Received(pair.peer, call)))
    (answered,) = [m for _, m in byhand.sent(answer) if isinstance(m, Answered)]
    next_round = msgspec.structs.replace(pair.study.standing("p"), round=1, ticket=9, offered=False)
    pair.logic.receive(Told("p", 1, "standing", next_round), pair.now)
    pair.logic.receive(answered, pair.now)
    assert pair.logic.work is not None
    assert pair.logic.work.ticket == 9
    assert not pair.logic.waits


def test_poison_ends_it_with_the_reason() -> None:
    pair = paired("a")
    pair.offer()
    pair.does(pair.study.judge, "p", False, "w has a NaN")
    assert [(v.admitted, v.why) for v in pair.said("verdict")] == [(False, "w has a NaN")]
    (refusal,) = pair.said("ended")
    assert (refusal.code, refusal.why) == ("quarantined", "w has a NaN")


@pytest.mark.parametrize(
    ("samples", "loss", "why"),
    [(0, 1.0, "samples = 0: an update of nothing weighs nothing"), (5, float("nan"), "event.metrics[...]: Expected")],
)
def test_one_whose_offer_cannot_be_taken_leaves_and_says_why(samples: int, loss: float, why: str) -> None:
    """Or the round would wait for one that is alive and does nothing, until time_max_s."""
    pair = paired("a", count_min=1)
    work = pair.logic.work
    assert work is not None
    assert pair.logic.offer(Offer(work.round, work.ticket, samples, weights("mine"), 10, {"loss": loss}))
    pair.tick()
    (ended,) = pair.said("ended")
    assert (ended.code, ended.why[: len(why)]) == ("malformed", why)
    assert pair.said("drop")
    assert pair.logic.work is None
    left = pair.study.who("p")
    assert (left.state.value, left.reason) == ("Left", f"its update cannot be taken: {ended.why}")
    pair.study.update("a")
    assert pair.study.task.state.value == "Closing", "the round goes on without it"


def test_one_that_was_given_up_before_its_goodbye_was_heard_ends_with_the_same_reason() -> None:
    pair = paired("a")
    work = pair.logic.work
    assert work is not None
    pair.logic.offer(Offer(work.round, work.ticket, 0, weights("mine")))
    pair.logic.tick(pair.now)
    (call,) = [message for message in pair.logic.take() if isinstance(message, Call)]
    actions = pair.study._at_rest(pair.study.hand.report(Received(pair.peer, call)))
    pair.listen(actions)
    pair.cut = True
    pair.talk()
    pair.study.lose("p")
    pair.cut = False
    pair.tick()
    assert [refusal.code for refusal in pair.said("ended")] == ["malformed"]
    assert pair.study.who("p").state.value == "Lost", "and it did not come back"


def test_when_the_run_is_over_it_says_goodbye_and_ends() -> None:
    pair = paired("a")
    pair.does(pair.study.order, RunStopped("enough"))
    pair.tick()
    assert pair.said("finished") == ["enough"]
    assert pair.said("drop") == []
    assert len(pair.said("verdict")) == 1
    assert (pair.study.who("p").state.value, pair.logic.stage) == ("Done", Stage.ENDED)
    assert pair.logic.finished


def test_one_that_was_given_up_before_the_end_ends_too() -> None:
    pair = paired("a")
    pair.study.lose("p")
    pair.study.order(RunStopped("enough"))
    pair.tick()
    (refusal,) = pair.said("ended")
    assert refusal.code == "run_closed"


def test_one_that_has_said_goodbye_does_not_come_back_because_nobody_heard_it() -> None:
    pair = paired("a")
    pair.cut = True
    pair.logic.leave("had enough")
    pair.tick()
    pair.study.lose("p")
    pair.cut = False
    pair.tick(5.0)
    (refusal,) = pair.said("ended")
    assert (refusal.code, refusal.why) == ("member_gone", "p has left")
    assert pair.study.who("p").incarnation == 1


def test_a_pause_does_not_stop_the_training() -> None:
    pair = paired("a")
    pair.does(pair.study.order, RunPaused())
    assert pair.said("drop") == []
    assert pair.offer()
    assert pair.study.fates()["p"] == "Offered"


def test_what_is_offered_is_what_is_said_on_the_wire() -> None:
    pair = paired("a")
    assert pair.logic.standing is not None
    assert isinstance(pair.logic.standing, Standing)
    pair.offer()
    (offered,) = pair.study.all_events(UpdateOffered)
    assert offered == UpdateOffered("p", 1, 0, 2, 5, weights("mine"), 10, {"loss": 1.0})
