"""What vLLM's tiering promises to a secondary tier, and asks of it, written down as classes of the
same names: of summer 2026 ("new"), and of spring 2026 ("old": lookups are answered by True, False
and None, jobs have block_ids and no parts, methods have other names). install() puts them where
vLLM has its own."""

import dataclasses
import enum
import importlib
import sys
import types
from abc import ABC, abstractmethod

import numpy

_NAMES = ("vllm", "vllm.v1", "vllm.v1.kv_offload", "vllm.v1.kv_offload.base",
          "vllm.v1.kv_offload.tiering", "vllm.v1.kv_offload.tiering.base",
          "vllm.v1.kv_offload.tiering.factory", "vllm.v1.kv_offload.tiering.spec")


def make_offload_key(block_hash, group):
    return block_hash + group.to_bytes(4, "big")


class LookupResult(enum.Enum):
    MISS = enum.auto()
    HIT = enum.auto()
    HIT_PENDING = enum.auto()
    RETRY = enum.auto()


@dataclasses.dataclass
class RequestOffloadingContext:
    policy: str = "chunk_level"


class Medium(enum.Enum):
    CPU = "CPU"
    STORAGE = "STORAGE"


@dataclasses.dataclass
class OffloadingEvent:
    keys: list
    medium: Medium
    removed: bool
    locality: object = None


@dataclasses.dataclass
class ReqContext:
    req_id: str
    kv_transfer_params: object = None


class _Tier(ABC):
    def __init__(self, offloading_spec, primary_kv_view, tier_type):
        self._offloading_spec = offloading_spec
        self._primary_kv_view = primary_kv_view
        self.tier_type = tier_type

    @abstractmethod
    def lookup(self, key, req_context): ...

    @abstractmethod
    def submit_store(self, job_metadata): ...

    @abstractmethod
    def submit_load(self, job_metadata): ...

    def touch(self, keys, req_context):
        return

    def shutdown(self):
        return


class NewTier(_Tier):
    def __init__(self, offloading_spec, primary_kv_view, tier_type):
        super().__init__(offloading_spec, primary_kv_view, tier_type)
        self.locality = None

    @abstractmethod
    def get_finished_jobs(self): ...

    @abstractmethod
    def on_new_request(self, req_context): ...

    @abstractmethod
    def drain_jobs(self): ...

    def on_request_finished(self, req_context):
        return

    def on_schedule_end(self, context):
        return

    def take_events(self):
        return ()


class OldTier(_Tier):
    @abstractmethod
    def get_finished(self): ...

    def get_request_offloading_context(self, req_context):
        return RequestOffloadingContext()

    def request_finished(self, req_context):
        return


@dataclasses.dataclass
class NewResult:
    job_id: int
    success: bool
    successful_keys: object = None
    transfer_time: object = None


@dataclasses.dataclass
class OldResult:
    job_id: int
    success: bool


@dataclasses.dataclass
class NewJob:
    job_id: int
    keys: list
    chunk_ids: numpy.ndarray
    is_promotion: bool
    req_context: ReqContext


@dataclasses.dataclass
class OldJob:
    job_id: int
    keys: list
    block_ids: numpy.ndarray
    is_promotion: bool
    req_context: ReqContext


class SecondaryTierFactory:
    """The registry, with `module_path` for tiers that are not in it."""

    registry = {}

    @classmethod
    def register_tier(cls, tier_type, module_path, class_name):
        if tier_type in cls.registry:
            raise ValueError(f"Tier '{tier_type}' is already registered.")
        cls.registry[tier_type] = (module_path, class_name)

    @classmethod
    def create_secondary_tier(cls, tier_config, primary_kv_view, offloading_spec):
        config = dict(tier_config)
        tier_type = config.pop("type")
        module, name = cls.registry.get(tier_type, (config.pop("module_path", None), tier_type))
        kind = getattr(importlib.import_module(module), name)
        assert issubclass(kind, sys.modules["vllm.v1.kv_offload.tiering.base"].SecondaryTierManager)
        return kind(offloading_spec=offloading_spec, primary_kv_view=primary_kv_view,
                    tier_type=tier_type, **config)


class TieringOffloadingSpec:
    pass


def forget():
    """So that simm.vllm is imported anew."""
    for name in list(sys.modules):
        if name.split(".")[0] == "vllm" or name.startswith("simm.vllm"):
            del sys.modules[name]


def install(new=True):
    forget()
    made = {name: types.ModuleType(name) for name in _NAMES}
    for name, module in made.items():
        module.__path__ = []
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(made[parent], own, module)
    base, tiering = made["vllm.v1.kv_offload.base"], made["vllm.v1.kv_offload.tiering.base"]
    base.RequestOffloadingContext = RequestOffloadingContext
    if new:
        base.LookupResult = LookupResult
        base.Medium = Medium
        base.OffloadingEvent = OffloadingEvent
    tiering.SecondaryTierManager = NewTier if new else OldTier
    tiering.JobResult = NewResult if new else OldResult
    SecondaryTierFactory.registry = {}
    made["vllm.v1.kv_offload.tiering.factory"].SecondaryTierFactory = SecondaryTierFactory
    made["vllm.v1.kv_offload.tiering.spec"].TieringOffloadingSpec = TieringOffloadingSpec
    sys.modules.update(made)


def _plain(**facts):
    return types.SimpleNamespace(**facts)


def new_spec(model="org/model", dtype="bfloat16", tp=1, fd=-1, agnostic=False):
    """An OffloadingSpec of summer 2026, as far as tiers look at it."""
    group = _plain(tokens_per_block=16, layer_names=("layer.0", "layer.1"))
    config = _plain(
        groups=(group,), worker_kv_bytes_per_block=4096, engine_id="engine", extra_config={},
        model=_plain(name=model, dtype=dtype),
        cache=_plain(tokens_per_hash=16, blocks_per_chunk=1),
        parallel=_plain(rank=0, world_size=tp, tp_size=tp, pp_size=1, pcp_size=1, dcp_size=1,
                        data_parallel_index=0, is_parallelism_agnostic=agnostic))
    return _plain(config=config, _scheduler_mmap=_plain(fd=fd))


def old_spec(model="org/model", dtype="bfloat16", tp=1, fd=-1):
    """One of spring 2026."""
    group = _plain(layer_names=["layer.0", "layer.1"], kv_cache_spec=_plain(block_size=16))
    return _plain(
        vllm_config=_plain(
            model_config=_plain(model=model),
            cache_config=_plain(cache_dtype=dtype, block_size=16),
            parallel_config=_plain(tensor_parallel_size=tp, pipeline_parallel_size=1)),
        kv_cache_config=_plain(kv_cache_groups=[group]), block_size_factor=1,
        _scheduler_mmap=_plain(fd=fd))
