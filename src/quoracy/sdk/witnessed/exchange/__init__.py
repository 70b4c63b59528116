"""Blobs between members: content-addressed, from any holder, over connections pinned to the members' keys.

port       what a member needs of an exchange, whatever carries it
direct     the one that is here: TCP and TLS, put together from the rest; open_exchange
wire       what two members say to each other; channel: one connection; wide: one that takes much
known      who the others are; serving: giving to them, from offers; links: connections to them; reaching: all of them
plan       who gets which bytes, without I/O; part: the file they grow in; fetching: one blob on its way
telling    announcements
relay      through the coordinator, for those out of reach
limits     how long one waits, and how much of everything there may be; figures: how much there was
pool       threads
"""

from quoracy.sdk.witnessed.exchange.direct import DirectExchange, open_exchange
from quoracy.sdk.witnessed.exchange.port import Exchange, Fetched

__all__ = ["DirectExchange", "Exchange", "Fetched", "open_exchange"]
