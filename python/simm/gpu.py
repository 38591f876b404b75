"""Memory of a GPU that a daemon takes, also between containers. torch's own (cudaMalloc) it can not
take: the driver gives no descriptor for that.

    with torch.cuda.use_mem_pool(simm.gpu.pool()):
        pages = torch.empty((1024, 65536), dtype=torch.uint8, device="cuda")
    mr = simm.kv.register_mr(pages)

And memory that an engine does not need while it sleeps: the daemon keeps copies of pages there.

    lease = simm.gpu.lend(40 << 30, device=0)
    ...
    lease.reclaim()
"""

import functools
import operator
from types import TracebackType
from typing import Any, Optional, Type, Union

from simm import _native
from simm.store import Store
from simm.tensors import torch_or_none


@functools.lru_cache(maxsize=None)
def allocator() -> Any:
    """torch's CUDAPluggableAllocator over simm_gpu_malloc() of libsimm. The process has one, for
    good: torch frees by it as long as a tensor lives. Any thread. Each allocation is one of the
    driver's, in granules of 2 MiB: use it below a pool, not for every small tensor.
    RuntimeError: no torch, or one older than 2.0."""
    torch = torch_or_none()
    kind = getattr(torch.cuda.memory, "CUDAPluggableAllocator", None) if torch else None
    if kind is None:
        raise RuntimeError("simm.gpu: no torch of 2.0 or newer is here: install one with CUDA, "
                           "or use simm_gpu_malloc() of libsimm")
    return kind(_native.library_path(), "simm_gpu_malloc", "simm_gpu_free")


def pool() -> Any:
    """A new torch.cuda.MemPool of that allocator, for torch.cuda.use_mem_pool(). A tensor of more
    than 10 MiB gets an allocation of its own there; smaller ones share some of 2 and 20 MiB. A
    region lies inside one allocation. RuntimeError: as allocator(), or torch is older than 2.5."""
    own = allocator()
    kind = getattr(torch_or_none().cuda, "MemPool", None)
    if kind is None:
        raise RuntimeError("simm.gpu.pool(): this torch has no torch.cuda.MemPool: it came with "
                           "2.5; give simm.gpu.allocator() to "
                           "torch.cuda.memory.change_current_allocator() before the first tensor")
    return kind(own.allocator())


class Lease:
    """Memory of a GPU that is lent; see lend(). As a context manager it is reclaimed at the end.
    Thread: any."""

    def __init__(self, lease: _native.GpuLease) -> None:
        self._lease = lease

    @property
    def bytes(self) -> int:
        """0 when the lease is over: reclaimed, or the session with the daemon has ended."""
        return self._lease.bytes

    def reclaim(self) -> None:
        """The memory is free again when this returns: with a driver that works in milliseconds,
        whoever uses the copies there. Safe twice, and when the daemon is away. RuntimeError: not
        within the notice; the lease is over all the same, and the memory on its way back."""
        self._lease.reclaim()

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.reclaim()

    def __repr__(self) -> str:
        return f"<simm.gpu.Lease of {self.bytes} bytes>"


def lend(size: int, *, device: Union[int, str] = 0, notice_ms: int = 1000) -> Lease:
    """Lends `size` bytes of a GPU's memory, at least 64 MiB, which the caller has freed: the daemon
    takes no more than is free. Regions of the memory are deregistered first, because a region
    keeps it. The lease ends with reclaim(), with the Lease, and with the process.

    device: as torch counts, or "GPU-..." as nvidia-smi -L says. This process has, or had, a region
    on it. notice_ms: how long a reclaim may take, 1 to 10,000.
    ValueError: an argument. RuntimeError: no daemon, or it takes none: tenants[].gpu_lend of its
    configuration does not name the GPU, gpu.lend_bytes_max, not so much is free."""
    if not hasattr(size, "__index__"):
        raise TypeError(f"size = {size!r}: give a whole number of bytes")
    size, notice_ms = operator.index(size), operator.index(notice_ms)
    if size < 0 or notice_ms < 0:
        raise ValueError(f"size = {size}, notice_ms = {notice_ms}: positive numbers")
    with Store() as store:
        return Lease(store._lend_gpu_memory(size, device, notice_ms))
