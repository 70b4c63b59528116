"""How one side of a connection proves something to the other: keys, certificates, and the files that hold them.

files   secrets on disk: readable by their owner alone, written whole, never overwritten
keys    the key that a member's id is bound to, and the proof that a joiner holds it
tls     contexts for both ends of an encrypted connection
ca      a private authority for people who have none

Both ends need this room, so it is below the doors and below the SDK. Who may do what is decided in the doors. What is
in ``ca`` is imported from there: few need it, and it would double the time that every process takes to import this.
"""

from quoracy.trust.keys import MemberKey, check_proof
from quoracy.trust.tls import client_context, server_context

__all__ = ["MemberKey", "check_proof", "client_context", "server_context"]
