"""For all tests: how hypothesis works here, which signals the processes that they start listen to, and which of them
are collected."""

import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.soak import part_under_way, select

settings.register_profile(
    "quoracy",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("quoracy")


def start_children_with_default_signals() -> None:
    """What is ignored stays ignored in every child, and whoever starts the tests in the background (``nohup … &``, most
    CI runners) ignores SIGINT and more. A program must respect that, so its tests must begin as a terminal would. A
    handler, unlike an ignored signal, does not pass to children; one that does nothing leaves this process deaf, as it
    was asked to be."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)


start_children_with_default_signals()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those of ``make test``, or those of the part of ``make soak`` that is under way."""
    items[:], others = select(items, part_under_way())
    if others:
        config.hook.pytest_deselected(items=others)
