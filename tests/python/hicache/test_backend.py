"""HiCacheSimm against a real daemon: v1, v2, tensors, identity, clear, statistics. With
SIMM_SGLANG_CHECKOUT=/path/to/sglang the same tests drive the classes of that checkout."""

import itertools
import json
import random

import pytest

torch = pytest.importorskip("torch", reason="SGLang's interface is made of tensors")

import harness  # noqa: E402
from conftest import CONFIG, Daemon  # noqa: E402
from harness import (  # noqa: E402
    CHECKOUT, PAGES, PoolName, backend, config, fill, hashes, indices, moved, pool, transfer)
from simm.kv import Store as kv_store  # noqa: E402
from simm.sglang import HiCacheSimm  # noqa: E402
from simm.sglang.hits import common, legal_lengths  # noqa: E402

N = 8
SOURCE, TARGET = range(N), range(N, 2 * N)


@pytest.fixture
def opened(daemon, request):
    """opened(kv, **config): a backend that ends with the test; each test has a model of its own."""
    made = []

    def make(kv, **changes):
        changes.setdefault("model_name", request.node.nodeid)
        made.append(backend(daemon.socket, kv, **changes))
        return made[-1]
    yield make
    for one in made:
        one.close()


def set_pages(one, kv, keys, pages):
    return one.batch_set_v1(keys, indices(pages, kv))


def get_pages(one, kv, keys, pages):
    return one.batch_get_v1(keys, indices(pages, kv))


# --- v1 ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind,layout", [
    ("mha", "page_first"), ("mha", "page_first_direct"), ("mha", "page_head"),
    ("mla", "page_first"), ("mla", "page_first_direct")])
def test_what_was_set_is_got_by_another_process_of_the_same_model(opened, kind, layout):
    if not CHECKOUT and (kind, layout) not in (("mha", "page_first"), ("mha", "page_head"),
                                               ("mla", "page_first")):
        pytest.skip("the minimal pools have one layout")
    mine, theirs = pool(kind, layout=layout), pool(kind, layout=layout)
    writer = opened(mine, is_mla_model=kind == "mla")
    reader = opened(theirs, is_mla_model=kind == "mla")
    keys = hashes(N, "v1")
    fill(mine, SOURCE, 1)
    assert reader.batch_exists(keys) == 0
    assert set_pages(writer, mine, keys, SOURCE) == [True] * N
    assert reader.batch_exists(keys) == N
    assert get_pages(reader, theirs, keys, TARGET) == [True] * N
    for source, target in zip(SOURCE, TARGET):
        assert harness.content(mine, source) == harness.content(theirs, target)


@pytest.mark.parametrize("allocator", ["default", "shm"])
def test_pages_of_a_pool_that_nobody_touched(stingy, allocator):
    mine, theirs = (pool("mha", heads=64, allocator=allocator) for _ in range(2))
    keys = hashes(PAGES - N, "untouched")
    one, other = (backend(stingy.socket, kv, model_name="untouched") for kv in (mine, theirs))
    places = range(N, PAGES)
    try:
        assert set_pages(one, mine, keys, places) == [True] * len(keys)
        fill(mine, SOURCE, 1)
        assert get_pages(other, theirs, keys, places) == [True] * len(keys)
        assert moved(theirs, N, PAGES - 1)
    finally:
        one.close()
        other.close()


def test_a_page_that_is_there_is_not_written_again(opened):
    kv = pool("mha")
    one = opened(kv)
    keys = hashes(2, "twice")
    fill(kv, [0, 1], 1)
    assert set_pages(one, kv, keys, [0, 1]) == [True, True]
    fill(kv, [2, 3], 9)
    assert set_pages(one, kv, keys, [2, 3]) == [True, True]
    assert get_pages(one, kv, keys, [4, 5]) == [True, True]
    assert moved(kv, 0, 4) and moved(kv, 1, 5) and not moved(kv, 2, 4)


