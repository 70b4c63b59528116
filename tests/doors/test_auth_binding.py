"""Where a server may listen without proof."""

from __future__ import annotations

from itertools import product

import pytest

from quoracy.core.errors import ConfigError
from quoracy.doors.auth import check_binding, is_loopback

LOOPBACK = ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
ELSEWHERE = [
    "0.0.0.0",
    "::",
    "",
    "192.168.1.2",
    "10.0.0.1",
    "example.org",
    "localhost.example.org",
    "*",
    "::ffff:0.0.0.0",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_on_loopback_nothing_is_asked(host: str) -> None:
    assert is_loopback(host)
    for tls, tokens, insecure in product((False, True), repeat=3):
        check_binding(host, tls, tokens, insecure)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_elsewhere_both_are_asked_unless_somebody_says_insecure(host: str) -> None:
    assert not is_loopback(host)
    for tls, tokens, insecure in product((False, True), repeat=3):
        if insecure or (tls and tokens):
            check_binding(host, tls, tokens, insecure)
        else:
            with pytest.raises(ConfigError, match="--insecure") as caught:
                check_binding(host, tls, tokens, insecure)
            assert ("quoracy ca init" in caught.value.fix) is not tls
            assert ("access.tokens" in caught.value.fix) is not tokens
