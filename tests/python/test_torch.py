"""With torch: what engines do."""

import ctypes
import gc

import pytest

from conftest import run_python
from simm.kv import BlockView, deregister_mr, register_mr
from simm.results import INVALID_STATE

torch = pytest.importorskip("torch")


def test_a_block_is_a_tensor(store, key):
    block = store.allocate(4096)
    tensor = block.as_ref()
    assert tensor.dtype == torch.uint8 and tensor.shape == (4096,)
    tensor[:6] = torch.frombuffer(bytearray(b"warmup"), dtype=torch.uint8)
    assert store.put(key, block.view()) == 0
    got = store.allocate(4096)
    assert store.get(key, got.view()) > 0
    assert all(got.as_ref()[:6] == tensor[:6])
    del block
    gc.collect()
    tensor[4095] = 1


def test_a_pool_of_pages(store, key):
    pool = torch.zeros((16, 2, 1024), dtype=torch.bfloat16)
    mr = register_mr(pool)
    page_bytes = 2 * 1024 * 2
    views = [BlockView.from_buffer(pool.data_ptr() + i * page_bytes, page_bytes, mr)
             for i in range(8)]
    for i in range(8):
        pool[i] = i + 1
    keys = [f"{key}{i}_0_k" for i in range(8)]
    assert store.mput(keys, views) == [0] * 8
    targets = [BlockView.from_tensor(pool[8 + i], mr) for i in range(8)]
    assert store.mget(keys, targets) == [page_bytes] * 8
    assert torch.equal(pool[:8], pool[8:])


def test_a_tensor_of_shared_memory(store, key):
    tensor = store.alloc_tensor((8, 16), torch.float16)
    assert tensor.shape == (8, 16) and tensor.dtype == torch.float16 and not tensor.any()
    tensor[0] = 2.5
    assert store.put(key, BlockView.from_tensor(tensor[0])) == 0
    assert store.get(key, BlockView.from_tensor(tensor[7])) == 32
    assert torch.equal(tensor[7], tensor[0])


def test_a_tensor_that_is_not_contiguous(store):
    tensor = torch.zeros((8, 8))
    mr = register_mr(tensor)
    with pytest.raises(ValueError, match="contiguous"):
        BlockView.from_tensor(tensor.t(), mr)


def test_lists_of_tensors(store):
    pools = [torch.zeros(100), torch.zeros(50, dtype=torch.uint8)]
    mr = register_mr(pools)
    assert mr.size == 450 and BlockView.from_tensor(pools[1], mr).size == 50
    assert register_mr(torch.zeros(0)).size == 0


def test_a_tensor_whose_memory_has_been_freed(store, key):
    pool, other = torch.ones(32 << 20, dtype=torch.uint8), torch.ones(4096, dtype=torch.uint8)
    mr, other_mr = register_mr(pool), register_mr(other)
    views = [BlockView.from_buffer(pool.data_ptr(), 4096, mr),
             BlockView.from_tensor(pool[4096:], mr),
             BlockView.from_tensor(other, other_mr), BlockView.from_tensor(pool)]
    keys = [f"{key}{i}" for i in range(4)]
    assert store.mput(keys, views) == [0] * 4
    pool.storage().resize_(0)  # unmapped: whoever touches it now crashes
    assert store.mput(keys, views) == [INVALID_STATE, INVALID_STATE, 0, INVALID_STATE]
    assert store.mget(keys, views) == [INVALID_STATE, INVALID_STATE, 4096, INVALID_STATE]
    assert deregister_mr(mr) and store.put(key, views[2]) == 0


def test_a_tensor_that_nobody_else_holds(store, key):
    mr = register_mr(torch.full((4096,), 7, dtype=torch.uint8))
    view = BlockView.from_buffer(mr.pieces[0][0], 4096, mr)
    del mr
    gc.collect()
    assert store.put(key, view) == 0
    target = store.allocate(4096)
    assert store.get(key, target.view()) == 4096 and bytes(target) == b"\7" * 4096


