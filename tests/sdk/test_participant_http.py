"""Weights through the coordinator's HTTP door: streamed, and gone on with after the connection broke."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.sdk.live import PATIENCE_S, wait_for
from tests.sdk.test_secure import Vault

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.core.errors import ObjectCorrupt, ObjectsUnreachable, Refused
from quoracy.learn.packed import Packed
from quoracy.learn.tensors import digest_of, save
from quoracy.sdk.client.http import HttpLine
from quoracy.sdk.federated.weights_cache import Cache
from quoracy.sdk.federated.weights_http import WHOLE_BYTES, HttpWeights

MIB = 1024 * 1024


class Cutting:
    """A wire to a server that breaks once, after so many bytes in one direction, and counts them all."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut: dict[str, int] = {}
        """Way to how many bytes of one connection may pass."""
        self.passed = {"up": 0, "down": 0}
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._carry, args=(client,)))
                self._threads[-1].start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._port)) as server, suppress(OSError):
            ways = {client: ("up", server), server: ("down", client)}
            mine = {"up": 0, "down": 0}
            while True:
                for source in select.select(list(ways), [], [])[0]:
                    way, target = ways[source]
                    chunk = source.recv(65536)
                    mine[way] += len(chunk)
                    self.passed[way] += len(chunk)
                    if not chunk or mine[way] >= self.cut.get(way, 2**62):
                        self.cut.pop(way, None) if chunk else None
                        return
                    target.sendall(chunk)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with Coordinator(tmp_path_factory.mktemp("coordinator"), http={"port": 0}) as running:
        yield running


@pytest.fixture
def run(coordinator: Coordinator, request: pytest.FixtureRequest) -> str:
    name = request.node.name[:100]
    coordinator.create(name, "federated", rounds=2, clients=2, heartbeat_interval_s=0.2)
    return str(name)


