"""A real S3 server for tests: SeaweedFS, on free loopback ports, in a folder of its own, stopped at the end.

It is told not to report on itself, and everything that it does not need for S3 is off.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store
from tests.stopping import stop

from quoracy.config.objects_url import parse_objects
from quoracy.objects.s3 import S3Objects

if TYPE_CHECKING:
    from obstore.store import S3Config

BINARY = Path(sys.executable).with_name("weed")
PATIENCE_S = 60.0
BUCKET = "quoracy"
KEYS: S3Config = {"access_key_id": "tests", "secret_access_key": "known-to-everybody"}
VARIABLES = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "known-to-everybody"}


def free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Weed:
    _prefixes = count(1)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        self.port = 0
        self._sockets: list[Path] = []
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Weed:
        self.launch()
        deadline = time.monotonic() + PATIENCE_S
        while not self._ready():
            assert time.monotonic() < deadline, self._log.read_text()[-5000:]
            time.sleep(0.05)
        return self

    def launch(self) -> None:
        keys = {"accessKey": KEYS["access_key_id"], "secretKey": KEYS["secret_access_key"]}
        identity = {"name": "tests", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List"]}
        config = self._folder / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        stored = self._folder / "stored"
        stored.mkdir(exist_ok=True)
        master, master_grpc, volume, volume_grpc, filer, filer_grpc, self.port, s3_grpc = free_ports(8)
        grpc = {"master": master_grpc, "volume": volume_grpc, "filer": filer_grpc, "s3": s3_grpc}
        self._sockets = [Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock") for name, port in grpc.items()]
        command = [
            str(BINARY), "-logtostderr", "server", f"-dir={stored}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-master.telemetry=false", "-master.electionTimeout=1s", "-master.volumeSizeLimitMB=64",
            f"-master.port={master}", f"-master.port.grpc={master_grpc}",
            "-volume.max=0", "-volume.preStopSeconds=0", f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}",
            "-filer", f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}",
            f"-filer.localSocket={self._folder}/filer.sock",
            "-s3", f"-s3.port={self.port}", f"-s3.port.grpc={s3_grpc}", "-s3.port.iceberg=0", "-s3.port.lance=0",
            "-s3.iam=false", f"-s3.config={config}", f"-s3.localSocket={self._folder}/s3.sock",
        ]  # fmt: skip
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    def _ready(self) -> bool:
        """Whether it takes an object, which also makes the bucket."""
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text()[-5000:]
        store = S3Store(
            BUCKET,
            config={**KEYS, "endpoint": self.endpoint, "region": "us-east-1"},
            client_options={"allow_http": True, "timeout": "5s"},
            retry_config={"max_retries": 0},
        )
        try:
            obstore.put(store, "ready", b"ready")
        except BaseError:
            return False
        return True

    def __exit__(self, *_exc: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        for path in self._sockets:  # it makes them there whatever it is told
            path.unlink(missing_ok=True)

    def url(self, bucket: str = BUCKET) -> str:
        """Of a prefix that nobody has used."""
        return f"s3://{bucket}/test-{os.getpid()}/{next(self._prefixes)}?endpoint={self.endpoint}"

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """SIGSTOP: it is there, and says nothing."""
        assert self.process is not None
        stop(self.process.pid)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


def opened_at(url: str, **settings: float) -> S3Objects:
    return S3Objects(parse_objects(url), KEYS, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    """One for all tests that do it no harm; each takes a prefix of its own."""
    with Weed(tmp_path_factory.mktemp("weed")) as running:
        yield running
