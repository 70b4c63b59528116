"""Participants of a federated run, in a few processes: see ``sdk.crowd``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from quoracy.launch.crowd_process import Wish
from quoracy.learn.mlp import ONE_THREAD


@contextlib.contextmanager
def crowds(wish: Wish, processes: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The members of the wish, dealt out to so many processes. What is left of them at the end is killed."""
    dealt = _deal(wish.members, processes)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for members in dealt:
            part = msgspec.structs.replace(wish, members=members)
            command = [sys.executable, "-m", "quoracy.launch.crowd_process", msgspec.json.encode(part).decode()]
            environment = os.environ | ONE_THREAD
            started.append(
                subprocess.Popen(  # noqa: S603 - ourselves
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
                )
            )
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _deal(members: Mapping[str, dict[str, Any]], processes: int) -> list[dict[str, dict[str, Any]]]:
    names = list(members)
    hands = [names[number::processes] for number in range(processes)]
    return [{name: members[name] for name in hand} for hand in hands if hand]
