"""The server's configuration: every setting with its default and why, and how they are read.

settings   the structs, one per table of the file
load       a TOML file, the environment and the command line become a ServerConfig, or a list of all that is wrong
binding    where a server may listen without proof
etcd_url   where journals are in etcd
objects_url  where objects are

This room is just above the core. It reads one file and nothing else; what a setting means is up to whoever uses it.
"""

from quoracy.config.binding import check_binding, is_loopback
from quoracy.config.load import Settings, load_config, read_settings
from quoracy.config.settings import (
    Access,
    ConnectionLimits,
    Grpc,
    HostSettings,
    Http,
    Listen,
    Log,
    ServerConfig,
    Store,
    Tls,
    Workshop,
)

__all__ = [
    "Access",
    "ConnectionLimits",
    "Grpc",
    "HostSettings",
    "Http",
    "Listen",
    "Log",
    "ServerConfig",
    "Settings",
    "Store",
    "Tls",
    "Workshop",
    "check_binding",
    "is_loopback",
    "load_config",
    "read_settings",
]
