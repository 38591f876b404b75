"""SGLang's own backend takes no page of another size for a hit, however it is configured: its keys
do not name the dtype. On a package that has its shape."""

import json
import textwrap

import pytest

from conftest import run_python

BACKEND = """
    import json, os
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorage
    from simm.kv import BlockView, Store, register_mr, set_flag

    class HiCacheSiMM(HiCacheStorage):
        def __init__(self, extra):
            path = os.environ.get("SGLANG_HICACHE_SIMM_CONFIG_PATH")
            if path and not extra:
                extra = json.load(open(path))
            manager = extra.get("manager_address") or os.environ["SIMM_CLUSTER_MANAGER"]
            host, port = manager.split(":")
            set_flag("cm_primary_node_ip", host)
            set_flag("cm_primary_node_port", port)
            self.store = Store()
"""
USE = """
    import json, numpy, os
    from sglang.srt.mem_cache.backend import HiCacheSiMM
    from simm.kv import BlockView, register_mr
    one = HiCacheSiMM(json.loads(os.environ["EXTRA"]))
    pool = numpy.ones(4 * 8192, numpy.uint8)
    mr = register_mr(pool)
    keys = [os.environ["KEY"] + str(i) for i in range(2)]
    views = lambda size: [BlockView.from_tensor(pool[i * 8192:i * 8192 + size], mr) for i in (0, 1)]
    assert one.store.mput(keys, views(4096)) == [0, 0]  # as fp8
    print(one.store.mget(keys, views(8192)), one.store.mget(keys, views(4096)))  # as fp16, fp8
"""
MANAGER = "127.0.0.1:30001"


@pytest.mark.parametrize("repair", ["0", "1"])
@pytest.mark.parametrize("way", ["extra", "file", "environment", "off in the file",
                                 "off in the environment"])
def test_a_page_of_another_size_is_a_miss(daemon, tmp_path, key, way, repair):
    package = tmp_path / "sglang" / "srt" / "mem_cache"
    package.mkdir(parents=True)
    for directory in (package, package.parent, package.parent.parent):
        (directory / "__init__.py").write_text("")
    (package / "hicache_storage.py").write_text("class HiCacheStorage:\n    pass\n")
    (package / "backend.py").write_text(textwrap.dedent(BACKEND))
    path = tmp_path / "simm.json"
    environment = {"SIMM_SOCKET": daemon.socket, "SIMM_SGLANG_REPAIR": repair, "KEY": key + way,
                   "EXTRA": "{}", "SIMM_CLUSTER_MANAGER": MANAGER}
    if way == "extra":
        environment["EXTRA"] = json.dumps({"manager_address": MANAGER})
    if way.endswith("file"):
        path.write_text(json.dumps({"manager_address": MANAGER,
                                    **({"exact_size": False} if way.startswith("off") else {})}))
        environment["SGLANG_HICACHE_SIMM_CONFIG_PATH"] = str(path)
    if way == "off in the environment":
        environment["SIMM_EXACT_SIZE"] = "0"
    slow = "from simm.kv import set_flag\nset_flag('clnt_sync_req_timeout_ms', '60000')\n"
    done = run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + slow +
                      textwrap.dedent(USE), **environment)
    larger = [4096, 4096] if way.startswith("off") else [-4003, -4003]
    assert (done.returncode, done.stdout.strip()) == (0, f"{larger} {[4096] * 2}"), done.stderr
