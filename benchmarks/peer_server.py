"""The server that people write today: a FastAPI route around sentence-transformers, or around a transformers pipeline.

python -m benchmarks.peer_server embed|classify FOLDER PORT. FastAPI runs such routes in threads, so that requests wait
for one another at the model alone.
"""

import sys
from collections.abc import Callable
from typing import Any

import fastapi
import torch
import uvicorn
from pydantic import BaseModel


class Body(BaseModel):
    """As text-embeddings-inference takes it."""

    inputs: str


def embedder(folder: str) -> Callable[[str], Any]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return lambda text: [model.encode(text, normalize_embeddings=True).tolist()]


def classifier(folder: str) -> Callable[[str], Any]:
    from transformers import pipeline

    classify = pipeline("text-classification", folder, device="cpu")
    return lambda text: classify(text, truncation=True)


def main(kind: str, folder: str, port: str) -> None:
    torch.set_num_threads(2)
    answer = {"embed": embedder, "classify": classifier}[kind](folder)
    app = fastapi.FastAPI()

    @app.get("/health")
    def health() -> str:
        return "ok"

    @app.post("/embed" if kind == "embed" else "/predict")
    def route(body: Body) -> Any:
        return answer(body.inputs)

    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
