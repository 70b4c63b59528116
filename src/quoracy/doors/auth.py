"""Who may come in. The map of everything that decides that, and the one place other rooms take it from.

roles    Role, Action: who may do what
tokens   Authority, Identity: role tokens and session tokens, made from the server's secret
limits   Meter: how much one identity may send, and how often it may be connected
local_users  LocalUsers: where no tokens are asked, whose a loopback connection is
trust/   member keys, TLS, a private authority: what clients need as well
config   check_binding: where a server may listen without proof

The order at a door: the connection (TLS), the greeting (role token, Meter.connect), each member's Hello (session token)
or join (proof of its key), each read (Meter.spend).
"""

from quoracy.config import check_binding, is_loopback
from quoracy.doors.limits import Meter
from quoracy.doors.roles import Action, Role
from quoracy.doors.tokens import ANYONE, NOBODY, Authority, Identity
from quoracy.trust import MemberKey, check_proof, client_context, server_context

__all__ = [
    "ANYONE",
    "NOBODY",
    "Action",
    "Authority",
    "Identity",
    "MemberKey",
    "Meter",
    "Role",
    "check_binding",
    "check_proof",
    "client_context",
    "is_loopback",
    "server_context",
]
