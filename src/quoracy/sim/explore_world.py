"""The small world that ``explore`` goes through: a store that does one operation at a time, and ranks that use it.

What a rank runs are the very generators that run against a real store (``stores.keyvalue.entries``). A generator cannot
be copied, so each is turned into a table while the search goes on: (program, answers so far) -> next operation. An
answer that was not seen before replays the generator up to there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from quoracy.core.errors import EntriesGone
from quoracy.ports import Appended, Conflict
from quoracy.stores.keyvalue.entries import Entries
from quoracy.stores.keyvalue.keys import NONCE_BYTES
from quoracy.stores.keyvalue.steps import (
    Add,
    Announce,
    AppendThenGet,
    Create,
    CreateThenGet,
    Delete,
    Exists,
    Get,
    GetMany,
    Step,
    Steps,
    Swap,
)
from quoracy.stores.seal import SEAL_BYTES

FRESH: Final = 15
"""The record of a proposal that begins with this very step: renumbered at once."""
RECORDS = (Get, Create, Swap)
"""Operations that are answered with what is stored: a record, if it is an entry's key."""


Single = Get | Exists | Create | Swap | Announce | Delete


class Program(NamedTuple):
    """What a rank does: propose and, having won, tell; read, clean, or look for the end; for entry n; its own record,
    when it proposes."""

    verb: str
    n: int
    record: int


class Board(NamedTuple):
    """What is in the store, and what was ever adopted. Records are numbers, 0 is none."""

    entries: tuple[int, ...]
    adopted: tuple[int, ...]
    marks: tuple[int, int]
    """The numbers under ``floor`` and ``swept``."""


class Rank(NamedTuple):
    """``at``: the first entry it does not have. A program with the answers it got so far, or none if it is idle."""

    at: int
    program: Program | None
    answers: tuple[int, ...]


class Move(NamedTuple):
    """One step of one rank: the store afterwards, the rank afterwards."""

    board: int
    rank: int
    said: str
    violation: str


Frames = tuple[Any, ...]


class _Turn(NamedTuple):
    """Where a program stands: its next operation and all that it remembers, or how it ended."""

    step: Single | None
    result: Any


