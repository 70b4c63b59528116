"""Real handshakes on loopback, with the certificates that ``quoracy ca init`` makes, and every way they must fail."""

from __future__ import annotations

import contextlib
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from quoracy.core.errors import ConfigError
from quoracy.trust import client_context, server_context
from quoracy.trust.ca import create_authority, issue

HOSTS = ["train.example.org", "*.lab.example.org", "192.0.2.7", "2001:db8::7"]
OLD = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls")
    create_authority(path, HOSTS)
    return path


class Echo:
    """A server that answers one connection at a time with what it hears, in capitals."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.failures: list[str] = []
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            connection.settimeout(10)
            with connection:
                if connection.recv(1, socket.MSG_PEEK) == b"q":
                    return
                try:
                    with self._context.wrap_socket(connection, server_side=True) as secure:
                        secure.sendall(secure.recv(100).upper())
                except (ssl.SSLError, OSError) as error:
                    self.failures.append(getattr(error, "reason", None) or type(error).__name__)

    def __enter__(self) -> Echo:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"q")
            self._thread.join()
        self._listener.close()


@contextlib.contextmanager
def serving(folder: Path, name: str = "server") -> Iterator[Echo]:
    with Echo(server_context(folder / f"{name}.crt", folder / f"{name}.key")) as echo:
        yield echo


def talk(echo: Echo, context: ssl.SSLContext, host: str) -> tuple[bytes, str | None]:
    with (
        socket.create_connection(("127.0.0.1", echo.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(b"hello")
        return secure.recv(100), secure.version()


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "::1", "train.example.org", "a.lab.example.org", "192.0.2.7"]
)
def test_a_member_with_the_authority_reaches_the_server_by_each_of_its_names(folder: Path, host: str) -> None:
    with serving(folder) as echo:
        assert talk(echo, client_context(folder / "ca.crt"), host) == (b"HELLO", "TLSv1.3")


def test_the_chain_is_right_by_the_strictest_rules(folder: Path) -> None:
    """As Python checks by default from 3.13 on."""
    context = client_context(folder / "ca.crt")
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with serving(folder) as echo:
        assert talk(echo, context, "localhost")[0] == b"HELLO"


@pytest.mark.parametrize("host", ["example.org", "lab.example.org", "a.b.lab.example.org", "127.0.0.2", "192.0.2.8"])
def test_a_wrong_name_is_refused(folder: Path, host: str) -> None:
    with serving(folder) as echo, pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        talk(echo, client_context(folder / "ca.crt"), host)


def test_another_authority_is_refused(folder: Path, tmp_path: Path) -> None:
    create_authority(tmp_path)
    with serving(folder) as echo:
        for context in (client_context(tmp_path / "ca.crt"), client_context()):
            with pytest.raises(ssl.SSLCertVerificationError):
                talk(echo, context, "localhost")


def test_a_pinned_certificate_is_believed_and_no_other_of_the_same_authority(tmp_path: Path) -> None:
    create_authority(tmp_path)
    issue(tmp_path, "second", [])
    context = client_context(pinned=tmp_path / "server.crt")
    with serving(tmp_path) as echo:
        assert talk(echo, context, "localhost")[0] == b"HELLO"
    with serving(tmp_path, "second") as echo, pytest.raises(ssl.SSLCertVerificationError):
        talk(echo, context, "localhost")


def test_a_pinned_certificate_must_still_have_the_name(folder: Path) -> None:
    with serving(folder) as echo, pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        talk(echo, client_context(pinned=folder / "server.crt"), "example.org")


def test_an_expired_certificate_is_refused(tmp_path: Path) -> None:
    create_authority(tmp_path, days=30, now=OLD)
    with serving(tmp_path) as echo, pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        talk(echo, client_context(tmp_path / "ca.crt"), "localhost")


def test_a_plain_client_gets_nothing(folder: Path) -> None:
    with serving(folder) as echo:
        with socket.create_connection(("127.0.0.1", echo.port), timeout=10) as plain:
            plain.sendall(b"\0\0\0\x05hello")
            heard = b""
            with contextlib.suppress(ConnectionResetError):
                while more := plain.recv(100):
                    heard += more
        assert b"HELLO" not in heard
        assert talk(echo, client_context(folder / "ca.crt"), "localhost")[0] == b"HELLO", "the server goes on"
    assert len(echo.failures) == 1


def test_a_client_with_an_older_version_is_refused(folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder / "ca.crt")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(folder) as echo, pytest.raises((ssl.SSLError, ConnectionResetError)):
        talk(echo, context, "localhost")


def test_a_server_with_an_older_version_is_refused(folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Echo(context) as echo, pytest.raises((ssl.SSLError, ConnectionResetError)):
        talk(echo, client_context(folder / "ca.crt"), "localhost")


def test_contexts_have_no_surprises(folder: Path) -> None:
    server = server_context(folder / "server.crt", folder / "server.key")
    client = client_context(folder / "ca.crt")
    assert server.minimum_version == client.minimum_version == ssl.TLSVersion.TLSv1_3
    assert server.num_tickets == 0
    assert client.check_hostname
    assert client.verify_mode is ssl.CERT_REQUIRED
    assert client.keylog_filename is None


# -- what a person may get wrong -----------------------------------------------------------------------------------


def test_a_key_of_another_certificate_is_named(folder: Path, tmp_path: Path) -> None:
    create_authority(tmp_path)
    with pytest.raises(ConfigError, match="does not belong") as caught:
        server_context(folder / "server.crt", tmp_path / "server.key")
    assert caught.value.field == "tls.key"


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(folder: Path, tmp_path: Path) -> None:
    key = load_pem_private_key((folder / "server.key").read_bytes(), password=None)
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (tmp_path / "sealed.key").write_bytes(sealed)
    with pytest.raises(ConfigError, match="decrypt it first"):
        server_context(folder / "server.crt", tmp_path / "sealed.key")


@pytest.mark.parametrize(
    ("cert", "key", "field"), [("gone", "server.key", "tls.cert"), ("server.crt", "gone", "tls.key")]
)
def test_a_missing_file_is_named(folder: Path, cert: str, key: str, field: str) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        server_context(folder / cert, folder / key)
    assert caught.value.field == field


def test_rubbish_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_bytes(b"\xff rubbish")
    (tmp_path / "empty").write_bytes(b"")
    for name in ("rubbish", "empty"):
        with pytest.raises(ConfigError, match="cannot be used"):
            server_context(tmp_path / name, folder / "server.key")
        with pytest.raises(ConfigError, match="no certificate"):
            client_context(tmp_path / name)
        with pytest.raises(ConfigError, match="no certificate"):
            client_context(pinned=tmp_path / name)
    with pytest.raises(ConfigError, match="give one"):
        client_context(folder / "ca.crt", pinned=folder / "server.crt")


# -- the private authority -----------------------------------------------------------------------------------------


def test_every_file_is_readable_by_its_owner_alone(folder: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == dict.fromkeys(("ca.key", "ca.crt", "server.key", "server.crt"), 0o600)


@pytest.mark.parametrize("name", ["ca.key", "ca.crt", "server.key", "server.crt"])
def test_nothing_is_overwritten_and_nothing_half_made(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match="not overwritten") as caught:
        create_authority(tmp_path)
    assert caught.value.value == str(tmp_path / name)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.parametrize(
    ("hosts", "days", "field"),
    [
        (["tcp://x"], 9, "--host"),
        (["x:7700"], 9, "--host"),
        ([""], 9, "--host"),
        ([], 0, "--days"),
        ([], 9999, "--days"),
    ],
)
def test_a_wish_that_cannot_be_granted_makes_nothing(tmp_path: Path, hosts: list[str], days: int, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        create_authority(tmp_path / "new", hosts, days)
    assert caught.value.field == field
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["", "ca", "../x", "a/b", "a.b", "ä"])
def test_the_name_of_a_certificate_is_plain(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        issue(folder, name, [])
    assert caught.value.field == "--name"


def test_a_further_certificate_comes_from_the_same_authority(tmp_path: Path) -> None:
    create_authority(tmp_path)
    issued = issue(tmp_path, "server-2", ["two.example.org"])
    assert issued.hosts == ["two.example.org", "localhost", "127.0.0.1", "::1"]
    with serving(tmp_path, "server-2") as echo:
        assert talk(echo, client_context(tmp_path / "ca.crt"), "two.example.org")[0] == b"HELLO"


def test_no_certificate_outlasts_its_authority(tmp_path: Path) -> None:
    founded = create_authority(tmp_path, now=OLD)
    late = issue(tmp_path, "late", [], days=3650, now=OLD + timedelta(days=100))
    assert late.until == founded.authority.until


def test_an_authority_whose_files_do_not_belong_together_signs_nothing(folder: Path, tmp_path: Path) -> None:
    create_authority(tmp_path)
    (tmp_path / "ca.crt").write_bytes((folder / "ca.crt").read_bytes())
    with pytest.raises(ConfigError, match="do not belong together"):
        issue(tmp_path, "x", [])
    (tmp_path / "ca.crt").write_bytes(b"rubbish")
    with pytest.raises(ConfigError, match="damaged"):
        issue(tmp_path, "x", [])
    with pytest.raises(ConfigError, match="No such file"):
        issue(tmp_path / "nowhere", "x", [])
