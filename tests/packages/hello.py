"""Stores an array and fetches it back through simm.kv, with numpy alone."""
import numpy

from simm.kv import BlockView, Store, register_mr
from simm.lmcache import SimmL2Client

store = Store()
memory = numpy.zeros(8192, dtype=numpy.uint8)
memory[:4096] = numpy.arange(4096) % 251
region = register_mr(memory)
source, target = (
    BlockView.from_buffer(memory.ctypes.data + offset, 4096, region) for offset in (0, 4096))
assert store.put("greeting from Python", source) == 0
assert store.get("greeting from Python", target) == 4096
assert (memory[:4096] == memory[4096:]).all()
store.close()

client = SimmL2Client()  # of a package inside simm
client.close()
