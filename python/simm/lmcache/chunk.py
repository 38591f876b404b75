"""What a MemoryObj of LMCache is to SiMM: bytes at an address, and a header that describes them.

With `save_chunk_meta` a value is the header (LMCache's own RemoteMetadata) and the bytes, as one
object; without, the bytes alone. LMCache of 2025 describes a chunk by a shape and a dtype, that of
2026 by lists of them.
"""

from typing import Any, Optional, Sequence, Tuple

import numpy
from lmcache.v1.protocol import RemoteMetadata

from simm._native import BlockView, MrExt, Views

# Of RemoteMetadata as long as it had a fixed length.
_FIXED_HEADER_BYTES = 28


def header_bytes(connector: Any) -> int:
    return int(getattr(connector, "remote_metadata_bytes", _FIXED_HEADER_BYTES))


def header_of(chunk: Any) -> bytes:
    if hasattr(chunk, "get_shapes"):
        form, kind = chunk.get_shapes(), chunk.get_dtypes()
    else:
        form, kind = chunk.get_shape(), chunk.get_dtype()
    described = RemoteMetadata(chunk.get_size(), form, kind, chunk.get_memory_format())
    return bytes(described.serialize())


def form_of(header: Any) -> Tuple[int, Tuple[Any, Any, Any]]:
    """Bytes of the chunk, and what LMCache's allocate() takes. Raises for what is no header."""
    found = RemoteMetadata.deserialize(header)
    if hasattr(found, "shapes"):
        return found.length, (found.shapes, found.dtypes, found.fmt)
    return found.length, (found.shape, found.dtype, found.fmt)


def view_of(chunk: Any, pool: Optional[MrExt]) -> Optional[BlockView]:
    """Where its bytes are, if that is inside the registered pool."""
    if pool is None or not hasattr(chunk.raw_data, "data_ptr"):
        return None
    try:
        return BlockView.from_buffer(chunk.raw_data.data_ptr(), chunk.get_size(), pool)
    except ValueError:  # allocated elsewhere: a buffer of a serializer
        return None


def views_of(chunks: Sequence[Any], pool: Optional[MrExt]) -> Optional[Views]:
    """Where the bytes of all of them are; None when one of them is outside the registered pool."""
    if pool is None:
        return None
    try:
        return Views([one.raw_data.data_ptr() for one in chunks],
                     [one.get_size() for one in chunks], pool)
    except (AttributeError, ValueError):  # see view_of()
        return None


def bytes_of(chunk: Any) -> Any:
    """The same as a numpy array: copying it does not hold the interpreter's lock."""
    return numpy.frombuffer(memoryview(chunk.byte_array).cast("B"), numpy.uint8)


def pool_of(local_cpu_backend: Any) -> Any:
    """The tensor that LMCache's allocator cuts chunks from, pinned where there is a GPU. None when
    there is none (scheduler)."""
    allocator = getattr(local_cpu_backend, "memory_allocator", None)
    for owner in (allocator, getattr(allocator, "pin_allocator", None)):
        pool: Any = getattr(owner, "buffer", None)
        if hasattr(pool, "data_ptr") and pool.numel() > 0:
            return pool
    return None
