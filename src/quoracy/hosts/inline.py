"""A host in the caller's thread: every wish is carried out before the call returns.

For tests, benchmarks, tools, and programs that want a coordinator without a network. Messages handed in together are
decided together: the first finds the host idle and is written at once, the rest queue behind it and share one entry.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from quoracy.core import shell
from quoracy.core.errors import Bug, QuoracyError
from quoracy.core.host import Host, Phase
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.core.machine import Explanation
from quoracy.core.messages import ToHost, ToMember
from quoracy.core.run import Kinds
from quoracy.hosts import carry
from quoracy.ports import Journal


class HostStopped(QuoracyError):
    """The host gave up on the run; ``code`` says in which way."""

    def __init__(self, stop: shell.Stop) -> None:
        super().__init__(stop.why)
        self.code = stop.code


class InlineHost:
    def __init__(
        self, journal: Journal, run: str, name: str = "inline", kinds: Kinds = KINDS, limits: Limits | None = None
    ) -> None:
        """Reads the journal, and takes over if there is a run."""
        self.journal = journal
        self.run = run
        self.host = Host(run, name, "", secrets.token_bytes(32), kinds, limits)
        self._todo: deque[shell.Action] = deque(self.host.start(_now_us()))
        self._sent: list[tuple[Any, ToMember]] = []
        self._explained: Explanation | None = None
        self._work()
        if self.host.run is not None:
            self._report(shell.Take())
            self._work()

    def create(self, kind: str, config: dict[str, Any], label: str = "") -> None:
        rules = self.host.kinds.newest(kind).rules
        self._report(shell.Create(RunCreated(self.run, kind, rules, config, label=label)))
        self._work()

    def exchange(self, messages: Iterable[tuple[Any, ToHost]]) -> list[tuple[Any, ToMember]]:
        """Hand in messages of peers, get what is to be sent to peers. Durable when it returns."""
        for peer, message in messages:
            self._report(shell.Received(peer, message))
        return self.tick()

    def tick(self) -> list[tuple[Any, ToMember]]:
        self._report(shell.Tick())
        self._work()
        sent, self._sent = self._sent, []
        return sent

    def explain(self) -> Explanation:
        self._report(shell.Asked("inline"))
        self._work()
        if self._explained is None:
            raise Bug("a host answers when it is asked")
        return self._explained

    def _report(self, report: shell.Report) -> None:
        self._todo.extend(self.host.handle(report, _now_us()))

    def _work(self) -> None:
        while self._todo:
            self._carry_out(self._todo.popleft())
        if self.host.phase is Phase.STOPPED and self.host.stopped is not None:
            raise HostStopped(self.host.stopped)

    def _carry_out(self, action: shell.Action) -> None:
        match action:
            case shell.Append():
                self._report(carry.append(self.journal, self.run, action))
            case shell.Send(peer=peer, message=message):
                self._sent.append((peer, message))
            case shell.Load():
                self._report(carry.load(self.journal, self.run))
            case shell.ReadEntry(n=n):
                self._report(carry.read_entry(self.journal, self.run, n))
            case shell.Save(snapshot=snapshot):
                carry.save(self.journal, self.run, snapshot)
            case shell.Explained(explanation=explanation):
                self._explained = explanation
            case shell.Perform(duty=duty):
                raise Bug(f"an inline host has nobody to perform {duty.what}")
            case shell.Beat() | shell.Stop():
                pass


def _now_us() -> int:
    return time.monotonic_ns() // 1000
