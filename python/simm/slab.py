"""SlabAllocator: cuts small Blocks out of larger pieces of shared memory, so that thousands of them
are a few regions of the daemon. A slab is given back when its last block has gone; memory is not
used again before that, so a block's bytes are zero at first.

One block keeps the memory of all of its slab. So a slab is small where little is in use: an eighth
of the other slabs, within the limits, or four of the blocks that it is made for."""

import os
import threading
from typing import Any, Callable, List

SLAB_BYTES_MIN = 8 << 20
SLAB_BYTES_MAX = 64 << 20
_SHARE = 8
ALIGNMENT = 4096


class SlabAllocator:
    """Thread: any. `allocate(bytes)` makes a slab, whose pages cost nothing until they are used."""

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        self._allocate = allocate
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._slab: Any = None
        self._used = 0
        self._watches: List[Any] = []  # of the slabs that are there

    def block(self, size: int) -> Any:
        rounded = -(-size // ALIGNMENT) * ALIGNMENT
        if rounded > SLAB_BYTES_MAX // 4:
            return self._allocate(rounded).block(0, size)
        self._check_process()
        with self._lock:
            if self._slab is None or self._used + rounded > self._slab.size:
                self._slab, self._used = self._allocate(self._next_bytes(rounded)), 0
                self._watches.append(self._slab.watch())
            block = self._slab.block(self._used, size)
            self._used += rounded
        return block

    def _next_bytes(self, block: int) -> int:
        self._watches = [watch for watch in self._watches if watch.size]
        in_use = sum(watch.size for watch in self._watches)
        wanted = max(SLAB_BYTES_MIN, in_use // _SHARE, 4 * block)
        return min(SLAB_BYTES_MAX, 1 << (wanted - 1).bit_length())

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            # A child shares the slab's memory with its parent, who goes on with it; and the lock
            # may be held by a thread that the child has not.
            self._start()

    def close(self) -> None:
        """Blocks that are there keep their slab."""
        self._check_process()
        with self._lock:
            self._slab = None