@pytest.fixture
def wire(coordinator: Coordinator, run: str) -> Iterator[Cutting]:
    port = urlsplit(coordinator.ask("weights", run)["http"]).port
    assert port
    cutting = Cutting(port)
    yield cutting
    cutting.close()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Larger than two parts of an upload."""
    path = tmp_path / "model"
    save(path, {"a": np.random.default_rng(1).integers(0, 255, 20 * MIB, np.uint8)})
    return path


@pytest.fixture
def weights(wire: Cutting, run: str) -> Iterator[HttpWeights]:
    opened = HttpWeights(HttpLine(wire.url, run, str, None), lambda: None)
    yield opened
    opened.close()


def test_two_participants_on_one_machine_fetch_each_model_once(
    coordinator: Coordinator, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    whole = HttpWeights._fetch

    def counted(self: HttpWeights, digest: str, part: Path) -> None:
        fetched.append(digest)
        whole(self, digest, part)

    monkeypatch.setattr(HttpWeights, "_fetch", counted)
    summaries: list[quoracy.Summary] = []

    def take_part(name: str) -> None:
        def train(weights: dict[str, Any], task: quoracy.Task) -> tuple[dict[str, Any], int, None]:
            weights["a"] += 1
            return weights, 1, None

        summaries.append(
            quoracy.participate(
                coordinator.url, train, run, participant=name, initial={"a": np.zeros(1000, np.float32)},
                weights="http", cache=tmp_path / "shared",
            )
        )  # fmt: skip

    threads = [threading.Thread(target=take_part, args=(name,)) for name in ("p1", "p2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [summary.admitted for summary in summaries] == [2, 2]
    assert len(fetched) == len(set(fetched)) == 2, "one model a round"


def test_an_upload_that_breaks_goes_on_where_it_was(
    wire: Cutting, weights: HttpWeights, model: Path, tmp_path: Path
) -> None:
    digest = digest_of(model)
    wire.cut["up"] = 6 * MIB
    with pytest.raises(ObjectsUnreachable):
        weights.upload(model, digest)
    wait_for(lambda: (weights._there(digest) or 0) >= 6 * MIB - 2 * 65536, "what came through is kept")
    weights.upload(model, digest)
    assert weights._there(digest) is None, "it is whole, and was checked"
    assert wire.passed["up"] < model.stat().st_size + 8 * MIB, "not much was sent twice"
    got = weights.fetch(digest, Cache(tmp_path / "cache"))
    assert digest_of(got) == digest
    weights.upload(model, digest)
    assert wire.passed["up"] < model.stat().st_size + 8 * MIB, "what is there is not sent again"


def test_a_download_that_breaks_goes_on_where_it_was(
    wire: Cutting, weights: HttpWeights, model: Path, tmp_path: Path
) -> None:
    digest, cache = digest_of(model), Cache(tmp_path / "cache")
    weights.upload(model, digest)
    wire.passed["down"], wire.cut["down"] = 0, 8 * MIB
    with pytest.raises(ObjectsUnreachable):
        weights.fetch(digest, cache)
    assert digest_of(weights.fetch(digest, cache)) == digest
    assert wire.passed["down"] < model.stat().st_size + 3 * MIB, "nearly nothing was fetched twice"


def test_a_download_that_went_wrong_is_thrown_away_and_fetched_anew(
    wire: Cutting, weights: HttpWeights, model: Path, tmp_path: Path
) -> None:
    digest, cache = digest_of(model), Cache(tmp_path / "cache")
    weights.upload(model, digest)
    (tmp_path / "cache" / f".{digest}.part").write_bytes(b"not what it should be")
    with pytest.raises(ObjectCorrupt):
        weights.fetch(digest, cache)
    assert digest_of(weights.fetch(digest, cache)) == digest


@pytest.mark.parametrize("size", [10, WHOLE_BYTES + 1], ids=["whole", "in parts"])
def test_other_bytes_than_the_digest_says_are_refused(weights: HttpWeights, tmp_path: Path, size: int) -> None:
    path = tmp_path / "other"
    path.write_bytes(bytes(size))
    with pytest.raises(Refused) as refused:
        weights.upload(path, "ab" * 32)
    assert refused.value.code == "digest_mismatch"


def test_tokens_and_tls_hold_for_weights_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    vault = Vault(tmp_path)
    vault.settings["http"] = {"port": 0}
    with vault.open() as running:
        running.create("run", "federated", rounds=1)
        summary = quoracy.participate(
            vault.url, lambda weights, task: (weights, 1, {"big": np.zeros(400)}), "run", participant="p1",
            token=vault.token, ca=vault.ca,
            initial={"a": np.zeros(2, np.float32)}, weights="http", cache=tmp_path / "cache",
        )  # fmt: skip
        assert summary.admitted == 1
        (report,) = running.ask("reports", "run", member="p1")["rounds"]
        assert (report["arrays"]["shapes"], report["warnings"]) == ({"big": [400]}, []), (
            "what is large goes the same way"
        )
        url = running.ask("weights", "run")["http"]
        with pytest.raises(Refused) as refused:
            HttpWeights(HttpLine(url, "run", str, str(vault.ca)), lambda: None)._there("ab" * 32)
        assert refused.value.code == "bad_token"


def test_one_connection_does_for_all_and_one_that_was_closed_is_made_anew(
    wire: Cutting, weights: HttpWeights, model: Path, tmp_path: Path
) -> None:
    digest, cache = digest_of(model), Cache(tmp_path / "cache")
    weights.upload(model, digest)
    weights.fetch(digest, cache)
    assert weights._there(digest) is None
    (kept,) = weights._line._kept
    assert weights._there(digest) is None
    assert weights._line._kept == [kept]
    wire.cut["up"] = 0
    assert weights._there(digest) is None, "on a new one"
    (new,) = weights._line._kept
    assert new is not kept


def test_an_update_goes_from_memory_and_on_where_it_was_interrupted(
    wire: Cutting, weights: HttpWeights, tmp_path: Path
) -> None:
    packed = Packed({"w": np.arange(5 * MIB, dtype=np.float32)})
    wire.cut["up"] = 9 * MIB
    with pytest.raises(ObjectsUnreachable):
        weights.upload(packed, packed.digest)
    wait_for(lambda: (weights._there(packed.digest) or 0) >= 9 * MIB - 2 * 65536, "what came through is kept")
    weights.upload(packed, packed.digest)
    assert wire.passed["up"] < packed.size_bytes + 8 * MIB, "not much was sent twice"
    got = weights.fetch(packed.digest, Cache(tmp_path / "cache"))
    assert got.read_bytes() == b"".join(packed.pieces())
