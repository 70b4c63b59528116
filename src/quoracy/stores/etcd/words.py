"""The parts of a transaction, in few words."""

from __future__ import annotations

from typing import NamedTuple

from quoracy.wire.pb import etcd_pb2 as pb

Compare = pb.Compare
KeyValue = pb.KeyValue
Op = pb.RequestOp


class Reach(NamedTuple):
    """Keys from ``first`` up to, and without, ``end``; the one key ``first`` if there is no end."""

    first: bytes
    end: bytes = b""
    limit: int = 0
    keys_only: bool = False


def under(folder: bytes) -> Reach:
    """All keys that begin with ``folder``, which ends with a slash."""
    return Reach(folder, folder[:-1] + b"0")


def unchanged(key: bytes, mod_revision: int) -> Compare:
    """Nobody has written the key since; 0: there is no such key."""
    return Compare(target=Compare.MOD, key=key, mod_revision=mod_revision)


def created_at(key: bytes, create_revision: int) -> Compare:
    """The key is there since then, without a break; 0: there is no such key."""
    return Compare(target=Compare.CREATE, key=key, create_revision=create_revision)


def asking(reach: Reach, revision: int = 0) -> pb.RangeRequest:
    return pb.RangeRequest(
        key=reach.first, range_end=reach.end, limit=reach.limit, keys_only=reach.keys_only, revision=revision
    )


def get(reach: Reach, revision: int = 0) -> Op:
    return Op(request_range=asking(reach, revision))


def put(key: bytes, value: bytes, lease: int = 0) -> Op:
    return Op(request_put=pb.PutRequest(key=key, value=value, lease=lease))


def delete(reach: Reach) -> Op:
    return Op(request_delete_range=pb.DeleteRangeRequest(key=reach.first, range_end=reach.end))
