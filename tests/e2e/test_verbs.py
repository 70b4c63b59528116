"""Every verb that asks a coordinator, against a real one: what it prints, what its object says, and its exit code."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest
from tests.doors.talk import Talk
from tests.e2e.command import PATIENCE_S, QUORACY, Serving, environment, quoracy, told, until
from typer.testing import CliRunner

from quoracy.cli import build
from quoracy.core.cluster.events import WorkerReady, WorkerRegistered
from quoracy.core.errors import CATALOG
from quoracy.core.members import Cause
from quoracy.doors.auth import Authority, Role
from quoracy.trust.ca import create_authority


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("serving") / "runs") as started:
        yield started


@pytest.fixture
def run(server: Serving, request: pytest.FixtureRequest) -> str:
    """A run of this test's own."""
    name = f"run-{abs(hash(request.node.name)) % 10**8}"
    assert quoracy("run", "create", name, server.url).returncode == 0
    return str(name)


# -- looking ----------------------------------------------------------------------------------------------------------


def test_status_says_who_serves_and_what_each_run_waits_for(server: Serving, run: str) -> None:
    result = quoracy("status", server.url)
    assert result.returncode == 0
    assert f"serves on {server.url}" in result.stdout
    assert "no worker is here" in result.stdout
    value = told(quoracy("status", server.url, "--json"))["value"]
    assert (value["server"]["serving"], value["server"]["draining"]) == (True, False)
    (shown,) = [shown for shown in value["runs"] if shown["run"] == run]
    assert (shown["phase"], shown["here"], shown["workers"]) == ("Open", 0, 0)


def test_the_url_comes_from_the_environment_if_it_is_not_given(server: Serving) -> None:
    assert quoracy("status", url=server.url).returncode == 0
    assert quoracy("status", "tcp://127.0.0.1:1", url=server.url).returncode == CATALOG["unreachable"].exit


def test_a_run_is_created_with_settings_listed_and_shown(server: Serving) -> None:
    result = quoracy("run", "create", "bert", server.url, "--set", "barrier_min=8", "--label", "for people")
    assert f'quoracy.connect("{server.url}", run="bert")' in result.stdout
    listed = told(quoracy("run", "list", server.url, "--json"))["value"]
    assert "bert" in [shown["run"] for shown in listed]
    assert "bert" in quoracy("run", "list", server.url).stdout
    shown = told(quoracy("run", "show", "bert", server.url, "--json"))
    assert (shown["command"], shown["value"]["label"], shown["value"]["kind"]) == ("run show", "for people", "cluster")
    assert "bert  Open  entry 1  term 1" in quoracy("run", "show", "bert", server.url).stdout


def test_explain_says_what_is_awaited_and_what_happens_then(server: Serving) -> None:
    with two_workers(server, "demo") as talk:
        talk.arrive("w1", 0)
        until(lambda: talk.ask("show").value["explanation"]["waits"], "w1 waits")
        page = quoracy("explain", "demo", server.url)
        assert page.returncode == 0
        assert "waits for w2" in " ".join(page.stdout.split())
        assert "aborted for all in" in " ".join(page.stdout.split())
        value = told(quoracy("explain", "demo", server.url, "--json"))["value"]
        assert [wait["missing"] for wait in value["waits"]] == [["w2"]]
        shown = quoracy("top", "demo", server.url, "--once")
        assert shown.returncode == 0
        barrier, *workers = [line.split() for line in shown.stdout.splitlines() if line.startswith(("step", "   "))]
        assert barrier[:6] == ["step", "0", "0", "0", "1/2", "w2"]
        assert [(words[0], words[1], words[2]) for words in workers] == [("1", "w2", "Idle"), ("0", "w1", "Idle")]
        assert "awaited at step" in shown.stdout
        assert told(quoracy("top", "demo", server.url, "--json"))["value"]["taking_part"] == 2
        talk.arrive("w2", 0)
        talk.passed("w2")
    assert "last to come" in quoracy("run", "show", "demo", server.url, COLUMNS="120").stdout


@contextmanager
def two_workers(server: Serving, run: str) -> Iterator[Talk]:
    """Of a new run; both take part in barriers."""
    assert quoracy("run", "create", run, server.url).returncode == 0
    with Talk(server.url) as talk:
        for name in ("w1", "w2"):
            talk.call(Cause(name, 0, 0), WorkerRegistered(name, 0, name.encode() * 8), run)
            talk.call(Cause(name, 1, 1), WorkerReady(name, 1), run)
        yield talk


