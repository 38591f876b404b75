"""Rows: the memory of vLLM's own tier as pages: one row for each chunk, with the bytes of all its
workers. The memory is a file in /dev/shm that the workers map too, registered whole, once.

So it has to stay the workers' whatever happens. Beside a daemon that is stopped, and might write
to a row when it goes on, a job of that row does not end before it goes on or dies."""

import ctypes
import operator
import os
from typing import Any, Iterable, List

from simm import _native
from simm.log import logger
from simm.store import Pages


def _descriptor_of(spec: Any, size: int) -> int:
    """Of the file, which has no name any more when the workers have opened it. -1: unknown."""
    found = getattr(getattr(spec, "_scheduler_mmap", None), "fd", None)
    try:
        if isinstance(found, int) and found >= 0 and os.fstat(found).st_size >= size:
            return found
    except OSError:
        pass
    return -1


class Rows:
    """Thread: one at a time. The view's memory must stay until close().

    ValueError: not rows of bytes, one behind the other."""

    def __init__(self, spec: Any, view: memoryview) -> None:
        shape = view.shape or ()
        if len(shape) != 2 or 0 in shape or not view.c_contiguous or view.readonly:
            raise ValueError(f"primary_kv_view has the shape {shape}: rows of bytes that can be "
                             "written, one behind the other")
        self._count = shape[0]
        self.row_bytes = view.nbytes // self._count
        # No export of the view is left: vLLM releases it.
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(view))
        descriptor = _descriptor_of(spec, view.nbytes)
        self._memory = _native.MrExt(self._base, view.nbytes, None, descriptor, 0,
                                     wait_if_stopped=True)
        logger.info("SimmTier: %d rows of %d bytes: %s", self._count, self.row_bytes,
                    self._memory.pieces)

    def pages(self, numbers: Iterable[Any]) -> Pages:
        """Of these rows. ValueError: there is no such row. TypeError: no whole numbers."""
        kind = getattr(getattr(numbers, "dtype", None), "kind", "")
        if kind in ("i", "u"):  # an array: its list is made at once, in a tenth of the time
            rows: List[int] = numbers.tolist()  # type: ignore[attr-defined]
        else:
            rows = [operator.index(number) for number in numbers]
        if rows and not 0 <= min(rows) <= max(rows) < self._count:
            raise ValueError(f"chunk_ids = {rows}: rows from 0 to {self._count - 1}")
        return _native.Views([self._base + row * self.row_bytes for row in rows],
                             [self.row_bytes] * len(rows), self._memory)

    def close(self) -> None:
        """Waits for what still uses the memory. Safe twice."""
        self._memory.deregister()
