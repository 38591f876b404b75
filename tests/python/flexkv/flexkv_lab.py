"""FlexKV as these tests see it: its calls of simm.kv, as its SiMM branch makes them, and, from a
checkout that SIMM_FLEXKV_CHECKOUT names, its own client, cache engine and transfer worker,
unmodified. Stand-ins replace what it imports and the machine lacks, CUDA's runtime included."""

import ctypes
import importlib
import json
import os
import sys
import threading
import types
import uuid

import numpy
import pytest
import torch

from simm.kv import BlockView, Store, register_mr, set_flag
from stand_ins import StandIns, give_dtypes_a_size

CHECKOUT = os.environ.get("SIMM_FLEXKV_CHECKOUT", "")
if CHECKOUT and not os.path.exists(os.path.join(CHECKOUT, "flexkv/external/simm_utils.py")):
    raise RuntimeError(f"SIMM_FLEXKV_CHECKOUT={CHECKOUT}: this FlexKV has no client of SiMM: take "
                       "its branch simm-integration")
# Compiled, or for GPUs: no part of what is tested.
ABSENT = ("flexkv.c_ext expiring_dict nvtx zmq msgpack redis cupy prometheus_client xxhash "
          "triton flash_attn transformers vllm tabulate mooncake").split()
CLIENT = "flexkv.external.simm_utils"
LAYERS, TOKENS, HEADS, HEAD_BYTES = 2, 16, 8, 32
BLOCK = LAYERS * 2 * TOKENS * HEADS * HEAD_BYTES * 2  # of float16
BLOCKS = 48


class SmallClient:
    """What FlexKV's client asks of simm.kv: no more."""

    def __init__(self, manager_address=None, extra_config=None):
        address = (extra_config or {}).get("manager_address") or manager_address
        if address is None:
            with open(os.environ["FLEXKV_SIMM_CONFIG_PATH"], encoding="utf-8") as file:
                address = json.load(file)["manager_address"]
        host, port = address.split(":")
        for name, value in (("cm_primary_node_ip", host), ("cm_primary_node_port", port),
                            ("clnt_log_file", "/var/log/simm/no/such.log"),
                            ("clnt_thread_pool_size", "10")):
            assert set_flag(name, value)
        self.store = Store()
        key = "flexkv_simm_warmup_key" + uuid.uuid4().hex
        block, got = self.store.allocate(4096), self.store.allocate(4096)
        text = torch.frombuffer(bytearray(key.encode()), dtype=torch.uint8)
        block.as_ref()[:len(key)] = text
        assert self.store.put(key, block.view()) == 0 and self.store.exists(key)
        assert self.store.get(key, got.view()) >= 0
        assert all(got.as_ref()[:len(key)] == text)

    def register_mr(self, tensor):
        self.mr_ext = register_mr(tensor)

    def batch_exists(self, keys):
        found = self.store.mexists(keys)
        return next((i for i, there in enumerate(found) if not there), len(keys))

    def _views(self, addresses, sizes):
        return [BlockView.from_buffer(*place, self.mr_ext) for place in zip(addresses, sizes)]

    def batch_set_v1(self, addresses, sizes, keys):
        there = self.store.mexists(keys)
        wanted = [i for i, one in enumerate(there) if not one]
        views = self._views([addresses[i] for i in wanted], [sizes[i] for i in wanted])
        results = dict(zip(wanted, self.store.mput([keys[i] for i in wanted], views)))
        return [results.get(i, 0) == 0 for i in range(len(keys))]

    def batch_get_v1(self, addresses, sizes, keys):
        return [code > 0 for code in self.store.mget(keys, self._views(addresses, sizes))]


def _from_checkout(module: str):
    if not CHECKOUT:
        pytest.skip("SIMM_FLEXKV_CHECKOUT names no checkout")
    if CHECKOUT not in sys.path:
        sys.path.insert(0, CHECKOUT)
        StandIns(ABSENT)
        give_dtypes_a_size()
    return importlib.import_module(module)


def client_class(kind: str):
    return _from_checkout(CLIENT).SiMMClient if kind == "real" else SmallClient