@pytest.mark.parametrize("missing", [0, 3, N - 1])
def test_a_hole_ends_the_prefix(opened, missing):
    kv = pool("mha")
    one = opened(kv)
    keys = hashes(N, f"hole{missing}")
    there = [page for page in SOURCE if page != missing]
    fill(kv, SOURCE, 2)
    fill(kv, TARGET, 99)
    assert all(set_pages(one, kv, [keys[page] for page in there], there))
    assert one.batch_exists(keys) == missing
    assert one.batch_exists(keys[missing + 1:]) == N - missing - 1
    assert get_pages(one, kv, keys, TARGET) == [page != missing for page in SOURCE]
    assert not moved(kv, missing, N + missing)


def test_half_a_page_is_no_page(opened):
    """Its K is there, its V is not: neither exists nor get may call it a hit."""
    kv = pool("mha")
    one = opened(kv)
    key = hashes(1, "half")
    fill(kv, [0], 3)
    assert set_pages(one, kv, key, [0]) == [True]
    names = one._pools["kv"].names(one._keys.prefix(), key)
    assert one._link.store.delete(names[1]) == 0
    assert one.batch_exists(key) == 0 and get_pages(one, kv, key, [1]) == [False]


def test_questions_of_any_length(opened):
    kv = pool("mla")
    one = opened(kv, is_mla_model=True)
    keys = hashes(3, "long")
    assert all(set_pages(one, kv, keys, range(3)))
    assert one.batch_exists([]) == 0
    assert one.batch_exists(keys * 30_000) == 90_000
    assert one.batch_exists(keys * 20_000 + ["0" * 64] + keys) == 60_000


def test_lists_that_do_not_fit_are_misses(opened, caplog):
    kv = pool("mha")
    one = opened(kv)
    keys = hashes(2, "fit")
    assert one.batch_set_v1(keys, indices([0], kv)) == [False, False]
    assert one.batch_get_v1(keys, None) == [False, False]
    assert one.batch_get_v1([None, 5], indices([0, 1], kv)) == [False, False]
    assert one.batch_exists([None]) == 0 and one.batch_exists(None) == 0
    assert "pages of" in caplog.text


@pytest.mark.parametrize("kind,layout", [
    ("mha", "page_first"), ("mha", "page_head"), ("mla", "page_first"), ("mamba", "page_first"),
    ("indexer", "page_first"), ("v4", "page_first")])
def test_places_are_those_that_the_pool_says(opened, kind, layout):
    if kind == "v4":
        pool_name("deepseek_v4_c4")
    host = pool(kind, layout=layout)
    one = opened(host, tp_lcm_size=4, tp_size=2, should_split_heads=layout == "page_head")
    ours = one._pools["kv"]
    assert ours._steps is not None
    pages = random.Random(kind).sample(range(harness.PAGES), 20)
    asked = ours._ask(indices(pages, host))
    assert ours.places(indices(pages, host)) == (list(asked[0]), list(asked[1]))


