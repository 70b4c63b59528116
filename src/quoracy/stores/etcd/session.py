"""A lease that is kept as long as this process lives: what is bound to it goes when the process does, or is cut off.

A thread prolongs it every second. How long it is good for is judged by our own monotonic clock, from the moment at
which we asked: etcd counts from a later one, so we never believe in it longer than etcd does. After a SIGSTOP or a long
silence of the network ``alive`` is False before anything else is said.

Nothing is safe because of a lease. It saves work: two who both believe they hold it are kept apart by conditional
writes.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Condition, Thread
from time import monotonic
from typing import Final

from quoracy.core.errors import JournalError
from quoracy.stores.etcd.client import Client, Unreached

TTL_S: Final = 3
KEEP_S: Final = 1.0
"""Between two renewals: two may fail before the lease is gone."""
CALL_S: Final = 0.8
"""The deadline of one: the next member is asked while there is still time."""


class Session:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = Condition()
        self._lease = 0
        self._good_until_s = 0.0
        self._keeper: Thread | None = None
        self._closed = False

    def alive(self, lease: int) -> bool:
        """Whether this lease is certainly still ours."""
        with self._changed:
            return lease != 0 and lease == self._lease and monotonic() < self._good_until_s

    def lease(self) -> int:
        """One that is alive: the one we have, or a new one. Raises JournalError."""
        with self._changed:
            lease = self._lease
        if self.alive(lease) or (lease and self._renew(lease)):
            return lease
        return self._grant()

    def close(self) -> None:
        """Give up what is bound to it, at once if etcd can be reached."""
        with self._changed:
            self._closed = True
            lease, self._lease = self._lease, 0
            self._changed.notify_all()
        if self._keeper is not None:
            self._keeper.join()
        if lease:
            link = self._client.link()
            with suppress(JournalError, Unreached):
                self._client.try_at(link, lambda link, _: link.revoke(lease, CALL_S))

    def _grant(self) -> int:
        began_s = monotonic()
        granted = self._client.once(lambda link, left_s: link.grant(TTL_S, left_s), "the grant of a lease")
        with self._changed:
            self._lease, self._good_until_s = granted.ID, began_s + granted.TTL
            if self._keeper is None and not self._closed:
                self._keeper = Thread(target=self._keep, name="quoracy-etcd-lease", daemon=True)
                self._keeper.start()
            self._changed.notify_all()
            return int(granted.ID)

    def _keep(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, KEEP_S)
                if self._closed:
                    return
                lease = self._lease
            if lease:
                self._renew(lease)

    def _renew(self, lease: int) -> bool:
        """Whether the lease is alive. Each member is asked once; if none answers it is as it was."""
        for _ in self._client.address.endpoints:
            began_s, link = monotonic(), self._client.link()
            try:
                left_s = self._client.try_at(link, lambda link, _: link.keep(lease, CALL_S))
            except Unreached:
                self._client.turn(link)
                continue
            except (JournalError, ValueError):
                break
            with self._changed:
                if self._lease == lease:
                    self._lease, self._good_until_s = (lease, began_s + left_s) if left_s > 0 else (0, 0.0)
            break
        return self.alive(lease)
