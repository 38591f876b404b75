"""Bytes as tensors. torch is used when it can be imported, and imported when it is first needed;
without it the same calls give numpy arrays."""

import functools
import math
import operator
from typing import Any, Sequence, Tuple


@functools.lru_cache(maxsize=None)
def torch_or_none() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def bytes_of(buffer: Any) -> Any:
    """A Block's or BlockView's bytes: 1-D, uint8, writable, no copy. Keeps the memory alive."""
    torch = torch_or_none()
    if torch is not None:
        return torch.frombuffer(buffer, dtype=torch.uint8)
    import numpy
    return numpy.frombuffer(buffer, dtype=numpy.uint8)


def shape_of(shape: Any) -> Tuple[int, ...]:
    """A shape as a tuple; an int is a shape of one dimension. TypeError, ValueError: it is none."""
    try:
        lengths = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(
            operator.index(length) for length in shape)
    except TypeError:
        raise TypeError(f"shape = {shape!r}: give an int or ints, as (128, 4096)") from None
    if any(length < 0 for length in lengths):
        raise ValueError(f"shape = {lengths}: no length is below 0")
    return lengths


def itemsize(dtype: Any) -> int:
    """Bytes of one element of a torch or numpy dtype (or what numpy takes for one)."""
    torch = torch_or_none()
    if torch is not None and isinstance(dtype, torch.dtype):
        return torch.empty((), dtype=dtype).element_size()
    import numpy
    return numpy.dtype(dtype).itemsize


def shaped(buffer: Any, shape: Sequence[int], dtype: Any) -> Any:
    """The buffer as a tensor (numpy array for a numpy dtype) of that shape and type: no copy."""
    torch = torch_or_none()
    if torch is not None and (dtype is None or isinstance(dtype, torch.dtype)):
        kind = torch.uint8 if dtype is None else dtype
        return torch.frombuffer(buffer, dtype=kind, count=math.prod(shape)).reshape(tuple(shape))
    import numpy
    kind = numpy.uint8 if dtype is None else dtype
    return numpy.frombuffer(buffer, dtype=kind, count=math.prod(shape)).reshape(tuple(shape))
