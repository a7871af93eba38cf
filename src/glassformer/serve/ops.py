"""What operators ask: whether the server lives, is ready, how it does, and what it offers."""

from typing import Any

from fastapi import APIRouter, Response

from .errors import Problem
from .huggingface import ModelId
from .metrics import CONTENT_TYPE
from .service import Service


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["operations"])

    @routes.get("/health")
    @routes.head("/health", include_in_schema=False)
    async def health() -> dict[str, str]:
        """200 as long as the server runs; the only route that asks for no key."""
        return {"status": "ok"}

    @routes.get("/ready")
    async def ready() -> dict[str, Any]:
        """200 when every model answers; 503 while one is loaded, and once the server is about to end."""
        return _ready(service)

    @routes.get("/info")
    async def info() -> dict[str, Any]:
        """The models, and every limit."""
        return service.info()

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    @routes.get("/v2/health/live", tags=["KServe"])
    @routes.head("/v2/health/live", include_in_schema=False)
    async def live() -> dict[str, bool]:
        """As /health, in the words of KServe."""
        return {"live": True}

    @routes.get("/v2/health/ready", tags=["KServe"])
    async def server_ready() -> dict[str, bool]:
        """As /ready, in the words of KServe."""
        _ready(service)
        return {"ready": True}

    @routes.get("/v2/models/{model_id:path}/ready", tags=["KServe"])
    async def model_ready(model_id: ModelId) -> dict[str, Any]:
        """Whether one model answers."""
        model = service.model(model_id)
        if not model.ready:
            raise model.unready()
        return {"name": model.name, "ready": True}

    return routes


def _ready(service: Service) -> dict[str, Any]:
    if not service.ready:
        late = [name for name, model in service.models.items() if not model.ready]
        raise Problem(503, f"not ready: {', '.join(late)}")
    return {"status": "ready", "models": list(service.models)}
