"""The commands of participants, the workshop and operators in stories about federated rounds.

A process is named by the id it uses, a letter from a to f; a second process under the same id has a mark: a and a'.
What participant a trains in round 0 has the digest a0..., and model 1 has 91...

    join WHO ... [initial] [HOST]    hello, then rendezvous, following the life the host knows
    offer WHO ... [round=N] [ticket=N] [digest=D] [samples=N] [loss=X]
                                     the update of the round it was told of, or of another
    beat WHO ...
    leave WHO ...
    again WHO                        the last command it sent, once more
    hello WHO ... [HOST]             connects (again), to another host if one is named
    admit WHO ...                    the workshop finds its update good
    refuse WHO WHY ...               or bad
    aggregate                        the workshop makes the next model
    fail WHY ...                     or cannot
    evaluate NAME=VALUE ...          the workshop has evaluated the model
    pause [REASON ...]               resume               stop [REASON ...]
    readmit WHO
    participants                     who is there
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Raw
from tests.scripts.stage import Stage, settings
from tests.scripts.world import RUN

from quoracy.core.codec import digest, encode
from quoracy.core.federated import events as e
from quoracy.core.federated.state import Task
from quoracy.core.federated.views import Standing
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Duty
from quoracy.core.members import OPERATOR_MARK, Accepted, Cause
from quoracy.core.messages import Answered, Call, Hello, Sign, ToHost, Told, ToMember, Welcome
from quoracy.core.shell import DutyFinished

OPERATOR = "you"


def hexed(mark: str) -> str:
    return mark.ljust(64, "0")


@dataclass
class Process:
    name: str
    host: str = "h1"
    incarnation: int = 0
    known: int = 0
    joins: int = 0
    seq: int = 0
    beats: int = 0
    round: int = 0
    ticket: int = 0
    last: ToHost | None = None

    @property
    def id(self) -> str:
        return self.name.rstrip("'")

    def learn(self, message: ToMember) -> None:
        match message:
            case Welcome(incarnation=incarnation):
                self.known = incarnation
            case Answered(cause=Cause(seq=0), answer=Accepted(result=dict(result))):
                self.incarnation = result["incarnation"]
                self.seq = self.beats = 0
            case Told(value=Standing(ticket=ticket) as standing) if ticket:
                self.round, self.ticket = standing.round, ticket


class Rounds:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.world = stage.world
        self.processes: dict[str, Process] = {}
        self.operators_said = 0
        self.quiet = False
        self.world.arrived = self._arrived
        stage.beat = self._beat_quietly
        stage.verbs |= {
            "create": self._create,
            "join": self._join,
            "offer": self._offer,
            "beat": self._beat,
            "leave": self._leave,
            "again": self._again,
            "hello": self._hello,
            "admit": lambda words: [self._judge(who, {"ok": True, "norm": 1.0}) for who in words],  # type: ignore[dict-item]
            "refuse": lambda words: self._judge(words[0], {"ok": False, "why": " ".join(words[1:])}),
            "aggregate": self._aggregate,
            "fail": lambda words: self._done(self._duties()[-1], {"failed": " ".join(words)}),
            "evaluate": lambda words: self._done(self._duties()[-1], {"metrics": settings(words)}),
            "pause": lambda words: self._operate(e.RunPaused(" ".join(words))),
            "resume": lambda words: self._operate(e.RunResumed()),
            "stop": lambda words: self._operate(e.RunStopped(" ".join(words))),
            "readmit": lambda words: self._operate(e.ParticipantReadmitted(words[0])),
            "participants": self._participants,
        }

    def _create(self, words: list[str]) -> None:
        """With initial weights, unless a participant is to give them."""
        given = {} if "unborn" in words else {"initial": hexed("90")}
        config = given | settings([word for word in words if word != "unborn"])
        self.world.start("h1")
        self.world.create("h1", RunCreated(RUN, "federated", KINDS.newest("federated").rules, config))

    # -- participants ---------------------------------------------------------------------------------------------

    def _arrived(self, who: str, message: ToMember) -> bool:
        if who in self.processes:
            self.processes[who].learn(message)
        return not (self.quiet and isinstance(message, Told) and isinstance(message.value, e.BeatSeen))

    def _who(self, words: list[str]) -> tuple[list[Process], dict[str, Any]]:
        """The processes named, and what else is said. A word that names a host is the host they turn to."""
        others: dict[str, Any] = {word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word}
        chosen: list[Process] = []
        for name in (word for word in words if "=" not in word and word != "initial"):
            if name.startswith("h"):
                for process in chosen:
                    process.host = name
            else:
                chosen.append(self.processes.setdefault(name, Process(name)))
        return chosen, others

    def _call(self, process: Process, cause: Cause, event: Any) -> None:
        process.last = Call(RUN, cause, Raw(encode(event)))
        self.world.send(process.host, process.name, process.last)

    def _own(self, process: Process, event: Any) -> None:
        process.seq += 1
        self._call(process, Cause(process.id, process.incarnation, process.seq), event)

    def _hello(self, words: list[str]) -> None:
        for process in self._who(words)[0]:
            self.world.deaf.discard(process.name)
            self.world.send(process.host, process.name, Hello(RUN, process.id, process.incarnation))

    def _join(self, words: list[str]) -> None:
        for process in self._who(words)[0]:
            self.world.deaf.discard(process.name)
            self.world.send(process.host, process.name, Hello(RUN, process.id))
            process.joins += 1
            nonce = digest(process.name.encode(), process.joins.to_bytes(8, "big"))[:16]
            event = e.ParticipantJoined(process.id, process.known, nonce, initial="initial" in words)
            self._call(process, Cause(process.id, process.known, 0), event)

    def _offer(self, words: list[str]) -> None:
        processes, others = self._who(words)
        for process in processes:
            number = int(others.get("round", process.round))
            ticket = int(others.get("ticket", process.ticket))
            mark = others.get("digest", f"{process.id}{number}" if number >= 0 else process.id)
            metrics: Any = {"loss": float(others["loss"])} if "loss" in others else {}
            update = e.UpdateOffered(
                process.id, process.incarnation, number, ticket, int(others.get("samples", 10)), hexed(mark),
                metrics=metrics,
            )  # fmt: skip
            self._own(process, update)

    def _beat(self, words: list[str]) -> None:
        for process in self._who(words)[0]:
            process.beats += 1
            beat = e.Beat(process.id, process.incarnation, process.beats)
            self.world.send(process.host, process.name, Sign.of(RUN, beat))

    def _beat_quietly(self, name: str) -> None:
        self.quiet = True
        self._beat([name])
        self.quiet = False

    def _leave(self, words: list[str]) -> None:
        for process in self._who(words)[0]:
            self._own(process, e.ParticipantLeft(process.id, process.incarnation))

    def _again(self, words: list[str]) -> None:
        ((process,), _) = self._who(words)
        assert process.last is not None
        self.world.send(process.host, process.name, process.last)

    # -- the workshop ---------------------------------------------------------------------------------------------

    def _duties(self) -> list[Duty]:
        run = self.world.serving().run
        assert run is not None
        return list(run.duties.values())

    def _done(self, duty: Duty, result: dict[str, Any]) -> None:
        host = self.world.serving().name
        self.world.report(host, DutyFinished(duty.entry, duty.index, result))

    def _judge(self, who: str, result: dict[str, Any]) -> None:
        (duty,) = [d for d in self._duties() if d.what == "admit" and d.order["participant"] == who]
        self._done(duty, result)

    def _aggregate(self, _words: list[str]) -> None:
        (duty,) = [d for d in self._duties() if d.what == "aggregate"]
        self._done(duty, {"weights": hexed(f"9{duty.order['round'] + 1}"), "size_bytes": 100, "state": ""})

    # -- operators ------------------------------------------------------------------------------------------------

    def _operate(self, event: Any) -> None:
        self.operators_said += 1
        cause = Cause(OPERATOR_MARK + OPERATOR, 0, self.operators_said)
        host = self.world.serving().name
        self._call(self.processes.setdefault(OPERATOR, Process(OPERATOR, host)), cause, event)

    def _participants(self, _words: list[str]) -> None:
        task: Task = self.world.serving().run.machine.task  # type: ignore[union-attr]
        for one in task.participants.values():
            mine = None if task.round is None else task.round.assignments.get(one.id)
            place = "" if mine is None else f", ticket {mine.ticket} {mine.fate.value}"
            reason = f' "{one.reason}"' if one.reason else ""
            self.world.lines.append(f"{one.id}.{one.incarnation}  {one.state.value}{place}{reason}")


def install(stage: Stage) -> None:
    Rounds(stage)
