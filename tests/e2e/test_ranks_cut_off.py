"""A rank that is cut off from the store, while the others are not, has ended before their record gives it up."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.e2e.ranks_crew import Crew, next_it, tcpstore
from tests.sdk.live import wait_for

DEAD_S = 6.0


class Way:
    """To the store. When it is cut, what is on it is lost, and whoever comes later is not answered; if it is closed,
    everybody is turned away."""

    def __init__(self, url: str) -> None:
        to = urlsplit(url)
        self._to = (to.hostname, to.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcpstore://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        self._open = threading.Event()
        self._open.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Way:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def cut(self) -> None:
        self._open.clear()

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                self._sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                if self._open.is_set():
                    sink.sendall(content)
            sink.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("how", ["cut", "closed"])
def test_one_of_two_that_is_cut_off_ends_before_the_other_gives_it_up(tmp_path: Path, how: str) -> None:
    with tcpstore() as url, Way(url) as way, Crew(url, tmp_path, form_members=2, t_dead_s=DEAD_S) as crew:
        stays, loses = crew.start(0), crew.start(1, "ends", store=way.url)
        for rank in (stays, loses):
            next_it(rank, lambda it: it["number"] >= 3)
        if how == "cut":
            way.cut()
        else:
            way.close()
        name, code, text, _ = loses.hear("raised")
        assert (name, code) == ("CutOff", "unreachable")
        assert f"give this rank up after {DEAD_S:g} s, so it stops now" in text
        decision, _ = crew.until_gone(1)
        gone = wait_for(
            lambda: [it for it in stays.said("it") if it["attempt"] > decision.attempt], "the other goes on"
        )
        assert gone[0]["members"] == [0]
        (ended_s,) = loses.said("ended")
        assert ended_s < gone[0]["at_s"]
        assert max(it["attempt"] for it in loses.said("it")) <= decision.attempt, "it did nothing afterwards"
        crew.numbers_once()
