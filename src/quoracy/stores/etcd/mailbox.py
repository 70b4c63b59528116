"""Letters in etcd, one key each; and for each sender up to which number its letters were discarded."""

from __future__ import annotations

from quoracy.config.etcd_url import EtcdAddress
from quoracy.core.errors import JournalError
from quoracy.ports import MAX_LETTER_BYTES, Letter
from quoracy.stores.etcd.client import CALL_S, PATIENCE_S, Compacted
from quoracy.stores.etcd.keys import digits, escaped
from quoracy.stores.etcd.store import Store
from quoracy.stores.etcd.words import KeyValue, Reach, created_at, delete, put, unchanged, under
from quoracy.stores.limits import bounded, named, numbered, run_name

TRIES = 10


class EtcdMailbox:
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
        self._store = Store(url, ca=ca, cert=cert, key=key, call_s=call_s, patience_s=patience_s)
        self._client, self._keys = self._store.client, self._store.keys

    def post(self, run: str, letter: Letter) -> bool:
        self._client.check_open()
        name, sender = run_name(run), named(letter.sender, "a sender's name")
        numbered(letter.seq, 1, "a letter's sequence number")
        bounded(letter.payload, 0, MAX_LETTER_BYTES, "a letter")
        slot = self._slot(name, sender, letter.seq)
        mark = self._mark(name, sender)
        mine = put(slot, self._keys.wrap(slot, letter.payload))
        while True:
            seen = self._client.read(Reach(mark), Reach(slot, keys_only=True))
            upto, revision = self._upto(run, seen.one(0))
            if letter.seq <= upto or seen.found[1]:
                return False
            if self._client.write([unchanged(mark, revision), created_at(slot, 0)], [mine]).succeeded:
                return True

    def collect(self, run: str, limit: int = 1000) -> list[Letter]:
        self._client.check_open()
        folder = self._keys.at("letters", escaped(run_name(run)), "")
        numbered(limit, 0, "a limit")
        for _ in range(TRIES):
            revision = self._client.read(Reach(self._keys.schema, keys_only=True)).revision
            try:
                found = self._client.scan(under(folder)._replace(limit=limit), revision) if limit else ()
                return [self._letter(run, kv) for kv in found]
            except Compacted as error:
                why = str(error)
        raise JournalError(f"etcd at {self._client.address} compacts faster than this can be read: {why}")

    def discard(self, run: str, sender: str, upto: int) -> None:
        self._client.check_open()
        name, by = run_name(run), named(sender, "a sender's name")
        numbered(upto, 0, "a letter's sequence number")
        mark = self._mark(name, by)
        while True:
            before, revision = self._upto(run, self._client.read(Reach(mark)).one(0))
            most = max(before, upto)
            letters = Reach(self._slot(name, by, 0), self._slot(name, by, most + 1))
            told = [put(mark, self._keys.wrap(mark, b"%d" % most))] if most > before else []
            if self._client.write([unchanged(mark, revision)], [*told, delete(letters)]).succeeded:
                return

    def close(self) -> None:
        self._store.close()

    def _slot(self, name: bytes, sender: bytes, seq: int) -> bytes:
        return self._keys.at("letters", escaped(name), sender.hex(), digits(seq))

    def _mark(self, name: bytes, sender: bytes) -> bytes:
        return self._keys.at("discarded", escaped(name), sender.hex())

    def _upto(self, run: str, kv: KeyValue | None) -> tuple[int, int]:
        return (0, 0) if kv is None else (int(self._keys.unwrap(kv.key, kv.value, run)), kv.mod_revision)

    def _letter(self, run: str, kv: KeyValue) -> Letter:
        folder, _, seq = kv.key.rpartition(b"/")
        sender = bytes.fromhex(folder.rpartition(b"/")[2].decode()).decode()
        return Letter(sender, int(seq), self._keys.unwrap(kv.key, kv.value, run))
