"""What goes over a network: frames and messages. Nothing above or below this room knows how they are written.

frames     four bytes of length, then a message
messages   the messages of a connection, around those of ``core.messages``
"""
