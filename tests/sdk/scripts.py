"""Training scripts for tests: ``scripts.py NAME URL ...`` runs the function NAME, which says what happens to it."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import quoracy

RUN = "demo"


def say(topic: str, value: Any = None) -> None:
    os.write(1, json.dumps([topic, value]).encode() + b"\n")


def hear() -> str:
    """Whoever started this is gone at the end of the input: nobody is left to wait for."""
    line = sys.stdin.readline()
    if not line:
        os._exit(1)
    return line.strip()


def _steps(worker: quoracy.Worker, member: str, count: int, rest_s: float = 0.0) -> None:
    """In step with the others, whatever happens."""
    passed = 0
    step = worker.next_step("step")
    while passed < count:
        time.sleep(rest_s)
        try:
            worker.barrier("step", step)
        except quoracy.Setback as error:
            say("setback", [type(error).__name__, str(error)])
            step = worker.next_step("step")
        except quoracy.BarrierAborted as error:
            say("aborted", str(error))
            step = worker.next_step("step")
        else:
            passed += 1
            say("passed", step)
            step += 1


def steps(url: str, member: str, count: str, rest_s: str = "0") -> None:
    with quoracy.connect(url, run=RUN, member=member) as worker:
        say("in", [worker.incarnation, worker.rank])
        _steps(worker, member, int(count), float(rest_s))
    say("out")


def connects(url: str) -> None:
    """To an address where nobody is."""
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("quoracy").addHandler(_Tells())
    try:
        quoracy.connect(url, run=RUN, member="w1")
    except quoracy.WorkerError as error:
        say("ended", type(error).__name__)


class _Tells(logging.Handler):
    def emit(self, _record: logging.LogRecord) -> None:
        say("waits")


def declared_dead(url: str, member: str, call: str) -> None:
    """Computes while the coordinator gives it up, then makes one call of this sort."""
    with quoracy.connect(url, run=RUN, member=member) as worker:
        say("in", worker._heartbeats.pid)
        hear()
        calls: dict[str, Callable[[], Any]] = {
            "barrier": lambda: worker.barrier("step", 0),
            "next_step": lambda: worker.next_step("step"),
            "progress": worker.progress,
            "report": lambda: worker.report(step=1),
            "training": worker.training,
        }
        try:
            calls[call]()
        except quoracy.GivenUp:
            say("learnt")
        say("again", [worker.barrier("step", worker.next_step("step")).step, worker.incarnation])


def data_loader(url: str, run: str, token: str, ca: str) -> None:
    """Batches from forked processes, which end while their parent waits at a barrier."""
    from torch.utils.data import DataLoader

    with quoracy.connect(url, run=run, member="one", token=token, ca=ca) as worker:
        given: Any = list(range(64))
        loader: Any = DataLoader(given, batch_size=4, num_workers=2, multiprocessing_context="fork")
        batches = iter(loader)
        for step in range(4):
            next(batches)
            say("passed", [worker.barrier("step", step).step, worker.incarnation])
        loaders = [process.pid for process in batches._workers]
        say("loaders", loaders)
        hear()
        threading.Timer(0.2, lambda: [os.kill(pid, signal.SIGKILL) for pid in loaders]).start()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's own handler would raise inside the barrier
        say("passed", [worker.barrier("step", 4).step, worker.incarnation])
        os._exit(0)


def hold_gil(url: str, member: str, seconds: str) -> None:
    """A call into C that does not let go of the GIL, as a badly behaved extension does."""
    with quoracy.connect(url, run=RUN, member=member) as worker:
        say("in", os.getpid())
        began = time.monotonic()
        ctypes.PyDLL(None).usleep(ctypes.c_uint(round(float(seconds) * 1e6)))
        say("held", time.monotonic() - began)
        worker.barrier("step", worker.next_step("step"))
        say("passed", worker.incarnation)


def stand_by(url: str, member: str) -> None:
    """Joins, and does what it is told, line by line."""
    with quoracy.connect(url, run=RUN, member=member, connect_timeout_s=20.0) as worker:
        say("in", worker.incarnation)
        while (line := hear()) != "leave":
            try:
                if line == "barrier":
                    passage = worker.barrier("step", worker.next_step("step"))
                    say("passed", [passage.step, worker.incarnation])
                elif line == "progress":
                    worker.progress()
                    say("moved")
            except quoracy.WorkerError as error:
                say("raised", [type(error).__name__, error.code, str(error)])
    say("out")


def drained(url: str, member: str, drain_s: str = "20") -> None:
    """Never looks whether it should stop: the barrier tells it."""
    try:
        with quoracy.connect(url, run=RUN, member=member, drain_s=float(drain_s)) as worker:
            say("in")
            for step in range(worker.next_step("step"), 10**9):
                hear()
                say("arrives", step)
                worker.barrier("step", step)
                say("passed", step)
    except quoracy.Draining as error:
        say("draining", [None if error.passage is None else error.passage.step, str(error)])


def careless(url: str, member: str) -> None:
    """Ends without a word."""
    worker = quoracy.connect(url, run=RUN, member=member)
    say("in", worker.incarnation)


def busy(url: str, member: str) -> None:
    """Calls nothing but progress."""
    with quoracy.connect(url, run=RUN, member=member) as worker:
        say("in", os.getpid())
        while True:
            worker.progress()
            time.sleep(0.001)


def forked(url: str, member: str) -> None:
    """A child uses its parent's worker."""
    with quoracy.connect(url, run=RUN, member=member) as worker:
        child = os.fork()
        if child == 0:
            try:
                worker.barrier("step", 0)
            except quoracy.Forked as error:
                say("child", [error.code, str(error)])
            try:
                worker.progress()
            except quoracy.Forked as error:
                say("child", error.code)
            worker.close()
            os._exit(0)
        os.waitpid(child, 0)
        worker.barrier("step", 0)
        say("passed", 0)


def forked_and_dead(url: str, member: str) -> None:
    """A child outlives its parent, holding copies of all that was open."""
    worker = quoracy.connect(url, run=RUN, member=member)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    say("child", [child, worker.incarnation])
    time.sleep(60)


def async_steps(url: str, member: str, count: str) -> None:
    asyncio.run(_async_steps(url, member, int(count)))


async def _async_steps(url: str, member: str, count: int) -> None:
    async with quoracy.connect_async(url, run=RUN, member=member) as worker:
        say("in", worker.incarnation)
        first = await worker.next_step("step")
        for step in range(first, first + count):
            await worker.barrier("step", step)
            say("passed", step)
    say("out")


def async_drained(url: str, member: str) -> None:
    asyncio.run(_async_drained(url, member))


async def _async_drained(url: str, member: str) -> None:
    try:
        async with quoracy.connect_async(url, run=RUN, member=member) as worker:
            say("in")
            await worker.barrier("step", await worker.next_step("step"))
            say("passed")
    except quoracy.Draining as error:
        say("draining", None if error.passage is None else error.passage.step)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
