"""Where the coordinator is, and what else ``connect`` can be told: what is taken, what is refused and how."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import quoracy
from quoracy.core.cluster.events import WorkerRegistered
from quoracy.sdk.client.address import Address, parse_address, parse_url
from quoracy.sdk.client.settings import Settings, Timeouts, settings


@pytest.mark.parametrize(
    ("url", "addresses", "tls"),
    [
        ("tcp://127.0.0.1:7700", [Address("127.0.0.1", 7700)], False),
        ("tcps://train.example.org:1", [Address("train.example.org", 1)], True),
        ("tcp://host", [Address("host", 7700)], False),
        ("tcp://[::1]:7701", [Address("::1", 7701)], False),
        ("tcp://a:1,b:2", [Address("a", 1), Address("b", 2)], False),
        ("tcps://a:1,tcps://b:2", [Address("a", 1), Address("b", 2)], True),
        (" tcp://a:1/ ", [Address("a", 1)], False),
    ],
)
def test_these_are_addresses(url: str, addresses: list[Address], tls: bool) -> None:
    assert parse_url(url) == (addresses, tls)


@pytest.mark.parametrize(
    "url",
    [
        "", "localhost:7700", "http://a:1", "grpc://a:1", "tcp://", "tcp://:7700", "tcp://a:0", "tcp://a:65536",
        "tcp://a:x", "tcp://a:1/path", "tcp://me@a:1", "tcp://a:1,", "tcp://a:1,tcps://b:2", "tcp://[::1:7",
        "tcp://a b:1",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(quoracy.ConfigError, match=r"tcp://|tcp or tcps") as error:
        parse_url(url)
    assert error.value.field == "url"


def test_addresses_that_hosts_name_are_read_with_and_without_a_scheme() -> None:
    assert parse_address("tcp://a:1") == parse_address("a:1") == Address("a", 1)
    assert parse_address("not an address") is None
    assert (str(Address("::1", 1)), str(Address("a", 1))) == ("[::1]:1", "a:1")


def told(url: str | None = None, run: str | None = "run", member: str | None = None, **more: Any) -> Settings:
    about = {"address": "here", "gpus": more.pop("gpus", 0), "labels": more.pop("labels", None) or {}}
    given = {
        "token": None,
        "ca": None,
        "key": None,
        "about": about,
        "timeouts": Timeouts(),
        "joins": WorkerRegistered,
    } | more
    return settings(url, run, member, **given)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "RUN", "MEMBER", "TOKEN", "KEY"):
        monkeypatch.delenv(f"QUORACY_{name}", raising=False)


def test_a_laptop_needs_a_run_and_nothing_else() -> None:
    given = told()
    assert given.addresses == [Address("127.0.0.1", 7700)]
    assert re.fullmatch(rf"[A-Za-z0-9._-]+-{os.getpid()}", given.member)
    assert (given.tls, given.token, given.key, given.ca) == (False, "", None, None)


def test_the_environment_says_what_the_script_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"URL": "tcp://a:1", "RUN": "r", "MEMBER": "m", "TOKEN": "t", "KEY": "/k"}.items():
        monkeypatch.setenv(f"QUORACY_{name}", value)
    given = told(run=None)
    assert (given.addresses, given.run, given.member, given.token, given.key) == (
        [Address("a", 1)],
        "r",
        "m",
        "t",
        "/k",
    )
    given = told("tcp://b:2", "s", "n", token="", key="/l")
    assert (given.addresses, given.run, given.member, given.token, given.key) == ([Address("b", 2)], "s", "n", "", "/l")


def test_a_token_brings_the_key_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert told(token="t").key == str(tmp_path / "quoracy" / "member.key")


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("run", {"run": None}),
        ("run", {"run": "r" * 129}),
        ("member", {"member": "@op"}),
        ("member", {"member": "two words"}),
        ("member", {"member": "m" * 65}),
        ("ca", {"ca": "ca.crt"}),
        ("gpus, labels", {"gpus": -1}),
        ("gpus, labels", {"labels": {"a": "b" * 300}}),
        ("connect_timeout_s", {"timeouts": Timeouts(connect_timeout_s=0)}),
        ("give_up_s", {"timeouts": Timeouts(give_up_s=-1.0)}),
        ("drain_s", {"timeouts": Timeouts(drain_s=float("nan"))}),
    ],
)
def test_a_setting_that_cannot_be_is_named_before_anything_is_started(field: str, settings: dict[str, Any]) -> None:
    with pytest.raises(quoracy.ConfigError) as error:
        told(**settings)
    assert error.value.field == field


def test_everything_a_script_needs_is_in_one_place() -> None:
    for name in quoracy.__all__:
        assert getattr(quoracy, name) is not None
    with pytest.raises(AttributeError):
        _ = quoracy.nonsense  # type: ignore[attr-defined]
