"""Journal, pulse and mailbox on PyTorch's TCPStore: for runs that share nothing but the store they have anyway.

What the store of torch 2.13 does; ``tests/stores/test_tcpstore_facts.py`` and ``test_tcpwire.py`` try it out:

- It keeps everything in the memory of one process. Killed, it is empty when it comes back: see ``StoreLost``. Anybody
  who can reach it may read and write everything, so it belongs into a closed network.
- ``compare_set(key, "", value)`` sets if absent and returns what is stored. Of a key that is missing,
  ``compare_set(key, expected, value)`` returns ``expected`` and sets nothing, but wakes up those who wait for the key.
- ``compare_set``, ``add``, ``check`` and ``delete_key`` are answered; ``set``, ``append`` and ``multi_set`` are not.
  Queries over one connection are carried out in order, so an ``append`` is done when one after it is answered.
- ``multi_get`` reads all its keys in one moment.
- ``add`` on a value that is no number makes the server hang up, and so does a value over 8 MiB. Keys and values may
  hold any bytes. The empty value is stored, but who compares with it takes it for a missing one.
- A server that died is noticed at the next call. One that is merely silent never is by torch's client: every call but
  ``wait`` blocks for ever, and so does dialling. Hence ``tcpwire``, which speaks to the server itself, in the caller's
  thread, and waits only so long. It also means that only the server needs PyTorch.
- A connection that failed stays failed. A new one has to be dialled, and who answers there may be another store.

``python -m quoracy.stores.tcpstore --port 29500`` runs such a server alone.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic, sleep
from typing import Any, TypeVar
from urllib.parse import urlsplit

from quoracy.core.errors import ConfigError, OutcomeUnknown
from quoracy.ports.keyvalue import Look, Unreachable
from quoracy.stores import tcpwire as wire
from quoracy.stores.keyvalue import KeyValueJournal, KeyValueMailbox, KeyValuePulse
from quoracy.stores.keyvalue.keys import checked_key, checked_value
from quoracy.stores.keyvalue.session import PREFIX
from quoracy.stores.tcpvigil import Vigil
from quoracy.stores.tcpwire import Failed, HungUp, Query, Wire
from quoracy.version import INSTALL_TORCH

SCHEME = "tcpstore"
TIMEOUT_S = 5.0
"""How long one operation may take before nobody is said to answer."""
IDLE = 2
"""Connections that are kept for the next call."""
SLICE_S = 0.05
"""How often a wait looks by itself at a server without libuv, which wakes up nobody when a key is created."""
_NOTHING = "quoracy/nobody-creates-this"
_THERE = b"1"

T = TypeVar("T")


def torch_distributed() -> Any:
    """The module, imported late: that takes a second, and most who run Quoracy do not have it."""
    try:
        import torch.distributed
    except ImportError as error:
        fix = f"needs PyTorch: {INSTALL_TORCH} ({error})"
        raise ConfigError("store", SCHEME, fix) from None
    return torch.distributed


class TcpStoreKeyValue:
    """Whoever calls has a connection to itself as long as the call lasts, so nobody waits for anybody else's wait. One
    thread alone needs one."""

    def __init__(self, host: str, port: int, *, timeout_s: float = TIMEOUT_S) -> None:
        self._address = (host, port)
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._idle: list[Wire] = []
        self._busy: set[Wire] = set()
        self._vigils: list[Vigil] = []
        self._check: Callable[[Look], None] | None = None
        self._careful: bool | None = None
        """Whether the server hangs up on who asks for a missing key; None if that is not known yet."""
        self._closed = False

    def get(self, key: str) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        wanted = [checked_key(key) for key in keys]
        return self._read(lambda wire: self._get_many(wire, wanted)) if wanted else []

    def create(self, key: str, value: bytes) -> bytes:
        (stored,) = self._change(wire.compare_set(checked_key(key), b"", checked_value(value)))
        return bytes(stored)

    def create_then_get(self, key: str, value: bytes, other: str) -> tuple[bytes, bytes | None]:
        query = wire.compare_set(checked_key(key), b"", checked_value(value))
        if self._careful is not False:
            (stored,) = self._change(query)
            try:
                return stored, self.get(other)
            except Unreachable as error:
                raise OutcomeUnknown(str(error)) from None
        stored, (found,) = self._change(query, wire.multi_get([checked_key(other)]))
        return stored, found or None

    def swap(self, key: str, expected: bytes, value: bytes) -> bytes | None:
        checked_value(expected)
        if expected == checked_value(value):  # nothing to change, and the answer would not tell whether it is there
            return self.get(key)
        (stored,) = self._change(wire.compare_set(checked_key(key), expected, value))
        return None if stored in (expected, b"") else stored

    def add(self, key: str, amount: int) -> int:
        query = wire.add(checked_key(key), amount)
        counted: int = (self._change(query) if amount else self._read(lambda line: line.ask(query)))[0]
        return counted

    def append_then_get(self, key: str, value: bytes, others: Sequence[str], awaits: str = "") -> list[bytes | None]:
        query, wanted = wire.append(checked_key(key), checked_value(value)), [checked_key(other) for other in others]
        if self._careful is not False:
            self._change(query, wire.check(key))
            try:
                return self.get_many(wanted)
            except Unreachable as error:
                raise OutcomeUnknown(str(error)) from None
        if not awaits:
            _, values = self._change(query, wire.multi_get(wanted))
        else:
            checked_key(awaits)
            try:
                _, values = self._keep_vigil(lambda vigil: vigil.ask(awaits, query, wire.multi_get(wanted)))
            except Failed as failed:
                raise OutcomeUnknown(self._said(failed)) from None
        return [value or None for value in values]

    def delete(self, key: str) -> bool:
        return bool(self._change(wire.delete(checked_key(key)))[0])

    def wait(self, key: str, timeout_s: float) -> bool:
        checked_key(key)
        return self._read(lambda line: self._wait(line, key, timeout_s, lambda: line.ask(wire.check(key))[0]))

    def fetch(self, keys: Sequence[str], timeout_s: float) -> list[bytes | None]:
        wanted = [checked_key(key) for key in keys]
        values: list[bytes | None] = []

        def look(line: Wire) -> bool:
            values[:] = self._get_many(line, wanted)
            return values[0] is not None

        self._read(lambda line: self._wait(line, wanted[0], timeout_s, lambda: look(line)))
        return values

    def announce(self, key: str) -> None:
        query = wire.put(checked_key(key), _THERE)
        self._read(lambda line: line.ask(query))

    def wait_either(self, key: str, other: str, timeout_s: float) -> str | None:
        wanted = [checked_key(key), checked_key(other)]
        if self._careful:
            return self._read(lambda line: self._look_for_either(line, wanted, timeout_s))
        return self._twice(lambda: self._keep_vigil(lambda vigil: vigil.wait(key, other, timeout_s)))

    def guard(self, check: Callable[[Look], None]) -> None:
        self._check = check
        check(self.get)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for line in (*self._idle, *self._busy):
                line.hang_up()
            for idle in (self._idle, self._vigils):
                while idle:
                    idle.pop().close()

    # -- connections --------------------------------------------------------------------------------------------------

    def _read(self, ask: Callable[[Wire], T]) -> T:
        return self._twice(lambda: self._call(ask))

    def _twice(self, call: Callable[[], T]) -> T:
        """A lost connection is not told: what changes nothing is simply asked again over a new one."""
        try:
            return call()
        except Failed:
            pass
        try:
            return call()
        except Failed as failed:
            raise Unreachable(self._said(failed)) from None

    def _change(self, *queries: Query) -> list[Any]:
        try:
            return self._call(lambda line: line.ask(*queries))
        except Failed as failed:
            raise OutcomeUnknown(self._said(failed)) from None

    def _call(self, ask: Callable[[Wire], T]) -> T:
        line = self._take()
        try:
            answer = ask(line)
        except BaseException:  # whatever it is, there may be answers on the line that nobody has read
            line.close()
            raise
        finally:
            self._put_back(line)
        return answer

    def _wait(self, line: Wire, key: str, timeout_s: float, look: Callable[[], bool]) -> bool:
        """Whoever swaps a missing key wakes up those who wait for it, so it has to look."""
        deadline = monotonic() + timeout_s
        while (left_s := deadline - monotonic()) > 0:
            if line.wait(key, min(left_s, SLICE_S) if self._careful else left_s) and look():
                return True
            if self._careful and look():
                return True
        return look()

    def _look_for_either(self, line: Wire, keys: list[str], timeout_s: float) -> str | None:
        """Where nobody is woken up."""
        deadline = monotonic() + timeout_s
        while True:
            there = next((key for key in keys if line.ask(wire.check(key))[0]), None)
            left_s = deadline - monotonic()
            if there is not None or left_s <= 0:
                return there
            sleep(min(left_s, SLICE_S))

    def _keep_vigil(self, ask: Callable[[Vigil], T]) -> T:
        vigil = self._take_vigil()
        try:
            return ask(vigil)
        except BaseException:
            vigil.close()
            raise
        finally:
            self._busy.difference_update(vigil.lines)
            if vigil.good and not self._vigils and not self._closed:
                self._vigils.append(vigil)
            else:
                vigil.close()

    def _take_vigil(self) -> Vigil:
        self._refuse_closed()
        try:
            vigil = self._vigils.pop()
        except IndexError:
            vigil = self._dial_vigil()
        with self._lock:
            if not self._closed:
                self._busy.update(vigil.lines)
                return vigil
        vigil.close()
        raise ValueError("this store is closed")

    def _dial_vigil(self) -> Vigil:
        first = self._dial()
        try:
            return Vigil(first, self._dial())
        except BaseException:
            first.close()
            raise

    def _get_many(self, line: Wire, keys: list[str]) -> list[bytes | None]:
        there = keys
        if self._careful:
            there = [key for key in dict.fromkeys(keys) if line.ask(wire.check(key))[0]]
        if not there:
            return [None] * len(keys)
        (values,) = line.ask(wire.multi_get(there))
        if there is keys:
            return [value or None for value in values]
        found = dict(zip(there, values, strict=True))
        return [found.get(key) or None for key in keys]

    def _take(self) -> Wire:
        """Without a lock where there is a connection: taking from a list and putting into a set are atomic."""
        self._refuse_closed()
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:
                break
            if line.good:
                self._busy.add(line)
                if self._closed:  # in this very moment, and nobody has told this one
                    line.hang_up()
                return line
            line.close()
        try:
            line = self._dial()
        except Failed as failed:
            raise Unreachable(self._said(failed)) from None
        with self._lock:
            if not self._closed:
                self._busy.add(line)
                return line
        line.close()
        raise ValueError("this store is closed")

    def _put_back(self, line: Wire) -> None:
        self._busy.discard(line)
        if line.good and len(self._idle) < IDLE:
            self._idle.append(line)
            if not self._closed:
                return
        line.close()

    def _dial(self) -> Wire:
        line = Wire(*self._address, self._timeout_s)
        try:
            if self._careful is None:
                try:
                    line.ask(wire.multi_get([_NOTHING]))
                    self._careful = False
                except HungUp:
                    line = Wire(*self._address, self._timeout_s)
                    self._careful = True
            if self._check is not None:
                self._check(lambda key: self._get_many(line, [key])[0])
        except BaseException:
            line.close()
            raise
        return line

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ValueError("this store is closed")

    def _said(self, failed: Failed) -> str:
        host, port = self._address
        return f"the TCPStore at {host}:{port} does not answer: {failed}"


# -- addresses --------------------------------------------------------------------------------------------------------


def parse_url(url: str) -> tuple[str, int, str]:
    """Host, port and prefix of ``tcpstore://host:port`` or ``tcpstore://host:port/prefix``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None or parts.scheme != SCHEME or parts.query or parts.fragment or parts.username:
        raise ConfigError("store", url, f"write {SCHEME}://host:port, or {SCHEME}://host:port/prefix")
    return host, port, parts.path.strip("/") or PREFIX


