"""Deferred values: a model is built on the meta device, and what fills a tensor is done when its values are asked for.

So a model may be dealt out tensor by tensor, and is never whole on any process.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import ACCESS_COPY, mmap
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

META, CPU = torch.device("meta"), torch.device("cpu")
ATEN = torch.ops.aten
FILLS = (ATEN.normal_, ATEN.uniform_, ATEN.fill_, ATEN.zero_, ATEN.copy_)  # after which nothing of before is left


@dataclass(frozen=True)
class _Write:
    """An operation that made a tensor or wrote to it, as it was called."""

    number: int
    function: Any
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    target: Tensor  # what it made, or the part of a tensor that it wrote to
    is_new: bool
    rng_state: Tensor | None  # before it drew, if it did

    @property
    def fills(self) -> bool:
        """Whether the whole of the tensor is as this operation leaves it."""
        whole = self.target.nbytes == self.target.untyped_storage().nbytes()
        return self.is_new or (whole and self.function.overloadpacket in FILLS)


class Deferred(TorchDispatchMode):
    """Remembers what makes and fills each tensor of the meta device, and does it again for those that are asked for.

    What is drawn at random is drawn and let go, so that the generator goes on as if it had been kept; the same numbers
    are drawn again for the value.
    """

    def __init__(self, device: torch.device) -> None:
        """`device`: where the values are to be in the end."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = device
        self._writes: dict[int, list[_Write]] = {}  # by their storage, which targets keep alive
        self._count = 0

    @contextmanager
    def building(self) -> Iterator[None]:
        """What is built within has no values yet."""
        with META, self:
            yield

    def __torch_dispatch__(
        self, function: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named, state = kwargs or {}, None
        in_place = function._schema.is_mutable
        if torch.Tag.nondeterministic_seeded in function.tags and (not in_place or args[0].is_meta):
            state = torch.get_rng_state()
            function(*tree_map(_scratch, args), **tree_map(_scratch, named))
        given = args[0] if in_place and state is not None else function(*args, **named)
        if isinstance(given, Tensor) and given.is_meta:
            writes = self._writes.setdefault(given.untyped_storage()._cdata, [])
            if in_place or not writes:  # what shares the storage of another tensor is a view of it
                writes.append(_Write(self._count, function, args, named, given, not writes, state))
                self._count += 1
        return given

    def value(self, tensor: Tensor) -> Tensor:
        """What a tensor would hold by now, on the CPU, in the dtype and the layout that its source has."""
        last = self._writes[tensor.untyped_storage()._cdata][-1]
        assert "empty" not in last.function.name(), "nothing has filled it"
        if last.function is ATEN._to_copy.default and _same_layout(last.target, tensor) and not last.args[0].is_meta:
            return last.args[0]  # type: ignore[no-any-return]  # of which a part may be taken before it is copied
        return self._replayed(tensor, self._count)

    def fill_buffers(self, model: nn.Module) -> None:
        """Give a model's buffers their values, if they have none; parameters stay without."""
        for part in model.modules():
            for name, buffer in part.named_buffers(recurse=False):
                if buffer.is_meta:
                    setattr(part, name, self.value(buffer).to(self.device, buffer.dtype))

    @torch.no_grad()
    def _replayed(self, tensor: Tensor, until: int) -> Tensor:
        """A tensor as it was before the operation of that number."""
        writes = [one for one in self._writes[tensor.untyped_storage()._cdata] if one.number < until]
        first = max(place for place, one in enumerate(writes) if one.fills)
        numbers = _memory(tensor.untyped_storage().nbytes(), tensor.dtype)
        for one in writes[first:]:
            target = _view_like(numbers, one.target)
            with torch.random.fork_rng(devices=[]):
                if one.rng_state is not None:
                    torch.set_rng_state(one.rng_state)
                if one.is_new:
                    target.copy_(one.function(*self._real(one.args, one), **self._real(one.named, one)))
                else:
                    one.function(target, *self._real(one.args[1:], one), **self._real(one.named, one))
        return _view_like(numbers, tensor)

    def _real(self, given: Any, write: _Write) -> Any:
        """Arguments of an operation, with values."""

        def real(value: Any) -> Any:
            if isinstance(value, Tensor) and value.is_meta:
                return self._replayed(value, write.number)
            return CPU if value == META else value

        return tree_map(real, given)


def _view_like(numbers: Tensor, tensor: Tensor) -> Tensor:
    return numbers.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def _same_layout(one: Tensor, other: Tensor) -> bool:
    return (one.size(), one.stride(), one.storage_offset()) == (other.size(), other.stride(), other.storage_offset())


def _scratch(value: Any) -> Any:
    """The same without its values, but with memory for them."""
    if isinstance(value, Tensor) and value.is_meta:
        return _view_like(_memory(value.untyped_storage().nbytes(), value.dtype), value)
    return CPU if value == META else value


def _memory(size: int, dtype: torch.dtype) -> Tensor:
    """Numbers in memory that goes back to the system with them; malloc would keep holes between what stays."""
    return torch.frombuffer(mmap(-1, size, access=ACCESS_COPY), dtype=dtype) if size else torch.empty(0, dtype=dtype)
