"""SGLang's own SiMM backend, factory and plugin loader, unmodified, on simm.kv: with a checkout."""

import gc
import importlib.metadata
import json
import os
import sys

import pytest

torch = pytest.importorskip("torch", reason="SGLang's interface is made of tensors")

from harness import CHECKOUT, config, fill, hashes, indices, moved, pool  # noqa: E402
from simm.sglang import repair  # noqa: E402
from simm.sglang import HiCacheSimm  # noqa: E402

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="no checkout: SIMM_SGLANG_CHECKOUT=/path")
MANAGER = {"manager_address": "127.0.0.1:30001"}


@pytest.fixture
def attach(daemon, monkeypatch):
    """attach(host pool, backend name, **config): as SGLang's controller does."""
    from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)

    def make(host, name="simm", **changes):
        changes.setdefault("extra", MANAGER)
        made = StorageBackendFactory.create_backend(name, config(**changes), host)
        made.register_mem_pool_host(host)
        return made
    return make


@pytest.mark.parametrize("kind,layout", [
    ("mha", "page_first"), ("mha", "page_first_direct"), ("mla", "page_first"),
    ("mla", "page_first_direct")])
@pytest.mark.parametrize("pp_size", [1, 2])
def test_set_exists_get(attach, kind, layout, pp_size):
    host = pool(kind, layout=layout)
    one = attach(host, is_mla_model=kind == "mla", pp_size=pp_size, pp_rank=pp_size - 1)
    keys = hashes(8, f"{kind}{layout}{pp_size}")
    fill(host, range(8), 2)
    assert one.batch_exists(keys) == 0
    assert one.batch_set_v1(keys[:6], indices(range(6), host)) == [True] * 6
    assert one.batch_set_v1(keys, indices(range(8), host)) == [True] * 8  # two are new
    assert one.batch_exists(keys) == 8 and one.exists(keys[0]) is False  # its keys have suffixes
    assert one.batch_get_v1(keys, indices(range(16, 24), host)) == [True] * 8
    assert all(moved(host, page, page + 16) for page in range(8))
    assert one.batch_get_v1(hashes(1, "none"), indices([30], host)) == [False]
    again = attach(host, is_mla_model=kind == "mla", pp_size=pp_size, pp_rank=pp_size - 1)
    assert again.batch_exists(keys) == 8


def test_the_order_of_configurations(attach, tmp_path, monkeypatch):
    """Extra config, JSON file, environment: the manager that is named is told to the daemon,
    which refuses another one than its own."""
    host = pool("mla")
    path = tmp_path / "simm.json"
    monkeypatch.setenv("SIMM_CLUSTER_MANAGER", "10.0.0.3:3")
    with pytest.raises(RuntimeError, match="10.0.0.3:3"):
        attach(host, extra={}, is_mla_model=True)
    path.write_text(json.dumps({"manager_address": "10.0.0.2:2"}))
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", str(path))
    with pytest.raises(RuntimeError, match="10.0.0.2:2"):
        attach(host, extra={}, is_mla_model=True)
    with pytest.raises(RuntimeError, match="10.0.0.1:1"):
        attach(host, extra={"manager_address": "10.0.0.1:1"}, is_mla_model=True)
    path.write_text(json.dumps(MANAGER))
    assert attach(host, extra={}, is_mla_model=True).batch_exists(hashes(1, "file")) == 0
    monkeypatch.delenv("SGLANG_HICACHE_SIMM_CONFIG_PATH")
    monkeypatch.setenv("SIMM_CLUSTER_MANAGER", MANAGER["manager_address"])
    for name in ("cm_primary_node_ip", "cm_primary_node_port"):
        sys.modules["simm.flags"]._values.pop(name, None)
    assert attach(host, extra={}, is_mla_model=True).batch_exists(hashes(1, "env")) == 0


def test_two_models_in_two_namespaces_and_a_page_of_another_size(attach, tmp_path, monkeypatch):
    path = tmp_path / "simm.json"
    path.write_text(json.dumps({"exact_size": True}))
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", str(path))
    small, large = pool("mha", heads=2), pool("mha", heads=4)
    keys = hashes(2, "namespace")
    monkeypatch.setenv("SIMM_NAMESPACE", "small")
    one = attach(small)
    assert all(one.batch_set_v1(keys, indices([0, 1], small)))
    # The same namespace: its key names no model, but a page of another size is a miss.
    same = attach(large)
    assert same.batch_exists(keys) == 2
    assert same.batch_get_v1(keys, indices([2, 3], large)) == [False, False]
    monkeypatch.setenv("SIMM_NAMESPACE", "large")
    assert attach(large).batch_exists(keys) == 0


def test_detached_and_attached_again_and_forked(attach):
    """SGLang's runtime detach drops the backend; attach makes another one in the same process."""
    host = pool("mha")
    keys = hashes(4, "again")
    fill(host, range(4), 5)
    one = attach(host)
    assert all(one.batch_set_v1(keys, indices(range(4), host)))
    getattr(one, "close", lambda: None)()
    del one
    gc.collect()
    one = attach(host)
    assert one.batch_exists(keys) == 4
    assert all(one.batch_get_v1(keys, indices(range(8, 12), host))) and moved(host, 1, 9)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            ok = all(one.batch_get_v1(keys, indices(range(12, 16), host))) and moved(host, 1, 13)
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(one.batch_get_v1(keys, indices(range(16, 20), host))) and moved(host, 2, 18)


def test_the_factory_makes_our_backend(attach, daemon):
    extra = {"backend_name": "simm", "module_path": "simm.sglang", "class_name": "HiCacheSimm",
             "interface_v1": 1, "allocator": "shm", "socket": daemon.socket}
    host = pool("mha", allocator="shm")
    one = attach(host, "dynamic", extra=extra, model_name="factory")
    assert isinstance(one, HiCacheSimm)
    keys = hashes(2, "factory")
    fill(host, [0, 1], 8)
    assert all(one.batch_set_v1(keys, indices([0, 1], host)))
    assert all(one.batch_get_v1(keys, indices([4, 5], host))) and moved(host, 1, 5)
    one.close()


def test_the_plugin_loader_loads_the_repair(monkeypatch):
    from sglang.srt import plugins
    # Of the package beside this test; others of the machine are none of its business.
    ours = importlib.metadata.entry_points(group="sglang.srt.plugins", name="simm")
    assert [entry.value for entry in ours] == ["simm.sglang.repair:install"]
    monkeypatch.setattr(plugins, "entry_points", lambda group: [
        entry for entry in ours if entry.group == group])
    monkeypatch.setattr(plugins, "_plugins_loaded", False)
    called = []
    monkeypatch.setattr(repair, "install", lambda: called.append(True))
    plugins.load_plugins()
    assert called == [True]
