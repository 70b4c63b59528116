"""Who the others are: keys and addresses, as the run shows them."""

from __future__ import annotations

import threading

from quoracy.core.witnessed.views import Peer, PeersShown


class Known:
    def __init__(self, member: str) -> None:
        self.member = member
        self._peers: dict[str, Peer] = {}
        self._lock = threading.Lock()

    def learn(self, shown: PeersShown) -> None:
        with self._lock:
            self._peers = {peer.member: peer for peer in shown.peers if peer.member != self.member}

    def peer(self, member: str) -> Peer | None:
        with self._lock:
            return self._peers.get(member)

    def key(self, member: str) -> bytes:
        """Empty if there is no such member, or if it has none."""
        peer = self.peer(member)
        return b"" if peer is None else peer.key

    def all(self) -> list[Peer]:
        with self._lock:
            return list(self._peers.values())
