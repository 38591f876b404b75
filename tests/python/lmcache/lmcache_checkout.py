"""LMCache itself, from the checkout that SIMM_LMCACHE_CHECKOUT names. What it imports and this
machine lacks is replaced by stand-ins (modules) and placeholders (dtypes of a later torch): none of
them has a part in what is tested."""

import asyncio
import importlib
import inspect
import logging
import os
import sys

import torch

from stand_ins import StandIns, give_dtypes_a_size

PATH = os.environ.get("SIMM_LMCACHE_CHECKOUT", "")
ABSENT = ("prometheus_client zmq aiohttp msgspec aiofiles aiofile nvtx transformers safetensors "
          "vllm httpx uvicorn fastapi redis cufile cpuinfo psutil blake3 xxhash numba cupy "
          "lmcache.lmcache_native lmcache.c_ops lmcache.native_storage_ops")


class Bitmap:
    """LMCache's is a compiled module."""

    def __init__(self, size):
        self._bits = [False] * size

    def set(self, i):
        self._bits[i] = True

    def test(self, i):
        return self._bits[i]

    def popcount(self):
        return sum(self._bits)


def install():
    os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
    os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
    sys.path.insert(0, PATH)
    StandIns(ABSENT.split())
    for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"):
        if not hasattr(torch, name):
            setattr(torch, name, type(name, (), {})())
    give_dtypes_a_size()
    if not torch.cuda.is_available():
        torch.cuda.Stream = lambda *arguments: None
    for name in ("lmcache.native_storage_ops", "lmcache.lmcache_native"):
        importlib.import_module(name).Bitmap = Bitmap
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("lmcache"):
            logging.getLogger(name).setLevel(logging.ERROR)


def is_of_2025():
    from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector
    return RemoteConnector.__init__ is object.__init__


def config_of(url, extra_config, plugins, chunk_tokens):
    from lmcache.v1.config import LMCacheEngineConfig
    options = {"chunk_size": chunk_tokens, "remote_url": url, "extra_config": extra_config}
    if not is_of_2025():
        options["remote_storage_plugins"] = plugins
    config = LMCacheEngineConfig.from_defaults(**options)
    for name, value in options.items():
        setattr(config, name, value)
    config.remote_serde = "naive"
    return config


def metadata_of(model, layers, tokens, heads, size, dtype):
    shape = (layers, 2, tokens, heads, size)
    if is_of_2025():
        from lmcache.config import LMCacheEngineMetadata
        return LMCacheEngineMetadata(model, 8, 0, "vllm", dtype, shape)
    from lmcache.v1.metadata import LMCacheMetadata
    return LMCacheMetadata(model_name=model, world_size=8, local_world_size=8, worker_id=0,
                           local_worker_id=0, kv_dtype=dtype, kv_shape=shape, chunk_size=tokens)


def backend_of(config, metadata, pool_bytes):
    """Its memory is pinned where there is a GPU."""
    from lmcache.v1 import memory_management
    from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
    if not is_of_2025():
        allocator = memory_management.MixedMemoryAllocator(pool_bytes)
        return LocalCPUBackend(config, metadata, memory_allocator=allocator)
    empty = torch.empty
    torch.empty = lambda *shape, pin_memory=False, **options: empty(
        *shape, pin_memory=pin_memory and torch.cuda.is_available(), **options)
    try:
        return LocalCPUBackend(config, memory_management.MixedMemoryAllocator(pool_bytes))
    finally:
        torch.empty = empty


def connector_of(url, loop, backend, config, metadata):
    from lmcache.v1.storage_backend.connector import CreateConnector
    arguments = [url, loop, backend, config, metadata]
    count = len(inspect.signature(CreateConnector).parameters)
    return CreateConnector(*arguments[:count])


def remote_backend_of(loop, backend, config, metadata, plugin=None):
    from lmcache.v1.storage_backend.remote_backend import RemoteBackend
    named = {} if plugin is None else {"plugin_name": plugin}
    return RemoteBackend(config, metadata, loop, backend, "cpu", **named)


def key_of(model, worker, digest, dtype):
    from lmcache.utils import CacheEngineKey
    if is_of_2025():
        return CacheEngineKey("vllm", model, 8, worker, f"{digest:x}")
    return CacheEngineKey(model, 8, worker, digest, dtype)


def chunk_format():
    from lmcache.v1.memory_management import MemoryFormat
    return MemoryFormat.KV_2LTD


def run_forever(loop):
    asyncio.set_event_loop(loop)
    loop.run_forever()