class Runtime:
    """What torch has of CUDA's, as a stand-in."""

    def __init__(self, refuses: int = 0) -> None:
        self.registered, self.refuses = {}, refuses

    def cudaHostRegister(self, address, size, flags):
        self.registered[address] = size
        return self.refuses

    def cudaHostUnregister(self, address):
        assert ctypes.string_at(address, 3) == b"\7\7\7", "its memory is gone already"
        del self.registered[address]
        return 0


def test_a_tensor_that_cuda_knows_as_long_as_its_memory(store, key, monkeypatch):
    runtime = Runtime()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    tensor = store.alloc_tensor((4, 1024), torch.uint8, cuda=True)
    assert runtime.registered == {tensor.data_ptr(): 4096} and not tensor.any()
    tensor[:] = 7
    assert store.put(key, BlockView.from_tensor(tensor[1])) == 0
    row = tensor[2]
    del tensor
    gc.collect()
    assert len(runtime.registered) == 1  # a row of it is there
    del row
    gc.collect()
    assert not runtime.registered
    runtime.refuses = 2
    with pytest.raises(RuntimeError, match="cudaHostRegister of 4096 bytes answers 2"):
        store.alloc_tensor((4096,), torch.uint8, cuda=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(store):
    with pytest.raises(RuntimeError, match="no GPU here"):
        store.alloc_tensor((4,), cuda=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_memory_that_cuda_has_pinned(store, key):
    """By hand, on a machine with a GPU."""
    page = 1 << 20
    pinned = torch.full((4, page), 3, dtype=torch.uint8).pin_memory()
    ours = store.alloc_tensor((4, page), torch.uint8, cuda=True)
    assert pinned.is_pinned() and ours.is_pinned()
    mr = register_mr(pinned)
    print("pinned by torch:", mr.pieces)
    assert {kind for _, _, kind, _ in mr.pieces} == {"adopted"}
    assert store.put(key, BlockView.from_tensor(pinned[0], mr)) == 0
    assert store.get(key, BlockView.from_tensor(ours[1])) == page
    assert torch.equal(ours[1].to("cuda").cpu(), pinned[0])
    ours[2].copy_(torch.full((page,), 9, dtype=torch.uint8, device="cuda"))
    assert store.put(key, BlockView.from_tensor(ours[2])) == 0
    assert store.get(key, BlockView.from_tensor(pinned[3], mr)) == page
    assert (pinned[3] == 9).all() and deregister_mr(mr)


def test_the_interpreter_ends_with_tensors_registered(daemon):
    ended = run_python("""
import torch
from simm import kv
pool = torch.ones(1 << 20)
mr = kv.register_mr(pool)
store = kv.Store()
shared = store.alloc_tensor((4, 4), torch.float32)
block = store.allocate(100).as_ref()
assert store.put('exit', kv.BlockView.from_tensor(pool, mr)) == 0
torch.keep = [store, mr, pool, shared, block]
""", SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_kv_cache_of_a_connector_is_a_tensor(store, key):
    """As vLLM shapes them: the bytes of a block, whatever the order of the axes is."""
    from simm.vllm.blocks import Blocks
    halves = torch.arange(2 * 6 * 4 * 8, dtype=torch.int16).reshape(2, 6, 4, 8).to(torch.bfloat16)
    inside = torch.zeros((6, 2, 4, 8), dtype=torch.float32).permute(1, 0, 3, 2)
    for tensor, pieces, step in ((halves, 2, 64), (inside, 1, 256)):
        blocks = Blocks({"layer": tensor}, 6)
        [layer] = blocks.layers
        assert (len(layer.layout.offsets), layer.layout.step) == (pieces, step)
        names = [f"{key}{block}.{piece}" for block in (1, 3) for piece in range(pieces)]
        assert store.mput(names, layer.views([1, 3], range(pieces))) == [0] * len(names)
        before = tensor[:, [1, 3]].clone()
        tensor.zero_()
        assert store.mget(names, layer.views([1, 3], range(pieces))) == (
            [layer.layout.piece_bytes] * len(names))
        assert torch.equal(tensor[:, [1, 3]], before)
        assert not tensor[:, [0, 2, 4, 5]].any()
        blocks.close()
