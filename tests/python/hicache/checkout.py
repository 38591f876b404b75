"""Imports the storage half of a checkout of SGLang (SIMM_SGLANG_CHECKOUT) in a Python that has
neither its GPU libraries nor its torch: hicache_storage, the backend factory, the host pools, the
SiMM backend and the plugin loader are the checkout's own files; every other module of it is a
stand-in, whose names are empty classes and functions that say False (so no GPU is found)."""

import importlib.abc
import importlib.machinery
import pathlib
import sys
import types

import torch

from stand_ins import give_dtypes_a_size

REAL = ("sglang.srt.environ", "sglang.srt.plugins", "sglang.srt.mem_cache.hicache_storage",
        "sglang.srt.mem_cache.memory_pool_host", "sglang.srt.mem_cache.pool_host",
        "sglang.srt.mem_cache.mmap_allocator", "sglang.srt.mem_cache.storage",
        "sglang.srt.mem_cache.utils", "sglang.srt.observability.metrics_collector")
PACKAGES = ("sglang", "sglang.srt", "sglang.srt.mem_cache", "sglang.srt.observability")
FOREIGN = ("sgl_kernel", "triton")


class StandIn(types.ModuleType):
    __path__: list = []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {}) if name[0].isupper() else lambda *_, **__: False
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path, target=None):
        if fullname.split(".")[0] not in ("sglang", *FOREIGN) or fullname.startswith(REAL):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def newer_torch() -> None:
    """What torch 1.13 lacks and the host pools use. Types of pointers are never looked at here."""
    give_dtypes_a_size()
    for name, like in (("uint64", torch.int64), ("uint32", torch.int32), ("uint16", torch.int16),
                       ("float8_e4m3fn", torch.int8), ("float8_e5m2", torch.int8)):
        if not hasattr(torch, name):
            setattr(torch, name, like)


def install(root: str) -> None:
    newer_torch()
    source = pathlib.Path(root) / "python"
    for name in PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [str(source / name.replace(".", "/"))]
        sys.modules[name] = package
    sys.meta_path.insert(0, Finder())
