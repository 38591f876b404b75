"""register_mr() and deregister_mr(): memory that SiMM may read and write."""

from typing import Any, Optional, Sequence

from simm import _native
from simm.log import logger
from simm.mappings import extent_of, file_behind


def register_mr(memory: Any, size: Optional[int] = None, *,
                fds: Sequence[int] = (),
                wait_if_stopped: bool = False) -> Optional[_native.MrExt]:
    """Register memory, so that views of it can be put and got.

    memory: a torch tensor, a numpy array, anything with a writable buffer; a list or tuple of
    those; None (nothing; some pools have that); or, with `size`, an address and a number of bytes.
    Memory of a GPU too (a tensor on it, `__cuda_array_interface__`, a device pointer), where the
    daemon has `gpu.enabled` and the memory is of cuMemCreate with POSIX descriptors: pages go
    between the daemon and the GPU, and a put waits for all that the process has queued on it.
    Registered are the bytes from the first to the last that an element has. Any number of regions,
    of any size, before or after Store(); memory inside a registered region shares its registration.

    fds: memory files (memfd, /dev/shm, hugetlbfs) one of which `memory` may be a mapping of: it is
    then handed to the daemon, which so needs no privilege to reach it. Others do no harm.

    wait_if_stopped: what a call does whose deadline passes while the daemon is stopped, and might
    go on. False: shared memory becomes private and is copied from then on, with a warning: other
    processes that map it no longer see what this one writes. True: the call waits until the daemon
    runs on or dies, and the memory stays shared. Memory that a GPU has pinned always does so, and
    memory that the daemon adopted ("adopted" in pieces) does where this process has no privilege
    to take it back.

    Returns the region, or None when the daemon or libsimm refuses (the reason is logged), for
    instance for memory that overlaps a region in part. TypeError: not memory, or read-only.
    The region keeps the memory alive (not with an address) until deregister_mr() and the end of
    its last view. Thread: any.
    """
    try:
        if size is not None:
            return _native.MrExt(memory, size, wait_if_stopped=wait_if_stopped)
        extent = extent_of(memory) if fds else None
        file = file_behind(*extent, fds) if extent is not None else None
        if extent is not None and file is not None:
            return _native.MrExt(*extent, memory, *file, wait_if_stopped=wait_if_stopped)
        return _native.MrExt(memory, wait_if_stopped=wait_if_stopped)
    except RuntimeError as error:
        logger.error("register_mr: %s", error)
        return None


def deregister_mr(mr: Optional[_native.MrExt]) -> bool:
    """End a registration. Waits for the operations on its memory: at most their deadline.

    True when it is deregistered, also when it was before. Views of it are refused from now on
    with -1004. False for None. Thread: any.
    """
    if mr is None:
        return False
    if not isinstance(mr, _native.MrExt):
        raise TypeError(f"deregister_mr({type(mr).__name__}): what register_mr() returned")
    mr.deregister()
    return True
