"""Tensors and arrays whose elements are not simply one behind the other: what is registered is
memory that they have. A view of them is right or refused. A crash is that of another process."""

import mmap

import numpy
import pytest

from conftest import run_python
from simm.kv import BlockView, deregister_mr, register_mr


def span_of(memory):
    mr = register_mr(memory)
    (address, size, _, _), = mr.pieces
    deregister_mr(mr)
    return address, size


@pytest.mark.parametrize("view,first,size", [
    (lambda a: a[::-1], 0, 4096), (lambda a: a[::2], 0, 4095), (lambda a: a[100:10:-3], 13, 88),
    (lambda a: numpy.broadcast_to(a[5:6], (1 << 20,)), 5, 1),
    (lambda a: a.reshape(64, 64)[::-1, ::-2], 1, 4095), (lambda a: a.reshape(64, 64).T, 0, 4096),
    (lambda a: a.reshape(64, 64)[2:4, 3:5], 2 * 64 + 3, 66), (lambda a: a[0:0], 0, 0)])
def test_what_is_registered_of_an_array(store, view, first, size):
    array = numpy.zeros(4096, numpy.uint8)
    chosen = view(array)
    if not chosen.flags.writeable:  # of broadcast_to() only
        with pytest.raises(TypeError, match="read-only"):
            register_mr(chosen)
        chosen = numpy.lib.stride_tricks.as_strided(array[5:6], (1 << 20,), (0,))
    if size == 0:
        assert register_mr(chosen).pieces == []
    else:
        assert span_of(chosen) == (array.ctypes.data + first, size)


def test_what_is_registered_of_a_tensor(store):
    torch = pytest.importorskip("torch")
    one = torch.zeros(1)
    assert span_of(one.expand(1 << 18)) == (one.data_ptr(), 4)
    many = torch.zeros(64, 64)
    assert span_of(many.T) == (many.data_ptr(), 64 * 64 * 4)
    assert span_of(many[2:4, 3:5]) == (many.data_ptr() + (2 * 64 + 3) * 4, 66 * 4)
    assert register_mr(many[0:0, ::2]).pieces == []


def test_a_view_of_elements_in_another_order_is_refused(store):
    array = numpy.asfortranarray(numpy.arange(6, dtype=numpy.int64).reshape(2, 3))
    mr = register_mr(array)
    with pytest.raises(ValueError, match="order"):
        BlockView.from_tensor(array, mr)
    assert BlockView.from_tensor(array.T, mr).size == 48


def test_a_view_of_elements_that_are_not_in_memory_is_refused(store, key):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1 + 2j, 3 - 4j])
    mr = register_mr(tensor)
    with pytest.raises(ValueError, match="resolve_conj"):
        BlockView.from_tensor(tensor.conj(), mr)
    with pytest.raises(ValueError, match="resolve_neg"):
        BlockView.from_tensor(torch._neg_view(tensor), mr)
    with pytest.raises(ValueError, match="resolve_neg"):
        BlockView.from_tensor(torch._neg_view(torch.zeros(8)))
    assert store.put(key, BlockView.from_tensor(tensor, mr)) == 0


def test_memory_that_is_mapped_read_only_is_refused(store, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "pages"
    path.write_bytes(b"x" * 8192)
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 8192, prot=mmap.PROT_READ)
    tensor = torch.frombuffer(mapped, dtype=torch.uint8)
    with pytest.raises(TypeError, match="read-only"):
        register_mr(tensor)
    with pytest.raises(TypeError, match="read-only"):
        register_mr([torch.zeros(8), tensor[4096:]])


def test_a_channel_that_is_closed_while_others_use_it(daemon, key):
    ended = run_python("""
import faulthandler, threading, time
from simm import _native, kv
faulthandler.dump_traceback_later(60, exit=True)
kv.set_flag("clnt_async_req_timeout_ms", "60000")
store = kv.Store()
view = store.allocate(1 << 20).view()
keys = [f"close{i}" for i in range(8)]
store.mput(keys, [view] * 8)
for _ in range(15):
    channel = store.open_channel()
    done = []
    def work():
        while channel.fileno() >= 0:
            channel.start(_native.Operation.get, keys, [view] * 8)
            channel.drain(), channel.pending, channel.finish()
            done.append(1)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    while len(done) < 10: time.sleep(0.001)
    channel.close()
    for thread in threads: thread.join()
    assert channel.fileno() == -1 and channel.pending == 0
    assert channel.start(_native.Operation.get, keys, [view] * 8) == [-1004] * 8
print("done")
""", SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
