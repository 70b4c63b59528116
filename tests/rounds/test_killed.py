"""kill -9 of the coordinator between the close of a round and its model: the next one makes the same bytes."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.doors.talk import Talk
from tests.e2e.command import Serving, until
from tests.rounds.party import KEYS, Participant, play_round, with_store

from quoracy.learn import Rule, Slice, digest_of


class Held(Rule):
    """The mean, once a file is there."""

    def __init__(self, until: str) -> None:
        self._until = Path(until)

    def merge(self, piece: Slice) -> Any:
        while not self._until.exists():
            time.sleep(0.01)
        return piece.rows.mean(axis=0, dtype=np.float64)


def shown(url: str) -> dict[str, Any]:
    with Talk(url) as talk:
        value: dict[str, Any] = talk.ask("show").value
        return value


def model_of(folder: Path, scratch: Path, kill: bool) -> str:
    """The digest of the last model of two rounds."""
    go_on = scratch / "go-on"
    own = {"rule": "own", "of": "tests.rounds.test_killed:Held", "settings": {"until": str(go_on)}}
    root = str(Path(__file__).parents[2])
    scratch.mkdir()
    with Serving(folder, "--module", "tests.rounds.test_killed", PYTHONPATH=root) as server:
        with Talk(server.url) as talk:
            config = {"clients": 2, "rounds": 2, "aggregation": own, "heartbeat_timeout_s": 60}
            assert talk.ask("create", kind="federated", config=config).refusal is None
        both = [Participant(server.url, member) for member in ("p1", "p2")]
        play_round(folder, both[:1], -1, scratch)
        play_round(folder, both, 0, scratch)
        until(lambda: list((folder / "workshop").glob("theirs/made-*/weights.safetensors")), "it aggregates")
        assert shown(server.url)["phase"] == "Closing"
        if kill:
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(30)
            go_on.touch()
            assert with_store(folder).head(KEYS.model(1)) is None
            with Serving(folder, "--module", "tests.rounds.test_killed", port=server.port, PYTHONPATH=root) as again:
                for party in both:
                    party.close()
                return finished(folder, scratch, again, both)
        go_on.touch()
        return finished(folder, scratch, server, both)


def finished(folder: Path, scratch: Path, server: Serving, both: list[Participant]) -> str:
    for party in both:
        party.talk.socket.close()
        party.talk = Talk(server.url)
    play_round(folder, both, 1, scratch)
    done = until(lambda: (told := shown(server.url)).get("phase") == "Finished" and told, "it is finished")
    for party in both:
        party.close()
    path = with_store(folder).local_path(KEYS.model(2))
    assert path is not None
    assert digest_of(path) == done["weights"]
    assert [over["updates"] for over in done["history"]] == [2, 2]
    return str(done["weights"])


def test_the_model_is_the_same_bits_whether_the_coordinator_died_or_not(tmp_path: Path) -> None:
    quiet = model_of(tmp_path / "quiet", tmp_path / "quiet-scratch", kill=False)
    assert model_of(tmp_path / "killed", tmp_path / "killed-scratch", kill=True) == quiet
