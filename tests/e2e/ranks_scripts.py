"""Training scripts of ranks for tests: ``ranks_scripts.py NAME STORE RANK JSON`` runs the function NAME, which says
what happens to it, one JSON value a line."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import quoracy

RUN = "crew"


def say(topic: str, value: Any = None) -> None:
    os.write(1, json.dumps([topic, value]).encode() + b"\n")


def hear() -> str:
    return sys.stdin.readline().strip()


def tell(it: quoracy.Iteration | quoracy.AsyncIteration, **more: Any) -> None:
    gone = [] if it.before is None else it.before.gone
    say("it", {"number": it.number, "attempt": it.attempt, "members": it.members, "joined": it.joined,
               "index": it.index, "gone": gone, "token": it.token, "pid": os.getpid(), "at_s": time.monotonic(),
               **more})  # fmt: skip


def over(ranks: quoracy.Ranks | quoracy.AsyncRanks) -> None:
    say("over", None if ranks.ended is None else type(ranks.ended).__name__)


def train(store: str, rank: int, pace_s: float = 0.02, until: int = 10**9, **settings: Any) -> None:
    """Goes on until it is told otherwise."""
    with quoracy.ranks(store, RUN, rank, **settings) as ranks:
        say("in", ranks.beater)
        for it in ranks.iterations():
            if it.learner:
                say("learner", it.donors)
                it.ready()
                continue
            if it.number >= until:
                break
            tell(it)
            time.sleep(pace_s)
            say("voted", [it.number, it.vote()])
        over(ranks)


def beater_in_trouble(ranks: quoracy.Ranks) -> str:
    """What it says of the store, once it has something to say."""
    while (sight := ranks.glance()) is None or not sight.trouble:
        time.sleep(0.01)
    return sight.trouble


def led(store: str, rank: int, **settings: Any) -> None:
    """Each step when it is told to: yes, no or once."""
    with quoracy.ranks(store, RUN, rank, **settings) as ranks:
        say("in", ranks.beater)
        for it in ranks.iterations():
            tell(it)
            while (line := hear()) not in ("yes", "no"):
                if line == "once":
                    say("once", it.once("id", lambda: str(rank).encode()).decode())
                elif line == "missing":
                    say("missing", it.missing())
                elif line == "trouble":
                    say("trouble", beater_in_trouble(ranks))
                elif line == "leave":
                    return
            say("voted", [it.number, it.vote(line == "yes")])
        over(ranks)


def ends(store: str, rank: int, how: str = "train", **settings: Any) -> None:
    """How it ended, by name."""
    began = time.monotonic()
    try:
        globals()[how](store, rank, **settings)
    except quoracy.QuoracyError as error:
        say("ended", time.monotonic())
        say("raised", [type(error).__name__, error.code, str(error), time.monotonic() - began])


def holds_gil(store: str, rank: int, held_s: float = 4.0, how: str = "call", **settings: Any) -> None:
    """In its second iteration it holds the GIL for long."""
    with quoracy.ranks(store, RUN, rank, **settings) as ranks:
        for it in ranks.iterations():
            tell(it)
            if it.number == 1:
                began = time.monotonic()
                if how == "call":
                    ctypes.PyDLL(None).usleep(ctypes.c_uint(round(held_s * 1e6)))
                while how == "regex" and time.monotonic() - began < held_s:
                    re.match(r"(a+)+$", "a" * 20 + "b")
                say("held", time.monotonic() - began)
            it.vote()


def forks(store: str, rank: int, **settings: Any) -> None:
    with quoracy.ranks(store, RUN, rank, **settings) as ranks:
        for it in ranks.iterations():
            child = os.fork()
            if child == 0:
                try:
                    it.vote()
                except quoracy.Forked as error:
                    say("child", [error.code, str(error)])
                ranks.close()
                os._exit(0)
            os.waitpid(child, 0)
            say("voted", it.vote())
            return


def awaits(store: str, rank: int, until: int = 5, **settings: Any) -> None:
    asyncio.run(_awaits(store, rank, until, settings))


async def _awaits(store: str, rank: int, until: int, settings: dict[str, Any]) -> None:
    async with quoracy.ranks_async(store, RUN, rank, **settings) as ranks:
        async for it in ranks.iterations():
            tell(it)
            if it.number >= until:
                break
            await _meanwhile(it, rank, Path(store.removeprefix("sqlite://")))
            say("voted", [it.number, await it.vote()])
        over(ranks)


async def _meanwhile(it: Any, rank: int, beside: Path) -> None:
    """Each of two ranks gives up waiting once, in an iteration of its own; the other comes only after that."""
    gave_up = beside.with_name(f"gave-up-{it.number}")
    if it.number == 1 + rank:
        try:
            await asyncio.wait_for(it.vote(), 0.1)
        except TimeoutError:
            say("cancelled", it.number)
            gave_up.touch()
    while 1 <= it.number <= 2 and not gave_up.exists():
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3]), **json.loads(sys.argv[4]))
