"""The parts of SGLang that a storage backend meets, as small as they can be: the interface with its
data classes, and pools of host memory with SGLang's addresses and layouts. Used when no checkout of
SGLang is named; then the same tests drive the real ones."""

import dataclasses
import enum
import mmap
import os
import sys
import types
from typing import Any, List, Optional

import torch


class PoolName(str, enum.Enum):
    KV = "kv"
    MAMBA = "mamba"
    SWA = "swa"
    INDEXER = "indexer"
    DEEPSEEK_V4_C4 = "deepseek_v4_c4"
    DRAFT = "draft"

    def __str__(self) -> str:
        return self.value


class PoolHitPolicy(str, enum.Enum):
    ALL_PAGES = "all_pages"
    TRAILING_PAGES = "trailing_pages"


@dataclasses.dataclass
class HiCacheStorageConfig:
    tp_rank: int
    tp_size: int
    pp_rank: int
    pp_size: int
    attn_cp_rank: int
    attn_cp_size: int
    is_mla_model: bool
    enable_storage_metrics: bool
    is_page_first_layout: bool
    model_name: Optional[str]
    tp_lcm_size: Optional[int] = None
    should_split_heads: bool = False
    extra_config: Optional[dict] = None


@dataclasses.dataclass
class PoolTransfer:
    name: PoolName
    host_indices: Any = None
    device_indices: Any = None
    keys: Optional[List[str]] = None
    hit_policy: PoolHitPolicy = PoolHitPolicy.ALL_PAGES


@dataclasses.dataclass
class PoolTransferResult:
    kv_hit_pages: int
    extra_pool_hit_pages: dict
    restorable_prefix_pages: Optional[List[int]] = None


@dataclasses.dataclass
class StorageMetrics:
    prefetch_pgs: list = dataclasses.field(default_factory=list)
    backup_pgs: list = dataclasses.field(default_factory=list)
    prefetch_bandwidth: list = dataclasses.field(default_factory=list)
    backup_bandwidth: list = dataclasses.field(default_factory=list)


class HiCacheStorage:
    def register_mem_pool_host(self, mem_pool_host):
        self.mem_pool_host = mem_pool_host

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        raise NotImplementedError


class HostPool:
    """`parts`: bytes of each object of a page; each has a buffer of its own: an anonymous shared
    mapping, or (`is_shm`) one of a memory file, whose descriptors the allocator keeps."""

    layout = "page_first"
    dtype = torch.uint8

    def __init__(self, page_size: int, pages: int, parts: List[int], is_shm: bool = False) -> None:
        self.page_size = page_size
        self.size = page_size * pages
        self._parts = parts
        fds = [os.memfd_create("pool") if is_shm else -1 for _ in parts]
        for fd, size in zip(fds, parts):
            if is_shm:
                os.ftruncate(fd, pages * size)
        self.allocator = types.SimpleNamespace(fds=fds)
        self.kv_buffer = [torch.frombuffer(mmap.mmap(fd, pages * size), dtype=torch.uint8)
                          for fd, size in zip(fds, parts)]

    def get_page_buffer_meta(self, indices):
        assert len(indices) % self.page_size == 0
        pages = [index // self.page_size for index in indices.tolist()[::self.page_size]]
        ptrs = [buffer.data_ptr() + page * size for page in pages
                for buffer, size in zip(self.kv_buffer, self._parts)]
        return ptrs, self._parts * len(pages)

    def _page(self, index):
        page = int(index) // self.page_size
        return [buffer[page * size:(page + 1) * size]
                for buffer, size in zip(self.kv_buffer, self._parts)]

    def get_data_page(self, index, flat=True):
        return torch.cat(self._page(index))

    def get_dummy_flat_data_page(self):
        return torch.zeros(sum(self._parts), dtype=torch.uint8)

    def set_from_flat_data_page(self, index, data_page):
        start = 0
        for place in self._page(index):
            place.copy_(data_page[start:start + len(place)])
            start += len(place)


class Mha(HostPool):
    def __init__(self, page_size: int, pages: int, heads: int, layout: str,
                 is_shm: bool = False) -> None:
        self.head_num = heads
        self.layout = layout
        super().__init__(page_size, pages, [page_size * heads * 64] * 2, is_shm)

    def get_split_heads_page_buffer_meta(self, indices, split_factor):
        assert self.layout == "page_head"
        ptrs, sizes = self.get_page_buffer_meta(indices)
        size = sizes[0] // split_factor
        return [pointer + i * size for k, v in zip(ptrs[::2], ptrs[1::2])
                for i in range(split_factor) for pointer in (k, v)], \
            [size] * (len(ptrs) * split_factor)


class Logical:
    """An anchor of indices without bytes (DeepSeek V4)."""

    layout, kv_buffer, dtype = "page_first", None, torch.uint8

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size

    def get_page_buffer_meta(self, indices):
        return None


INTERFACE = (PoolName, PoolHitPolicy, HiCacheStorageConfig, PoolTransfer, PoolTransferResult,
             HiCacheStorage)
MODULES = {"sglang": (), "sglang.srt": (), "sglang.srt.mem_cache": (),
           "sglang.srt.mem_cache.hicache_storage": INTERFACE, "sglang.srt.observability": (),
           "sglang.srt.observability.metrics_collector": (StorageMetrics,)}


def install() -> None:
    for name, things in MODULES.items():
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = []
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
        for thing in things:
            setattr(module, thing.__name__, thing)