class Screen:
    """``quoracy top`` in a terminal of 24 lines."""

    def __init__(self, run: str, url: str) -> None:
        self._terminal, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command = [*QUORACY, "top", run, url, "--interval", "0.1"]
        named = {name: value for name, value in environment(TERM="xterm").items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=named)
        os.close(theirs)

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)

    def until(self, wanted: bytes) -> bytes:
        seen = b""
        while wanted not in seen:
            ready, _, _ = select.select([self._terminal], [], [], PATIENCE_S)
            assert ready, seen.decode(errors="replace")
            seen += os.read(self._terminal, 65536)
        return seen


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_top_is_live_until_ctrl_c_and_leaves_the_terminal_as_it_was(
    server: Serving, run: str, which: signal.Signals
) -> None:
    with Screen(run, server.url) as screen:
        assert b"\x1b[?1049h" in screen.until(b"no worker is here"), "on the other screen"
        assert quoracy("run", "stop", run, server.url, "--reason", "seen enough").returncode == 0
        screen.until(b"seen enough")
        screen.process.send_signal(which)
        assert b"Traceback" not in screen.until(b"\x1b[?1049l")
        assert screen.process.wait(PATIENCE_S) == 0


def test_top_goes_on_when_the_coordinator_is_back(tmp_path: Path) -> None:
    with Serving(tmp_path / "runs") as first:
        quoracy("run", "create", "demo", first.url)
        with Screen("demo", first.url) as screen:
            screen.until(b"no worker is here")
            assert first.stop() == 0
            screen.until(b"connection refused; this is")
            with Serving(tmp_path / "runs", port=int(first.url.rpartition(":")[2])) as second:
                screen.until(f"-{second.process.pid} ".encode())
                screen.process.send_signal(signal.SIGINT)
                assert screen.process.wait(PATIENCE_S) == 0


# -- ordering ---------------------------------------------------------------------------------------------------------


def test_workers_are_ordered_one_or_all_and_a_run_is_rolled_back_and_stopped(server: Serving) -> None:
    name = "orders"
    with two_workers(server, name):
        one = quoracy("run", "order", name, server.url, "--worker", "w1", "--command", "pause")
        assert "w1 will hear: pause (order 1" in one.stdout
        settings = ["--command", "reconfigure", "--set", "batch_size=16", "--json"]
        everybody = told(quoracy("run", "order", name, server.url, "--all", *settings))["value"]
        assert (everybody["order"], everybody["workers"]) == (3, 2), "each worker's has a number of its own"
        back = told(quoracy("run", "roll-back", name, server.url, "--reason", "too hot", "--json"))["value"]
        assert back["fence"] == 1
        assert "is stopped (entry" in quoracy("run", "stop", name, server.url, "--reason", "done").stdout
        assert "the run is over: done" in quoracy("explain", name, server.url).stdout
        assert quoracy("run", "stop", name, server.url).returncode == 0, "it is over either way"
        late = quoracy("run", "order", name, server.url, "--all", "--command", "resume", "--json")
        assert late.returncode == CATALOG["run_closed"].exit
        assert told(late)["error"]["code"] == "run_closed"


# -- what goes wrong --------------------------------------------------------------------------------------------------

BAD = [
    (["explain", "nowhere"], "unknown_run", "there is no run 'nowhere' here"),
    (["top", "nowhere"], "unknown_run", "there is no run 'nowhere' here"),
    (["run", "show", "nowhere"], "unknown_run", "there is no run 'nowhere' here"),
    (["run", "stop", "nowhere", "--reason", "x"], "unknown_run", "there is no run 'nowhere' here"),
    (["run", "create", "there"], "run_exists", "choose another name"),
    (["run", "create", "x", "--kind", "clutser"], "config", "choose one of: cluster"),
    (["run", "create", "x", "--set", "barrier_min"], "config", "write KEY=VALUE"),
    (["run", "create", "x", "--set", "barrier_min=many"], "config", "barrier_min = 'many'"),
    (["run", "create", "x", "--set", "barrier_min=0"], "config", "barrier_min = 0"),
    (["run", "create", "x", "--set", "barier_min=3"], "config", "barier_min = 3"),
    (["run", "create", "x" * 200], "malformed", "run"),
    (["run", "order", "there", "--command", "pause"], "config", "--worker, or all with --all"),
    (["run", "order", "there", "--worker", "w1", "--command", "dance"], "config", "one of: stop, pause"),
    (["run", "order", "there", "--worker", "w1", "--command", "pause"], "unknown_worker", "w1 has not registered"),
    (["run", "stop", "there", "--reason", " "], "config", "say why"),
]


@pytest.fixture(scope="module")
def there(server: Serving) -> Serving:
    """The server, with a run called like this."""
    assert quoracy("run", "create", "there", server.url).returncode == 0
    return server


