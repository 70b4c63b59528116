"""Two servers on one folder: the second follows, takes nothing from the first while it lives, and everything after."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.doors.talk import Talk
from tests.e2e.command import Serving, quoracy, seen, told, until
from tests.e2e.disk import Disk

from quoracy.core.errors import CATALOG
from quoracy.core.messages import Moved


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A host that is silent for 0.2 s is soon silent for longer than it may be."""
    file = tmp_path / "quoracy.toml"
    file.write_text("[host]\nbeat_s = 0.05\ntakeover_s = 0.2\n")
    return file


def test_a_second_server_follows_and_takes_over_when_the_first_is_killed(tmp_path: Path, settings: Path) -> None:
    folder = tmp_path / "runs"
    with Serving(folder, "--config", settings) as first, Serving(folder, "--config", settings) as second:
        assert "serves" in first.out
        assert f"follows on {second.url}" in second.out
        (following,) = until(lambda: second.log("following: another server holds the store"), "the log")
        assert following["process"] == str(first.process.pid)
        quoracy("run", "create", "demo", first.url)
        with Talk(first.url) as talk:
            talk.join("w1")
        until(lambda: seen(second.url, "show", "demo").get("entry") == 2, "the second has read what the first wrote")

        status = told(quoracy("status", second.url, "--json"))["value"]["server"]
        assert (status["serving"], status["runs"]) == (False, 1)
        assert "follows another host" in quoracy("status", second.url).stdout
        assert first.url in quoracy("run", "show", "demo", second.url).stdout, "where to ask instead"
        for verb in (["run", "create", "more"], ["run", "stop", "demo", "--reason", "x"]):
            assert quoracy(*verb, url=second.url).returncode == CATALOG["not_serving"].exit
        both = f"{second.url},{first.url.rpartition('/')[2]}"
        assert quoracy("run", "create", "more", both).returncode == 0, "the other address is asked"
        with Talk(second.url) as talk:
            talk.hello("w1")
            assert talk.hear(Moved).address == first.url

        first.kill()
        until(lambda: seen(second.url, "status").get("serving"), "takes over")
        assert told(quoracy("status", second.url, "--json"))["value"]["server"]["serving"]
        until(lambda: seen(second.url, "show", "demo").get("term") == 2, "serves the run")
        shown = told(quoracy("run", "show", "demo", second.url, "--json"))["value"]
        assert (shown["term"], shown["workers"][0]["id"]) == (2, "w1")
        assert second.log("the other server is gone: taking over")
        assert quoracy("run", "stop", "demo", second.url, "--reason", "done").returncode == 0
        assert second.stop() == 0


def test_a_run_in_which_nothing_happens_is_not_taken_from_its_host(tmp_path: Path, settings: Path) -> None:
    """An idle host writes nothing; a follower must not take that for death."""
    folder = tmp_path / "runs"
    with Serving(folder, "--config", settings) as first, Serving(folder, "--config", settings) as second:
        quoracy("run", "create", "idle", first.url)
        until(lambda: seen(second.url, "show", "idle").get("entry") == 1, "the second knows it")
        until_s = time.monotonic() + 1.5
        until(lambda: time.monotonic() > until_s, "many times the patience of a follower")
        value = told(quoracy("run", "show", "idle", first.url, "--json"))["value"]
        assert (value["entry"], value["term"], value["address"]) == (1, 1, first.url)


def test_a_server_whose_disk_fails_ends_so_that_the_next_can_take_over(tmp_path: Path) -> None:
    disk, folder = Disk(tmp_path), tmp_path / "runs"
    with Serving(folder, "--json", **disk.variables) as first, Serving(folder) as second:
        quoracy("run", "create", "demo", first.url)
        disk.faults.joinpath("fsync-wal").touch()
        unsure = quoracy("run", "stop", "demo", first.url, "--reason", "x", "--json")
        assert unsure.returncode != 0, "nobody may be told that it is done"
        assert first.process.wait(20) == CATALOG["journal_broken"].exit
        assert "what to do: see to the disk" in first.last_words
        assert "Traceback" not in first.last_words
        last = json.loads(first.out.splitlines()[-1])
        assert (last["ok"], last["error"]["code"]) == (False, "journal_broken")
        until(lambda: seen(second.url, "show", "demo").get("address") == second.url, "the second serves")


def test_a_drained_server_is_followed_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Serving(folder) as first, Serving(folder) as second:
        quoracy("run", "create", "demo", first.url)
        assert first.stop() == 0
        until(lambda: seen(second.url, "show", "demo").get("address") == second.url, "the second serves")
        assert told(quoracy("run", "show", "demo", second.url, "--json"))["value"]["term"] == 2
