"""For all tests: how hypothesis works here, and which signals the processes that they start listen to."""

import signal

from hypothesis import HealthCheck, settings

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
