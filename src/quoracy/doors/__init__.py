"""The doors: how the world gets in. Each only translates to the service; none decides anything about a run.

service   what can be asked of a server, defined once
auth      who may ask: tokens, roles, keys, TLS, limits
standin   members without a connection: calls for workers, federated for participants, witnessed for members
tcp       frames over TCP, for the Python SDK and everything hot
"""
