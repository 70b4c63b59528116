"""Somebody else on this machine: a process of another user through which clients of a test reach a server.

It is started as whoever runs the tests and then becomes ``nobody``, so it needs no files of its own. Where the tests
are not run by root it stays who it is, and the server is made to believe that it is somebody else itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from quoracy.doors import local_users

NOBODY = 65534
RELAY = """
import encodings.idna, os, socket, sys, threading  # all of them before it may not read them any more

def pump(source, sink):
    try:
        while chunk := source.recv(65536):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass

def relay(client, port):
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        back = threading.Thread(target=pump, args=(server, client), daemon=True)
        back.start()
        pump(client, server)
        back.join()

def listen(port):
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=relay, args=(client, port), daemon=True).start()

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
for port in sys.argv[1:]:
    threading.Thread(target=listen, args=(int(port),), daemon=True).start()
sys.stdin.read()
"""


@contextmanager
def reached_by_another_user(*ports: int) -> Iterator[list[int]]:
    """For each port of a server, one that leads there by way of another user."""
    code = RELAY.replace("{nobody}", str(NOBODY))
    command = [sys.executable, "-I", "-S", "-c", code]
    there = []
    relays = [subprocess.Popen([*command, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for port in ports]
    with pytest.MonkeyPatch.context() as patched:
        if os.geteuid():
            patched.setattr(local_users, "own_uid", lambda: os.geteuid() + 1)
        try:
            for relay in relays:
                assert relay.stdout is not None
                there.append(int(relay.stdout.readline()))
            yield there
        finally:
            for relay in relays:
                relay.kill()
                relay.communicate()
