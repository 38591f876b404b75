"""SiMM: a distributed in-memory pool for key/value caches. See simm.kv."""

from simm import _native
from simm.host_memory import alloc_tensor

__version__ = _native.version()
__all__ = ["alloc_tensor"]
