"""Memory of a GPU that a daemon takes, also between containers. torch's own (cudaMalloc) it can not
take: the driver gives no descriptor for that.

    with torch.cuda.use_mem_pool(simm.gpu.pool()):
        pages = torch.empty((1024, 65536), dtype=torch.uint8, device="cuda")
    mr = simm.kv.register_mr(pages)
"""

import functools
from typing import Any

from simm import _native
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
