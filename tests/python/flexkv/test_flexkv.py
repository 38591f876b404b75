"""FlexKV's SiMM backend: its calls of simm.kv, as its SiMM branch makes them, and, from a checkout
that SIMM_FLEXKV_CHECKOUT names, its own client and cache engine, unmodified."""

import importlib
import json
import os
import pathlib
import re
import signal
import textwrap
import types

import pytest

torch = pytest.importorskip("torch")

from conftest import run_python  # noqa: E402
from flexkv_lab import BLOCK, BLOCKS, CHECKOUT, CLIENT, client_class  # noqa: E402
from simm.sglang.repair import NIC_DIRECTORY  # noqa: E402

MANAGER = "127.0.0.1:30001"


@pytest.fixture(params=["small", "real"])
def kind(request):
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
    client = client_class(kind)(extra_config={"manager_address": MANAGER,
                                              "clnt_threadpool_size": 10})
    check(client, key + kind)


def test_by_the_file_that_also_says_socket_and_namespace(daemon, monkeypatch, tmp_path, kind, key):
    path = tmp_path / "simm.json"
    path.write_text(json.dumps({"manager_address": MANAGER, "clnt_threadpool_size": 10,
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
    assert client_class(kind)(manager_address=MANAGER).batch_exists(keys) == 0


def test_the_launch_line_that_the_readme_shows(daemon, monkeypatch, kind, key):
    readme = pathlib.Path(__file__).parent.parent.parent.parent / "python" / "README.md"
    text = readme.read_text(encoding="utf-8")
    [line] = re.findall(r"^    (FLEXKV_.*) \.\.\.$", text, re.MULTILINE)
    shown = dict(word.split("=") for word in line.split())
    assert shown.pop("FLEXKV_USE_SIMM_BACKEND") == "1"
    for name, value in {**shown, "SIMM_SOCKET": daemon.socket}.items():
        monkeypatch.setenv(name, value)
    if kind == "small":
        check(client_class(kind)(manager_address=shown["FLEXKV_SIMM_MANAGER_ADDRESS"]), key)
        return
    client_class(kind)
    engine = importlib.import_module(CLIENT).SimmCacheEngine(
        types.SimpleNamespace(tokens_per_block=16))
    check(engine.simm_client, key)
    known = "".join(path.read_text(encoding="utf-8")
                    for path in pathlib.Path(CHECKOUT).glob("flexkv/**/*.py"))
    assert all(name in known for name in ["FLEXKV_USE_SIMM_BACKEND", *shown])


def test_a_daemon_that_dies_is_misses(own_daemon, kind, key):
    client = client_class(kind)(manager_address=MANAGER)
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
    monkeypatch.setenv("FLEXKV_SIMM_MANAGER_ADDRESS", MANAGER)
    client_class("real")
    module = importlib.import_module(CLIENT)
    engine = module.SimmCacheEngine(types.SimpleNamespace(tokens_per_block=16))
    keys, at, sizes = check(engine.simm_client, key)
    sequence = types.SimpleNamespace(block_hashes=[int(one) for one in keys], num_blocks=8)
    assert engine.match(sequence).num_matched_blocks == 3


SHAPE = """
    import os
    from simm.kv import Store, set_flag

    def get_numa_nic_mapping():
        return []

    class SiMMClient:
        def __init__(self, manager_address=None):
            if os.environ.get("FLEXKV_SIMM_SKIP_NUMA_DEVICES", "") not in ("1", "true", "yes"):
                get_numa_nic_mapping().get(0)
            if manager_address:
                set_flag("cm_primary_node_ip", manager_address.split(":")[0])
                set_flag("cm_primary_node_port", manager_address.split(":")[1])
            self.store = Store()
"""
USE = """
    import json, numpy, os
    from simm.kv import BlockView, register_mr, set_flag
    set_flag("clnt_sync_req_timeout_ms", "60000")
    from flexkv.external.simm_utils import SiMMClient
    one = SiMMClient(os.environ.get("MANAGER"))
    pool = numpy.ones(8192, numpy.uint8)
    mr = register_mr(pool)
    view = lambda size: BlockView.from_tensor(pool[:size], mr)
    assert one.store.put(os.environ["KEY"], view(4096)) == 0
    print(*(one.store.get(os.environ["KEY"], view(size)) for size in (8192, 4096)))
"""


@pytest.fixture
def run_shape(tmp_path, daemon, key):
    """Runs USE on a package of FlexKV's shape."""
    package = tmp_path / "flexkv" / "external"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package.parent / "__init__.py").write_text("")
    (package / "simm_utils.py").write_text(textwrap.dedent(SHAPE))

    def run(**environment):
        return run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
                          + textwrap.dedent(USE), SIMM_SOCKET=daemon.socket, KEY=key, **environment)
    return run


@pytest.mark.parametrize("way", ["manager", "file", "off in the environment"])
def test_a_block_of_another_size_is_a_miss_however_it_is_configured(run_shape, tmp_path, way):
    environment = {"MANAGER": MANAGER, "FLEXKV_SIMM_SKIP_NUMA_DEVICES": "1"}
    if way == "file":
        del environment["MANAGER"]
        path = tmp_path / "simm.json"
        path.write_text(json.dumps({"manager_address": MANAGER}))
        environment["FLEXKV_SIMM_CONFIG_PATH"] = str(path)
    if way.startswith("off"):
        environment["SIMM_EXACT_SIZE"] = "0"
    done = run_shape(**environment)
    larger = 4096 if way.startswith("off") else -4003
    assert (done.returncode, done.stdout) == (0, f"{larger} 4096\n"), done.stderr


@pytest.mark.skipif(os.path.exists(NIC_DIRECTORY), reason="a host with RDMA devices needs none")
def test_it_starts_without_rdma_devices(run_shape):
    done = run_shape(MANAGER=MANAGER)
    assert done.returncode == 0, done.stderr
    left_alone = run_shape(MANAGER=MANAGER, FLEXKV_SIMM_SKIP_NUMA_DEVICES="0")
    assert "'list' object has no attribute 'get'" in left_alone.stderr
