"""``python -m quoracy.bench.exchange_giver``: the other side of the measurement of the exchange. It offers one file as
a member, and sends the same file to whoever connects to a plain port. Ends with its input."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path

import msgspec

from quoracy.bench.exchange import BUFFER_BYTES, Given, Wish
from quoracy.core.witnessed.views import Peer, PeersShown
from quoracy.sdk.witnessed.exchange import open_exchange
from quoracy.trust.keys import MemberKey


def main() -> None:
    wish = msgspec.json.decode(sys.argv[1], type=Wish)
    key = MemberKey.create()
    exchange = open_exchange("giver", key, "127.0.0.1:0")
    exchange.know(PeersShown(1, (Peer("taker", 1, wish.taker, ()),)))
    exchange.offer(wish.digest, Path(wish.path))
    plain = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_copy_out, args=(plain, Path(wish.path)), daemon=True).start()
    given = Given(key.public, exchange.addresses[0], int(plain.getsockname()[1]))
    sys.stdout.write(msgspec.json.encode(given).decode() + "\n")
    sys.stdout.flush()
    sys.stdin.read()


def _copy_out(plain: socket.socket, path: Path) -> None:
    buffer = bytearray(BUFFER_BYTES)
    view = memoryview(buffer)
    while True:
        line, _ = plain.accept()
        with line, path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                line.sendall(view[:count])


if __name__ == "__main__":
    main()
