"""SiMM: a distributed in-memory pool for key/value caches. See simm.kv."""

from simm import _native

__version__ = _native.version()
