"""TLS between a server and its etcd; and the messages we speak with it are those of the file."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.stores.etcd import Etcd

from quoracy.core.errors import ConfigError, JournalBusy
from quoracy.ports import Append, Appended
from quoracy.stores.etcd import EtcdJournal
from quoracy.trust.ca import create_authority
from quoracy.wire import pb
from quoracy.wire.generate import ETCD, ROOT, generate


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    create_authority(folder)
    return folder


def client_certificate(authority: Path, folder: Path) -> tuple[str, str]:
    """What etcd wants to see of clients; our own authority makes certificates for servers only."""
    key = generate_private_key(SECP256R1())
    issuer = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    signer = load_pem_private_key((authority / "ca.key").read_bytes(), None)
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quoracy")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, SHA256())  # type: ignore[arg-type]
    )
    cert_path, key_path = folder / "client.crt", folder / "client.key"
    cert_path.write_bytes(built.public_bytes(Encoding.PEM))
    key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key_path.chmod(0o600)
    return str(cert_path), str(key_path)


def test_etcd_is_believed_only_with_its_authority(authority: Path, tmp_path: Path) -> None:
    files = ("--cert-file", str(authority / "server.crt"), "--key-file", str(authority / "server.key"))
    with Etcd(tmp_path / "etcd", 1, *files, tls=True) as etcd:
        url = etcd.url()
        assert url.startswith("etcds://")
        with closing(EtcdJournal(url, ca=str(authority / "ca.crt"))) as journal:
            assert journal.append([Append("r", 1, b"one")]) == [Appended(1)]
            assert journal.try_lock()
        create_authority(tmp_path / "another")
        for ca in ("", str(tmp_path / "another" / "ca.crt")):
            with pytest.raises(JournalBusy):
                EtcdJournal(url, ca=ca, patience_s=0.5)
        with pytest.raises(JournalBusy):
            EtcdJournal(url.replace("etcds", "etcd"), patience_s=0.5)
        with pytest.raises(ConfigError, match=r"store.etcd_ca = 'nowhere'"):
            EtcdJournal(url, ca="nowhere")


def test_an_etcd_that_asks_for_a_certificate_is_shown_one(authority: Path, tmp_path: Path) -> None:
    ca = str(authority / "ca.crt")
    files = ("--cert-file", str(authority / "server.crt"), "--key-file", str(authority / "server.key"))
    with Etcd(tmp_path / "etcd", 1, *files, "--client-cert-auth", "--trusted-ca-file", ca, tls=True) as etcd:
        cert, key = client_certificate(authority, tmp_path)
        with pytest.raises(JournalBusy):
            EtcdJournal(etcd.url(), ca=ca, patience_s=0.5)
        with closing(EtcdJournal(etcd.url(), ca=ca, cert=cert, key=key)) as journal:
            assert journal.append([Append("r", 1, b"one")]) == [Appended(1)]


def test_the_generated_messages_are_what_the_file_gives(tmp_path: Path) -> None:
    names = generate(ROOT / "proto", tmp_path, ETCD)
    assert names == ["etcd_pb2.py", "etcd_pb2.pyi"]
    kept = Path(str(pb.__file__)).parent
    stale = [name for name in names if (tmp_path / name).read_bytes() != (kept / name).read_bytes()]
    assert stale == [], "run: python -m quoracy.wire.generate"
