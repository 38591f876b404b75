"""The wheel in a Python that has no other package: puts, gets, compares.

    portable_use.py VERSION
"""
import ctypes
import sys

from simm import _native, kv
from simm.kv import Store

assert _native.version() == sys.argv[1], _native.version()
assert _native.__file__ == _native.library_path(), "libsimm is not inside the module"

with Store() as store:
    source, target = store.allocate(1 << 20), store.allocate(1 << 20)
    memoryview(source)[:] = bytes(range(256)) * 4096
    assert store.put("wheel", source.view()) == 0
    assert store.get("wheel", target.view()) == 1 << 20
    assert bytes(target) == bytes(source)
    assert store.get("absent", target.view()) < 0
    small = store.allocate(4096)
    memoryview(small)[:] = b"w" * 4096
    assert store.put("of the wheel", small.view()) == 0

# What a call refuses is an exception of Python, thrown and caught in C++ on the way.
try:
    kv.set_trace_parent("nonsense")
    raise SystemExit("set_trace_parent takes nonsense")
except ValueError as error:
    assert "nonsense" in str(error), error

# torch's pluggable allocator looks these up in the file that library_path() names.
library = ctypes.CDLL(_native.library_path())
for name in ("simm_gpu_malloc", "simm_gpu_free"):
    assert getattr(library, name), name
library.simm_version.restype = ctypes.c_char_p
assert library.simm_version().decode() == sys.argv[1]
