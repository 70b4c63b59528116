"""The document is true: schemathesis tries every route of it, with a token and with everything it can think of.

Few examples in `make test`, many in `make soak-hostile`; ``QUORACY_EXAMPLES=200 pytest
tests/doors/http/test_schemathesis.py`` tries more, ``QUORACY_SEED`` others.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from safetensors.numpy import save
from tests.doors.http.live import Live, door
from tests.doors.witnesses import Witness
from tests.soak import soaking

from quoracy.core.errors import Refused
from quoracy.core.federated.events import ParticipantJoined, UpdateOffered
from quoracy.core.members import signed_by_joiner
from quoracy.doors.auth import Authority, MemberKey, Role
from quoracy.doors.federated import Entered, FederatedCalls
from quoracy.doors.http.openapi import OPENAPI
from quoracy.doors.http.routes import ROUTES
from quoracy.doors.tokens import Identity
from quoracy.hosts.keys import Keys
from quoracy.hosts.metrics import Metrics
from quoracy.objects import LocalObjects
from quoracy.stores.memory_series import MemorySeries

SCHEMATHESIS: Final = Path(sys.executable).parent / "schemathesis"
GUIDE: Final = Path(__file__).with_name("guide.py")
EXAMPLES: Final = int(os.environ.get("QUORACY_EXAMPLES", "100" if soaking("hostile") else "5"))
SEED: Final = os.environ.get("QUORACY_SEED", "1")
TIMEOUT_S: Final = 100 + 10 * EXAMPLES

FINE: Final = ["2xx", "304", "401", "403", "404", "409", "422", "429"]
"""What may be answered to a request that fits the document. 422: it fits, and yet contradicts itself or what was said
before. 400, which says that it does not fit, is not among them."""
EXPECTED: Final = f"""
hooks = {json.dumps(str(GUIDE))}

[checks.positive_data_acceptance]
expected-statuses = {json.dumps(FINE)}

[[operations]]
include-operation-id = "create"
checks.positive_data_acceptance.expected-statuses = {json.dumps([*FINE, "400"])}

[[operations]]
include-operation-id = ["put-weights", "append-weights", "put-relay"]
checks.positive_data_acceptance.expected-statuses = {json.dumps([*FINE, "413"])}

[[operations]]
include-operation-id = ["weights", "head-weights", "named-weights", "metrics-object", "relay"]
checks.positive_data_acceptance.expected-statuses = {json.dumps([*FINE, "416"])}
"""
"""Settings of a run may exclude each other (``config``), weights be larger than the run allows, a range begin behind
their end: no schema can say that."""

PATIENT: Final = {"cluster": {"heartbeat_timeout_s": 3600.0}}
ALONE: Final[dict[str, Any]] = {
    "min_clients": 1, "waiting_extra_s": 0, "batch_size": 4, "global_batch_size_start": 32, "checkpoint": "none",
    "heartbeat_timeout_s": 3600.0, "round_train_max_s": 3600.0, "deadline_floor_s": 3600.0,
}  # fmt: skip
"""So that its one member is in the first round for as long as the test takes."""


def quarantined(running: Live, folder: Path, run: str, member: str) -> None:
    """A participant that has sent something useless, so that somebody can be let back in."""
    service = running.coordinator._open().service
    calls, identity = FederatedCalls(service), Identity(Role.MEMBER, "*", member, member)
    key, nonce, challenge = MemberKey.create(), secrets.token_bytes(16), calls.challenge()
    proof = challenge + key.sign(signed_by_joiner(challenge, run, member, 0, nonce))
    join = ParticipantJoined(member, 0, nonce, key.public, proof, {}, True)

    async def live() -> None:
        entered = await calls.rendezvous(identity, run, join)
        assert isinstance(entered, Entered)
        assigned = await calls.start(identity, entered.token, run, member, 1)
        offer = UpdateOffered(member, 1, assigned.round, assigned.ticket, 1, "0" * 64)
        with pytest.raises(Refused, match="p1 has not uploaded"):
            await calls.end(identity, entered.token, run, offer)

    running.coordinator._wait(live())
    weights = LocalObjects(str(folder / "objects"))
    keys = Keys(run)
    weights.put(keys.blob("0" * 64), b"weights")
    weights.alias(keys.blob("0" * 64), keys.model(4))
    weights.alias(keys.blob("0" * 64), keys.metrics(4, member))


@contextmanager
def member(running: Live, folder: Path, run: str) -> Iterator[dict[str, str]]:
    """Of a witnessed run, in its first round, with samples at the data door."""
    x = np.arange(120, dtype=np.float32).reshape(40, 3)
    samples = folder / "set.safetensors"
    samples.write_bytes(save({"x": x, "y": np.arange(40), "x_test": x[:2], "y_test": np.arange(2)}))
    door_ = {"kind": "door", "location": str(samples)}
    running.coordinator.create(run, "witnessed", **ALONE, data=door_)
    token = Authority.open(folder).new_token(Role.MEMBER)
    with Witness(running.coordinator.url, "m1", run, token, MemberKey.create()) as witness:
        witness.warm()
        witness.round()
        ((first, end), *_) = witness.mine()
        yield {"member": "m1", "token": witness.session, "batches": f"{first}-{end - 1}"}


def schemathesis(running: Live, folder: Path, told: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """On the document that is served, with every check that it has."""
    config, document = folder / "schemathesis.toml", folder / "openapi.json"
    config.write_text(EXPECTED)
    document.write_bytes(running.http.get("/api/openapi.json").content)
    command = [
        str(SCHEMATHESIS), "--config-file", str(config), "run", str(document), "--url", running.url, "--checks", "all",
        "--max-examples", str(EXAMPLES), "--phases", "examples,coverage,fuzzing,stateful", "--request-timeout", "20",
        "--seed", SEED, "--no-color", "--max-failures", "20",
    ]  # fmt: skip
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160", **told}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )


@pytest.mark.soak("hostile", shorter=True)
@pytest.mark.timeout(TIMEOUT_S + 20)
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    folder, notes = tmp_path / "data", tmp_path / "notes"
    with door(folder, MemorySeries(), Metrics(), access={"tokens": "required"}, runs=PATIENT) as running:
        running.coordinator.create("fed", "federated", max_update_bytes=100_000)
        quarantined(running, folder, "fed", "p1")
        for _ in range(30):
            running.coordinator.ask("order", "demo", command="pause")
        token = Authority.open(folder).new_token(Role.ADMIN)
        with member(running, folder, "wit") as told:
            known = {"QUORACY_URL": running.url, "QUORACY_TOKEN": token, "QUORACY_NOTES": str(notes)}
            done = schemathesis(running, tmp_path, {**known, "QUORACY_MEMBER": json.dumps(told)})
        assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
        assert running.http.get("/livez").status_code == 200
        assert json.loads(running.http.get("/readyz").text)["ready"] is True
    answered, codes = defaultdict(set), defaultdict(set)
    for name, status, said in map(json.loads, notes.read_text().splitlines()):
        answered[name].add(status)
        codes[name].add((status, said))
    every = {route.name for route in (*ROUTES, OPENAPI)}
    assert set(answered) == every, "all of them were tried"
    useless = {name: sorted(codes[name]) for name in every if min(answered[name]) >= 300}
    assert useless == {}, "each did at least once what it is for"
    assert {200, 201, 204, 206, 304, 400, 401, 404, 409, 413, 415, 416, 422} <= set().union(*answered.values())