class World:
    """The rules of one world. Boards and ranks are interned, so that a state is a few small numbers."""

    def __init__(self, entries: Entries, attempts: int) -> None:
        self._entries = entries
        self.attempts = attempts
        self._slots = {entries.keys.entry(n): n - 1 for n in range(1, attempts + 1)}
        self._marks = {entries.keys.floor: 0, entries.keys.swept: 1}
        self._bytes: dict[tuple[str, int], bytes] = {}
        self._alike: dict[tuple[Program, Frames], tuple[int, ...]] = {}
        self._turns: dict[tuple[Program, tuple[int, ...]], _Turn] = {}
        self.boards: list[Board] = []
        self.ranks: list[Rank] = []
        self._board_ids: dict[Board, int] = {}
        self._rank_ids: dict[Rank, int] = {}
        self.board_records: list[tuple[int, ...]] = []
        self.rank_records: list[tuple[int, ...]] = []
        """The records that each mentions, as entry * 16 + number, in order."""
        self.shapes: list[int] = []
        """A number for each rank by which ranks can be put in order, whatever their records are called."""
        self._shape_ids: dict[Rank, int] = {}
        self._moves: dict[tuple[int, int], tuple[Move, ...]] = {}

    def board(self, board: Board) -> int:
        known = self._board_ids.get(board)
        if known is None:
            known = self._board_ids[board] = len(self.boards)
            self.boards.append(board)
            pairs = zip(board.adopted, board.entries, strict=True)
            self.board_records.append(tuple(n * 16 + r for n, pair in enumerate(pairs, 1) for r in pair if r))
        return known

    def rank(self, rank: Rank) -> int:
        known = self._rank_ids.get(rank)
        if known is None:
            known = self._rank_ids[rank] = self._add(self._merged(rank))
        return known

    def _add(self, rank: Rank) -> int:
        known = self._rank_ids.get(rank)
        if known is None:
            known = self._rank_ids[rank] = len(self.ranks)
            self.ranks.append(rank)
            self.rank_records.append(self._mentioned(rank))
            self.shapes.append(self._shape_ids.setdefault(self._shape(rank), len(self._shape_ids)) << 16 | known)
        return known

    def _merged(self, rank: Rank) -> Rank:
        """Other answers may have led the program to the same place with the same variables: then those stand for it."""
        if rank.program is None:
            return rank
        frames = self._turn(rank.program, rank.answers).result
        answers = self._alike.setdefault((rank.program, frames), rank.answers)
        return Rank(rank.at, rank.program, answers)

    def renamed_board(self, board: int, names: dict[int, int]) -> int:
        old = self.boards[board]
        entries = tuple(names[n * 16 + record] if record else 0 for n, record in enumerate(old.entries, 1))
        adopted = tuple(names[n * 16 + record] if record else 0 for n, record in enumerate(old.adopted, 1))
        return self.board(Board(entries, adopted, old.marks))

    def renamed_rank(self, rank: int, names: dict[int, int]) -> int:
        at, program, answers = self.ranks[rank]
        if program is None or not self.rank_records[rank]:
            return rank
        numbers = zip(answers, self._entries_of(program, answers), strict=True)
        renamed = tuple(names[n * 16 + answer] if n and answer else answer for answer, n in numbers)
        record = names[program.n * 16 + program.record] if program.record else 0
        return self.rank(Rank(at, Program(program.verb, program.n, record), renamed))

    def _entries_of(self, program: Program, answers: tuple[int, ...]) -> list[int]:
        """For each answer that is a record, as which entry; 0 for any other answer."""
        steps = [self._turn(program, answers[:i]).step for i in range(len(answers))]
        return [self._slots.get(step.key, -1) + 1 if isinstance(step, RECORDS) else 0 for step in steps]

    def _mentioned(self, rank: Rank) -> tuple[int, ...]:
        if rank.program is None:
            return ()
        own = (rank.program.n * 16 + rank.program.record,) if rank.program.record else ()
        numbers = zip(rank.answers, self._entries_of(rank.program, rank.answers), strict=True)
        return own + tuple(n * 16 + answer for answer, n in numbers if n and answer)

    def _shape(self, rank: Rank) -> Rank:
        """The rank without the numbers of the records it mentions."""
        if rank.program is None:
            return rank
        verb, n, own = rank.program
        numbers = zip(rank.answers, self._entries_of(rank.program, rank.answers), strict=True)
        shaped = tuple(1 + (answer == own) if of and answer else answer for answer, of in numbers)
        return Rank(rank.at, Program(verb, n, 0), shaped)

    # -- what one rank may do next ------------------------------------------------------------------------------------

    def moves(self, board: int, rank: int) -> tuple[Move, ...]:
        """Everything this rank may do next, whatever the others do: that depends on the store and on itself only."""
        known = self._moves.get((board, rank))
        if known is None:
            known = self._moves[board, rank] = tuple(self.find_moves(board, rank))
        return known

    def find_moves(self, board: int, rank: int, fresh: int = FRESH) -> Iterator[Move]:
        at, program, answers = self.ranks[rank]
        if program is not None:
            yield self._advance(board, at, program, answers)
        else:
            for wanted in self._choices(at, fresh):
                yield self._advance(board, at, wanted, ())
        if program is not None or at > 1:
            yield Move(board, self.rank(Rank(1, None, ())), "dies, and comes back without any memory", "")

    def _choices(self, at: int, fresh: int) -> Iterator[Program]:
        if at <= self.attempts:
            yield Program("propose", at, fresh)
        for n in range(1, min(at, self.attempts) + 1):
            yield Program("read", n, 0)
        for n in range(1, at):
            yield Program("clean", n, 0)
        yield Program("look", 0, 0)

    def _advance(self, board: int, at: int, program: Program, answers: tuple[int, ...]) -> Move:
        turn = self._turn(program, answers)
        assert turn.step is not None
        answer, after = self._perform(self.boards[board], turn.step)
        said = f"{_intent(program) if not answers else 'goes on'}: {_say(turn.step, answer)}"
        violation = ""
        if isinstance(turn.step, Announce):
            after, violation = _adopt(after, program.n, program.record)
        answers = (*answers, answer)
        turn = self._turn(program, answers)
        violation = violation or _broken(after)
        if turn.step is not None:
            return Move(self.board(after), self.rank(Rank(at, program, answers)), said, violation)
        return self._finish(after, at, program, turn.result, said, violation)

    def _finish(self, after: Board, at: int, program: Program, result: Any, said: str, violation: str) -> Move:
        if isinstance(result, EntriesGone):
            at = max(at, result.available)
            said += f"; is told that entry {program.n} is gone"
        elif program.verb == "look":
            said += f"; finds that entry {result} is the last"
            violation = violation or _wrong_end(after, at, result)
        elif result:
            said += f"; adopts record {result} as entry {program.n}"
            after, wrong = _adopt(after, program.n, result)
            violation = violation or wrong or _broken(after)
            at = max(at, program.n + 1)
        return Move(self.board(after), self.rank(Rank(min(at, self.attempts + 1), None, ())), said, violation)

    # -- the store ----------------------------------------------------------------------------------------------------

    def _perform(self, board: Board, step: Single) -> tuple[int, Board]:
        """One operation of a store, on numbers instead of bytes."""
        if isinstance(step, Announce):  # nobody ever reads it: see _adopt
            return 0, board
        key = step.key
        stored = self._stored(board, key)
        match step:
            case Get():
                return stored, board
            case Exists():
                return int(stored != 0), board
            case Create(value=value):
                return (stored, board) if stored else self._put(board, key, self._number(key, value))
            case Swap(expected=expected, value=value):
                if stored != self._number(key, expected):
                    return stored, board
                return self._put(board, key, self._number(key, value))
            case Delete():
                return int(stored != 0), self._put(board, key, 0)[1]
        raise AssertionError(f"{step} is not explored")

    def _stored(self, board: Board, key: str) -> int:
        """Entries beyond the last attempt are asked for, but nobody creates one."""
        return board.marks[self._marks[key]] if key in self._marks else _at(board.entries, self._slots.get(key))

    def _put(self, board: Board, key: str, number: int) -> tuple[int, Board]:
        entries, marks = list(board.entries), list(board.marks)
        if key in self._slots:
            entries[self._slots[key]] = number
        else:
            marks[self._marks[key]] = number
        return number, Board(tuple(entries), board.adopted, (marks[0], marks[1]))

    def _number(self, key: str, value: bytes) -> int:
        """A value as a number, and the way back for ``_value``."""
        number = int(value[SEAL_BYTES + (NONCE_BYTES if key in self._slots else 0) :])
        self._bytes[key, number] = value
        return number

    def _value(self, key: str, number: int) -> bytes | None:
        if number and (key, number) not in self._bytes:
            step = next(self._start(Program("propose", self._slots[key] + 1, number)))
            assert isinstance(step, Create | CreateThenGet)
            self._number(key, step.value)
        return self._bytes[key, number] if number else None

    # -- the generators -----------------------------------------------------------------------------------------------

    def _start(self, program: Program) -> Steps[Any]:
        if program.verb == "propose":
            return self._propose(program.n, program.record)
        if program.verb == "read":
            return self._entries.read(program.n, 1)
        if program.verb == "look":
            return self._entries.last(0)
        return self._entries.clean(program.n)

    def _propose(self, n: int, record: int) -> Steps[Any]:
        outcome = yield from self._entries.create(n, b"%d" % record, record.to_bytes(NONCE_BYTES, "big"))
        if isinstance(outcome, Appended):
            yield from self._entries.tell(n)
        return outcome

    def _turn(self, program: Program, answers: tuple[int, ...]) -> _Turn:
        known = self._turns.get((program, answers))
        if known is None:
            known = self._turns[program, answers] = self._replay(program, answers)
        return known

    def _replay(self, program: Program, answers: tuple[int, ...]) -> _Turn:
        steps = self._start(program)
        step, got = next(steps), 0
        try:
            while True:
                single = _single(step)
                given = answers[got : got + len(single)]
                if len(given) < len(single):
                    return _Turn(single[len(given)], (_frames(steps), given))
                got += len(single)
                step = steps.send(self._answer(step, single, given))
        except StopIteration as done:
            return _Turn(None, _result(program, done.value))
        except EntriesGone as gone:
            return _Turn(None, gone)

    def _answer(self, step: Step, single: tuple[Single, ...], given: tuple[int, ...]) -> object:
        if isinstance(step, Delete | Exists | Announce):
            return bool(given[0])
        values = [self._value(each.key, answer) for each, answer in zip(single, given, strict=True)]
        if isinstance(step, GetMany):
            return values
        return tuple(values) if isinstance(step, CreateThenGet) else values[0]


