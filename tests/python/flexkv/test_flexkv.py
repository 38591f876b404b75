"""FlexKV's SiMM backend: its calls of simm.kv, as its SiMM branch makes them, and, from a checkout
that SIMM_FLEXKV_CHECKOUT names, its own client and cache engine, unmodified."""

import importlib
import json
import os
import signal
import sys
import types
import uuid

import pytest

torch = pytest.importorskip("torch")

from simm.kv import BlockView, Store, register_mr, set_flag
from stand_ins import StandIns

CHECKOUT = os.environ.get("SIMM_FLEXKV_CHECKOUT", "")
# Compiled, or for GPUs: no part of what is tested.
ABSENT = ("flexkv.c_ext expiring_dict nvtx zmq msgpack redis cupy prometheus_client xxhash "
          "triton flash_attn transformers vllm tabulate").split()
BLOCK = 32 << 10
BLOCKS = 32


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


def client_class(kind):
    if kind == "small":
        return SmallClient
    if not CHECKOUT:
        pytest.skip("SIMM_FLEXKV_CHECKOUT names no checkout")
    if CHECKOUT not in sys.path:
        sys.path.insert(0, CHECKOUT)
        StandIns(ABSENT)
    return importlib.import_module("flexkv.external.simm_utils").SiMMClient


@pytest.fixture(params=["small", "real"])
def kind(request, monkeypatch):
    # FlexKV fails in its own constructor on a host without RDMA devices, unless told not to look.
    monkeypatch.setenv("FLEXKV_SIMM_SKIP_NUMA_DEVICES", "1")
    client_class(request.param)
    return request.param


def pool():
    memory = torch.zeros(BLOCKS * BLOCK, dtype=torch.uint8)
    return memory, [memory.data_ptr() + i * BLOCK for i in range(BLOCKS)]


def check(client, key):
    """Blocks go out and come back, with a hole in between."""
    memory, at = pool()
    client.register_mr(memory)
    keys = [str(abs(hash((key, i)))) for i in range(8)]
    for i in range(8):
        memory[i * BLOCK:(i + 1) * BLOCK] = i + 1
    sizes = [BLOCK] * 8
    assert client.batch_exists(keys) == 0
    stored = [0, 1, 2, 4]
    assert client.batch_set_v1([at[i] for i in stored], [BLOCK] * 4,
                               [keys[i] for i in stored]) == [True] * 4
    assert client.batch_set_v1(at[:2], sizes[:2], keys[:2]) == [True] * 2
    assert client.batch_exists(keys) == 3
    wanted = [i in stored for i in range(8)]
    assert client.batch_get_v1(at[16:24], sizes, keys) == wanted
    assert [int(memory[(16 + i) * BLOCK]) for i in range(8)] == [
        i + 1 if i in stored else 0 for i in range(8)]
    return keys, at, sizes


def test_by_address(daemon, monkeypatch, kind, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    client = client_class(kind)(extra_config={"manager_address": "127.0.0.1:30001",
                                              "clnt_threadpool_size": 10})
    check(client, key + kind)


def test_by_the_file_that_also_says_socket_and_namespace(daemon, monkeypatch, tmp_path, kind, key):
    path = tmp_path / "simm.json"
    path.write_text(json.dumps({"manager_address": "127.0.0.1:30001", "clnt_threadpool_size": 10,
                                "enable_profile": False, "socket": daemon.socket,
                                "namespace": "flexkv" + kind}))
    monkeypatch.setenv("FLEXKV_SIMM_CONFIG_PATH", str(path))
    client = client_class(kind)()
    assert client.store.stats()["namespace"] == "flexkv" + kind
    keys, at, _ = check(client, key + kind)
    # Its keys name no model: with a file, a block of another size is another model's.
    assert client.batch_get_v1(at[:1], [2 * BLOCK], keys[:1]) == [False]
    monkeypatch.delenv("FLEXKV_SIMM_CONFIG_PATH")
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    assert client_class(kind)(manager_address="127.0.0.1:30001").batch_exists(keys) == 0


def test_a_daemon_that_dies_is_misses(own_daemon, kind, key):
    client = client_class(kind)(manager_address="127.0.0.1:30001")
    keys, at, sizes = check(client, key + kind)
    own_daemon.kill(signal.SIGKILL)
    assert client.batch_exists(keys) == 0
    assert client.batch_get_v1(at[:8], sizes, keys) == [False] * 8
    assert client.batch_set_v1(at[:8], sizes, keys) == [False] * 8
    own_daemon.start()
    while not client.store.attached:
        client.batch_exists(keys)
    assert client.batch_set_v1(at[:8], sizes, keys) == [True] * 8


@pytest.mark.skipif(not CHECKOUT, reason="SIMM_FLEXKV_CHECKOUT names no checkout")
def test_its_cache_engine_matches_what_a_worker_has_stored(daemon, monkeypatch, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    monkeypatch.setenv("FLEXKV_SIMM_SKIP_NUMA_DEVICES", "1")
    monkeypatch.setenv("FLEXKV_SIMM_MANAGER_ADDRESS", "127.0.0.1:30001")
    client_class("real")
    module = importlib.import_module("flexkv.external.simm_utils")
    engine = module.SimmCacheEngine(types.SimpleNamespace(tokens_per_block=16))
    keys, at, sizes = check(engine.simm_client, key)
    sequence = types.SimpleNamespace(block_hashes=[int(one) for one in keys], num_blocks=8)
    assert engine.match(sequence).num_matched_blocks == 3
