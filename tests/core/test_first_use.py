"""Types that several threads may be the first to read, at the same moment: msgspec does not survive that by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

TRIES = 6

PROGRAM = """
import contextlib, importlib, sys, threading, typing
import msgspec
sys.setswitchinterval(1e-6)
module = importlib.import_module(sys.argv[1])
types = {
    each
    for value in vars(module).values()
    for each in (value, *typing.get_args(value))
    if isinstance(each, type) and issubclass(each, msgspec.Struct) and each.__module__ == module.__name__
}
sent = [each for each in types if each.__struct_config__.frozen and not each.__subclasses__()]
types = sorted(sent, key=lambda each: each.__name__)
assert len(types) > 1, types
several = threading.Barrier(8)

def payload(type, value):  # its fields are looked at one by one: the process ends at one that is not known yet
    fields = [value] * 40
    tag = type.__struct_config__.tag
    if type.__struct_config__.array_like:
        return msgspec.msgpack.encode(fields if tag is None else [tag, *fields])
    return msgspec.msgpack.encode(dict.fromkeys(type.__struct_fields__, value))

written = [(payload(each, value), each) for each in types for value in ("m", 1)]

def read():
    for bytes, type in written:
        several.wait()
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.msgpack.decode(bytes, type=type)

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize(
    "module",
    ["cluster.events", "cluster.views", "federated.events", "ranks.events", "witnessed.events", "witnessed.views"],
)
def test_many_threads_may_be_the_first_to_read_a_type(module: str) -> None:
    command = [sys.executable, "-c", PROGRAM, f"quoracy.core.{module}"]
    ended = {subprocess.run(command, check=False).returncode for _ in range(TRIES)}
    assert ended == {0}, "negative: it was ended by a signal"
