"""Types that several threads may be the first to read, at the same moment: msgspec does not survive that by itself."""

from __future__ import annotations

import subprocess
import sys

TRIES = 12

PROGRAM = """
import sys, threading
import msgspec
sys.setswitchinterval(1e-6)
from quoracy.core.witnessed.events import BeatSeen, MemberJoined, Taken
from quoracy.core.witnessed.views import *
one = Result(0, 1, "m", b"d", 1, b"b")
said = [
    MemberJoined("m", 0, bytes(16), b""), BeatSeen(1, "RoundTrain", 0, 0), Taken("RoundTrain", 0, 0),
    Standing(1, "InStep", "RoundTrain", 0, 0, "", Pointer("initial", 0), False),
    RoundShown("RoundTrain", 0, 0, 0, b"s", ("m",), (1,), ((0, 1),), 1, ((0, 1, "m"),), 0, ""),
    ResultsShown(0, 0, (one,)), SealedList((SealedShown(0, 0, 0, b"m", (one,), (("m",),)),)),
    PeersShown(0, (Peer("m", 1, b"k", ("a",)),)),
]
written = [(msgspec.msgpack.encode(each), type(each)) for each in said]
several = threading.Barrier(8)

def read():
    for payload, kind in written:
        several.wait()
        msgspec.msgpack.decode(payload, type=kind)

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_many_threads_may_be_the_first_to_read_a_type() -> None:
    ended = {subprocess.run([sys.executable, "-c", PROGRAM], check=False).returncode for _ in range(TRIES)}
    assert ended == {0}, "negative: it was ended by a signal"
