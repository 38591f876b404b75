"""SlabAllocator: cuts small Blocks out of larger pieces of shared memory, so that thousands of them
are a few regions of the daemon. A slab is given back when its last block has gone; memory is not
used again before that, so a block's bytes are zero at first."""

import os
import threading
from typing import Any, Callable

SLAB_BYTES = 64 << 20
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

    def block(self, size: int) -> Any:
        rounded = -(-size // ALIGNMENT) * ALIGNMENT
        if rounded > SLAB_BYTES // 4:
            return self._allocate(rounded).block(0, size)
        self._check_process()
        with self._lock:
            if self._slab is None or self._used + rounded > SLAB_BYTES:
                self._slab, self._used = self._allocate(SLAB_BYTES), 0
            block = self._slab.block(self._used, size)
            self._used += rounded
        return block

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
