"""A checkpoint that a member says it has stored: the coordinator looks whether it is there, before the run hears of
it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from tests.doors.witnesses import RUN, START, Witness, play

from quoracy.config.objects_url import parse_objects
from quoracy.coordinator import Coordinator
from quoracy.core.witnessed.events import CheckpointStored
from quoracy.hosts.keys import Keys, prefix_of
from quoracy.objects import open_objects

SETTINGS: dict[str, Any] = {
    "min_clients": 2, "waiting_extra_s": 0, "rounds_per_epoch": 1, "round_train_max_s": 600, "total_steps": 1,
    "adaptive_deadline": False, "round_witness_s": 600, "warmup_s": 600, "cooldown_s": 600, "heartbeat_timeout_s": 600,
    "checkpoint_retry_s": 599,
}  # fmt: skip
CONTENT = b"the model"


@pytest.fixture
def drawn(tmp_path: Path) -> Iterator[Witness]:
    """Who has to store the model of step 1."""
    with Coordinator(folder=tmp_path / "data", http={"port": 0}) as coordinator, ExitStack() as stack:
        coordinator.create(RUN, "witnessed", **SETTINGS)
        two = [stack.enter_context(Witness(coordinator.url, f"m{i}")) for i in (1, 2)]
        for witness in two:
            witness.warm()
        play(two, range(1))
        for witness in two:
            witness.end(1)
        yield next(witness for witness in two if witness.view("standing").store)


def stored(witness: Witness, size_bytes: int = len(CONTENT), seen: Any = "there") -> Any:
    digest = blake3(CONTENT).digest()
    return witness.command(CheckpointStored(witness.member, witness.life, 0, 1, START, digest, size_bytes, seen))


def test_what_is_not_there_is_refused_whatever_the_member_says_of_it(drawn: Witness, tmp_path: Path) -> None:
    assert stored(drawn).code == "object_missing"
    objects = open_objects(str(tmp_path / "data" / "objects"))
    objects.put(Keys(prefix_of(RUN)).blob(blake3(CONTENT).hexdigest()), CONTENT)
    objects.close()
    assert stored(drawn, size_bytes=1).code == "object_missing"
    assert stored(drawn, seen="missing").entry > 0
    assert drawn.view("round", lambda shown: shown.phase == "Finished")


def test_where_the_store_cannot_be_asked_the_word_of_the_one_who_was_drawn_counts(
    drawn: Witness, tmp_path: Path
) -> None:
    assert parse_objects(str(tmp_path / "data" / "objects")).kind == "file"
    folder = tmp_path / "data" / "objects"
    if folder.exists():
        folder.rename(tmp_path / "gone")
    folder.write_bytes(b"no folder")
    assert stored(drawn).entry > 0
