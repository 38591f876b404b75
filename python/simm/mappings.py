"""Which memory file is behind a range of this process's memory: /proc/self/maps says it, so that a
descriptor is never believed to be one that it is not."""

import os
import re
from typing import Any, Iterable, Optional, Sequence, Tuple

_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+)")


def extent_of(memory: Any) -> Optional[Tuple[int, int]]:
    """(address, bytes) of a contiguous tensor or array of host memory; None for anything else."""
    if hasattr(memory, "data_ptr"):
        if memory.device.type != "cpu" or not memory.is_contiguous():
            return None
        address, size = memory.data_ptr(), memory.numel() * memory.element_size()
    elif hasattr(memory, "__array_interface__"):
        facts = memory.__array_interface__
        address, size = facts["data"][0], memory.nbytes
        if facts["data"][1] or not memory.flags.c_contiguous:
            return None
    else:
        return None
    return (address, size) if size > 0 else None


def file_behind(address: int, size: int, fds: Iterable[int]) -> Optional[Tuple[int, int]]:
    """(fd, offset): the file of `fds` that the whole range is a writable shared mapping of, and
    where in it the range begins. None when there is none, or the range begins inside a page."""
    found = _mapping(address, size)
    if found is None:
        return None
    device, inode, offset = found
    if offset % os.sysconf("SC_PAGE_SIZE") != 0:
        return None
    for fd in fds:
        try:
            facts = os.fstat(fd)
        except (OSError, TypeError):
            continue
        if (facts.st_dev, facts.st_ino) == (device, inode):
            return fd, offset
    return None


def _mapping(address: int, size: int) -> Optional[Tuple[int, int, int]]:
    """(device, inode, offset) of the one file that maps the range without a gap."""
    found: Optional[Tuple[int, int, int]] = None
    at = address
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            match = _LINE.match(line)
            if match is None:
                continue
            start, end, offset = (int(match[i], 16) for i in (1, 2, 4))
            if end <= at:
                continue
            if start > at or match[3][:2] != "rw" or match[3][3] != "s":
                return None
            file = (os.makedev(int(match[5], 16), int(match[6], 16)), int(match[7]),
                    offset + at - start)
            if found is None:
                found = file
            elif file != (found[0], found[1], found[2] + at - address):
                return None
            at = end
            if at >= address + size:
                return found
    return None


def descriptors_of(pool: Any) -> Sequence[int]:
    """The memory files of one of SGLang's host pools (`pool.fd`, `pool.allocator.fds`)."""
    allocator = getattr(pool, "allocator", None)
    candidates = [getattr(pool, "fd", None), getattr(allocator, "fd", None),
                  *(getattr(allocator, "fds", None) or ())]
    return [fd for fd in dict.fromkeys(candidates) if isinstance(fd, int) and fd >= 0]
