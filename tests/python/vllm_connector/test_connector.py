"""simm.vllm.SimmConnector, driven as vLLM drives a connector, against real daemons. Memory of the
host, and of a GPU by the driver of the tests."""

import importlib
import os
import random
import signal
import types

import pytest

import connector_interface as interface
import connector_lab as lab
from conftest import CONFIG, Daemon
from connector_lab import LAYERS, PIECE, TOKENS, Engine, Request, Tensor
from gpu_memory import Allocation, Gpu
from simm.store import Store

DRIVER = os.environ.get("SIMM_TEST_CUDA_DRIVER", "")

pytestmark = pytest.mark.usefixtures("vllm")


@pytest.fixture
def seed():
    drawn = random.randrange(1 << 32)
    print("seed", drawn)
    return drawn


@pytest.fixture(scope="module")
def gpu_daemon(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", os.path.dirname(DRIVER))
        running = Daemon(tmp_path_factory.mktemp("gpu"), config=CONFIG.strip()[:-1]
                         + ', "gpu": {"enabled": true}}').start()
    yield running
    running.kill()


@pytest.fixture(params=["host", "gpu"])
def memory(request, monkeypatch):
    """Where KV caches are."""
    if request.param == "host":
        monkeypatch.setenv("SIMM_SOCKET", request.getfixturevalue("daemon").socket)
        return lab.on_host
    if not DRIVER:
        pytest.skip("no driver of the tests")
    monkeypatch.setenv("SIMM_SOCKET", request.getfixturevalue("gpu_daemon").socket)
    gpu, kept = Gpu(DRIVER), []

    def on_gpu(size):
        allocation = Allocation(gpu)
        assert size <= allocation.size
        kept.append(allocation)
        return allocation.ptr, allocation.seen, "cuda"

    return on_gpu


def words(seed, count, common=0, also=0):
    """A prompt: its first `common` tokens are those of every prompt of the seed."""
    return [(seed, i) if i < common else (seed, also, i) for i in range(count)]


def piece_keys(engine, request, block, rank=0):
    """The names of a block in the pool."""
    prefix = engine.workers[rank].get_handshake_metadata().prefix
    text = request.block_hashes[block].hex()
    pieces = engine.workers[rank]._blocks.layers
    names = [f"{number}.{piece}" for number, layer in enumerate(pieces)
             for piece in range(len(layer.layout.offsets))][:-1] + ["end"]
    return [f"{prefix}{text}_{name}" for name in names]


@pytest.mark.parametrize("kind, layered", [("halves", False), ("halves", True), ("rows", False),
                                           ("rows", True), ("all", False)])
def test_what_one_engine_computes_another_one_loads(memory, kind, layered, seed):
    extra = {"layered": layered}
    prompt = words(seed, 41)
    with Engine(kind, memory=memory, extra=extra) as one, Engine(
            kind, blocks=96, memory=memory, extra=extra) as other:
        assert one.run("first", prompt) == 0
        assert one.whole(one.ended)
        for cache in other.caches:  # what nobody asked for stays
            for seen, *_ in cache.places:
                seen[:] = b"\xcd" * len(seen)
        assert other.run("again", prompt) == 40
        assert other.whole(other.ended) and not other.failed
        touched = set(other.ended.blocks)
        for block in set(range(96)) - touched:
            assert all(set(other.caches[0].read(number, block)) == {0xcd}
                       for number in range(len(other.caches[0].places)))
        assert other.workers[0].stats()["loaded"] == 10
        # The whole answer of the first one is there, but for a block that was not full.
        assert other.run("on", one.ended.tokens + [1]) == len(one.ended.tokens) // TOKENS * TOKENS


@pytest.mark.parametrize("common", [0, 3, 4, 17, 32])
def test_the_common_part_is_loaded_and_the_last_token_is_computed(here, common, seed):
    with Engine() as one, Engine() as other:
        one.run("a", words(seed, 32, common, 1), generates=0)
        assert other.run("b", words(seed, 32, common, 2)) == min(common // TOKENS * TOKENS, 28)
        assert other.whole(other.ended)


@pytest.mark.parametrize("layered", [False, True])
def test_a_block_that_is_gone_before_its_load_is_computed(here, layered, seed):
    extra = {"layered": layered}
    prompt = words(seed, 41)
    with Engine(extra=extra) as one, Engine(extra=extra) as other, Engine(extra=extra) as third:
        one.run("a", prompt)

        def remove():
            other.between = lambda: None
            with Store() as store:
                store.delete(piece_keys(one, one.ended, 5)[2])

        other.between = remove
        assert other.run("b", prompt) == 40
        assert len(other.failed) == 1, "one block of ten"
        assert other.whole(other.ended)
        # What was computed in its place is stored.
        assert third.run("c", prompt) == 40
        assert third.whole(third.ended) and not third.failed
        # It is a miss for a while: vLLM is not told to try for ever.
        assert other.run("d", prompt) == 20


def test_a_failed_load_counts_for_requests_that_wait(here, seed):
    with Engine() as one:
        one.run("a", words(seed, 41))
        for name in ("b", "c"):
            request = Request(name, words(seed, 41))
            found, _ = one.scheduler.get_num_new_matched_tokens(request, 0)
            assert found == 40
            one.scheduler.update_state_after_alloc(request, types.SimpleNamespace(
                get_block_ids=lambda: (list(range(1, 12)),)), found if name == "b" else 0)
        waits = Request("d", words(seed, 41))
        assert one.scheduler.get_num_new_matched_tokens(waits, 0) == (40, False)
        one.scheduler.update_connector_output(types.SimpleNamespace(invalid_block_ids={4}))
        assert one.scheduler.get_num_new_matched_tokens(waits, 0) == (12, False)


class Held:
    """Batches whose answers come when somebody waits for them."""

    def __init__(self, result_of):
        self.result_of, self.held, self.answered = result_of, [], []

    def start(self, operation, keys, views, done, **options):
        assert len(keys) == len(views)
        self.held.append((keys, done))

    def wait(self, is_over):
        while not is_over() and self.held:
            keys, done = self.held.pop(0)
            self.answered += keys
            done([self.result_of(key) for key in keys])

    def finish(self):
        self.wait(lambda: False)


def held_worker(engine, result_of):
    worker = engine.workers[0]
    worker._moves._batches = Held(result_of)
    return worker, worker._moves._batches


def bind(worker, loads=(), saves=()):
    from simm.vllm.connector import SimmMetadata
    worker.bind_connector_metadata(SimmMetadata(list(loads), list(saves)))


def test_layers_are_waited_for_one_by_one_or_all_at_once(here):
    for layered in (True, False):
        with Engine(extra={"layered": layered}) as one:
            worker, batches = held_worker(one, lambda key: PIECE)
            bind(worker, loads=[(b"\1" * 32, 7), (b"\2" * 32, 8)])
            worker.start_load_kv(None)
            if not layered:
                assert len(batches.answered) == 12 and not batches.held
                continue
            assert len(batches.held) == 3 and not batches.answered
            worker.wait_for_layer_load(LAYERS[1])
            assert len(batches.answered) == 8 and len(batches.held) == 1
            worker.wait_for_save()
            assert not batches.held


@pytest.mark.parametrize("layered", [False, True])
def test_a_block_of_which_a_piece_was_not_stored_has_no_end(here, layered):
    good, bad = b"\1" * 32, b"\2" * 32
    with Engine(extra={"layered": layered}) as one:
        worker, batches = held_worker(
            one, lambda key: -4006 if bad.hex() in key and "_1." in key else 0)
        bind(worker, saves=[(good, 7), (bad, 8)])
        worker.save_kv_layer(LAYERS[0], None, None)
        assert len(batches.held) == (1 if layered else 0)
        worker.wait_for_save()
        ends = [key for key in batches.answered if key.endswith("_end")]
        assert len(ends) == 1 and good.hex() in ends[0]
        assert len(batches.answered) == 2 * 5 + 1, "each piece once"
        assert batches.answered[-1] == ends[0], "behind all others"
        assert (worker.stats()["saved"], worker.stats()["not_saved"]) == (1, 1)
        # The next step begins without what is left of this one.
        bind(worker, saves=[(bad, 9)])
        worker._moves._batches = batches = Held(lambda key: 0)
        worker.wait_for_save()
        assert len(batches.answered) == 6 and batches.answered[-1].endswith("_end")


def stumble(engine, prompt):
    """As vLLM's asynchronous scheduler works: a step is planned, and done, before the scheduler
    hears that a block of the step before it did not come."""
    request = Request("stumbles", prompt)
    for cache in engine.caches:  # what was there before is not what comes by chance
        for seen, *_ in cache.places:
            seen[:] = b"\xee" * len(seen)
    with Store() as store:
        assert engine.admit(request) > 0
        store.delete(piece_keys(engine, request, 2)[1])
        store.delete(piece_keys(engine, request, 4)[0])
    plans = []
    for _ in range(2):
        plans.append(engine.plan({"stumbles": min(4, request.num_tokens - request.computed)}))
    failed = [engine.work(plan) for plan in plans]
    assert failed[0] and not failed[1]
    for each in failed:
        engine.heard(each)
    engine.finish(request, 4)
    engine.end(request)
    assert engine.whole(engine.ended)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("layered", [False, True])
def test_what_was_computed_behind_a_failed_load_is_never_stored(here, ranks, layered, seed):
    extra = {"layered": layered}
    prompt = words(seed, 20)
    longer = prompt + words(seed + 1, 21)
    with Engine(ranks=ranks, extra=extra) as one, Engine(ranks=ranks, extra=extra) as other:
        one.run("a", prompt, generates=0)
        stumble(one, longer)
        with Engine(ranks=ranks, extra=extra) as third:
            third.run("b", longer)
            assert third.whole(third.ended), "wrong bytes were stored"
        other.run("c", longer)
        assert other.whole(other.ended)


def test_the_lab_finds_bytes_that_were_computed_behind_a_failed_load(here, seed, monkeypatch):
    """The same without what keeps them out of the pool: the test above can fail."""
    from simm.vllm import matches
    monkeypatch.setattr(matches, "_UNSURE_STEPS", 0)
    prompt = words(seed, 20)
    longer = prompt + words(seed + 1, 21)
    with Engine() as one, Engine() as other:
        one.run("a", prompt, generates=0)
        stumble(one, longer)
        other.run("b", longer)
        # What it loads whole is wrong behind the block that is not there.
        with Store() as store:
            stored = [store.get_bytes(piece_keys(one, one.ended, block)[0])
                      for block in range(10)]
        before, right = b"", []
        for block in range(10):
            before = lab.grown(before, one.ended.part(block), (0, 0))[:PIECE]
            right.append(before)
        assert any(is_there is not None and is_there != wanted
                   for is_there, wanted in zip(stored, right))


def test_workers_have_their_own_bytes_and_all_of_them_have_to_be_there(here, seed):
    prompt = words(seed, 41)
    with Engine(ranks=2) as one, Engine(ranks=2) as other:
        one.run("a", prompt)
        with Store() as store:
            assert store.delete(piece_keys(one, one.ended, 6, rank=1)[-1]) == 0
        assert other.run("b", prompt) == 24
        assert other.whole(other.ended)


def test_a_request_that_lost_its_blocks_begins_anew(here, seed):
    prompt = words(seed, 41)
    with Engine() as one, Engine() as other:
        request = Request("preempted", prompt)
        assert one.admit(request) == 0
        one.heard(one.work(one.plan({"preempted": 24})))
        one.free = list(reversed(request.blocks)) + one.free  # others get its blocks
        request.blocks, request.computed = [], 0
        found = one.admit(request)
        assert found == 24, "by its own blocks in the pool"
        one.heard(one.work(one.plan({"preempted": 17}, resumed=["preempted"])))
        for _ in range(3):  # unsure blocks are stored later
            request.tokens.append("more")
            request.blocks += [one.free.pop()] if len(request.tokens) % TOKENS == 1 else []
            one.finish(request)
        one.end(request)
        assert one.whole(one.ended)
        assert other.run("later", prompt) == 40
        assert other.whole(other.ended)


@pytest.mark.parametrize("change", [{"model": "org/other"}, {"cache_dtype": "fp8"},
                                    {"kind": "rows"}, {"kind": "all"}])
def test_engines_whose_bytes_differ_do_not_read_each_other(here, change, seed):
    with Engine() as one, Engine(**change) as other:
        one.run("a", words(seed, 41))
        assert other.run("b", words(seed, 41)) == 0


def test_roles(here, seed):
    prompt = words(seed, 41)
    with Engine(role="kv_consumer") as reads, Engine(role="kv_producer") as writes:
        assert reads.run("a", prompt) == writes.run("b", prompt) == 0
        assert writes.run("c", prompt) == 0
        assert reads.run("d", prompt) == 40
        assert reads.workers[0].stats()["saved"] == 0


def test_without_all_handshakes_nothing_is_loaded(here, seed, caplog):
    prompt = words(seed, 41)
    with Engine() as one, Engine(ranks=2, shakes=False) as other:
        one.run("a", prompt)
        other.scheduler.set_xfer_handshake_metadata({0: other.workers[0].get_handshake_metadata()})
        assert "of 2 workers only [0]" in caplog.text
        assert other.run("b", prompt) == 0


@pytest.mark.parametrize("layered", [False, True])
def test_a_daemon_that_starts_later_and_one_that_dies(tmp_path, monkeypatch, layered, seed):
    running = Daemon(tmp_path, config=CONFIG)
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    prompt = words(seed, 41)
    try:
        with Engine(extra={"layered": layered, "timeout_ms": 5000}) as one:
            assert one.run("away", prompt) == 0
            running.start()
            number = 0
            while one.run(f"there{number}", words(seed + 1, 41)) == 0:
                number += 1  # the session is looked for by a thread
            assert one.whole(one.ended)

            def kill():
                running.kill(signal.SIGKILL)
                one.between = lambda: None

            one.between = kill
            assert one.run("dies", words(seed + 1, 41)) == 40
            assert one.failed and one.whole(one.ended)
            assert one.run("dead", prompt) == 0
            running.start()
            while one.run(f"back{number}", prompt) == 0:
                number += 1
            assert one.whole(one.ended)
    finally:
        running.kill()


def test_a_daemon_that_dies_while_blocks_are_saved(tmp_path, monkeypatch, seed):
    """No block is there of which a piece is not."""
    running = Daemon(tmp_path, config=CONFIG).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    try:
        with Engine(extra={"layered": True}) as one, Engine() as other:
            save = one.workers[0].save_kv_layer

            def dies(layer, *rest):
                save(layer, *rest)
                if layer == LAYERS[1]:
                    running.kill(signal.SIGKILL)
                    running.start()

            monkeypatch.setattr(one.workers[0], "save_kv_layer", dies)
            one.run("a", words(seed, 9), generates=0)
            monkeypatch.undo()
            monkeypatch.setenv("SIMM_SOCKET", running.socket)
            other.run("b", words(seed, 9))
            assert other.whole(other.ended)
    finally:
        running.kill()


def test_a_load_that_can_not_begin_is_told(here, seed, monkeypatch):
    prompt = words(seed, 41)
    with Engine() as one, Engine() as other:
        one.run("a", prompt)
        monkeypatch.setattr(other.workers[0]._blocks, "settle", lambda: 1 // 0)
        assert other.run("b", prompt) == 40
        assert len(other.failed) >= 10 and other.whole(other.ended)


def test_the_gpu_has_ended_its_work_before_bytes_are_loaded(here, seed, monkeypatch):
    calls = []
    with Engine() as one:
        from simm.vllm import blocks
        monkeypatch.setattr(blocks, "torch_or_none", lambda: types.SimpleNamespace(
            cuda=types.SimpleNamespace(synchronize=lambda: calls.append(1))))
        one.run("a", words(seed, 41))
        one.workers[0]._blocks._is_on_gpu = True
        assert calls == []
        one.run("b", words(seed, 41))
        assert calls == [1]


def test_bytes_that_the_engine_takes_for_loaded_are_never_made_up(here, seed):
    """Where the connector does not know what to load it says so: no answer would help."""
    with Engine() as one:
        blocks = types.SimpleNamespace(get_block_ids=lambda: ([1, 2, 3],))
        with pytest.raises(RuntimeError, match="nobody has found"):
            one.scheduler.update_state_after_alloc(Request("x", words(seed, 9)), blocks, 4)


def test_nothing_else_raises(here, caplog):
    with Engine() as one:
        assert one.scheduler.get_num_new_matched_tokens(None, 0) == (0, False)
        assert one.scheduler.build_connector_meta(None).saves == []
        assert one.scheduler.request_finished(None, []) == (False, None)
        worker = one.workers[0]
        worker.start_load_kv(None)
        worker.save_kv_layer("?", None, None)
        worker.wait_for_save()
        one.scheduler.update_connector_output(None)
        worker.shutdown()
        worker.shutdown()
        worker.wait_for_layer_load("?")
        assert worker.get_block_ids_with_load_errors() == set()
    assert "AttributeError" in caplog.text


@pytest.mark.parametrize("groups, spec, more, text", [
    (2, {}, {}, "2 groups of layers"), (0, {}, {}, "0 groups"),
    (1, {"sliding_window": 128}, {}, "with sliding_window"), (1, {"shapes": ()}, {}, "with shapes"),
    (1, {}, {"decode_context_parallel_size": 2}, "decode_context_parallel_size = 2"),
])
def test_models_that_it_can_not_serve_are_refused(here, groups, spec, more, text):
    import simm.vllm
    with pytest.raises(ValueError, match=text):
        simm.vllm.SimmConnector(lab.config_of(**more), interface.KVConnectorRole.SCHEDULER,
                                lab.cache_config_of(8, groups, **spec))


@pytest.mark.parametrize("shape, strides, text", [
    ((3, PIECE), (PIECE, 1), "none of its axes"),
    ((8, PIECE), (2 * PIECE, 2), "no run of bytes"),
    ((8, 2, PIECE), (PIECE, PIECE, 1), "blocks overlap"),
])
def test_layouts_that_it_does_not_understand_are_refused(here, shape, strides, text):
    from simm.vllm.blocks import Blocks
    pointer, _, _ = lab.on_host(1 << 16)
    with pytest.raises(ValueError, match=text):
        Blocks({"layer": Tensor(pointer, shape, strides)}, 8)


def test_layers_that_share_a_tensor_are_moved_once(here):
    from simm.vllm.blocks import Blocks
    pointer, _, _ = lab.on_host(8 * PIECE)
    tensor = Tensor(pointer, (8, PIECE), (PIECE, 1))
    blocks = Blocks({"a": tensor, "b": tensor}, 8)
    assert [layer.names for layer in blocks.layers] == [("a", "b")]
    assert blocks.number_of("b") == 0
    blocks.close()


@pytest.mark.skipif(not DRIVER, reason="no driver of the tests")
def test_memory_of_cuda_malloc_is_refused_with_the_remedy(gpu_daemon, monkeypatch):
    import ctypes
    monkeypatch.setenv("SIMM_SOCKET", gpu_daemon.socket)
    gpu, pointer = Gpu(DRIVER), ctypes.c_uint64()
    gpu.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(1 << 21))
    with pytest.raises(RuntimeError, match="--worker-cls simm.vllm.SimmWorker"):
        with Store():
            Engine(memory=lambda size: (pointer.value, None, "cuda"))
    gpu.call("cuMemFree_v2", pointer)


def test_the_worker_makes_its_kv_cache_in_the_pool(monkeypatch):
    import simm.gpu
    import simm.vllm
    worker = importlib.import_module("simm.vllm.worker")
    entered = []

    class Use:
        def __init__(self, pool):
            self.pool = pool

        def __enter__(self):
            entered.append(self.pool)

        def __exit__(self, *error):
            entered.append("left")

    monkeypatch.setattr(simm.gpu, "pool", lambda: "pool")
    monkeypatch.setattr(worker, "torch_or_none", lambda: types.SimpleNamespace(
        cuda=types.SimpleNamespace(use_mem_pool=Use)))
    made = simm.vllm.SimmWorker()
    made.initialize_from_config(lambda: list(entered))
    assert made.made == ["pool"] and entered == ["pool", "left"] and made._simm_pool == "pool"


def test_layers_one_by_one_need_a_vllm_that_calls_for_each(here, monkeypatch):
    import simm.vllm
    assert simm.vllm.SimmConnector.requires_piecewise_for_cudagraph({"layered": True})
    assert not simm.vllm.SimmConnector.requires_piecewise_for_cudagraph({})
    monkeypatch.delattr(interface.KVConnectorBase_V1, "requires_piecewise_for_cudagraph")
    with pytest.raises(ValueError, match="layered = true"):
        Engine(extra={"layered": True})


def test_options_are_checked(here, caplog):
    for name, value in (("lease_ms", 0), ("lookup_ms", True), ("layered", 1)):
        with pytest.raises(ValueError, match=f"{name} = {value!r}"):
            Engine(extra={name: value})
    with Engine(extra={"whatever": 1}):
        assert "whatever: no such option" in caplog.text
