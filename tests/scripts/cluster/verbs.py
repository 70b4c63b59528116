"""The commands of workers and operators in stories about a fleet.

A process is named by the id it uses; a second process under the same id has a mark: w1 and w1'. Each keeps what a real
worker keeps: its incarnation, the number of its last command, the last generation it knows of each barrier, the run's
generation (fence), and the last order it has.

    join WHO ... [HOST]              hello, then register, following the life the host knows
    join WHO supersedes=N            register without looking first
    ready|load|train|checkpoint|idle WHO ...
    leave WHO [REASON ...]
    arrive WHO ... [step=N] [at=BARRIER]
    beat WHO ...
    again WHO [join]                 the last command or arrival it sent, or its last join, once more
    claim WHO worker-lost|run-stopped    a command that is not a worker's to give
    garble WHO [signal]              a command, or a signal, that cannot be read
    hello WHO ... [HOST]             connects (again), to another host if one is named
    order WHO|all COMMAND [NAME=VALUE ...]
    roll back [REASON ...]           stop [REASON ...]
    workers                          the roster as the serving host has it

After WHO, seq=, incarnation=, of=, after= and fence= say something else than what is true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw
from tests.scripts.stage import Stage, settings
from tests.scripts.world import RUN

from quoracy.core.cluster import events as e
from quoracy.core.cluster.events import HeartbeatSeen
from quoracy.core.cluster.state import Fleet, Order
from quoracy.core.cluster.views import Passage, Standing
from quoracy.core.codec import digest, encode
from quoracy.core.members import OPERATOR_MARK, Accepted, Cause
from quoracy.core.messages import Answered, Call, Hello, Sign, ToHost, Told, ToMember, Welcome

STEPS = {
    "ready": e.WorkerReady,
    "load": e.WorkerLoading,
    "train": e.WorkerTraining,
    "checkpoint": e.WorkerCheckpointing,
    "idle": e.WorkerIdle,
}
OPERATOR = "you"


@dataclass
class Process:
    name: str
    host: str = "h1"
    incarnation: int = 0
    known: int = 0
    joins: int = 0
    seq: int = 0
    beats: int = 0
    step: int = 0
    fence: int = 0
    order: int = 0
    after: dict[str, int] = field(default_factory=dict)
    last: ToHost | None = None
    joined: ToHost | None = None

    @property
    def id(self) -> str:
        return self.name.rstrip("'")

    def learn(self, message: ToMember) -> None:
        match message:
            case Welcome(incarnation=incarnation):
                self.known = incarnation
            case Answered(cause=Cause(seq=0), answer=Accepted(result=dict(result))):
                self.incarnation, self.fence = result["incarnation"], result["fence"]
                self.seq = self.beats = self.order = 0
            case Told(incarnation=meant) if meant != self.incarnation:
                pass
            case Told(value=Passage(barrier=barrier, generation=generation)):
                self.after[barrier] = max(generation, self.after.get(barrier, 0))
            case Told(value=Standing() as standing):
                self.fence = standing.fence
                for name, (generation, _) in standing.barriers.items():
                    self.after.setdefault(name, generation)
            case Told(value=HeartbeatSeen(order=number) | Order(number=number)) if number:
                self.order = number


class Fleetwork:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.world = stage.world
        self.processes: dict[str, Process] = {}
        self.operators_said = 0
        self.quiet = False
        self.world.arrived = self._arrived
        stage.beat = self._beat_quietly
        stage.verbs |= {
            "join": self._join,
            "leave": self._leave,
            "arrive": self._arrive,
            "beat": self._beat,
            "again": self._again,
            "claim": self._claim,
            "garble": self._garble,
            "hello": self._hello,
            "order": self._order,
            "roll": lambda words: self._operate(e.RunRolledBack(" ".join(words[1:]))),
            "stop": lambda words: self._operate(e.RunStopped(" ".join(words))),
            "workers": self._workers,
            **{verb: self._step(event) for verb, event in STEPS.items()},
        }

    def _arrived(self, who: str, message: ToMember) -> bool:
        if who in self.processes:
            self.processes[who].learn(message)
        plain_beat = isinstance(message, Told) and isinstance(message.value, HeartbeatSeen) and not message.value.order
        return not (self.quiet and plain_beat)

    def _who(self, words: list[str]) -> tuple[list[Process], dict[str, Any]]:
        """The processes named, and what else is said. A word that names a host is the host they turn to."""
        names = [word for word in words if "=" not in word]
        said = {word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word}
        others = {name: int(value) if value.isdigit() else value for name, value in said.items()}
        chosen = []
        for name in names:
            if name.startswith("h"):
                for process in chosen:
                    process.host = name
            else:
                chosen.append(self.processes.setdefault(name, Process(name)))
        return chosen, others

    def _send(self, process: Process, message: ToHost) -> None:
        process.last = message
        self.world.send(process.host, process.name, message)

    def _call(self, process: Process, cause: Cause, event: Any) -> None:
        self._send(process, Call(RUN, cause, Raw(encode(event))))

    def _hello(self, words: list[str]) -> None:
        for process in self._who(words)[0]:
            self.world.deaf.discard(process.name)
            self.world.send(process.host, process.name, Hello(RUN, process.id, process.incarnation))

    def _join(self, words: list[str]) -> None:
        processes, others = self._who(words)
        for process in processes:
            self.world.deaf.discard(process.name)
            if "supersedes" not in others:
                self.world.send(process.host, process.name, Hello(RUN, process.id))
            follows = others.get("supersedes", process.known)
            process.joins += 1
            nonce = digest(process.name.encode(), process.joins.to_bytes(8, "big"))[:16]
            key = str(others.get("key", "")).encode()
            self._call(process, Cause(process.id, follows, 0), e.WorkerRegistered(process.id, follows, nonce, key))
            process.joined = process.last

    def _own(self, process: Process, others: dict[str, Any], event: type[Any], *rest: Any) -> None:
        """The process's next command about itself."""
        incarnation = others.get("incarnation", process.incarnation)
        seq = others.get("seq", process.seq + 1)
        if incarnation == process.incarnation and "seq" not in others:
            process.seq = seq
        of = str(others.get("of", process.id))
        self._call(process, Cause(process.id, incarnation, seq), event(of, incarnation, *rest))

    def _step(self, event: type[Any]) -> Any:
        def step(words: list[str]) -> None:
            processes, others = self._who(words)
            for process in processes:
                fenced = "fence" in event.__struct_fields__
                self._own(process, others, event, *([others.get("fence", process.fence)] if fenced else []))

        return step

    def _leave(self, words: list[str]) -> None:
        ((process,), others) = self._who(words[:1])
        self._own(process, others, e.WorkerLeft, " ".join(words[1:]))

    def _arrive(self, words: list[str]) -> None:
        processes, others = self._who(words)
        name = str(others.get("at", "step"))
        for process in processes:
            process.step = others.get("step", process.step)
            incarnation = others.get("incarnation", process.incarnation)
            after = others.get("after", process.after.get(name, 0))
            fence = others.get("fence", process.fence)
            signal = e.Arrive(process.id, incarnation, name, process.step, after, fence)
            self._send(process, Sign.of(RUN, signal))

    def _beat(self, words: list[str]) -> None:
        processes, others = self._who(words)
        for process in processes:
            process.beats += 1
            incarnation = others.get("incarnation", process.incarnation)
            has = others.get("has", process.order)
            signal = e.Heartbeat(process.id, incarnation, process.beats, step=process.step, order=has)
            message = Sign.of(RUN, signal)
            self.world.send(process.host, process.name, message)

    def _beat_quietly(self, name: str) -> None:
        self.quiet = True
        self._beat([name])
        self.quiet = False

    def _again(self, words: list[str]) -> None:
        ((process,), _) = self._who(words[:1])
        message = process.joined if words[1:] == ["join"] else process.last
        if message is None:
            raise AssertionError(f"{process.name} has sent nothing yet")
        self.world.send(process.host, process.name, message)

    def _claim(self, words: list[str]) -> None:
        ((process,), _) = self._who(words[:1])
        lost = e.WorkerLost(process.id, process.incarnation, 0, "")
        event = lost if words[1] == "worker-lost" else e.RunStopped("")
        process.seq += 1
        self._call(process, Cause(process.id, process.incarnation, process.seq), event)

    def _garble(self, words: list[str]) -> None:
        ((process,), _) = self._who(words[:1])
        if words[1:] == ["signal"]:
            garbled = Raw(encode(["arrive", process.id, process.incarnation, "step", -1]))
            message = Sign(RUN, garbled, process.id, process.incarnation)
            self.world.send(process.host, process.name, message)
            return
        process.seq += 1
        cause = Cause(process.id, process.incarnation, process.seq)
        self._send(process, Call(RUN, cause, Raw(encode(["worker-ready", process.id, "one"]))))

    def _order(self, words: list[str]) -> None:
        member = "" if words[0] == "all" else words[0]
        command: Any = words[1]
        self._operate(e.WorkerOrdered(member, command, settings(words[2:])))

    def _operate(self, event: Any) -> None:
        self.operators_said += 1
        cause = Cause(OPERATOR_MARK + OPERATOR, 0, self.operators_said)
        serves = [name for name, s in self.world.stations.items() if s.host.phase.value == "Serving"]
        self._call(self.processes.setdefault(OPERATOR, Process(OPERATOR, serves[0])), cause, event)

    def _workers(self, words: list[str]) -> None:
        fleet: Fleet = self.world.serving().run.machine.fleet  # type: ignore[union-attr]
        for worker in fleet.workers.values():
            present = worker.seat in fleet.by_seat
            place = f"rank {worker.rank}, seat {worker.seat}" if present else "gone"
            reason = f' "{worker.reason}"' if worker.reason else ""
            self.world.lines.append(f"{worker.id}.{worker.incarnation}  {worker.state.value}, {place}{reason}")


def install(stage: Stage) -> None:
    Fleetwork(stage)
