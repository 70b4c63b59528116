"""Two servers on one etcd: one serves, the other takes over within seconds, whatever becomes of the first."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.doors.talk import Talk
from tests.e2e.command import Serving, Working, quoracy, seen, told, until
from tests.e2e.etcd_fleet import EtcdFleet
from tests.stores.etcd import Etcd

from quoracy.bench.crowd import create_run
from quoracy.coordinator import Coordinator
from quoracy.core.errors import CATALOG
from quoracy.core.kinds import KINDS
from quoracy.core.messages import Moved
from quoracy.core.run import Run, fold

from tests.e2e.fleet import RUN  # isort: skip

WORKERS = 8
TAKES_OVER_S = 15.0
"""From the kill of the server that serves to the fleet's next step: within seconds, with room for a busy machine."""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with Servers(tmp_path) as started:
        yield started


class Servers:
    """Servers on one etcd, each with a folder of its own, as on machines of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._count = 0

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def start(self, url: str, *arguments: object) -> Serving:
        self._count += 1
        folder = self._folder / f"machine-{self._count}" / "quoracy-data"
        folder.parent.mkdir()
        return self._stack.enter_context(Serving(folder, "--store", url, *arguments))


def place(server: Serving) -> tuple[str, int]:
    return ("127.0.0.1", server.port)


def both(*servers: Serving) -> str:
    return f"tcp://{','.join(f'127.0.0.1:{server.port}' for server in servers)}"


def status(server: Serving) -> dict[str, Any]:
    shown: dict[str, Any] = told(quoracy("status", server.url, "--json"))["value"]["server"]
    return shown


def at_rest(fleet: EtcdFleet, addresses: list[tuple[str, int]]) -> bool:
    """Nobody has a command under way any more."""
    for worker in fleet.workers:
        worker.resting = True
    return fleet.run_at(addresses, lambda: all(worker.session.idle() for worker in fleet.workers), 20)


def takes_over(fleet: EtcdFleet, addresses: list[tuple[str, int]], killed_s: float) -> float:
    """-> seconds from the kill until everybody has passed a step that nobody had passed before."""
    goal = max(worker.passed for worker in fleet.workers) + 1
    assert fleet.run_at(addresses, lambda: fleet.lowest() >= goal), "the other does not take over"
    return time.monotonic() - killed_s


def moves_on(fleet: EtcdFleet, addresses: list[tuple[str, int]], steps: int = 3) -> bool:
    goal = fleet.lowest() + steps
    return fleet.run_at(addresses, lambda: fleet.lowest() >= goal)


def folded(fleet: EtcdFleet, url: str) -> Run:
    run = fold(KINDS, RUN, fleet.judge_at(url))
    assert run is not None
    assert [worker.session.incarnation for worker in fleet.workers] == [1] * len(fleet.workers), "nobody began again"
    return run


def test_servers_that_are_killed_are_replaced_and_nothing_is_lost(etcd: Etcd, servers: Servers) -> None:
    url = etcd.url()
    serving, other = servers.start(url), servers.start(url)
    assert status(serving)["serving"]
    assert not status(other)["serving"]
    (following,) = until(lambda: other.log("following: another server holds the store"), "the log")
    assert following["process"].endswith(f" process {serving.process.pid}")
    create_run(place(serving), barrier_min=WORKERS, heartbeat_timeout_s=30.0)
    fleet = EtcdFleet(WORKERS, seed=5)
    try:
        for _ in range(2):
            addresses = [place(serving), place(other)]
            assert moves_on(fleet, addresses), "the fleet does not move"
            moment = time.monotonic() + fleet.rng.uniform(0.0, 0.1)
            fleet.run_at(addresses, lambda moment=moment: time.monotonic() >= moment)  # type: ignore[misc]
            serving.kill()
            assert takes_over(fleet, addresses, time.monotonic()) < TAKES_OVER_S
            assert moves_on(fleet, addresses), "the fleet does not move at the other"
            serving, other = other, servers.start(url)
        assert at_rest(fleet, [place(serving)])
    finally:
        fleet.close()
    assert folded(fleet, url).head.term >= 3, "at least these; a machine that is busy makes a lock lapse more often"


def test_workers_with_both_addresses_follow_by_themselves(etcd: Etcd, servers: Servers, tmp_path: Path) -> None:
    url = etcd.url()
    serving, other = servers.start(url), servers.start(url)
    assert quoracy("run", "create", "demo", serving.url, "--set", "barrier_min=3").returncode == 0
    steps = 400
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Working(tmp_path, both(other, serving), "demo", name, steps))
            for name in ("a", "b", "c")
        ]
        until(lambda: min(len(worker.passed) for worker in workers) >= 20, "they meet")
        serving.kill()
        before = max(len(worker.passed) for worker in workers)
        until(lambda: min(len(worker.passed) for worker in workers) >= before + 20, "they go on with the other")
        until(lambda: all(worker.process.poll() is not None for worker in workers), "they end")
        passed = [worker.passed for worker in workers]
    assert passed[0] == passed[1] == passed[2]
    assert [step for _, step in passed[0]] == list(range(steps)), "each step once, in order"


def test_a_drained_server_is_followed_at_once(etcd: Etcd, servers: Servers) -> None:
    url = etcd.url()
    serving, other = servers.start(url), servers.start(url)
    quoracy("run", "create", "demo", serving.url)
    assert serving.stop() == 0
    until(lambda: seen(other.url, "show", "demo").get("address") == other.url, "the other serves")
    assert told(quoracy("run", "show", "demo", other.url, "--json"))["value"]["term"] == 2


def test_a_server_that_was_stopped_for_too_long_does_no_harm_and_follows(etcd: Etcd, servers: Servers) -> None:
    url = etcd.url()
    serving, other = servers.start(url), servers.start(url)
    create_run(place(serving), barrier_min=WORKERS, heartbeat_timeout_s=30.0)
    assert quoracy("run", "create", "demo", serving.url).returncode == 0
    addresses = [place(serving), place(other)]
    fleet = EtcdFleet(WORKERS, seed=7)
    try:
        assert moves_on(fleet, addresses), "the fleet does not move"
        with Talk(serving.url) as talk:  # somebody who stays and says nothing
            talk.join("w0")
            serving.send(signal.SIGSTOP)
            assert moves_on(fleet, addresses), "the other does not take over"
            serving.send(signal.SIGCONT)
            assert talk.hear(Moved, where=lambda moved: bool(moved.term > 1)).address == other.url
        until(lambda: serving.log("the lock has lapsed: following, since another server may serve now"), "the log")
        assert not status(serving)["serving"]
        assert status(other)["serving"]
        assert quoracy("run", "create", "more", serving.url).returncode == CATALOG["not_serving"].exit
        assert moves_on(fleet, addresses), "with both of them there"
        other.kill()
        assert moves_on(fleet, addresses), "the first takes over again"
        assert at_rest(fleet, [place(serving)])
    finally:
        fleet.close()
        serving.send(signal.SIGCONT)
    assert folded(fleet, url).head.term >= 3, "at least these; a machine that is busy makes a lock lapse more often"


def test_a_fleet_survives_the_death_of_etcds_leader(servers: Servers, tmp_path: Path) -> None:
    with Etcd(tmp_path / "etcd", nodes=3) as three:
        url = three.url()
        serving, other = servers.start(url), servers.start(url)
        create_run(place(serving), barrier_min=WORKERS, heartbeat_timeout_s=30.0)
        addresses = [place(serving), place(other)]
        fleet = EtcdFleet(WORKERS, seed=9)
        try:
            for _ in range(2):
                assert moves_on(fleet, addresses), "the fleet does not move"
                leader = three.leader()
                leader.kill()
                assert moves_on(fleet, addresses), "without the leader"
                three.restart(leader)
                three.wait()
            assert at_rest(fleet, addresses)
        finally:
            fleet.close()
        folded(fleet, url)
        assert [serving.process.poll(), other.process.poll()] == [None, None]


def test_a_token_of_one_server_is_good_at_the_other(etcd: Etcd, servers: Servers, tmp_path: Path) -> None:
    url = etcd.url()
    settings = tmp_path / "quoracy.toml"
    settings.write_text(f'[access]\ntokens = "required"\n[store]\nkind = "etcd"\netcd = "{url}"\n')
    serving, other = (servers.start(url, "--config", settings) for _ in range(2))
    token = quoracy("token", "new", "--role", "admin", "--config", settings).stdout.strip()
    same = quoracy("token", "new", "--role", "viewer", "--store", url).stdout.strip()
    assert quoracy("run", "create", "demo", serving.url, QUORACY_TOKEN=token).returncode == 0
    for server in (serving, other):
        assert quoracy("status", server.url).returncode == CATALOG["bad_token"].exit
        for each in (token, same):
            assert quoracy("status", server.url, QUORACY_TOKEN=each).returncode == 0
    assert not list(tmp_path.rglob("server.secret"))


def test_the_same_inside_a_program(etcd: Etcd, tmp_path: Path) -> None:
    url = etcd.url()
    with Coordinator(tmp_path / "one", store=url) as one, Coordinator(tmp_path / "two", store=url) as two:
        one.create("demo")
        until(lambda: [run["run"] for run in two.ask("runs")] == ["demo"], "the other knows it")
        assert (one.ask("status")["serving"], two.ask("status")["serving"]) == (True, False)


def test_a_server_without_its_etcd_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "quoracy-data"
    result = quoracy("serve", "--folder", folder, "--port", 0, "--store", "etcd://127.0.0.1:1/quoracy")
    assert result.returncode == CATALOG["journal_busy"].exit
    assert "etcd://127.0.0.1:1/quoracy does not answer" in " ".join(result.stderr.split())
    assert "what to do: see to etcd" in " ".join(result.stderr.split())
    wrong = quoracy("serve", "--folder", folder, "--port", 0, "--store", "etcd://nowhere:port/quoracy")
    assert wrong.returncode == CATALOG["config"].exit
    assert "store.etcd = 'etcd://nowhere:port/quoracy': write etcd://HOST:PORT" in " ".join(wrong.stderr.split())
