"""The HTTP door. The map of its parts, in the order in which a request meets them:

line       one connection, with its limits
gate       hosts, origins, headers; every answer leaves through it
login      tokens and cookies
places     one address with its methods
reading    parameters and bodies
routes     the table of all routes; people, members, health and pages hold their handlers
weights    large files in and out, piece by piece
streams    Server-Sent Events, from the entries that feed renders
openapi    the same table as a document
problems   every no
"""

from quoracy.doors.http.door import HttpDoor

__all__ = ["HttpDoor"]
