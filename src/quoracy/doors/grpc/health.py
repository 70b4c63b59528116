"""The health service that load balancers and orchestrators ask: serving, or not (following, draining, stopping)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpc_health.v1 import health_pb2
from grpc_health.v1._async import HealthServicer


class Health(HealthServicer):  # type: ignore[misc]
    def __init__(self, healthy: Callable[[], bool], *services: str) -> None:
        super().__init__()
        self._healthy = healthy
        self._services = ("", *services)
        self._told: bool | None = None

    async def look(self) -> None:
        """Tell those who watch, if it has changed."""
        healthy = self._healthy()
        if healthy is self._told:
            return
        self._told = healthy
        served = health_pb2.HealthCheckResponse.ServingStatus
        for service in self._services:
            await self.set(service, served.SERVING if healthy else served.NOT_SERVING)

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self.look()
        return await super().Check(request, context)
