"""Assertions that say what they wanted, without a test framework: adapter authors may use any, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, Protocol, TypeVar

PATIENCE_S = 20.0
"""No wait in a check is longer. It is never waited for when all is well."""

E = TypeVar("E", bound=BaseException)


class Closes(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closes)


def equal(got: object, wanted: object, what: str) -> None:
    if got != wanted:
        raise AssertionError(f"{what}: wanted {_short(wanted)}, got {_short(got)}")


def true(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def raises(kind: type[E], what: str, call: Callable[..., object], *arguments: object) -> E:
    """The exception, for a closer look."""
    try:
        got = call(*arguments)
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what}: wanted {kind.__name__}, got {error!r}") from error
    raise AssertionError(f"{what}: wanted {kind.__name__}, got {_short(got)}")


@contextmanager
def opened(open_store: Callable[[], C]) -> Iterator[C]:
    """One handle, closed at the end whatever happens."""
    handle = open_store()
    try:
        yield handle
    finally:
        handle.close()


class Together:
    """Runs calls in threads at once; leaving the block waits for them and raises what they raised."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []
        self._failures: list[BaseException] = []
        self.results: list[Any] = []

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        def run() -> None:
            try:
                self.results.append(function(*arguments))
            except BaseException as failure:  # raised again by whoever waits
                self._failures.append(failure)

        self._threads.append(Thread(target=run, daemon=True))
        self._threads[-1].start()

    def wait(self) -> list[Any]:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            true(not thread.is_alive(), f"a call is still under way after {PATIENCE_S:g} s")
        for failure in self._failures:
            raise failure
        return self.results

    def __enter__(self) -> Together:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.wait()


def _short(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 300 else f"{said[:200]}... ({len(said)} characters)"
