"""Several processes, as SGLang's tensor parallel ranks: two that agree by gloo on what they
restore, eight that read the same pages at once while one of them dies, and a forked one."""

import multiprocessing
import os
import signal
import sys

import pytest

torch = pytest.importorskip("torch", reason="SGLang's interface is made of tensors")

from harness import CHECKOUT, backend, config, fill, hashes, indices, moved, pool  # noqa: E402

RANKS = 8
# The ranks are new processes. What is slow to import, their common parent has, which has no threads
# and no session.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch", "torch.distributed", "numpy", "simm.kv"])
KEYS = hashes(16, "ranks")


def run(work, count: int, *arguments) -> list:
    """work(rank, *arguments, queue) in `count` new processes; their answers, in any order."""
    queue = CONTEXT.Queue()
    ranks = [CONTEXT.Process(target=work, args=(rank, *arguments, queue)) for rank in range(count)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
        if process.is_alive():
            process.kill()
    answers = []
    while not queue.empty():
        answers.append(queue.get())
    return [process.exitcode for process in ranks], answers


def agree(rank: int, socket: str, meeting: str, queue) -> None:
    """Rank 0 has stored 8 pages, rank 1 only 5: both restore 5, each its own shard."""
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    host = pool("mha", allocator="shm")
    one = backend(socket, host, tp_rank=rank, tp_size=2, model_name="gloo")
    fill(host, range(8), 50 * rank)
    stored = 8 if rank == 0 else 5
    ok = all(one.batch_set_v1(KEYS[:stored], indices(range(stored), host)))
    torch.distributed.barrier()
    mine = one.batch_exists(KEYS)
    common = torch.tensor(mine)
    torch.distributed.all_reduce(common, op=torch.distributed.ReduceOp.MIN)
    pages = int(common)
    ok = ok and all(one.batch_get_v1(KEYS[:pages], indices(range(16, 16 + pages), host)))
    same = all(moved(host, page, 16 + page) for page in range(pages))
    queue.put((rank, mine, pages, ok, same))
    torch.distributed.barrier()
    one.close()


def test_two_ranks_agree_on_the_least(daemon, tmp_path):
    codes, answers = run(agree, 2, daemon.socket, f"file://{tmp_path}/meeting")
    assert codes == [0, 0]
    assert sorted(answers) == [(0, 8, 5, True, True), (1, 5, 5, True, True)]


def read(rank: int, socket: str, is_ours: bool, ready, queue) -> None:
    """The last rank dies while it reads. Others read until long after."""
    os.environ["SIMM_SOCKET"] = socket
    host = pool("mla")
    options = {"tp_rank": rank, "tp_size": RANKS, "is_mla_model": True, "model_name": "ranks"}
    if is_ours:
        one = backend(socket, host, **options)
    else:
        from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
        one = StorageBackendFactory.create_backend(
            "simm", config(extra={"manager_address": "127.0.0.1:30001"}, **options), host)
        one.register_mem_pool_host(host)
    fill(host, range(16), 9)
    if rank == 0:
        assert all(one.batch_set_v1(KEYS, indices(range(16), host)))
    ready.wait(120)
    wrong = 0
    for turn in range(30):
        fill(host, range(16, 32), 100)
        if rank == RANKS - 1 and turn == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        got = one.batch_get_v1(KEYS, indices(range(16, 32), host))
        wrong += not all(got) or not all(moved(host, page, 16 + page) for page in range(16))
    queue.put((rank, one.batch_exists(KEYS), wrong))


@pytest.mark.parametrize("is_ours", [True] if not CHECKOUT else [True, False])
def test_eight_ranks_read_at_once_and_one_dies(daemon, is_ours):
    ready = CONTEXT.Barrier(RANKS)
    codes, answers = run(read, RANKS, daemon.socket, is_ours, ready)
    assert codes == [0] * (RANKS - 1) + [-signal.SIGKILL]
    assert sorted(answers) == [(rank, 16, 0) for rank in range(RANKS - 1)]


def test_a_forked_child_has_a_session_of_its_own(daemon):
    host = pool("mha", allocator="shm")
    one = backend(daemon.socket, host, model_name="fork")
    fill(host, range(2), 3)
    assert all(one.batch_set_v1(KEYS[:2], indices(range(2), host)))
    child = os.fork()
    if child == 0:
        ok = False
        try:
            ok = one.batch_exists(KEYS[:2]) == 2 and all(
                one.batch_get_v1(KEYS[:2], indices([4, 5], host))) and moved(host, 1, 5)
        finally:
            sys.stderr.flush()
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(one.batch_get_v1(KEYS[:2], indices([6, 7], host))) and moved(host, 0, 6)
    one.close()


def test_a_forked_child_copies_through_memory_of_its_own(daemon):
    """Pages that come as tensors pass through memory that the parent goes on using."""
    one = backend(daemon.socket, pool("mha"), model_name="fork flat")
    mine, childs = (torch.full((4096,), byte, dtype=torch.uint8) for byte in (1, 2))
    assert one.set(KEYS[0], mine)
    scratch = memoryview(one._flat._block)
    before = bytes(scratch[:4096])
    assert before == bytes([1]) * 4096
    child = os.fork()
    if child == 0:
        ok = False
        try:
            got = torch.zeros(4096, dtype=torch.uint8)
            ok = one.set(KEYS[1], childs) and one.get(KEYS[1], got) is got and bool(got.eq(2).all())
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes(scratch[:4096]) == before
    one.close()
