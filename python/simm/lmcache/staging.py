"""Staging: shared memory that values pass through which are not in registered memory, or have a
header in front of them. Blocks are used again, since making one costs more than filling it."""

import os
import threading
from typing import Any, List

from simm.store import Store

_IDLE_MAX = 8


class Staging:
    """Thread: any. Belongs to a Store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._idle: List[Any] = []

    def take(self, size: int) -> Any:
        """A Block of at least `size` bytes, of any contents. RuntimeError: no memory."""
        if self._pid != os.getpid():  # a child shares these blocks with its parent, who uses them
            self._start()
        with self._lock:
            fitting = [block for block in self._idle if block.size >= size]
            if fitting:
                block = min(fitting, key=lambda one: int(one.size))
                self._idle.remove(block)
                return block
        return self.store.allocate(1 << max(12, (size - 1).bit_length()))

    def give(self, blocks: List[Any]) -> None:
        """Back, once nothing reads or writes them any more."""
        with self._lock:
            self._idle += blocks
            self._idle.sort(key=lambda one: int(one.size), reverse=True)
            del self._idle[_IDLE_MAX:]
