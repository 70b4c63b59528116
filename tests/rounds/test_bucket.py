"""The same rounds with weights in S3: fetched, aggregated, put back, and named for plain tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from safetensors.numpy import load, save
from tests.doors.talk import RUN
from tests.objects.weed import VARIABLES, Weed, opened_at
from tests.rounds.party import KEYS, Parties, ended

from quoracy.coordinator import Coordinator


def test_a_round_with_weights_in_s3(weed: Weed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, secret in VARIABLES.items():
        monkeypatch.setenv(name, secret)
    url = weed.url()
    store = opened_at(url)
    folder = tmp_path / "data"
    settings: dict[str, Any] = {"store.objects": url}
    with Coordinator(folder=folder, **settings) as coordinator, Parties(coordinator) as parties:
        coordinator.create(RUN, "federated", clients=2, rounds=1, aggregation={"rule": "fedavgm"}, refused_max=2)
        assert coordinator.ask("weights", RUN)["store"] == url
        both = [parties.join("p1"), parties.join("p2")]

        def bring(member: str, value: float) -> str:
            content = save({"w": np.full(1000, value, np.float32)})
            digest = str(blake3(content).hexdigest())
            store.put(KEYS.upload(member, digest), content, digest)
            return digest

        both[0].offer(both[0].assigned(-1), bring("p1", 0.0))
        for party, value in zip(both, (1.0, 3.0), strict=True):
            party.offer(party.assigned(0), bring(party.member, value))
        shown = ended(coordinator)
        made = store.get(KEYS.model(1), 100_000)
        assert blake3(made).hexdigest() == shown["weights"]
        assert np.allclose(load(made)["w"], 2.0)
        assert store.head(KEYS.update(0, "p2")) is not None
        assert not list((folder / "workshop").rglob("*.safetensors")), "nothing is left behind"
    assert not (folder / "objects").exists()
