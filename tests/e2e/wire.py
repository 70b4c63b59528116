"""A wire between two ends that can be cut: two network namespaces and a pair of virtual interfaces.

Whoever is cut off this way vanishes without a word: no FIN, no RST, nothing that comes back for what is sent. The
namespaces belong to a user namespace, so nobody has to be root, and to two processes, so nothing stays behind when this
process ends in whatever way. Needs ``unshare`` and ``nsenter`` (util-linux) and ``ip`` (iproute2).
"""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

NEAR, FAR = "10.77.0.1", "10.77.0.2"
HOLD = ["sh", "-c", "echo there; exec cat"]
"""Ends when its standard input does, which is when the test does."""
TCP_ESTABLISHED = "01"
CONNECT = """
import socket, sys
with socket.socket() as line, socket.socket(fileno=int(sys.argv[3])) as back:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(20)
    line.connect((sys.argv[1], int(sys.argv[2])))
    socket.send_fds(back, [b"!"], [line.fileno()])
"""
"""A socket belongs to the namespace that it was made in, whoever uses it."""

End = Literal["near", "far"]


class Wire:
    def __init__(self) -> None:
        self._ends = ExitStack()
        try:
            own = ["unshare", "--user", "--map-root-user", "--net"]
            self._near_pid = self._hold(own)
            inside = ["nsenter", "--target", str(self._near_pid), "--preserve-credentials", "--user"]
            self._far_pid = self._hold([*inside, "unshare", "--net"])
            self.near = [*inside, "--net"]
            self.far = ["nsenter", "--target", str(self._far_pid), "--preserve-credentials", "--user", "--net"]
            """What to put before a command that is to run at that end."""
            self._ip("near", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(self._far_pid))
            for end, address in (("near", NEAR), ("far", FAR)):
                self._ip(end, "address", "add", f"{address}/24", "dev", end)
                self._ip(end, "link", "set", "lo", "up")
                self._ip(end, "link", "set", end, "up")
        except BaseException:
            self._ends.close()
            raise

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._ends.close()

    def cut(self, end: End) -> None:
        """This end falls silent: for the other one it is gone, and nothing tells so."""
        self._ip(end, "link", "set", end, "down")

    def mend(self, end: End) -> None:
        self._ip(end, "link", "set", end, "up")

    def connect_from_far(self, port: int) -> socket.socket:
        """To a server at the near end. Holds little that was not read."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command = [*self.far, sys.executable, "-c", CONNECT, NEAR, str(port), str(theirs.fileno())]
            subprocess.run(command, check=True, timeout=60, pass_fds=[theirs.fileno()])
            _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
        line = socket.socket(fileno=fd)
        line.settimeout(20)
        return line

    def connections_of_far(self) -> int:
        """That its kernel still takes for good."""
        table = Path(f"/proc/{self._far_pid}/net/tcp").read_text().splitlines()
        return sum(line.split()[3] == TCP_ESTABLISHED for line in table[1:])

    def _hold(self, command: list[str]) -> int:
        held = subprocess.Popen([*command, *HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._ends.enter_context(held)
        assert held.stdin is not None
        assert held.stdout is not None
        self._ends.callback(held.stdin.close)
        assert held.stdout.readline() == "there\n", f"this machine does not allow namespaces: {' '.join(command)}"
        return held.pid

    def _ip(self, end: str, *arguments: str) -> None:
        subprocess.run([*(self.near if end == "near" else self.far), "ip", *arguments], check=True, timeout=60)
