"""Who may publish a large object, decided by a small one.

There are servers that look whether a name is free when an upload in parts ends, and write then, so that two that end
at once both succeed. A small object can be created exactly once everywhere. So a large one is uploaded under a name
of its own, ``.new/NONCE``; then ``.claims/KEY/1`` is created, with the nonce in it; then the object that the claim
names is copied to the key, by its owner or by anybody else who finds the claim and no object: a claim never waits for
a process that may be dead.

A claim is dead if what it names is gone and the key is free: the object was deleted, or its writer was given up by a
sweep. It cannot come to life again, since nobody uses a nonce twice. Then the next number is claimed.
"""

from __future__ import annotations

from itertools import count

from quoracy.core.errors import ObjectMissing, ObjectsBroken
from quoracy.objects.bucket import Bucket


class Claims:
    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def publish(self, nonce: str, key: str) -> bool:
        """Whether the object that was staged under this nonce is what is under the key now."""
        size_bytes = self._bucket.size(f".new/{nonce}")
        for number in count(1):
            claimed = self._claim(f".claims/{key}/{number}", nonce)
            if claimed is None:
                continue
            try:
                created = self._bucket.move(f".new/{claimed}", key)
            except ObjectMissing:
                if self._bucket.size(key) is not None:
                    return False
                if claimed == nonce:
                    why = f"{key!r} was swept away before it was published; put it again, and sweep less eagerly"
                    raise ObjectsBroken(why) from None
                continue
            if claimed == nonce:
                return created or self._bucket.size(key) == size_bytes
            if self._bucket.size(key) is not None:
                return False
        raise AssertionError("there is always a next number")

    def _claim(self, name: str, nonce: str) -> str | None:
        """The nonce that holds the claim; None if the claim is gone again."""
        if self._bucket.create(name, nonce.encode()):
            return nonce
        try:
            return b"".join(self._bucket.read(name)).decode()
        except ObjectMissing:
            return None

    def sweep(self, before_s: float) -> None:
        """Those of keys that nobody has claimed since."""
        newest: dict[str, float] = {}
        found = [(name, at_s) for name, _, at_s in self._bucket.names(".claims")]
        for name, at_s in found:
            key = name.rpartition("/")[0]
            newest[key] = max(at_s, newest.get(key, at_s))
        for name, _ in found:
            if newest[name.rpartition("/")[0]] <= before_s:
                self._bucket.drop(name)