@pytest.mark.parametrize(("arguments", "code", "words"), BAD, ids=lambda value: " ".join(value)[:40])
def test_what_goes_wrong_is_named_with_the_exit_code_of_the_catalog(
    there: Serving, arguments: list[str], code: str, words: str
) -> None:
    result = quoracy(*arguments, "--json", url=there.url)
    assert result.returncode == CATALOG[code].exit, result.stderr
    assert told(result)["error"]["code"] == code
    assert "Traceback" not in result.stderr
    assert words in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("tcp://127.0.0.1:1", "unreachable", "connection refused"),
        ("tcp://no.such.name.invalid", "unreachable", "no.such.name.invalid"),
        ("http://127.0.0.1:7700", "config", "write tcp://HOST:PORT"),
        ("tcp://127.0.0.1:99999", "config", "write tcp://HOST:PORT"),
        ("7700", "config", "write tcp://HOST:PORT"),
    ],
)
def test_a_coordinator_that_is_not_there_is_named(url: str, code: str, words: str) -> None:
    result = quoracy("status", url, "--json", "--timeout", "10")
    assert result.returncode == CATALOG[code].exit
    assert words in told(result)["error"]["why"]
    assert words in result.stderr


def test_tls_and_tokens_are_asked_for_and_their_lack_is_named(tmp_path: Path) -> None:
    founded = create_authority(tmp_path / "tls", ["localhost"], 10)
    file = tmp_path / "quoracy.toml"
    tls = {"cert": str(founded.server.cert), "key": str(founded.server.key)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in tls.items()]
    file.write_text("\n".join(["[access]", 'tokens = "required"', "[tls]", *lines]))
    folder, ca = tmp_path / "runs", founded.authority.cert
    with Serving(folder, "--config", file) as server:
        port = server.url.rpartition(":")[2]
        url = f"tcps://localhost:{port}"
        authority = Authority.open(folder)
        viewer, admin = (authority.new_token(role) for role in (Role.VIEWER, Role.ADMIN))
        one = authority.new_token(Role.VIEWER, "demo")
        created = quoracy("run", "create", "demo", url, "--ca", ca, QUORACY_TOKEN=admin)
        assert created.returncode == 0, created.stderr
        quoracy("run", "create", "other", url, "--ca", ca, "--token", admin)
        assert quoracy("run", "show", "demo", url, QUORACY_CA=str(ca), QUORACY_TOKEN=viewer).returncode == 0
        only = told(quoracy("run", "list", url, "--ca", ca, "--json", QUORACY_TOKEN=one))["value"]
        assert [shown["run"] for shown in only] == ["demo"]
        refused = [
            (quoracy("status", url, "--ca", ca), "bad_token", "no token came"),
            (quoracy("status", url, "--ca", ca, "--token", viewer + "x"), "bad_token", "did not make the token"),
            (
                quoracy("run", "stop", "demo", url, "--ca", ca, "--reason", "x", "--token", viewer),
                "forbidden",
                "viewer",
            ),
            (quoracy("run", "show", "other", url, "--ca", ca, "--token", one), "forbidden", "demo"),
            (quoracy("status", url, "--token", viewer), "unreachable", "--ca FILE"),
            (quoracy("status", f"tcp://localhost:{port}", "--token", viewer), "unreachable", "tcps://"),
            (quoracy("status", f"tcp://localhost:{port}", "--ca", ca), "config", "tcps://"),
        ]
        for result, code, words in refused:
            assert result.returncode == CATALOG[code].exit, result.stderr
            assert words in result.stderr
            assert "Traceback" not in result.stderr


# -- what typer promises ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb",
    [
        "serve",
        "status",
        "explain",
        "top",
        "run create",
        "run list",
        "run show",
        "run stop",
        "run order",
        "run roll-back",
    ],
)
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    first, *_ = words = verb.split()
    result = CliRunner().invoke(build([first]), [*words, "--help"], prog_name="quoracy", env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert f"quoracy {verb}" in result.stdout.partition("Examples:")[2]


def test_completion_installs_and_knows_verbs_kinds_runs_and_commands(server: Serving, run: str, tmp_path: Path) -> None:
    command = ["bash", "-c", f"{shlex.join(QUORACY)} --install-completion; exit $?"]
    subprocess.run(command, check=True, capture_output=True, timeout=60, env=environment(HOME=str(tmp_path)))
    assert "quoracy" in (tmp_path / ".bash_completions" / "quoracy.sh").read_text()

    def completed(*words: str) -> list[str]:
        asked = {"COMP_WORDS": " ".join(["quoracy", *words]), "COMP_CWORD": str(len(words))}
        result = quoracy(url=server.url, _QUORACY_COMPLETE="complete_bash", **asked)
        return result.stdout.split()

    assert completed("sta") == ["status"]
    assert completed("run", "create", "x", "--kind", "c") == ["cluster"]
    assert run in completed("explain", run[:5])
    assert completed("explain", run) == [run]
    assert completed("run", "order", run, "--command", "p") == ["pause"]
    assert "barrier_min=" in completed("run", "create", "x", "--set", "barrier")
