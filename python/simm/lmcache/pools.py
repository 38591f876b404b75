"""Pools: registrations of the memory that an engine's buffers are cut from, found when its first
buffer is seen: LMCache's server hands over buffers, and does not say what they are a part of."""

import bisect
import re
from typing import List, Optional, Tuple

from simm import _native
from simm.log import logger

_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)")
# A pool is large; what is smaller belongs to an allocator that may give it back at any time.
POOL_BYTES_MIN = 1 << 20


def _mapping_of(address: int, size: int) -> Optional[Tuple[int, int]]:
    """(address, bytes) of the one writable mapping that the range is in. None for the heap's and a
    stack's, which change."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            match = _LINE.match(line)
            if match is None or int(match[2], 16) <= address:
                continue
            start, end = int(match[1], 16), int(match[2], 16)
            if start > address or address + size > end:
                return None
            if not match[3].startswith("rw") or match[4].startswith(("[heap", "[stack")):
                return None
            return (start, end - start) if end - start >= POOL_BYTES_MIN else None
    return None


class Pools:
    """Thread: one at a time. A pool's memory must stay until close(), as LMCache's does: its
    server closes its adapters before it gives memory back.

    A GPU may have pinned it, and other processes may map it, which an address does not tell. So it
    stays shared beside a stopped daemon: what was under way there ends when that goes on or dies.
    """

    def __init__(self) -> None:
        self._starts: List[int] = []
        self._pools: List[_native.MrExt] = []

    def of(self, address: int, size: int) -> Optional[_native.MrExt]:
        """The registration that covers the range, made now if need be; None: there is no pool
        around it."""
        i = bisect.bisect_right(self._starts, address) - 1
        if i >= 0 and address + size <= self._starts[i] + self._pools[i].size:
            return self._pools[i]
        found = _mapping_of(address, size)
        if found is None:
            return None
        try:
            pool = _native.MrExt(*found, wait_if_stopped=True)
        except RuntimeError as error:  # it has grown, and overlaps what was registered
            logger.info("pool of %d bytes: %s", found[1], error)
            return None
        i = bisect.bisect_right(self._starts, found[0])
        self._starts.insert(i, found[0])
        self._pools.insert(i, pool)
        logger.info("pool of %d bytes registered: %s", found[1], pool.pieces)
        return pool

    def close(self) -> None:
        """Waits for operations on their memory. Safe twice."""
        pools, self._pools, self._starts = self._pools, [], []
        for pool in pools:
            pool.deregister()
