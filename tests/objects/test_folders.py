"""Folders and files of weights: what is there is there for good, and nobody keeps in memory what was read for the last
time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rounds.party import model

from quoracy.folders import make_directory, unneeded
from quoracy.hosts import duties
from quoracy.hosts.keys import Keys
from quoracy.learn import save
from quoracy.objects import LocalObjects


def test_a_folder_that_is_there_costs_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr("quoracy.folders.sync_directory", lambda path: synced.append(path.name))
    make_directory(tmp_path / "a" / "b")
    assert synced == [tmp_path.name, "a"]
    make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "file")


def test_what_is_not_needed_in_memory_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"weights" * 10_000)
    unneeded(path)
    assert path.read_bytes() == b"weights" * 10_000
    unneeded(tmp_path / "nothing")


def test_the_updates_of_a_round_are_let_go_of_when_it_is_aggregated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, keys = LocalObjects(tmp_path / "objects"), Keys("run")
    let_go: list[Path] = []
    monkeypatch.setattr(duties, "unneeded", let_go.append)
    (tmp_path / "scratch").mkdir()
    digests = []
    for number in range(3):
        digests.append(save(tmp_path / "update", model(number)))
        key = keys.upload(f"p{number}", digests[-1]) if number else keys.blob(digests[-1])
        store.put_file(key, tmp_path / "update", digests[-1])
    order = {
        "aggregation": {"rule": "fedavg"},
        "updates": [["p1", digests[1], 1], ["p2", digests[2], 1]],
        "previous": digests[0],
        "state": "",
        "round": 0,
    }
    made = duties.Duties(store, tmp_path / "scratch").aggregate(keys, order)
    assert store.head(keys.blob(made["weights"])) == let_go[0].stat().st_size
    assert [path.name for path in let_go] == digests[1:], "not the model, which others may still fetch"
