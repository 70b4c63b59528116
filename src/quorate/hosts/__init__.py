"""Shells over ``core.host``.

carry    what a store answered, as the host's logic wants to hear it
inline   a host in the caller's thread, for tests, benchmarks and tools
"""

from quorate.hosts.inline import InlineHost

__all__ = ["InlineHost"]