def _single(step: Step) -> tuple[Single, ...]:
    """What a store does one after the other, with others in between: an operation of the port is one or several."""
    match step:
        case GetMany(keys):
            return tuple(map(Get, keys))
        case CreateThenGet(key, value, other):
            return Create(key, value), Get(other)
        case Add() | AppendThenGet():
            raise AssertionError(f"{step} is not explored")
    return (step,)


def _frames(steps: Any) -> Frames:
    """All that a generator will ever remember: where it stands and its variables, and so on into those it waits for."""
    frames: list[Any] = []
    while steps is not None:
        frame = steps.gi_frame
        variables = sorted(frame.f_locals.items())
        values = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in variables)
        frames.append((frame.f_code.co_name, frame.f_lasti, values))
        steps = steps.gi_yieldfrom
    return tuple(frames)


def _intent(program: Program) -> str:
    match program.verb:
        case "propose":
            return f"proposes record {program.record} as entry {program.n}"
        case "read":
            return f"reads entry {program.n}"
        case "look":
            return "looks for the last entry"
    return f"cleans up to entry {program.n}"


def _say(step: Single, answer: int) -> str:
    what = "/".join(step.key.split("/")[3:])
    match step:
        case Get():
            return f"get {what} -> {answer or 'nothing'}"
        case Exists():
            return f"exists {what} -> {'yes' if answer else 'no'}"
        case Create():
            return f"create {what} -> {answer} is there"
        case Swap():
            return f"swap {what} -> {answer or 'nothing'} is there"
        case Announce():
            return f"announce {what}"
    return f"delete {what}" + ("" if answer else ", which was not there")