def open_journal(url: str, *, timeout_s: float = TIMEOUT_S, store_id: bytes | None = None) -> KeyValueJournal:
    host, port, prefix = parse_url(url)
    return KeyValueJournal(TcpStoreKeyValue(host, port, timeout_s=timeout_s), prefix, store_id)


def open_pulse(url: str, *, timeout_s: float = TIMEOUT_S, store_id: bytes | None = None) -> KeyValuePulse:
    host, port, prefix = parse_url(url)
    return KeyValuePulse(TcpStoreKeyValue(host, port, timeout_s=timeout_s), prefix, store_id)


def open_mailbox(url: str, *, timeout_s: float = TIMEOUT_S, store_id: bytes | None = None) -> KeyValueMailbox:
    host, port, prefix = parse_url(url)
    return KeyValueMailbox(TcpStoreKeyValue(host, port, timeout_s=timeout_s), prefix, store_id)


# -- a server alone ---------------------------------------------------------------------------------------------------


def serve(arguments: Sequence[str]) -> None:
    """Until SIGTERM or SIGINT. torch would listen on every interface, so the socket is made here."""
    parser = argparse.ArgumentParser(prog="python -m quoracy.stores.tcpstore", description="A TCPStore, alone.")
    parser.add_argument("--host", default="127.0.0.1", help="which interface to listen on; anybody there may write")
    parser.add_argument("--port", type=int, default=29500, help="0 for any free one")
    options = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    torch = torch_distributed()
    listening = socket.create_server((options.host, options.port))
    port = listening.getsockname()[1]
    server = torch.TCPStore(
        options.host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
    )
    sys.stdout.write(f"{SCHEME}://{options.host}:{port}\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


if __name__ == "__main__":
    serve(sys.argv[1:])
