"""SiMM: a distributed in-memory pool for key/value caches. See simm.kv."""

__version__ = "0.1.0"