def _result(program: Program, value: object) -> int:
    """The record that is adopted, 0 if none is."""
    match value:
        case Appended():
            return program.record
        case Conflict(payload=payload):
            return int(payload)
        case [bytes(payload)]:
            return int(payload)
        case int(last) if program.verb == "look":
            return last
    return 0


def _adopt(board: Board, n: int, record: int) -> tuple[Board, str]:
    """Somebody goes on with this record as entry n. Whoever is told of one, and everybody may be from that moment on,
    adopts the record of whoever tells: what is told is a bare yes, and never taken back."""
    before = board.adopted[n - 1]
    adopted = (*board.adopted[: n - 1], before or record, *board.adopted[n:])
    wrong = f"record {record} is adopted as entry {n}, and record {before} was before"
    return Board(board.entries, adopted, board.marks), wrong if before not in (0, record) else ""


def _at(entries: tuple[int, ...], slot: int | None) -> int:
    return 0 if slot is None else entries[slot]


def _wrong_end(board: Board, at: int, last: int) -> str:
    """What is found must be there or gone, and must not be less than the rank had before it looked."""
    top = max([board.marks[0], *(n for n, stored in enumerate(board.entries, 1) if stored)])
    if at - 1 <= last <= top:
        return ""
    return f"entry {last} is found to be the last; the rank had {at - 1} before, and {top} is the last"


def _broken(board: Board) -> str:
    floor = board.marks[0]
    for n, (stored, adopted) in enumerate(zip(board.entries, board.adopted, strict=True), 1):
        if adopted and floor < n and stored != adopted:
            return f"record {adopted} was adopted as entry {n} and is lost, and the floor is {floor}"
        if stored and n > 1 and floor < n - 1 and not board.entries[n - 2]:
            return f"entry {n} is there and entry {n - 1} is not, and the floor is {floor}"
    return ""
