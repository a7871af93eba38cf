"""A corpus cleaned on a Ray cluster: tasks examine documents, and actors remember what was there, each a part of it.

What stays is what one process keeps. Documents come in batches, in their order: each is compared with what all actors
remember and with those before it in its batch, and then one actor remembers what is new in the batch.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from glassformer.data.cleaning import ALIKE, COPY, Cleaner, Cleaning, SeenDocuments, unfit
from glassformer.data.duplicates import Signature, digest, signature
from glassformer.data.examples import Document
from glassformer.data.shard_writer import batches

from .pools import RETRIES
from .ray_pool import RayCluster, answer_of

MOST_PARTS = 32  # actors: all are asked about every document
AHEAD = 3  # batches for each core, of which one is examined and the others wait


Waiting = deque[tuple[list[Document], Any]]  # batches that tasks examine, or will


class Examined(NamedTuple):
    """Of a text: why it is left out whatever stands before it, and what tells it from others."""

    reason: str | None
    digest: bytes | None  # where it is asked for
    signature: Signature | None


def examined(texts: Sequence[str], wanted: Cleaning) -> list[Examined]:
    """What a task does."""
    found = []
    for text in texts:
        reason = unfit(text, wanted)
        exact, near = (reason is None and asked for asked in (wanted.exact, wanted.near is not None))
        found.append(Examined(reason, digest(text) if exact else None, signature(text) if near else None))
    return found


class SeenPart:
    """What an actor remembers."""

    def __init__(self, wanted: Cleaning) -> None:
        self.seen = SeenDocuments(wanted)

    def reasons(self, batch: Sequence[Examined]) -> list[str | None]:
        """Why each document is left out as far as this part knows; nothing of them is remembered."""
        return [COPY if one.digest in self.seen.digests else ALIKE if self._is_alike(one) else None for one in batch]

    def _is_alike(self, one: Examined) -> bool:
        return one.signature is not None and self.seen.near is not None and one.signature in self.seen.near

    def add(self, digests: set[bytes], signatures: Sequence[Signature]) -> None:
        self.seen.digests |= digests
        for one in signatures:
            self.seen.is_alike(one)


def judged(one: Examined, before: Sequence[str | None], batch: SeenDocuments) -> str | None:
    """Why a document is left out, by what all parts say and by those before it in its batch."""
    if one.reason is not None:
        return one.reason
    if COPY in before or (one.digest is not None and batch.is_copy(one.digest)):
        return COPY
    if one.signature is not None and (ALIKE in before or batch.is_alike(one.signature)):
        return ALIKE
    return None


class RayCleaner(Cleaner):
    """A cleaner whose work and memory are a cluster's."""

    def judged(self, documents: Iterable[Document]) -> Iterator[tuple[Document, str | None]]:
        cluster, parts, waiting = RayCluster(), list[Any](), Waiting()
        ray = cluster.ray
        try:
            actor = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(SeenPart)
            parts += [actor.remote(self.wanted) for _ in range(min(cluster.cores, MOST_PARTS))]
            for number, (batch, found) in enumerate(self._examined(cluster, documents, waiting)):
                reasons = answer_of(ray, [part.reasons.remote(found) for part in parts])
                new = SeenDocuments(self.wanted)
                for document, one, *before in zip(batch, answer_of(ray, found), *reasons, strict=True):
                    yield document, judged(one, before, new)
                signatures = [] if new.near is None else new.near.signatures
                answer_of(ray, parts[number % len(parts)].add.remote(new.digests, signatures))
        except ray.exceptions.RayActorError:
            raise ValueError("a part of what was seen is lost with its machine: start again") from None
        finally:  # a cluster that others began goes on
            for _, task in waiting:
                ray.cancel(task, force=True)
            for part in parts:
                ray.kill(part)
            cluster.close()

    def _examined(
        self, cluster: RayCluster, documents: Iterable[Document], waiting: Waiting
    ) -> Iterator[tuple[list[Document], Any]]:
        """Batches in their order, each with what becomes a list of Examined; those that come later are `waiting`."""
        task = cluster.ray.remote(num_cpus=1, max_retries=RETRIES)(examined)
        for batch in batches(iter(documents), lambda one: len(one.text)):
            waiting.append((batch, task.remote([one.text for one in batch], self.wanted)))
            if len(waiting) == AHEAD * cluster.cores:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
