"""The server that some tests need."""

from tests.stores.etcd import etcd

__all__ = ["etcd"]
