"""``quoracy serve`` from its first line to its last: ready, logging, draining, and all the ways it cannot start."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from tests.doors.talk import Talk
from tests.e2e.command import Serving, quoracy, seen, told, until
from tests.e2e.fleet import RUN, Fleet

from quoracy.core.cluster.events import WorkerLeft, WorkerRegistered
from quoracy.core.codec import encode
from quoracy.core.errors import CATALOG
from quoracy.core.members import Cause
from quoracy.core.messages import Call
from quoracy.version import __version__
from quoracy.wire.messages import Goodbye


def words(text: str) -> str:
    return " ".join(text.split())


def explained(server: Serving) -> dict[str, Any]:
    found: dict[str, Any] = seen(server.url, "show", "demo").get("explanation", {})
    return found


# -- its life ---------------------------------------------------------------------------------------------------------


def test_a_ready_server_says_where_it_is_and_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Serving(folder) as server:
        (line,) = server.out.splitlines()
        assert server.url in line
        assert str(folder) in line
        assert f"quoracy run create NAME {server.url}" in line
        assert told(quoracy("run", "create", "demo", server.url, "--json"))["value"]["run"] == "demo"


def test_a_server_begins_with_the_run_of_a_file(tmp_path: Path) -> None:
    state = tmp_path / "state.toml"
    state.write_text('run_id = "digits"\nmin_clients = 3\n')
    folder = tmp_path / "runs"
    with Serving(folder, state) as server:
        (line,) = server.out.splitlines()
        assert f"run digits is WaitingForMembers; members join with quoracy join {server.url} --run digits" in line
        assert server.stop() == 0
    state.write_text('run_id = "digits"\nmin_clients = 4\n')
    refused = quoracy("serve", state, "--folder", folder, "--port", 0)
    assert refused.returncode == CATALOG["config"].exit
    assert "min_clients = 4: the run digits exists with min_clients = 3" in words(refused.stderr)
    state.write_text("min_clients = 0\n")
    refused = quoracy("serve", state, "--folder", folder, "--port", 0)
    assert refused.returncode == CATALOG["config"].exit
    assert "state.toml:1: min_clients = 0" in words(refused.stderr)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_the_exit_code_is_0(tmp_path: Path, which: signal.Signals) -> None:
    with Serving(tmp_path / "runs") as server:
        quoracy("run", "create", "demo", server.url)
        with Talk(server.url) as talk:
            talk.join("w1")
            assert server.stop(which) == 0
            assert talk.hear(Goodbye).refusal.code == "draining"
        assert [line["signal"] for line in server.log() if "signal" in line] == [which.name]
        assert not server.ready_file.exists()


def test_a_fleet_under_way_is_drained_at_once_and_goes_on_with_the_next_server(tmp_path: Path) -> None:
    """Something is always under way in such a fleet: a drain that waited for a quiet moment would wait for ever."""
    folder, fleet = tmp_path / "runs", Fleet(12, seed=1)
    with Serving(folder) as server:
        quoracy("run", "create", RUN, server.url, "--set", "barrier_min=12")
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        assert fleet.drive(address, lambda: fleet.lowest() >= 5)
        server.send(signal.SIGTERM)
        assert fleet.drive(address, lambda: server.process.poll() is not None)
        assert server.process.returncode == 0
        assert server.log("drained in part") == [], "in less than host.drain_s"
    with Serving(folder, port=address[1]):
        goal = fleet.lowest() + 5
        assert fleet.drive(address, lambda: fleet.lowest() >= goal)
        for worker in fleet.workers:
            worker.resting = True
        assert fleet.drive(address, lambda: all(worker.session.idle() for worker in fleet.workers), 20)
    fleet.close()
    fleet.judge(folder)


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    """The first one would: somebody else holds the journal, so that what is under way cannot be written."""
    folder = tmp_path / "runs"
    with Serving(folder) as server, Talk(server.url) as talk:
        quoracy("run", "create", "demo", server.url)
        with contextlib.closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            talk.say(Call("demo", Cause("w1", 0, 0), Raw(encode(WorkerRegistered("w1", 0, bytes(16))))))
            until(lambda: "being written" in explained(server).get("sentence", ""), "a slow write")
            assert "being written" in quoracy("explain", "demo", server.url).stdout
            server.send(signal.SIGTERM)
            until(lambda: [line for line in server.log() if "signal" in line], "draining")
            assert server.stop() == 128 + signal.SIGTERM
            assert server.log("ends at once")
    with Serving(folder) as server:
        assert told(quoracy("status", server.url, "--json"))["value"]["server"]["serving"] is True


def test_with_json_the_first_line_says_where_it_is_and_the_last_how_it_went(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Serving(folder, "--json") as server, Serving(folder, "--json") as second:
        ready, follows = json.loads(server.out), json.loads(second.out)
        assert ready == {
            "url": server.url, "host": ready["host"], "folder": str(folder), "store": "sqlite", "serving": True,
            "version": __version__, "pid": server.process.pid, "doors": ready["doors"],
        }  # fmt: skip
        assert list(ready["doors"]) == ["tcp", "grpc", "http"]
        assert ready["host"] == told(quoracy("status", server.url, "--json"))["value"]["server"]["host"]
        assert (follows["url"], follows["serving"]) == (second.url, False)
        quoracy("run", "create", "demo", server.url)
        assert server.stop() == 0
        first, last = map(json.loads, server.out.splitlines())
        assert first == ready
        assert list(last) == ["command", "ok", "seconds", "measurements", "notes"]
        assert (last["command"], last["ok"], last["notes"]) == ("serve", True, ["drained after SIGTERM"])
        assert [(figure["name"], figure["value"]) for figure in last["measurements"]] == [("runs", 1)]


def test_a_memory_store_forgets_and_says_so(tmp_path: Path) -> None:
    with Serving(tmp_path / "runs", "--store", "memory") as server:
        until(lambda: "memory only" in server.out)
        assert quoracy("run", "create", "demo", server.url).returncode == 0
        assert server.stop() == 0
    with Serving(tmp_path / "runs", "--store", "memory") as server:
        assert told(quoracy("run", "list", server.url, "--json"))["value"] == []


# -- its log ----------------------------------------------------------------------------------------------------------


def test_every_decision_is_logged_once_with_its_reason(tmp_path: Path) -> None:
    with Serving(tmp_path / "runs") as server:
        settings = ["--set", "heartbeat_interval_s=0.1", "--set", "heartbeat_timeout_s=0.5"]
        quoracy("run", "create", "demo", server.url, *settings)
        with Talk(server.url) as talk:
            talk.join("w1")
            talk.ready("w1")
            talk.call(Cause("w1", 1, 2), WorkerLeft("w1", 1, "has enough"))
            refusal = talk.ready("w1", seq=3)
            talk.join("w2")
            lost = until(lambda: server.log("worker lost"), "the loss of w2")
        quoracy("run", "stop", "demo", server.url, "--reason", "tested")
        until(lambda: server.log("explain", why="the run is over: tested"), "the end")
        assert server.stop() == 0
        assert [(line["member"], line["level"]) for line in lost] == [("w2", "warn")]
        assert "no sign of life" in lost[0]["reason"]
        assert [line["member"] for line in server.log("worker registered")] == ["w1", "w2"]
        assert [line["reason"] for line in server.log("worker left")] == ["has enough"]
        assert [(line["code"], line["why"]) for line in server.log("command refused")] == [(refusal.code, refusal.why)]
        assert [(line["term"], line["run"]) for line in server.log("host took")] == [(1, "demo")]
        assert [line["reason"] for line in server.log("run stopped")] == ["tested"]
        assert len(server.log("run created")) == 1


def test_what_a_run_waits_for_is_logged_once_although_time_passes(tmp_path: Path) -> None:
    with Serving(tmp_path / "runs") as server:
        quoracy("run", "create", "demo", server.url, "--set", "heartbeat_timeout_s=3600")
        with Talk(server.url) as talk:
            for name in ("w1", "w2"):
                talk.join(name)
                talk.ready(name)
            talk.arrive("w1", 0)
            until(lambda: [line for line in server.log("explain") if "waits for w2" in line["why"]], "the wait for w2")
            shown = told(quoracy("explain", "demo", server.url, "--json"))["value"]
            assert shown["waits"][0]["waited_us"] > 0

            def long() -> list[Any]:
                return [wait for wait in explained(server).get("waits", []) if wait["waited_us"] > 4_000_000]

            until(long, "four seconds")
            talk.arrive("w2", 0)
            talk.passed("w2")
            until(lambda: "waits for nobody" in server.log("explain")[-1]["why"], "the end of the wait")
        waits = [line for line in server.log("explain") if line["why"].startswith("barrier step")]
        assert len(waits) == 1, waits


def test_the_level_of_the_log_is_an_option(tmp_path: Path) -> None:
    with Serving(tmp_path / "runs", "--log-level", "warn") as server:
        quoracy("run", "create", "demo", server.url)
        assert server.stop() == 0
        assert server.log() == []


# -- every way in which it cannot start -------------------------------------------------------------------------------


def refused(*arguments: object) -> tuple[int, str]:
    result = quoracy("serve", *arguments)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    return result.returncode, words(result.stderr)


def test_a_port_in_use_is_named_with_a_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused("--folder", tmp_path, "--port", port)
    assert code == CATALOG["config"].exit
    assert f"listen.port = {port}: another program listens there" in said
    assert "choose another port" in said


def test_with_json_a_failure_is_the_one_object(tmp_path: Path) -> None:
    """As of other verbs: for programs on standard output, for people beside it, and the exit code of the catalog."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = quoracy("serve", "--folder", tmp_path, "--port", port, "--json")
    assert result.returncode == CATALOG["config"].exit
    assert len(result.stdout.splitlines()) == 1
    last = told(result)
    assert (last["command"], last["ok"], last["error"]["code"]) == ("serve", False, "config")
    assert f"listen.port = {port}" in last["error"]["why"]
    assert last["notes"] == [f"config: {last['error']['why']}"]
    assert "another program listens there" in words(result.stderr)
    unfit = told(quoracy("serve", "--folder", tmp_path, "--store", "paper", "--json"))
    assert "store.kind = 'paper'" in unfit["error"]["why"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = refused("--folder", tmp_path / "file", "--port", 0)
    assert code == CATALOG["config"].exit
    assert f"store.folder = '{tmp_path / 'file'}': cannot be written" in said


def test_who_listens_everywhere_is_told_to_name_an_address(tmp_path: Path) -> None:
    with Serving(tmp_path, "--host", "0.0.0.0", "--insecure") as server:
        assert "set listen.advertise" in server.out
        assert "insecure" in server.out


def test_an_address_that_others_can_reach_needs_tls_and_tokens(tmp_path: Path) -> None:
    code, said = refused("--folder", tmp_path, "--port", 0, "--host", "0.0.0.0")
    assert code == CATALOG["config"].exit
    assert "--insecure" in said
    with Serving(tmp_path / "runs", "--host", "0.0.0.0", "--insecure") as server:
        assert "insecure" in server.out


def test_all_bad_settings_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "quoracy.toml"
    file.write_text("[listen]\nprot = 7\n[host]\nbeat_s = 'often'\n")
    code, said = refused("--config", file, "--store", "paper")
    assert code == CATALOG["config"].exit
    assert "listen.prot" in said
    assert "host.beat_s" in said
    assert "store.kind = 'paper': one of: sqlite, memory" in said


def test_a_file_sets_what_options_do_not(tmp_path: Path) -> None:
    file = tmp_path / "quoracy.toml"
    file.write_text("[runs.cluster]\nbarrier_min = 7\n[log]\nlevel = 'error'\n")
    with Serving(tmp_path / "runs", "--config", file) as server:
        quoracy("run", "create", "demo", server.url)
        assert server.log() == []
    with Serving(tmp_path / "runs", "--config", file, "--log-level", "info") as server:
        until(lambda: server.log("serving"), "the log")
        journal = quoracy("journal", "show", tmp_path / "runs", "demo", "--limit", "1", "--json")
        created = json.loads(journal.stdout.splitlines()[-1])["entries"][0]["events"][0]
        assert created["fields"]["config"]["barrier_min"] == 7


def test_a_journal_of_a_newer_quoracy_is_not_touched(tmp_path: Path) -> None:
    with Serving(tmp_path / "runs") as server:
        assert server.stop() == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "runs" / "journal.db", isolation_level=None)) as database:
        database.execute("PRAGMA user_version=99")
    code, said = refused("--folder", tmp_path / "runs", "--port", 0)
    assert code == CATALOG["journal_newer"].exit
    assert "schema version 99" in said
    assert "serve another folder" in said


def test_a_damaged_journal_is_named_with_the_way_to_mend_it(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with Serving(folder) as server:
        quoracy("run", "create", "demo", server.url)
        assert server.stop() == 0
    whole = (folder / "journal.db").read_bytes()
    (folder / "journal.db").write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    code, said = refused("--folder", folder, "--port", 0)
    assert code == CATALOG["journal_corrupt"].exit
    assert f"quoracy journal verify {folder}" in said


def test_a_ready_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    result = quoracy("serve", "--folder", tmp_path / "runs", "--port", 0, "--ready-file", tmp_path / "no" / "where")
    assert result.returncode == CATALOG["config"].exit
    assert "--ready-file" in result.stderr
    assert "Traceback" not in result.stderr
