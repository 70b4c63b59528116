"""Programs that know nothing of Quoracy but its .proto file: code generated anew, in processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib import resources
from pathlib import Path

from tests.e2e.command import PATIENCE_S, Serving

ROOT = Path(__file__).parents[3]
RUN = "demo"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def generated(folder: Path, *others: str) -> Path:
    """Made by protoc alone. The folder's ``quoracy`` hides the real one from whoever has it on its path."""
    folder.mkdir()
    command = [
        sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}",
        f"-I{resources.files('grpc_tools') / '_proto'}", f"--python_out={folder}", f"--grpc_python_out={folder}",
        *(f"quoracy/v1/{which}.proto" for which in ("coordinator", *others)),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=60)
    for package in ("quoracy", "quoracy/v1"):
        (folder / package / "__init__.py").touch()
    return folder


class Stranger:
    """``examples/grpc_worker.py``, on its way, or ``examples/http_worker.py``."""

    def __init__(self, made: Path, way: str, port: int, name: str, steps: int, **environment: str) -> None:
        self._out = made.parent / f"passed-{name}-{os.urandom(4).hex()}"
        self._err = self._out.with_suffix(".err")
        command = [sys.executable, str(ROOT / "examples" / "grpc_worker.py"), way, f"127.0.0.1:{port}", RUN, name]
        if way == "http":
            command = [sys.executable, str(ROOT / "examples" / "http_worker.py"), f"http://127.0.0.1:{port}", name]
        if way == "tcp":
            command = [sys.executable, str(ROOT / "examples" / "tcp_worker.py"), "127.0.0.1", str(port), RUN, name]
        command.append(str(steps))
        host = environment.pop("HOST", "")
        if host:
            command[3] = f"{host}:{port}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=err, env={**os.environ, "PYTHONPATH": str(made), **environment}
            )

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    @property
    def passed(self) -> list[tuple[int, int]]:
        """Generation and step of each barrier that was released."""
        lines = [json.loads(line) for line in self._out.read_text().split("\n")[:-1]]
        return [(line["generation"], line["step"]) for line in lines if line["released"]]

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def ended(self) -> int:
        return self.process.wait(PATIENCE_S)


def serve(folder: Path, port: int, *more: object, tcp: bool = False) -> Serving:
    """``quoracy serve`` with its gRPC door there, from a configuration file, or its TCP door."""
    config = folder.parent / "quoracy.toml"
    if not config.exists():
        config.write_text(f"[grpc]\nport = {port}\n[http]\nenabled = false\n")
    return Serving(folder, "--config", config, *more, port=port if tcp else 0)
