"""What a member keeps saying until something has come of it.

A signal is volatile: a host that dies forgets it, and a connection that breaks may have swallowed it. So the newest of
each sort is kept here and sent again, after a reconnection at once and otherwise now and then, until the views show
that it was used or is out of date.
"""

from __future__ import annotations

import msgspec

from quoracy.core.machine import Signal


class Said(msgspec.Struct):
    signal: Signal
    sent_us: int


class Saying:
    def __init__(self, resend_us: int) -> None:
        self._resend_us = resend_us
        self._said: dict[type[Signal], Said] = {}
        self.out: list[Signal] = []

    def say(self, signal: Signal, now_us: int) -> None:
        """Once, and again only if it is another than before."""
        said = self._said.get(type(signal))
        if said is None or said.signal != signal:
            self._said[type(signal)] = Said(signal, now_us)
            self.out.append(signal)

    def said(self, sort: type[Signal]) -> Signal | None:
        said = self._said.get(sort)
        return None if said is None else said.signal

    def unsay(self, *sorts: type[Signal]) -> None:
        for sort in sorts:
            self._said.pop(sort, None)

    def again(self, now_us: int) -> None:
        """Everything: whoever listens may have heard nothing."""
        for said in self._said.values():
            said.sent_us = now_us
            self.out.append(said.signal)

    def tick(self, now_us: int) -> None:
        for said in self._said.values():
            if now_us - said.sent_us >= self._resend_us:
                said.sent_us = now_us
                self.out.append(said.signal)

    def take(self) -> list[Signal]:
        out, self.out = self.out, []
        return out

    def wake_us(self) -> int | None:
        return min((said.sent_us + self._resend_us for said in self._said.values()), default=None)
