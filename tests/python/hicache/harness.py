"""SGLang as these tests see it: that of a checkout (SIMM_SGLANG_CHECKOUT=/path/to/sglang), or the
minimal one. Makes configurations and host pools of either, and fills and reads their pages."""

import contextlib
import ctypes
import hashlib
import importlib
import os
import pathlib
import sys
import time
import types

import torch

CHECKOUT = os.environ.get("SIMM_SGLANG_CHECKOUT", "")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

if "sglang" not in sys.modules:
    if CHECKOUT:
        import checkout
        checkout.install(CHECKOUT)
    else:
        import minimal
        minimal.install()

from sglang.srt.mem_cache.hicache_storage import (  # noqa: E402
    HiCacheStorageConfig, PoolHitPolicy, PoolName, PoolTransfer)

from simm.sglang import HiCacheSimm  # noqa: E402

PAGE = 4  # tokens
PAGES = 64


def hashes(count: int, seed: str) -> list:
    """Names of pages, as SGLang makes them."""
    return [hashlib.sha256(f"{seed}{i}".encode()).hexdigest() for i in range(count)]


def config(**changes):
    extra = {"interface_v1": 1, **changes.pop("extra", {})}
    facts = {"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0,
             "attn_cp_size": 1, "is_mla_model": False, "enable_storage_metrics": False,
             "is_page_first_layout": True, "model_name": "model", "extra_config": extra}
    return HiCacheStorageConfig(**{**facts, **changes})


def pool(kind: str, pages: int = PAGES, heads: int = 2, layout: str = "page_first",
         allocator: str = "default"):
    """kind: mha, mla, mamba, indexer, v4, logical."""
    if not CHECKOUT:
        import minimal
        if kind == "mha":
            return minimal.Mha(PAGE, pages, heads, layout, allocator == "shm")
        if kind == "logical":
            return minimal.Logical(PAGE)
        size, parts = {"mla": (PAGE, [4608]), "mamba": (1, [3000, 200, 100]),
                       "indexer": (PAGE, [528]), "v4": (PAGE, [1200])}[kind]
        return minimal.HostPool(size, pages, parts, allocator == "shm")
    from sglang.srt.mem_cache import memory_pool_host as host
    for module in list(sys.modules.values()):
        if hasattr(module, "HICACHE_HOST_MEMORY_RESERVE_BYTES"):
            module.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0
            module.ranks_per_host = lambda: 1  # it asks for a group, which is a stand-in
    device = types.SimpleNamespace(
        store_dtype=torch.float16, head_num=heads, head_dim=16, v_head_dim=16, layer_num=2,
        size=(pages - 1) * PAGE, start_layer=0, end_layer=2, device="cpu",
        layer_shard_enabled=False, kv_lora_rank=32, qk_rope_head_dim=16, index_head_dim=128,
        quant_block_size=128, kv_cache_dim=48,
        index_k_with_scale_buffer=[torch.zeros(1)] * 2)
    options = {"pin_memory": False, "allocator_type": allocator}
    if kind == "mha":
        return _class("MHATokenToKVPoolHost")(device, 1.0, 0, PAGE, layout, **options)
    if kind == "mla":
        return _class("MLATokenToKVPoolHost")(device, 1.0, 0, PAGE, layout, **options)
    if kind == "logical":
        return host.LogicalHostPool(pages * PAGE, PAGE)
    if kind == "v4":
        return host.DeepSeekV4PagedHostPool("v4", [torch.zeros(1)] * 2, 600, pages, PAGE, layout,
                                            **options)
    if kind == "mamba":
        device.mamba_cache = types.SimpleNamespace(
            conv=[torch.zeros(2, 1, 4, 8), torch.zeros(2, 1, 3)], temporal=torch.zeros(2, 1, 5, 7))
        device.num_mamba_layers, device.size = 2, pages - 1
        return _class("MambaPoolHost")(device, 1.0, 0, layout=layout, **options)
    _class("DSATokenToKVPool", "NSATokenToKVPool").index_k_with_scale_buffer_dtype = torch.uint8
    return _class("DSAIndexerPoolHost", "NSAIndexerPoolHost")(device, pool("mla", pages), layout,
                                                              **options)


def _class(*names: str):
    """The first of these classes that there is. They move from module to module."""
    places = [importlib.import_module("sglang.srt.mem_cache.memory_pool_host")]
    for name in ("mha", "mla", "mamba", "dsa"):
        with contextlib.suppress(ImportError):
            places.append(importlib.import_module(f"sglang.srt.mem_cache.pool_host.{name}"))
    return next(getattr(place, name) for name in names for place in places if hasattr(place, name))


def indices(pages, host_pool):
    """The indices of these pages of the pool."""
    size = host_pool.page_size
    return torch.tensor([page * size + i for page in pages for i in range(size)],
                        dtype=torch.int64)


def _places(host_pool, page: int):
    return list(zip(*host_pool.get_page_buffer_meta(indices([page], host_pool))))


def fill(host_pool, pages, seed: int) -> None:
    """Every byte of a page depends on its number, its object and the seed."""
    for page in pages:
        for i, (address, size) in enumerate(_places(host_pool, page)):
            ctypes.memset(address, (seed + 7 * page + 3 * i) % 251, size)


def content(host_pool, page: int) -> list:
    return [ctypes.string_at(address, size) for address, size in _places(host_pool, page)]


def moved(host_pool, source: int, target: int) -> bool:
    """Has page `target` the bytes of page `source`?"""
    return content(host_pool, source) == content(host_pool, target)


def wait_until(true) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def transfer(name, keys=None, host_indices=None, window: bool = False):
    policy = PoolHitPolicy.TRAILING_PAGES if window else PoolHitPolicy.ALL_PAGES
    return PoolTransfer(name=name, keys=keys, host_indices=host_indices, hit_policy=policy)


def backend(socket: str, kv, **changes) -> HiCacheSimm:
    """HiCacheSimm with its KV pool registered; as SGLang's `dynamic` backend makes it."""
    extra = {"socket": socket, **changes.pop("extra", {})}
    made = HiCacheSimm(config(extra=extra, **changes), {})
    made.register_mem_pool_host(kv)
    return made


__all__ = ["CHECKOUT", "HiCacheSimm", "PoolName", "backend", "config", "content", "fill", "hashes",
           "indices", "moved", "pool", "transfer"]
