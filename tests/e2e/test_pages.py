"""Every command that a page shows is run, and so are the examples."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from tests.doors.grpc.talk import Talk
from tests.e2e.command import environment
from tests.soak import soaking

from quoracy.coordinator import Coordinator
from quoracy.sdk.client.ask import Asker
from quoracy.wire.pb import coordinator_pb2 as pb

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/coordinator.md", "docs/simulator.md")
SHORTER = {"1..500": "1..3"} | ({} if soaking("integrations") else {"--rounds 10": "--rounds 2"})
"""What a page says to try for minutes is tried for seconds."""
LONG = (["demo", "cluster"], ["bench", "fold"])
"""Run by `make soak-integrations`. `make test` asks what they are for; other tests of it do the same in small."""
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    found = []
    for block in BLOCK.findall((ROOT / page).read_text()):
        for line in block.splitlines():
            for said, less in SHORTER.items():
                line = line.replace(said, less)
            words = shlex.split(line, comments=True)
            if words[:1] == ["quoracy"]:
                found.append(words if soaking("integrations") or words[1:] not in LONG else [*words, "--help"])
    return found


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.soak("integrations", shorter=True)
@pytest.mark.timeout(240)
def test_every_command_of_the_pages_runs(tmp_path: Path) -> None:
    """In one folder, in the order of the pages, with the coordinator they say to start."""
    shown = [words for page in PAGES for words in commands(page)]
    assert len(shown) > 15
    ready = tmp_path / "ready"
    environment = {**os.environ, "QUORACY_URL": "", "COLUMNS": "120"}
    port = "0"
    serve = subprocess.Popen(
        [sys.executable, "-m", "quoracy", "serve", "--port", port, "--ready-file", str(ready)],
        cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while not ready.exists():
            assert serve.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        environment["QUORACY_URL"] = ready.read_text().split()[0]
        created = False
        for words in shown:
            if words[1] == "serve" or (created and words[1:4] == ["run", "create", "demo"]):
                continue
            created = created or words[1:3] == ["run", "create"]
            once = ["--once"] if words[1] == "top" else []
            done = subprocess.run(
                [sys.executable, "-m", "quoracy", *words[1:], *once],
                cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120,
            )  # fmt: skip
            fine = (0, 1) if words[1] == "bench" else (0,)  # how fast this machine is now is not what is tested
            assert done.returncode in fine, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    finally:
        serve.terminate()
        assert serve.wait(timeout=30) == 0


def test_the_verbs_of_make_are_those_of_the_readme() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert named == ["demo", "test"]
    for verb in (*named, "check", "soak", "bench", "docs"):
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE), verb
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_example_of_a_coordinator_inside_a_program_runs(tmp_path: Path) -> None:
    assert "waits for nobody" in example("embedded").main(str(tmp_path))


def test_the_example_of_a_coordinator_with_all_apis_serves_each_of_them(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "examples" / "embedded_apis.py"),
        str(tmp_path / "runs"),
        str(tmp_path / "kept"),
    ]
    told = environment(HEARTBEAT_INTERVAL="1500", STORAGE_BACKEND="local")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=told) as process:
        try:
            assert process.stdout is not None
            addresses = dict(process.stdout.readline().strip().split(": ") for _ in range(3))
            with Asker(addresses["tcp"]) as asker:
                config = asker.ask("settings", "demo")["config"]
            with httpx.Client(base_url=addresses["http"], trust_env=False) as client:
                assert [run["run"] for run in client.get("/api/runs").json()["runs"]] == ["demo"]
            with Talk(addresses["grpc"].partition("//")[2]) as talk:
                assert [run.run for run in talk.call(pb.ListRunsRequest()).runs] == ["demo"]
            wanted = {"max_workers": 1000, "heartbeat_timeout_s": 30.0, "heartbeat_interval_s": 1.5}
            assert {name: config[name] for name in wanted} == wanted
            process.terminate()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_the_example_of_a_worker_keeps_two_processes_in_step(tmp_path: Path) -> None:
    with Coordinator(folder=tmp_path) as coordinator:
        coordinator.create("demo", barrier_min=2)
        command = [sys.executable, str(ROOT / "examples" / "in_step.py"), coordinator.url, "20"]
        workers = [subprocess.Popen(command) for _ in range(2)]
        assert [worker.wait(timeout=60) for worker in workers] == [0, 0]
        shown = coordinator.show("demo")
        assert shown["barriers"][0]["released"] == 20
        assert {worker["state"] for worker in shown["workers"]} == {"Left"}
