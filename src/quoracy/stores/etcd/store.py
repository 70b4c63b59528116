"""What journal, pulse and mailbox open alike: a client, the keys, and the certainty that we know what is there."""

from __future__ import annotations

from pathlib import Path

import grpc

from quoracy.config.etcd_url import EtcdAddress, parse_etcd
from quoracy.core.errors import JournalCorrupt, JournalNewer
from quoracy.stores.etcd.client import CALL_S, PATIENCE_S, Client
from quoracy.stores.etcd.keys import Keys
from quoracy.stores.etcd.words import Reach, created_at, get, put
from quoracy.trust.files import read_file, read_secret

VERSION = 1


class Store:
    """``url`` as ``etcd://host:port,host:port/prefix``; the files are those of TLS, all in PEM."""

    def __init__(
        self,
        url: str | EtcdAddress,
        *,
        ca: str = "",
        cert: str = "",
        key: str = "",
        call_s: float = CALL_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        address = parse_etcd(url) if isinstance(url, str) else url
        self.client = Client(address, _credentials(address, ca, cert, key), call_s=call_s, patience_s=patience_s)
        self.keys = Keys(address.prefix)
        try:
            self._check_version()
        except BaseException:
            self.client.close()
            raise

    def close(self) -> None:
        self.client.close()

    def _check_version(self) -> None:
        """Writes it where nothing is. Writing it twice would be harmless: it is written only where nothing is."""
        key = self.keys.schema
        mine = put(key, self.keys.wrap(key, b"%d" % VERSION))
        if (found := self.client.read(Reach(key)).one(0)) is None:
            written = self.client.write([created_at(key, 0)], [mine], [get(Reach(key))])
            if written.succeeded:
                return
            found = written.found[0][0]
        text = self.keys.unwrap(key, found.value)
        version = int(text) if text.isdigit() else 0
        if version > VERSION:
            there = f"{self.client.address} has schema version {version}"
            raise JournalNewer(f"{there}, this Quoracy reads up to {VERSION}: use a newer one")
        if version != VERSION:
            raise JournalCorrupt("", 0, 0, f"schema version {text!r} does not exist", f"the key {key.decode()}")


def _credentials(address: EtcdAddress, ca: str, cert: str, key: str) -> grpc.ChannelCredentials | None:
    if not address.tls:
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=read_file(Path(ca), "store.etcd_ca") if ca else None,
        private_key=read_secret(Path(key), "store.etcd_key") if key else None,
        certificate_chain=read_file(Path(cert), "store.etcd_cert") if cert else None,
    )