class Recorder:
    """Between FlexKV's worker, which drops the results, and its client."""

    def __init__(self, client) -> None:
        self._client = client
        self.seen = threading.local()

    def batch_set_v1(self, *arguments):
        self.seen.results = self._client.batch_set_v1(*arguments)
        return self.seen.results

    def batch_get_v1(self, *arguments):
        self.seen.results = self._client.batch_get_v1(*arguments)
        return self.seen.results


class Engine:
    """A pool of blocks and the calls of FlexKV: what is there of a prefix, put, get. Results are
    those of its client. kind "small": SmallClient, "real": FlexKV's client, "worker": its cache
    engine asks what is there, and its transfer worker moves the blocks."""

    def __init__(self, kind: str, manager: str) -> None:
        self.memory = torch.zeros(BLOCKS * BLOCK, dtype=torch.uint8)
        self._worker = None
        if kind == "worker":
            self._make_worker(manager)
            return
        self.client = client_class(kind)(manager_address=manager)
        self.client.register_mr(self.memory)

    def _make_worker(self, manager: str) -> None:
        client = _from_checkout(CLIENT)
        cdll, ctypes.CDLL = ctypes.CDLL, lambda *_, **__: types.SimpleNamespace(
            cudaHostRegister=lambda *_: 0, cudaHostUnregister=lambda *_: 0)
        try:
            worker = _from_checkout("flexkv.transfer.worker")
        finally:
            ctypes.CDLL = cdll
        storage = _from_checkout("flexkv.common.storage")
        self._kinds = _from_checkout("flexkv.common.transfer").TransferType
        layout = storage.KVCacheLayout(storage.KVCacheLayoutType.BLOCKFIRST, LAYERS, BLOCKS, TOKENS,
                                       HEADS, HEAD_BYTES, False)
        settings = types.SimpleNamespace(tokens_per_block=TOKENS, simm_manager_address=manager)

        class Worker(worker.SiMMTransferWorker):
            def _get_layer_ptrs(self, blocks):  # a table for GPUs, in memory that CUDA has pinned
                return None

        self._worker = Worker(0, None, None, torch.zeros(1), self.memory, layout, torch.float16,
                              settings)
        self._index = client.SimmCacheEngine(settings)
        self.client = self._worker.simm_client
        self._worker.simm_client = Recorder(self.client)

    def exists(self, keys) -> int:
        if self._worker is None:
            return self.client.batch_exists([str(key) for key in keys])
        sequence = types.SimpleNamespace(block_hashes=keys, num_blocks=len(keys))
        return self._index.match(sequence).num_matched_blocks

    def put(self, keys, blocks) -> list:
        if self._worker is not None:
            return self._transfer("H2REMOTE", keys, blocks)
        return self.client.batch_set_v1(*self._places(blocks), [str(key) for key in keys])

    def get(self, keys, blocks) -> list:
        if self._worker is not None:
            return self._transfer("REMOTE2H", keys, blocks)
        return self.client.batch_get_v1(*self._places(blocks), [str(key) for key in keys])

    def _places(self, blocks):
        at = [self.memory.data_ptr() + i * BLOCK for i in blocks]
        return at, [BLOCK] * len(at)

    def _transfer(self, direction: str, keys, blocks) -> list:
        ids = numpy.array(list(blocks), dtype=numpy.int64)
        assert self._worker.launch_transfer(types.SimpleNamespace(
            transfer_op_id=1, transfer_type=self._kinds[direction], src_block_ids=ids,
            dst_block_ids=ids, simm_block_hashes=numpy.array(keys, dtype=numpy.int64), layer_id=0,
            layer_granularity=LAYERS)) is True
        return self._worker.simm_client.seen.results

    def fill(self, blocks, byte: int) -> None:
        """Each block differently."""
        for i in blocks:
            self.memory[i * BLOCK:(i + 1) * BLOCK] = (byte + i) % 251

    def content(self, block: int) -> bytes:
        return bytes(self.memory[block * BLOCK:(block + 1) * BLOCK].numpy())
