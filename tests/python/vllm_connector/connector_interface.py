"""What vLLM's v1 interface of connectors promises to a connector, and asks of it, written down as
classes of the same names: of summer 2026. install() puts them where vLLM has its own."""

import abc
import enum
import sys
import types

_BASE = "vllm.distributed.kv_transfer.kv_connector.v1.base"
_STATE = "vllm.distributed.parallel_state"
_WORKER = "vllm.v1.worker.gpu_worker"

rank = 0  # of the worker that asks


class KVConnectorRole(enum.Enum):
    SCHEDULER = 0
    WORKER = 1


class KVConnectorMetadata(abc.ABC):
    pass


class KVConnectorHandshakeMetadata(abc.ABC):
    pass


class KVConnectorBase_V1(abc.ABC):
    def __init__(self, vllm_config, role, kv_cache_config):
        self._connector_metadata = None
        self._vllm_config = vllm_config
        self._kv_cache_config = kv_cache_config
        self._role = role

    @property
    def prefer_cross_layer_blocks(self):
        return False

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config):
        return False

    def bind_connector_metadata(self, connector_metadata):
        self._connector_metadata = connector_metadata

    def clear_connector_metadata(self):
        self._connector_metadata = None

    def _get_connector_metadata(self):
        assert self._connector_metadata is not None
        return self._connector_metadata

    def register_kv_caches(self, kv_caches):
        return

    def register_cross_layers_kv_cache(self, kv_cache, attn_backend):
        return

    @abc.abstractmethod
    def start_load_kv(self, forward_context, **kwargs): ...

    @abc.abstractmethod
    def wait_for_layer_load(self, layer_name): ...

    @abc.abstractmethod
    def save_kv_layer(self, layer_name, kv_layer, attn_metadata, **kwargs): ...

    @abc.abstractmethod
    def wait_for_save(self): ...

    def get_finished(self, finished_req_ids):
        return None, None

    def get_block_ids_with_load_errors(self):
        return set()

    def shutdown(self):
        return None

    def get_handshake_metadata(self):
        return None

    @abc.abstractmethod
    def get_num_new_matched_tokens(self, request, num_computed_tokens): ...

    @abc.abstractmethod
    def update_state_after_alloc(self, request, blocks, num_external_tokens): ...

    @abc.abstractmethod
    def build_connector_meta(self, scheduler_output): ...

    def update_connector_output(self, connector_output):
        return

    def request_finished(self, request, block_ids):
        return False, None

    def set_xfer_handshake_metadata(self, metadata):
        return None


class Worker:
    """vLLM's worker of a GPU, as far as SimmWorker looks at it."""

    def initialize_from_config(self, kv_cache_config):
        self.made = kv_cache_config()


def forget():
    """So that simm.vllm is imported anew."""
    for name in list(sys.modules):
        if name.split(".")[0] == "vllm" or name.startswith("simm.vllm"):
            del sys.modules[name]


def install():
    forget()
    made = {}
    for full in (_BASE, _STATE, _WORKER):
        parts = full.split(".")
        for length in range(1, len(parts) + 1):
            name = ".".join(parts[:length])
            module = made.setdefault(name, types.ModuleType(name))
            module.__path__ = []
            if length > 1:
                setattr(made[".".join(parts[:length - 1])], parts[length - 1], module)
    base = made[_BASE]
    base.KVConnectorRole = KVConnectorRole
    base.KVConnectorMetadata = KVConnectorMetadata
    base.KVConnectorHandshakeMetadata = KVConnectorHandshakeMetadata
    base.KVConnectorBase_V1 = KVConnectorBase_V1
    made[_STATE].get_tp_group = lambda: types.SimpleNamespace(rank_in_group=rank)
    made[_WORKER].Worker = Worker
    sys.modules.update(made)
