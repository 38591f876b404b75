"""Shared memory that CUDA knows (pinned), so that copies between it and a GPU are direct ones."""

import ctypes
import os
import weakref
from typing import Any

from simm.tensors import torch_or_none

_PORTABLE = 1  # for every context of the process


def register(block: Any) -> Any:
    """The block's bytes as a buffer. CUDA knows them as long as anybody has it, and the memory
    stays until CUDA has forgotten them. RuntimeError: no torch with a GPU, or CUDA refuses."""
    torch = torch_or_none()
    if torch is None or not torch.cuda.is_available():
        raise RuntimeError("cuda=True: torch finds no GPU here: leave it out")
    runtime = torch.cuda.cudart()
    code = int(runtime.cudaHostRegister(block.ptr, block.size, _PORTABLE))
    if code != 0:
        raise RuntimeError(f"cuda=True: cudaHostRegister of {block.size} bytes answers {code}")
    # A class of its own: an array's has no weak references.
    kind: Any = type("CudaBytes", (ctypes.c_ubyte * block.size,), {})
    buffer = kind.from_buffer(block)
    # At the end of the process its driver's memory goes all at once.
    weakref.finalize(buffer, _forget, runtime, block, os.getpid()).atexit = False
    return buffer


def _forget(runtime: Any, block: Any, pid: int) -> None:
    if pid == os.getpid():  # a forked child has nothing registered
        runtime.cudaHostUnregister(block.ptr)
