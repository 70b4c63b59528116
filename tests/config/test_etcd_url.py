"""Where etcd is: what is understood, and what is refused by field, value and fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quoracy.config import load_config
from quoracy.config.etcd_url import EtcdAddress, parse_etcd
from quoracy.core.errors import ConfigError, ConfigErrors


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("etcd://127.0.0.1:2379/quoracy", EtcdAddress(("127.0.0.1:2379",), "/quoracy", False)),
        ("etcd://localhost", EtcdAddress(("localhost:2379",), "/quoracy", False)),
        ("etcds://a:1,b:2, c/some/where/", EtcdAddress(("a:1", "b:2", "c:2379"), "/some/where", True)),
        ("etcd://[::1]:2379,[::1]/x", EtcdAddress(("[::1]:2379", "[::1]:2379"), "/x", False)),
    ],
)
def test_what_is_understood(url: str, address: EtcdAddress) -> None:
    assert parse_etcd(url) == address
    assert parse_etcd(str(address)) == address


@pytest.mark.parametrize(
    "url",
    [
        "", "etcd", "127.0.0.1:2379", "http://127.0.0.1:2379", "etcd://", "etcd:///quoracy", "etcd://a:b", "etcd://a:0",
        "etcd://a:70000", "etcd://a,,b", "etcd://a/p?q", "etcd://a/p q", "etcd://a/ä", f"etcd://a/{'x' * 300}",
        "etcd://::1:2379", "etcd://user@a:2379", "etcd://[a",
    ],
)  # fmt: skip
def test_what_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_etcd(url)
    assert (caught.value.field, caught.value.value) == ("store.etcd", url)
    assert "write etcd://HOST:PORT/PREFIX" in caught.value.fix


def problems(settings: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigErrors) as caught:
        load_config(None, {"store": settings}, {})
    return {problem.field: problem.fix for problem in caught.value.problems}


def test_settings_that_do_not_fit_are_named() -> None:
    assert "write etcd://HOST:PORT" in problems({"kind": "etcd", "etcd": "nowhere"})["store.etcd"]
    assert "only with TLS: write etcds://" in problems({"kind": "etcd", "etcd_ca": "ca.crt"})["store.etcd_ca"]
    pair = problems({"kind": "etcd", "etcd": "etcds://a/b", "etcd_cert": "client.crt"})
    assert pair == {"store.etcd_key": "a certificate needs its key: set both or neither"}


def test_a_file_may_name_it(tmp_path: Path) -> None:
    file = tmp_path / "quoracy.toml"
    file.write_text('[store]\nkind = "etcd"\netcd = "etcds://a:1,b:2/x"\netcd_ca = "ca.crt"\n')
    store = load_config(file, {}, {}).store
    assert (store.kind, store.etcd, store.etcd_ca) == ("etcd", "etcds://a:1,b:2/x", "ca.crt")
