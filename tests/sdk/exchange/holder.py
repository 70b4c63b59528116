"""``holder.py NAME FILE TAKER KEY PAUSE``: a member that offers one file to one other, slowly. Ends with its input."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from blake3 import blake3

from quoracy.core.witnessed.views import Peer, PeersShown
from quoracy.sdk.witnessed.exchange import open_exchange
from quoracy.sdk.witnessed.exchange.channel import Channel
from quoracy.trust.keys import MemberKey


def main() -> None:
    name, path, taker, taker_key, pause_s = sys.argv[1:]
    send = Channel.send

    def slowly(channel: Channel, view: memoryview, wait_s: float) -> None:
        time.sleep(float(pause_s))
        send(channel, view, wait_s)

    setattr(Channel, "send", slowly)  # noqa: B010
    key = MemberKey.create()
    exchange = open_exchange(name, key, "127.0.0.1:0")
    exchange.know(PeersShown(1, (Peer(taker, 1, bytes.fromhex(taker_key), ()),)))
    exchange.offer(blake3(Path(path).read_bytes()).digest(), Path(path))
    told = ["offers", {"key": key.public.hex(), "address": exchange.addresses[0]}]
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    exchange.close()


if __name__ == "__main__":
    main()
