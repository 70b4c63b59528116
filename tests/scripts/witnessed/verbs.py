"""The commands of members and operators in stories about witnessed rounds.

A process is named by the id it uses, a letter from a to f; a second process under the same id has a mark: a and a'.
What a trains in round 2 has a digest that begins with a2, and the model of step 3 one that begins with 93; a model that
somebody has alone begins with its own letter. Members draw for themselves what they have to do, from what they were
shown. Not written down here: that a signal was taken, which its sender is told at once, and what everybody is shown,
but for the first who is.

    join WHO ... [HOST]              hello, then join, following the life the host knows
    load WHO ...                     has the model that its standing names
    commit WHO ... [base=D] [loss=X] the results of what it has to train and has not committed to
    hold WHO ... [only=0,1]          of the results it was shown it holds all, or these; a witness attests
    hash WHO ... [step=N] [own]      the model it has, which is that of all others or its own
    miss WHO ... result=N            of what was sealed last, nobody gives it this one
    accuse BY WHO ...                these do not deliver what they attested
    show BY WHO                      WHO has signed another result in the last round than it committed to
    store WHO                        has put the model that was agreed on into the object store
    beat WHO ...
    leave WHO ...
    again WHO                        the last command it sent, once more
    hello WHO ... [HOST]             connects (again), to another host if one is named
    turn [WHO ...]                   a whole round of those in step, told in one line
    pause [REASON ...]               resume               stop [REASON ...]
    readmit WHO
    members                          who is there
    batches                          the account
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Raw
from tests.scripts.stage import Stage, Verb, settings
from tests.scripts.world import RUN

from quoracy.core.codec import digest, encode
from quoracy.core.journal import RunCreated
from quoracy.core.members import OPERATOR_MARK, Accepted, Cause
from quoracy.core.messages import Answered, Call, Hello, Sign, ToHost, Told, ToMember, Welcome
from quoracy.core.witnessed import events as e
from quoracy.core.witnessed.attestation import bitmap
from quoracy.core.witnessed.committee import count, draw
from quoracy.core.witnessed.overview import account_shown
from quoracy.core.witnessed.state import Course
from quoracy.core.witnessed.views import ResultsShown, RoundShown, SealedList, Standing

OPERATOR = "you"
QUIET = (e.Taken, e.BeatSeen)


def hexed(mark: str) -> bytes:
    return bytes.fromhex(mark.ljust(64, "0"))


def model(step: int) -> bytes:
    return hexed(f"9{step}")


@dataclass
class Process:
    name: str
    host: str = "h1"
    incarnation: int = 0
    known: int = 0
    joins: int = 0
    seq: int = 0
    beats: int = 0
    round: RoundShown | None = None
    results: ResultsShown | None = None
    sealed: SealedList | None = None
    standing: Standing | None = None
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
            case Told(value=RoundShown() as shown):
                self.round = shown
            case Told(value=ResultsShown() as shown):
                self.results = shown
            case Told(value=SealedList() as shown):
                self.sealed = shown
            case Told(value=Standing() as shown):
                self.standing = shown


class Rounds:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.world = stage.world
        self.processes: dict[str, Process] = {}
        self.operators_said = 0
        self.silent = False
        self.world.arrived = self._arrived
        stage.beat = self._beat_one
        self.seen: set[tuple[str, bytes]] = set()
        stage.verbs |= {
            "create": self._create,
            "join": self._join,
            "load": self._load,
            "commit": self._commit,
            "hold": self._hold,
            "hash": self._hash,
            "miss": self._miss,
            "accuse": self._accuse,
            "show": self._show,
            "store": self._store,
            "beat": lambda words: [self._beat_one(name) for name in words],  # type: ignore[dict-item]
            "leave": self._leave,
            "again": self._again,
            "hello": self._hello,
            "turn": self._turn,
            "pause": lambda words: self._operate(e.RunPaused(" ".join(words))),
            "resume": lambda words: self._operate(e.RunResumed()),
            "stop": lambda words: self._operate(e.RunStopped(" ".join(words))),
            "readmit": lambda words: self._operate(e.MemberReadmitted(words[0])),
            "members": self._members,
            "batches": self._batches,
        }
        stage.verbs = {name: self._anew(verb) for name, verb in stage.verbs.items()}

    def _anew(self, verb: Verb) -> Verb:
        def run(words: list[str]) -> None:
            self.seen.clear()
            verb(words)

        return run

    def _create(self, words: list[str]) -> None:
        given = [word for word in words if "/" not in word]
        shares = dict(word.split("=") for word in words if "/" in word)
        self.world.start("h1")
        self.world.create("h1", RunCreated(RUN, "witnessed", 1, settings(given) | shares))

    @property
    def course(self) -> Course:
        return self.world.serving().run.machine.course  # type: ignore[union-attr, no-any-return]

    # -- talking --------------------------------------------------------------------------------------------------

    def _arrived(self, who: str, message: ToMember) -> bool:
        if who in self.processes:
            self.processes[who].learn(message)
        if self.silent or not isinstance(message, Told):
            return not self.silent
        if isinstance(message.value, Standing):
            return True
        shown = (message.topic, encode(message.value))
        if isinstance(message.value, QUIET) or shown in self.seen:
            return False
        self.seen.add(shown)
        return True

    def _who(self, words: list[str]) -> tuple[list[Process], dict[str, str]]:
        """The processes named, and what else is said. A word that names a host is the host they turn to."""
        others = {word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word or word == "own"}
        chosen: list[Process] = []
        for name in (word for word in words if "=" not in word and word != "own"):
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

    def _sign(self, process: Process, signal: Any) -> None:
        self.world.send(process.host, process.name, Sign.of(RUN, signal))

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
            event = e.MemberJoined(process.id, process.known, nonce, b"key of " + process.id.encode())
            self._call(process, Cause(process.id, process.known, 0), event)

    # -- what members do ------------------------------------------------------------------------------------------

    def _load(self, words: list[str]) -> None:
        for process in self._who(words)[0]:
            assert process.standing is not None
            assert process.standing.load is not None, f"{process.name} has nothing to load"
            step, epoch = process.standing.load.step, process.standing.epoch
            if process.standing.state == "Warming":
                self._sign(process, e.Loaded(process.id, process.incarnation, epoch, step, model(step)))
            else:
                self._sign(process, e.ModelHash(process.id, process.incarnation, step, model(step), epoch))

    def _commit(self, words: list[str]) -> None:
        processes, others = self._who(words)
        for process in processes:
            shown = process.round
            assert shown is not None
            given = self.course.round.results if self.course.round else []
            done = {(one.assignment, one.attempt) for one in given}
            for mine in draw(RUN, shown).of(process.id):
                if (mine.index, mine.attempt) in done:
                    continue
                base = hexed(others["base"]) if "base" in others else model(shown.step)
                mark = f"{process.id}{shown.round}" + (f"{mine.attempt}" if mine.attempt > 1 else "")
                samples = count(mine.batches) * self.course.config.batch_size
                event = e.ResultCommitted(
                    process.id, process.incarnation, shown.epoch, shown.round, mine.index, mine.attempt, hexed(mark),
                    100, base, samples, float(others.get("loss", 0)), b"signed",
                )  # fmt: skip
                self._own(process, event)

    def _hold(self, words: list[str]) -> None:
        processes, others = self._who(words)
        for process in processes:
            shown, listed = process.round, process.results
            assert shown is not None
            known = 0 if listed is None or listed.round != shown.round else len(listed.results)
            only = [int(word) for word in others["only"].split(",")] if "only" in others else range(known)
            sort: Any = e.Attest if process.id in draw(RUN, shown).witnesses else e.Holds
            held = bitmap(only, known)
            self._sign(process, sort(process.id, process.incarnation, shown.epoch, shown.round, known, held))

    def _hash(self, words: list[str]) -> None:
        processes, others = self._who(words)
        for process in processes:
            assert process.round is not None
            step = int(others.get("step", process.round.step))
            mine = hexed(f"{process.id}{step}") if "own" in others else model(step)
            past = self.course.past[-1] if self.course.past else None
            void = 0 if past is None or past.step + 1 != step else len(past.voided)
            self._sign(process, e.ModelHash(process.id, process.incarnation, step, mine, process.round.epoch, void))

    def _miss(self, words: list[str]) -> None:
        processes, others = self._who(words)
        for process in processes:
            assert process.sealed is not None
            newest = process.sealed.rounds[-1]
            missing = bitmap([int(others["result"])], len(newest.positions))
            shown = self.course.round
            where = (shown.epoch, shown.number) if shown is not None else (self.course.epoch, 0)
            said = e.Holds(process.id, process.incarnation, *where, 0, b"", newest.step, missing)
            self._sign(process, said)

    def _accuse(self, words: list[str]) -> None:
        (by, *accused), _ = self._who(words)
        names = tuple(process.id for process in accused)
        about = (self.course.step - 1, names, (0,) * len(names), self.course.epoch)
        self._sign(by, e.HealthCheck(by.id, by.incarnation, *about))

    def _show(self, words: list[str]) -> None:
        (by, accused), _ = self._who(words)
        past = self.course.past[-1]
        (given,) = [one for one in past.results if one.member == accused.id]
        event = e.TwoFacedShown(
            by.id, by.incarnation, accused.id, past.epoch, past.number, given.assignment, given.attempt, hexed("ee"),
            given.base, b"signed",
        )  # fmt: skip
        self._own(by, event)

    def _store(self, words: list[str]) -> None:
        ((process,), _) = self._who(words)
        place = self.course.place
        event = e.CheckpointStored(
            process.id, process.incarnation, self.course.epoch, place.step, place.model, hexed(f"5{place.step}"), 1000
        )
        self._own(process, event)

    def _beat_one(self, name: str) -> None:
        process = self.processes[name]
        process.beats += 1
        self._sign(process, e.Beat(process.id, process.incarnation, process.beats))

    def _leave(self, words: list[str]) -> None:
        for process in self._who(words)[0]:
            self._own(process, e.MemberLeft(process.id, process.incarnation))

    def _again(self, words: list[str]) -> None:
        ((process,), _) = self._who(words)
        assert process.last is not None
        self.world.send(process.host, process.name, process.last)

    def _turn(self, words: list[str]) -> None:
        """Nothing new happens in it, so that only its end is told."""
        names = words or sorted(self.course.in_step)
        before = self.course.number
        self.silent = True
        for step in (self._hash, self._commit, self._hold):
            step(names)
        self.silent = False
        assert self.course.number != before, "the round is not over"
        self.world.lines.clear()
        round_ = f"round {before} is sealed: step {self.course.step}"
        self.world.lines.append(f"{round_}, entry {len(self.world.journal)}, {self.course.state.value}")

    # -- operators, and looking -----------------------------------------------------------------------------------

    def _operate(self, event: Any) -> None:
        self.operators_said += 1
        cause = Cause(OPERATOR_MARK + OPERATOR, 0, self.operators_said)
        host = self.world.serving().name
        self._call(self.processes.setdefault(OPERATOR, Process(OPERATOR, host)), cause, event)

    def _members(self, _words: list[str]) -> None:
        for one in self.course.members.values():
            strikes = f", {one.strikes} strikes" if one.strikes else ""
            reason = f' "{one.reason}"' if one.reason else ""
            self.world.lines.append(f"{one.id}.{one.incarnation}  {one.state.value}{strikes}{reason}")

    def _batches(self, _words: list[str]) -> None:
        shown = account_shown(self.course)
        parts = [f"{name} {shown[name]}" for name in ("applied", "open", "waiting", "skipped", "moved", "returned")]
        self.world.lines.append(", ".join(parts) + "".join(f"; {why}: {n}" for why, n in shown["reasons"].items()))


def install(stage: Stage) -> None:
    Rounds(stage)
