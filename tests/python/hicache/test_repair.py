"""The repair of SGLang's own backend, on a module that has its shape: simm.kv may be imported
before or after SGLang's interface, the switch turns it off, what is not broken is left alone."""

import pathlib
import textwrap

import pytest

from conftest import run_python

INTERFACE = "class HiCacheStorage:\n    pass\n"
BACKEND = """
    import collections, os
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorage
    import simm.kv

    class SiMMConfig:
        def __init__(self, manager):
            self.manager_address = manager
        @staticmethod
        def from_file():
            if "SGLANG_HICACHE_SIMM_CONFIG_PATH" not in os.environ:
                raise RuntimeError("Config file path not set")
            return SiMMConfig("from the file")
        @staticmethod
        def load_from_extra_config(extra):
            return SiMMConfig(extra["manager_address"])

    def get_numa_nic_mapping():
        if not os.path.exists("/sys/class/infiniband"):
            return []
        return collections.defaultdict(list)

    class HiCacheSiMM(HiCacheStorage):
        def __init__(self):
            self.nics = get_numa_nic_mapping().get(0)
"""
OTHER = """
    from sglang.srt.mem_cache.hicache_storage import HiCacheStorage
    def get_numa_nic_mapping():
        return []
    class Other(HiCacheStorage):
        pass
"""


@pytest.fixture
def sglang(tmp_path):
    """Runs a program that can import a package of SGLang's shape."""
    package = tmp_path / "sglang" / "srt" / "mem_cache"
    package.mkdir(parents=True)
    for directory in (package, package.parent, package.parent.parent):
        (directory / "__init__.py").write_text("")
    (package / "hicache_storage.py").write_text(INTERFACE)
    (package / "backend.py").write_text(textwrap.dedent(BACKEND))
    (package / "other.py").write_text(textwrap.dedent(OTHER))

    def run(text: str, **environment: str):
        path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        done = run_python(path + textwrap.dedent(text), **environment)
        return done.returncode, done.stdout.strip(), done.stderr
    return run


USE = """
    from sglang.srt.mem_cache.backend import HiCacheSiMM, SiMMConfig
    HiCacheSiMM(); HiCacheSiMM()
    print("works")
"""
NO_NICS = pytest.mark.skipif(pathlib.Path("/sys/class/infiniband").exists(),
                             reason="a host with RDMA devices needs no repair")


@NO_NICS
@pytest.mark.parametrize("first", [
    "", "    import simm.kv\n",
    "    import simm.sglang.repair as r; r.install(); r.install()\n"])
def test_the_constructor_works_without_rdma_devices(sglang, first):
    code, out, err = sglang(first + USE)
    assert (code, out) == (0, "works"), err
    assert err.count("/sys/class/infiniband") == 1  # logged, once


@NO_NICS
def test_the_switch(sglang):
    code, _, err = sglang(USE, SIMM_SGLANG_REPAIR="0")
    assert code != 0 and "'list' object has no attribute 'get'" in err


def test_with_rdma_devices_nothing_is_touched(sglang, tmp_path):
    code, out, err = sglang(f"""
        import simm.sglang.repair as repair
        repair.NIC_DIRECTORY = {str(tmp_path)!r}
        import sglang.srt.mem_cache.backend as backend
        print(backend.get_numa_nic_mapping())
    """)
    assert (code, out) == (0, "[]" if not pathlib.Path("/sys/class/infiniband").exists()
                           else out), err


def test_other_backends_are_left_alone(sglang):
    code, out, err = sglang("""
        import simm.kv
        import sglang.srt.mem_cache.other as other
        print(other.get_numa_nic_mapping())
    """)
    assert (code, out) == (0, "[]"), err


def test_the_manager_of_the_environment_is_the_last_resort(sglang):
    ask = """
        from sglang.srt.mem_cache.backend import SiMMConfig
        print(SiMMConfig.from_file().manager_address)
    """
    assert sglang(ask, SIMM_CLUSTER_MANAGER="10.0.0.1:30001")[1] == "10.0.0.1:30001"
    assert sglang(ask, SIMM_CLUSTER_MANAGER="10.0.0.1:30001",
                  SGLANG_HICACHE_SIMM_CONFIG_PATH="x")[1] == "from the file"
    assert "Config file path not set" in sglang(ask)[2]
    assert "Config file path not set" in sglang(ask, SIMM_CLUSTER_MANAGER="10.0.0.1:30001",
                                                SIMM_SGLANG_REPAIR="0")[2]
