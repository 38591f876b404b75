"""Lab: an engine's side of LMCache, with a connector made from a URL as LMCache makes it: its real
classes where SIMM_LMCACHE_CHECKOUT names a checkout, else those of lmcache_interface.py."""

import asyncio
import os
import threading

import numpy
import torch

import lmcache_checkout as checkout
import lmcache_interface as interface

REAL = bool(checkout.PATH)
(checkout if REAL else interface).install()
OLD = REAL and checkout.is_of_2025()  # only external://, and chunks that describe themselves

LAYERS, TOKENS, HEADS, SIZE = 2, 16, 2, 16
DTYPE = torch.float16
CHUNK_BYTES = 2 * LAYERS * TOKENS * HEADS * SIZE * 2
TOKEN_BYTES = CHUNK_BYTES // TOKENS
ADAPTER = {"remote_storage_plugin.simm.module_path": "simm.lmcache",
           "remote_storage_plugin.simm.class_name": "SimmConnectorAdapter"}
EXTERNAL = "external://127.0.0.1:0/simm.lmcache/?connector_name=SimmConnector"


class Lab:
    def __init__(self, url, model="org/model", pool_bytes=256 * CHUNK_BYTES, **extra):
        extra = {**ADAPTER, **extra}
        self.model = model
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=checkout.run_forever, args=(self.loop,))
        self._thread.start()
        if REAL:
            self.config = checkout.config_of(url, extra, ["simm"], TOKENS)
            self.metadata = checkout.metadata_of(model, LAYERS, TOKENS, HEADS, SIZE, DTYPE)
            self.backend = checkout.backend_of(self.config, self.metadata, pool_bytes)
            make = checkout.connector_of
        else:
            shape = torch.Size([2, LAYERS, TOKENS, HEADS * SIZE])
            self.config = interface.EngineConfig(url, extra, ["simm"])
            self.metadata = interface.EngineMetadata(model, shape, DTYPE)
            allocator = interface.Allocator(pool_bytes)
            self.backend = interface.LocalCPUBackend(self.config, self.metadata, allocator)
            make = interface.create_connector
        try:
            self.wrapped = make(url, self.loop, self.backend, self.config, self.metadata)
        except BaseException:
            self._end()
            raise
        # LMCache's own wrapper of 2025 passes on few calls.
        self.connector = getattr(self.wrapped, "_connector", self.wrapped)

    def run(self, coroutine, timeout=60):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def close(self):
        self.run(self.connector.close())
        self._end()

    def _end(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def key(self, digest, model=None):
        if REAL:
            return checkout.key_of(model or self.model, 0, digest, DTYPE)
        return interface.CacheEngineKey(model or self.model, 0, digest)

    def keys(self, *digests):
        return [self.key(digest) for digest in digests]

    def chunk(self, byte, tokens=TOKENS):
        """A MemoryObj of the pool, every byte of which is `byte`."""
        shape = torch.Size([2, LAYERS, tokens, HEADS * SIZE])
        form = checkout.chunk_format() if REAL else interface.MemoryFormat.KV_2LTD
        if OLD:
            one = self.backend.allocate(shape, DTYPE, form)
        else:
            one = self.backend.allocate([shape], [DTYPE], form, busy_loop=False)
        numpy.frombuffer(one.byte_array, numpy.uint8)[:] = byte
        return one

    def store(self, keys, chunks):
        """As LMCache does: it gives up its references when put has returned."""
        self.run(self.connector.batched_put(keys, chunks))
        self.release(chunks)

    def release(self, chunks):
        for one in chunks:
            if one is not None:
                one.ref_count_down()

    def take(self, chunks):
        """[(bytes, the byte they all are)] of what a get has given, None where it has not; gives
        the memory back."""
        found = []
        for one in chunks:
            if one is None:
                found.append(None)
                continue
            values = set(bytes(one.byte_array))
            found.append((one.get_size(), values.pop()) if len(values) == 1 else "mixed")
        self.release(chunks)
        return found

    def pool_used(self):
        allocator = self.backend.memory_allocator
        if not REAL:
            return allocator.used
        pool = allocator.pin_allocator
        return getattr(pool, "address_manager", pool).total_allocated_size


def url_of(daemon, kind, use_sync=0, manager="127.0.0.1:30001"):
    """The ways in which LMCache may be told of SiMM, for a daemon at that socket."""
    os.environ["SIMM_SOCKET"] = daemon.socket
    if OLD:
        return EXTERNAL
    return {"url": f"simm://{manager}/?use_sync={use_sync}", "plugin": "plugin://simm",
            "external": EXTERNAL}[kind]
