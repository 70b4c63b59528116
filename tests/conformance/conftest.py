"""The server that some stores need."""

from tests.stores.etcd import etcd

__all__ = ["etcd"]
