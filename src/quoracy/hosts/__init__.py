"""Shells over ``core.host``.

carry    what a store answered, as the host's logic wants to hear it
decisions  the decision log of ranks, as the journal tells it
inline   a host in the caller's thread, for tests, benchmarks and tools
server   many runs in one process, with asyncio
workshop   processes beside it that touch weights: workbench is their main, duties what they do, keys where things lie
shelf      the object store, as the server itself uses it
sampler    what is measured once a second: fleet and rounds know how
"""

from quoracy.hosts.inline import InlineHost

__all__ = ["InlineHost"]