def test_a_pool_whose_pages_lie_otherwise_is_asked(opened):
    host = pool("mla")
    real = host.get_page_buffer_meta

    def swapped(some):
        pages = (some[::host.page_size] // host.page_size).tolist()
        even = host.size // host.page_size // 2 * 2
        return real(indices([page ^ 1 if page < even else page for page in pages], host))
    host.get_page_buffer_meta = swapped
    one = opened(host, is_mla_model=True)
    assert one._pools["kv"]._steps is None
    keys = hashes(2, "otherwise")
    fill(host, range(2), 9)
    assert all(set_pages(one, host, keys, [0, 1])) and all(get_pages(one, host, keys, [2, 3]))
    assert moved(host, 0, 2) and moved(host, 1, 3)


@pytest.mark.parametrize("kind", ["mha", "mla", "mamba"])
def test_memory_files_are_handed_over(opened, kind, caplog):
    kv = pool(kind, allocator="shm")
    if not getattr(kv.allocator, "fds", None):
        pytest.skip("this checkout has no allocator of memory files")
    one = opened(kv, is_mla_model=kind == "mla")
    kinds = {piece[2] for region in one._pools["kv"]._regions for piece in region.pieces}
    assert kinds == {"shared"} and "copied once more" not in caplog.text
    keys = hashes(2, "files" + kind)
    fill(kv, [0, 1], 4)
    assert all(set_pages(one, kv, keys, [0, 1])) and all(get_pages(one, kv, keys, [2, 3]))
    assert moved(kv, 0, 2) and moved(kv, 1, 3)
    assert one.facts()["bytes_staged"] == 0


def test_private_memory_works_and_one_warning_says_what_to_change(opened, caplog):
    kv = pool("mla")
    buffers = kv.kv_buffer if isinstance(kv.kv_buffer, list) else [kv.kv_buffer]
    private = [torch.zeros_like(buffer) for buffer in buffers]
    kv.kv_buffer = private if isinstance(kv.kv_buffer, list) else private[0]
    one = opened(kv, is_mla_model=True)
    one.register_mem_host_pool_v2(kv, PoolName.INDEXER)
    assert caplog.text.count("copied once more") == 1 and '"allocator": "shm"' in caplog.text
    keys = hashes(1, "private")
    fill(kv, [0], 4)
    assert all(set_pages(one, kv, keys, [0])) and all(get_pages(one, kv, keys, [2]))
    assert moved(kv, 0, 2)


def test_two_tenants_of_one_node(tmp_path):
    """The same model on two sockets: each has its own pages."""
    red, blue = str(tmp_path / "red.sock"), str(tmp_path / "blue.sock")
    config_text = CONFIG[:-1] + (
        ', "tenants": [{"name": "red"}, {"name": "blue"}], "sockets": ['
        f'{{"path": "{tmp_path}/simm.sock"}}, {{"path": "{red}", "tenant": "red"}}, '
        f'{{"path": "{blue}", "tenant": "blue"}}]}}')
    running = Daemon(tmp_path, config=config_text).start()
    kv = pool("mha")
    ours, theirs = backend(red, kv), backend(blue, kv)
    try:
        keys = hashes(N, "tenants")
        fill(kv, SOURCE, 1)
        assert all(set_pages(ours, kv, keys, SOURCE)) and theirs.batch_exists(keys) == 0
        assert not any(get_pages(theirs, kv, keys, TARGET))
        fill(kv, SOURCE, 2)
        assert all(set_pages(theirs, kv, keys, SOURCE))
        assert all(get_pages(theirs, kv, keys, TARGET)) and moved(kv, 0, N)
        assert all(get_pages(ours, kv, keys, TARGET)) and not moved(kv, 0, N)
        assert theirs.clear() and theirs.batch_exists(keys) == 0
        assert ours.batch_exists(keys) == N
    finally:
        ours.close()
        theirs.close()
        running.kill()


def test_what_fails_is_false_for_its_page_alone(opened, monkeypatch):
    kv = pool("mha")
    one = opened(kv)
    keys = hashes(4, "partial")
    for call in ("put", "get"):
        real = getattr(one._link, call)

        def broken(*arguments, real=real):
            codes = list(real(*arguments))
            codes[3] = -4006  # the V of the second page
            return codes
        monkeypatch.setattr(one._link, call, broken)
    assert set_pages(one, kv, keys, range(4)) == [True, False, True, True]
    assert get_pages(one, kv, keys, range(8, 12)) == [True, False, True, True]


# --- identity ------------------------------------------------------------------------------------

@pytest.mark.parametrize("change", [
    {"model_name": "another"}, {"extra": {"extra_backend_tag": "tag"}}, {"tp_rank": 1},
    {"tp_size": 4}, {"pp_rank": 1, "pp_size": 2}, {"attn_cp_rank": 1, "attn_cp_size": 2},
    {"is_mla_model": True}])
def test_what_differs_is_another_page(opened, change):
    kv = pool("mha", heads=2)
    base = {"tp_size": 2, "model_name": "identity" + str(sorted(change))}
    one, other = opened(kv, **base), opened(kv, **{**base, **change})
    keys = hashes(2, "identity")
    assert all(set_pages(one, kv, keys, [0, 1]))
    if "is_mla_model" in change:
        assert other.batch_exists(keys) == 2  # an MHA pool has heads: it stays a rank's own
        return
    assert one.batch_exists(keys) == 2 and other.batch_exists(keys) == 0


def test_other_pools_layouts_and_sizes_are_other_pages(opened):
    keys = hashes(1, "shape")
    first = pool("mha", heads=2)
    assert all(set_pages(opened(first), first, keys, [0]))
    for other in (pool("mha", heads=4), pool("mla"), pool("mha", heads=2, layout="page_head")):
        assert opened(other).batch_exists(keys) == 0


@pytest.mark.parametrize("rank", range(4))
def test_ranks_of_an_mla_model_have_the_same_pages(opened, rank):
    kv = pool("mla")
    writer = opened(kv, is_mla_model=True, tp_size=4, model_name="mla ranks")
    reader = opened(kv, is_mla_model=True, tp_size=4, tp_rank=rank, model_name="mla ranks")
    keys = hashes(2, f"ranks{rank}")
    fill(kv, [0, 1], rank)
    assert all(set_pages(writer, kv, keys, [0, 1]))
    assert all(get_pages(reader, kv, keys, [2, 3])) and moved(kv, 0, 2) and moved(kv, 1, 3)


def test_heterogeneous_tensor_parallelism(opened):
    """Two ranks of two heads write; four ranks of one head, and one of four heads, read them."""
    options = {"tp_lcm_size": 4, "model_name": "page_head"}
    keys = hashes(2, "heads")
    writers = []
    for rank in range(2):
        kv = pool("mha", heads=2, layout="page_head")
        fill(kv, [0, 1], 10 * rank)
        one = opened(kv, tp_rank=rank, tp_size=2, should_split_heads=True, **options)
        assert set_pages(one, kv, keys, [0, 1]) == [True, True]
        writers.append(kv)
    halves = [[part[i * len(part) // 2:(i + 1) * len(part) // 2] for kv in writers for i in (0, 1)
               for part in [harness.content(kv, 1)[side]]] for side in (0, 1)]
    for rank in range(4):
        kv = pool("mha", heads=1, layout="page_head")
        one = opened(kv, tp_rank=rank, tp_size=4, **options)
        assert one.batch_exists(keys) == 2 and all(get_pages(one, kv, keys, [2, 3]))
        assert harness.content(kv, 3) == [halves[0][rank], halves[1][rank]]
    kv = pool("mha", heads=4, layout="page_head")
    one = opened(kv, tp_rank=0, tp_size=1, should_split_heads=True, **options)
    assert one.batch_exists(keys) == 2 and all(get_pages(one, kv, keys, [2, 3]))
    assert harness.content(kv, 3) == [b"".join(halves[0]), b"".join(halves[1])]


# --- v2 ------------------------------------------------------------------------------------------

POOLS = [("mamba", "mamba", False), ("indexer", "indexer", True), ("deepseek_v4_c4", "v4", True),
         ("swa", "mha", False), ("draft", "mla", True)]


def pool_name(name: str):
    try:
        return PoolName(name)
    except ValueError:
        pytest.skip(f"this checkout has no pool {name}")


@pytest.mark.parametrize("name,kind,replicated", POOLS)
def test_a_side_pool_is_stored_by_itself(opened, name, kind, replicated):
    name = pool_name(name)
    kv, side = pool("mla"), pool(kind)
    ranks = []
    for rank in range(2):
        one = opened(kv, is_mla_model=True, tp_size=2, tp_rank=rank)
        one.register_mem_host_pool_v2(kv, PoolName.KV)
        one.register_mem_host_pool_v2(side, name)
        ranks.append(one)
    keys = hashes(3, "side")
    fill(kv, range(3), 1)
    fill(side, range(3), 5)
    written = ranks[0].batch_set_v2([transfer(name, keys, indices(range(3), side))])
    assert written == {name: [True] * 3}
    assert ranks[0].batch_exists(keys) == 0  # the KV pages are others
    assert all(set_pages(ranks[0], kv, keys, range(3)))
    got = ranks[0].batch_get_v2([transfer(name, keys, indices(range(4, 7), side))])
    assert got == {name: [True] * 3} and all(moved(side, i, i + 4) for i in range(3))
    # What belongs to a rank is not another rank's.
    other = ranks[1].batch_get_v2([transfer(name, keys, indices(range(8, 11), side))])
    assert other == {name: [replicated] * 3}
    assert ranks[1].batch_exists_v2(keys, [transfer(name)]).kv_hit_pages == (3 if replicated else 0)


def test_windows_and_all_pages_at_once(opened):
    """The greatest length that every pool allows; not the least of their greatest ones."""
    kv, state, index = pool("mla"), pool("mamba"), pool("indexer")
    one = opened(kv, is_mla_model=True)
    one.register_mem_host_pool_v2(state, PoolName.MAMBA)
    one.register_mem_host_pool_v2(index, PoolName.INDEXER)
    keys = hashes(8, "window")
    assert all(set_pages(one, kv, keys[:7], range(7)))
    both = [transfer(PoolName.INDEXER), transfer(PoolName.MAMBA, ["__placeholder__"], window=True)]
    assert one.batch_exists_v2(keys, both).kv_hit_pages == 0
    one.batch_set_v2([transfer(PoolName.INDEXER, keys[:6], indices(range(6), index))])
    for page in (2, 6):  # states at the ends of 3 and of 7 pages
        one.batch_set_v2([transfer(PoolName.MAMBA, [keys[page]], indices([page], state))])
    result = one.batch_exists_v2(keys, both)
    assert result.kv_hit_pages == 3  # 7 has no index page, 6 no state
    assert result.extra_pool_hit_pages == {PoolName.KV: 7, PoolName.INDEXER: 6, PoolName.MAMBA: 7}
    if hasattr(result, "restorable_prefix_pages"):
        assert result.restorable_prefix_pages == [3]
    assert one.batch_exists_v2(keys).kv_hit_pages == 7
    unknown = transfer(PoolName.SWA if hasattr(PoolName, "SWA") else "swa")
    assert one.batch_exists_v2(keys, [unknown]).kv_hit_pages == 0
    assert one.batch_get_v2([transfer(PoolName.MAMBA, keys[:2], None)]) == {
        PoolName.MAMBA: [False, False]}


def test_an_anchor_without_bytes_is_bounded_by_its_side_pools(opened):
    if CHECKOUT and not hasattr(__import__(
            "sglang.srt.mem_cache.memory_pool_host", fromlist=["x"]), "LogicalHostPool"):
        pytest.skip("this checkout has no DeepSeek V4")
    anchor, side = pool("logical"), pool("v4")
    one = opened(anchor, is_mla_model=True)
    name = pool_name("deepseek_v4_c4")
    one.register_mem_host_pool_v2(side, name)
    keys = hashes(4, "anchor")
    assert set_pages(one, anchor, keys, range(4)) == [True] * 4
    assert one.batch_exists_v2(keys, [transfer(name)]).kv_hit_pages == 0
    one.batch_set_v2([transfer(name, keys[:2], indices([0, 1], side))])
    assert one.batch_exists_v2(keys, [transfer(name)]).kv_hit_pages == 2
    assert get_pages(one, anchor, keys, range(4)) == [True] * 4


def test_random_legal_lengths_against_their_definition():
    seed = random.randrange(2**32)
    print(f"seed {seed}: change `seed =` to it to repeat")
    chance = random.Random(seed)
    for _ in range(300):
        pages = chance.randrange(1, 9)
        pools = [([chance.random() < 0.7 for _ in range(pages)], chance.randrange(0, 4))
                 for _ in range(chance.randrange(1, 4))]
        wanted = [length for length in range(1, pages + 1) if all(
            all(present[0 if window == 0 else max(0, length - window):length])
            for present, window in pools)]
        assert common([legal_lengths(*one) for one in pools], pages) == wanted


# --- tensors -------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_pages_as_tensors(opened, kind):
    kv = pool(kind)
    mla = kind == "mla"
    one = opened(kv, extra={"interface_v1": 0}, is_mla_model=mla, tp_size=2)
    keys = hashes(4, "flat")
    fill(kv, range(4), 6)
    pages = [kv.get_data_page(i * kv.page_size) for i in range(4)]
    assert one.batch_set(keys[:3], pages[:3]) is True and one.batch_exists(keys) == 3
    assert one.exists(keys[0]) and not one.exists(keys[3])
    got = one.batch_get(keys, [kv.get_dummy_flat_data_page() for _ in keys])
    assert [page is not None for page in got] == [True] * 3 + [False]
    for i in range(3):
        kv.set_from_flat_data_page((i + 8) * kv.page_size, got[i])
        assert moved(kv, i, i + 8)
    assert one.set(keys[3], pages[3]) is True
    assert torch.equal(one.get(keys[3], torch.zeros_like(pages[3])), pages[3])
    assert one.get(hashes(1, "none")[0], torch.zeros_like(pages[3])) is None
    assert one.get(keys[3], torch.zeros(5)) is None  # another size
    drafts = [f"{key}.draft" for key in keys]
    assert one.batch_set(drafts, [page * 0 + 1 for page in pages]) is True
    assert torch.equal(one.batch_get(drafts, [torch.zeros_like(pages[0])] * 4)[0],
                       pages[0] * 0 + 1)
    assert torch.equal(one.get(keys[0], torch.zeros_like(pages[0])), pages[0])
    other = opened(kv, extra={"interface_v1": 0}, is_mla_model=mla, tp_size=2, tp_rank=1)
    assert other.batch_exists(keys) == (4 if mla else 0)
    assert other.batch_get(drafts[:1], [torch.zeros_like(pages[0])]) == [None]


def test_tensors_larger_than_the_scratch_memory(opened, monkeypatch):
    monkeypatch.setattr("simm.sglang.pages.SCRATCH_BYTES", 10_000)
    one = opened(pool("mla"), is_mla_model=True, extra={"interface_v1": 0})
    keys = hashes(7, "scratch")
    pages = [torch.full((size,), i + 1, dtype=torch.uint8)
             for i, size in enumerate([4000, 4000, 4000, 30_000, 1, 9000, 9000])]
    assert one.batch_set(keys, pages) is True
    got = one.batch_get(keys, [torch.zeros_like(page) for page in pages])
    assert all(torch.equal(a, b) for a, b in zip(got, pages))


# --- clear, statistics, end, configuration --------------------------------------------------------

def test_clear_is_for_every_rank_and_those_that_start_later(opened):
    kv = pool("mla")
    ranks = [opened(kv, is_mla_model=True, tp_size=2, tp_rank=rank) for rank in range(2)]
    keys = hashes(2, "clear")
    assert all(set_pages(ranks[0], kv, keys, [0, 1]))
    assert [one.batch_exists(keys) for one in ranks] == [2, 2]
    assert ranks[0].clear() is True
    assert [one.batch_exists(keys) for one in ranks] == [0, 0]
    assert ranks[1].clear() is True and ranks[0].clear() is True
    assert opened(kv, is_mla_model=True, tp_size=2).batch_exists(keys) == 0
    assert all(set_pages(ranks[1], kv, keys, [0, 1]))
    assert ranks[0].batch_exists(keys) == 2
    assert opened(kv, is_mla_model=True, tp_size=2).batch_exists(keys) == 2


def test_what_was_cleared_stays_so_when_nobody_asks_for_long(own_daemon):
    """The pool is written four times over meanwhile: nothing else of that time is left."""
    kv = pool("mla")
    keys, place = hashes(1, "forgotten"), indices([0], kv)
    one = backend(own_daemon.socket, kv, is_mla_model=True, extra={"lease_ms": 1})
    with kv_store() as store:
        assert one.clear() and one.clear() and one.batch_set_v1(keys, place) == [True]
        page = store.allocate(1 << 20)
        for i in range(256):
            assert store.put(f"other{i}", page.view()) == 0
        one.close()
        later = backend(own_daemon.socket, kv, is_mla_model=True)
        assert later.batch_exists(keys) == 0 and later.facts()["generation"] == 2
        later.close()


def test_a_marker_that_is_lost_is_put_again(opened):
    kv = pool("mla")
    one = opened(kv, is_mla_model=True)
    keys = hashes(1, "lost")
    assert one.clear() and one.batch_exists(keys) == 0
    marker = one._keys.marker(1)
    assert one._link.store.delete(marker) == 0  # as with the storage daemon that it was on
    one._mark_again_s = 0
    assert one.batch_exists(keys) == 0 and one._link.store.exists(marker)


def test_hundreds_of_generations(opened):
    kv = pool("mla")
    one = opened(kv, is_mla_model=True)
    one._link.unpin = one._link.store.mdelete  # what is not pinned may be evicted
    for _ in range(130):
        assert one.clear()
    assert one._link.store.mexists([one._keys.marker(i) for i in (63, 64, 129)]) == [
        False, True, False]
    later = opened(kv, is_mla_model=True)
    assert later.batch_exists(hashes(1, "many")) == 0 and later.facts()["generation"] == 130


def test_end_and_statistics(opened, caplog):
    kv = pool("mha")
    one = opened(kv, extra={"enable_profile": True}, enable_storage_metrics=True)
    keys = hashes(2, "end")
    with caplog.at_level("INFO", logger="simm"):
        assert all(set_pages(one, kv, keys, [0, 1])) and all(get_pages(one, kv, keys, [2, 3]))
    assert "SiMM put: 4 objects" in caplog.text and "SiMM get: 4 objects" in caplog.text
    stats = one.get_stats()
    assert stats.prefetch_pgs == [4] and stats.backup_pgs == [4] and stats.backup_bandwidth[0]
    assert one.get_stats().prefetch_pgs == []
    assert opened(kv).get_stats() is None
    assert one.facts()["pages_ok"] >= 8 and one.facts()["breaker"]["open"] is False
    one.close()
    one.close()
    assert set_pages(one, kv, keys, [0, 1]) == [False] * 2 and one.batch_exists(keys) == 0
    assert one.batch_get(keys, [torch.zeros(1)] * 2) == [None, None] and one.clear() is False
    again = opened(kv)  # attached again
    assert again.batch_exists(keys) == 2


@pytest.mark.parametrize("extra,words", [
    ({"socket": 5}, "socket = 5"), ({"lease_ms": "x"}, "lease_ms = 'x'"),
    ({"lease_ms": 0}, "lease")])
def test_a_configuration_without_sense_says_so(extra, words):
    with pytest.raises(RuntimeError, match=words):
        HiCacheSimm(config(extra=extra), {})


def test_the_order_of_configurations(daemon, tmp_path, monkeypatch):
    path = tmp_path / "simm.json"
    monkeypatch.setenv("SIMM_CLUSTER_MANAGER", "10.0.0.1:1")
    path.write_text(json.dumps({"socket": daemon.socket, "namespace": "of the file"}))
    monkeypatch.setenv("SGLANG_HICACHE_SIMM_CONFIG_PATH", str(path))
    assert HiCacheSimm(config()).facts()["breaker"]["open"]  # another cluster's manager: says so
    path.write_text(json.dumps({"socket": daemon.socket, "namespace": "of the file",
                                "manager_address": "127.0.0.1:30001"}))
    found = []
    for extra in ({}, {"namespace": "of the extra config"}):
        one = HiCacheSimm(config(extra=extra))
        found.append((one.facts()["namespace"], one.facts()["manager"], one.facts()["exact_size"]))
        one.close()
    assert found == [("of the file", "127.0.0.1:30001", True),
                     ("of the extra config", "127.0.0.1:30001", True)]


def test_every_part_of_a_page_is_one_group(opened):
    """The first run of at least 32 hex digits in a key ends with the page's hash."""
    kv = pool("mla")
    one = opened(kv, is_mla_model=True, tp_size=8, pp_size=2, attn_cp_size=2)
    one.register_mem_host_pool_v2(pool("mamba"), PoolName.MAMBA)
    page, = hashes(1, "group")
    names = list(itertools.chain.from_iterable(
        side.names(one._keys.prefix(), [page]) for side in one._pools.values()))
    assert len(names) == 4 and len(set(names)) == 4
    before = {name[:name.index(page)] for name in names}
    assert len(before) == 1 and len(before.pop()) < 32
