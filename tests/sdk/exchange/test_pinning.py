"""Who is let in: those in the roster, with the key that is listed there, and over TLS 1.3."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest
from cryptography.x509 import load_pem_x509_certificate
from OpenSSL import SSL
from tests.sdk.exchange.sites import PATIENCE_S, Site, made, sites, wait_for

from quoracy.core.witnessed.views import Peer
from quoracy.sdk.witnessed.exchange.channel import Broken, Channel
from quoracy.sdk.witnessed.exchange.wide import WideChannel
from quoracy.sdk.witnessed.exchange.wire import Get, Have, Mine, No, Nonce, Thanks, introduction, to_dialler
from quoracy.trust.ca import create_authority
from quoracy.trust.keys import MemberKey
from quoracy.trust.pinned import dialling_context, key_in

CONTENT, DIGEST = made(1000)


def test_a_listener_with_another_key_is_refused_with_both_keys_named(tmp_path: Path) -> None:
    """Before anything is asked: it learns not even what is wanted."""
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(DIGEST, CONTENT)
        other = MemberKey.create().public
        bob.know(msgspec.structs.replace(alice.peer(), key=other))
        came = bob.fetch(DIGEST, len(CONTENT), ("alice",), tmp_path / "blob")
        assert came.silent == ("alice",)
        assert (
            f"its key is {alice.key.public.hex()[:16]}, that of alice in the roster is {other.hex()[:16]}" in came.why
        )
        assert alice.figure("given_bytes") == 0


def test_a_dialler_with_another_key_is_refused_with_the_listed_key_named(tmp_path: Path) -> None:
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(DIGEST, CONTENT)
        listed = MemberKey.create().public
        alice.know(msgspec.structs.replace(bob.peer(), key=listed))
        came = bob.fetch(DIGEST, len(CONTENT), ("alice",), tmp_path / "blob")
        assert came.silent == ("alice",)
        assert f"bob does not hold the key that the roster of alice has for it, {listed.hex()[:16]}" in came.why
        assert (alice.figure("given_bytes"), alice.figure("connections_refused")) == (0, 1)


def test_who_is_not_in_the_roster_is_refused(tmp_path: Path) -> None:
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(DIGEST, CONTENT)
        alice.know()
        came = bob.fetch(DIGEST, len(CONTENT), ("alice",), tmp_path / "blob")
        assert "bob is not in the roster of alice" in came.why
        alice.know(msgspec.structs.replace(bob.peer(), key=b""))
        assert "has no key there" in bob.fetch(DIGEST, len(CONTENT), ("alice",), tmp_path / "blob").why
        alice.know(bob.peer())
        assert bob.fetch(DIGEST, len(CONTENT), ("alice",), tmp_path / "blob").ok


def test_a_peer_without_a_key_is_not_dialled(tmp_path: Path) -> None:
    with sites("alice", "bob") as (alice, bob):
        bob.know(msgspec.structs.replace(alice.peer(), key=b""))
        assert "alice cannot be known again" in bob.fetch(DIGEST, 1000, ("alice",), tmp_path / "blob").why


def test_who_leaves_the_roster_is_cut_off(tmp_path: Path) -> None:
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(DIGEST, CONTENT)
        line = met(alice, bob)
        line.say(Get(DIGEST, 0, 0), PATIENCE_S)
        assert line.hear(PATIENCE_S) == Have(0, len(CONTENT))
        alice.know()
        with pytest.raises(Broken, match="closed the connection"):
            line.hear(PATIENCE_S)
        line.close()


def dialled(site: Site, old: bool = False) -> Channel:
    host, _, port = site.exchange.addresses[0].rpartition(":")
    context = dialling_context()
    if old:
        make_old(context)
    sock = socket.create_connection((host, int(port)), PATIENCE_S)
    return WideChannel(sock, context, to_dialler, server=False)


def make_old(context: SSL.Context) -> None:
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)


def met(listener: Site, dialler: Site) -> Channel:
    """A connection by hand."""
    line = introduced(listener, dialler)
    assert line.hear(PATIENCE_S) == Thanks()
    return line


def introduced(listener: Site, dialler: Site) -> Channel:
    line = dialled(listener).greet(PATIENCE_S)
    nonce = line.hear(PATIENCE_S)
    signed = introduction(nonce.nonce, listener.key.public, listener.name, dialler.name)
    line.say(Mine(dialler.name, listener.name, dialler.key.sign(signed)), PATIENCE_S)
    return line


def test_tls_older_than_1_3_is_refused() -> None:
    with sites("alice") as (alice,):
        line = dialled(alice, old=True)
        with pytest.raises(Broken, match=r"TLS: .*alert protocol version"):
            line.greet(PATIENCE_S)
        line.close()


def test_a_dialler_speaks_nothing_older_than_tls_1_3(tmp_path: Path) -> None:
    with sites("alice", "bob") as (alice, bob):
        make_old(alice.exchange._giving._context)  # type: ignore[union-attr]
        came = bob.fetch(DIGEST, 1000, ("alice",), tmp_path / "blob")
        assert "alert protocol version" in came.why


def test_what_one_has_signed_for_one_listener_opens_no_other() -> None:
    """A listener that passes on what it is told does not get in elsewhere as the one who told it."""
    with sites("alice", "bob", "mallory") as (alice, bob, mallory):
        line = dialled(alice).greet(PATIENCE_S)
        nonce = line.hear(PATIENCE_S)
        assert isinstance(nonce, Nonce)
        for key, wanted in ((mallory.key.public, "mallory"), (mallory.key.public, "alice")):
            again = dialled(alice).greet(PATIENCE_S)
            other = again.hear(PATIENCE_S)
            signature = bob.key.sign(introduction(other.nonce, key, wanted, "bob"))
            again.say(Mine("bob", "alice", signature), PATIENCE_S)
            assert isinstance(again.hear(PATIENCE_S), No)
            again.close()
        old = bob.key.sign(introduction(bytes(32), alice.key.public, "alice", "bob"))
        line.say(Mine("bob", "alice", old), PATIENCE_S)
        assert isinstance(line.hear(PATIENCE_S), No), "signed for another nonce"
        line.close()


def test_two_members_with_one_key_are_told_apart(tmp_path: Path) -> None:
    with sites("alice", "bob") as (alice, bob):
        alice.exchange.offer(DIGEST, CONTENT)
        bob.know(Peer("twin", 1, alice.key.public, alice.exchange.addresses))
        assert "this is alice, not twin" in bob.fetch(DIGEST, 1000, ("twin",), tmp_path / "blob").why


def test_a_certificate_proves_the_key_it_holds() -> None:
    with sites("alice") as (alice,):
        line = dialled(alice).greet(PATIENCE_S)
        assert key_in(line.certificate()) == alice.key.public
        line.close()
        wait_for(lambda: not alice.exchange._giving._strangers, "the connection is given up")  # type: ignore[union-attr]


def test_a_certificate_with_another_sort_of_key_proves_nothing(tmp_path: Path) -> None:
    create_authority(tmp_path)
    other = load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    assert key_in(other) == key_in(None) == b""
