"""Engine: vLLM's side of a connector: a scheduler, workers with KV caches, and a model whose bytes
of a block come from the bytes of the block before it, as attention's do. So what is computed behind
wrong bytes is wrong, too, and whole() finds it."""

import ctypes
import hashlib
import pickle
import types

import numpy

import connector_interface as interface

TOKENS = 4  # of a block
PIECE = 512  # bytes
LAYERS = ("model.layers.0", "model.layers.1", "model.layers.2")
plain = types.SimpleNamespace


class Tensor:
    """What a connector asks a torch.Tensor for."""

    def __init__(self, pointer, shape, strides, kind="cpu", dtype="torch.uint8"):
        self._pointer, self.shape, self._strides = pointer, shape, strides
        self.device, self.dtype = plain(type=kind), dtype

    def data_ptr(self):
        return self._pointer

    def stride(self):
        return self._strides

    def element_size(self):
        return 1


def shapes(kind, blocks):
    """Of a tensor: shape, strides, the offsets of the pieces of block 0, and a block's step."""
    if kind == "halves":  # K of all blocks, then V of all
        return (2, blocks, PIECE), (blocks * PIECE, PIECE, 1), (0, blocks * PIECE), PIECE
    if kind == "rows":  # a latent vector: one piece
        return (blocks, PIECE), (PIECE, 1), (0,), PIECE
    assert kind == "all"  # all layers in one tensor: blocks outside
    step = len(LAYERS) * PIECE
    return (len(LAYERS), blocks, PIECE), (PIECE, step, 1), (0,), step


class Cache:
    """A worker's. `bytes` is the test's own sight of them."""

    def __init__(self, kind, blocks, memory):
        self.tensors, self.places = {}, []
        for name in LAYERS[:1] if kind == "all" else LAYERS:
            shape, strides, offsets, step = shapes(kind, blocks)
            pointer, seen, device = memory(numpy.prod(shape))
            self.tensors[name] = Tensor(pointer, shape, strides, device)
            for piece in offsets:
                size = step if kind == "all" else PIECE
                self.places.append((seen, piece, step, size))

    def read(self, number, block):
        seen, offset, step, size = self.places[number]
        at = offset + block * step
        return bytes(seen[at:at + size])

    def write(self, number, block, content):
        seen, offset, step, size = self.places[number]
        at = offset + block * step
        seen[at:at + size] = content[:size]


def on_host(size):
    buffer = ctypes.create_string_buffer(int(size))
    return ctypes.addressof(buffer), memoryview(buffer).cast("B"), "cpu"


def grown(before, tokens, salt):
    """A block's bytes."""
    seed = hashlib.sha256(before + repr((tokens, salt)).encode()).digest()
    return (seed * (len(LAYERS) * PIECE // len(seed)))


class Request:
    def __init__(self, name, tokens):
        self.request_id = name
        self.tokens = list(tokens)
        self.blocks, self.computed = [], 0

    @property
    def num_tokens(self):
        return len(self.tokens)

    @property
    def block_hashes(self):
        hashes, before = [], b""
        for i in range(len(self.tokens) // TOKENS):
            before = hashlib.sha256(before + repr(self.part(i)).encode()).digest()
            hashes.append(before)
        return hashes

    def part(self, i):
        return tuple(self.tokens[i * TOKENS:(i + 1) * TOKENS])


def config_of(ranks=1, model="org/model", role="kv_both", extra=None, cache_dtype="auto", **more):
    return plain(
        kv_transfer_config=plain(kv_connector_extra_config=dict(extra or {}), kv_role=role),
        model_config=plain(model=model, dtype="torch.bfloat16", revision=None, quantization=None),
        cache_config=plain(cache_dtype=cache_dtype, block_size=TOKENS, num_gpu_blocks=None),
        parallel_config=plain(tensor_parallel_size=ranks, pipeline_parallel_size=1, **more))


def cache_config_of(blocks, groups=1, **spec):
    return plain(num_blocks=blocks, kv_cache_groups=[
        plain(layer_names=list(LAYERS), kv_cache_spec=plain(block_size=TOKENS, **spec))
        for _ in range(groups)])


class Engine:
    def __init__(self, kind="halves", blocks=64, ranks=1, memory=on_host, shakes=True, **config):
        import simm.vllm
        self._extra = {"lookup_ms": 20_000, "step_budget_us": 100_000, **config.pop("extra", {})}
        vllm, cache = config_of(ranks, extra=self._extra, **config), cache_config_of(blocks)
        roles = interface.KVConnectorRole
        self.scheduler = simm.vllm.SimmConnector(vllm, roles.SCHEDULER, cache)
        self.workers, self.caches = [], []
        for interface.rank in range(ranks):
            worker = simm.vllm.SimmConnector(vllm, roles.WORKER, cache)
            made = Cache(kind, blocks, memory)
            if kind == "all":
                worker.register_cross_layers_kv_cache(made.tensors[LAYERS[0]], None)
            else:
                worker.register_kv_caches(made.tensors)
            self.workers.append(worker)
            self.caches.append(made)
        if shakes:
            self.scheduler.set_xfer_handshake_metadata(
                {rank: pickle.loads(pickle.dumps(worker.get_handshake_metadata()))
                 for rank, worker in enumerate(self.workers)})
        self.free = list(range(blocks - 1, 0, -1))
        self.requests = {}
        self.failed = []  # blocks of all steps
        self.between = lambda: None  # what happens between a lookup and its load
        self._started, self._finished = set(), set()

    # --- scheduler --------------------------------------------------------------------------------

    def admit(self, request):
        """It has its blocks. Tokens that will be loaded."""
        while (match := self.scheduler.get_num_new_matched_tokens(request, request.computed)) == (
                None, False):
            pass
        found, is_later = match
        assert not is_later and found % TOKENS == 0 and found < request.num_tokens
        request.blocks += [self.free.pop() for _ in range(-(-len(request.tokens) // TOKENS)
                                                          - len(request.blocks))]
        self.scheduler.update_state_after_alloc(
            request, plain(get_block_ids=lambda: (list(request.blocks),)), found)
        request.computed += found
        self.requests[request.request_id] = request
        return found

    def plan(self, scheduled, resumed=()):
        """A step's metadata: of these requests so many tokens each."""
        new = [name for name in scheduled if name not in self._started]
        old = [name for name in scheduled if name in self._started]
        requests = self.requests
        output = plain(
            scheduled_new_reqs=[plain(req_id=name, block_ids=(list(requests[name].blocks),),
                                      num_computed_tokens=requests[name].computed)
                                for name in new],
            scheduled_cached_reqs=plain(
                req_ids=old, resumed_req_ids=set(resumed),
                new_block_ids=[(list(requests[name].blocks),) if name in resumed else None
                               for name in old],
                num_computed_tokens=[requests[name].computed for name in old]),
            num_scheduled_tokens=dict(scheduled), finished_req_ids=set())
        self._started |= set(scheduled)
        plan = pickle.dumps(self.scheduler.build_connector_meta(output))
        work = [(requests[name], requests[name].computed, count)
                for name, count in scheduled.items()]
        for request, _, count in work:
            request.computed += count
        return plan, work

    # --- workers ----------------------------------------------------------------------------------

    def work(self, planned):
        """The blocks that a worker could not load."""
        plan, work = planned
        self.between()
        for worker in self.workers:
            worker.bind_connector_metadata(pickle.loads(plan))
            worker.start_load_kv(None)
        places = len(self.caches[0].places)
        per_layer = max(1, places // len(LAYERS))
        for i, layer in enumerate(LAYERS):
            for worker in self.workers:
                worker.wait_for_layer_load(layer)
            for number in range(i * per_layer, min((i + 1) * per_layer, places)):
                for request, computed, count in work:
                    self._compute(number, request, computed, count)
            for worker in self.workers:
                worker.save_kv_layer(layer, None, None)
        failed = set()
        for worker in self.workers:
            worker.wait_for_save()
            failed |= worker.get_block_ids_with_load_errors()
            assert worker.get_finished(set()) == (None, None)
            worker.clear_connector_metadata()
        return failed

    def _compute(self, number, request, computed, count):
        for i in range(computed // TOKENS, (computed + count) // TOKENS):
            # What a worker reads has parts of all workers: they are summed up.
            before = b"".join(each.read(number, request.blocks[i - 1]) for each in self.caches
                              ) if i else b""
            for rank, cache in enumerate(self.caches):
                cache.write(number, request.blocks[i],
                            grown(before, request.part(i), (number, rank)))

    def heard(self, failed):
        """The step's output is with the scheduler: what was computed behind failures is not."""
        self.failed += sorted(failed)
        self.scheduler.update_connector_output(plain(invalid_block_ids=set(failed)))
        for request in self.requests.values():
            for i, block in enumerate(request.blocks):
                if block in failed:
                    request.computed = min(request.computed, i * TOKENS)

    # --- requests ---------------------------------------------------------------------------------

    def run(self, name, tokens, chunk=8, generates=TOKENS):
        """A request to its end. Tokens that were not computed."""
        request = Request(name, tokens)
        found = self.admit(request)
        self.finish(request, chunk)
        for i in range(generates):  # as many steps as tokens
            request.tokens.append((name, i))
            request.blocks += [self.free.pop()] if len(request.tokens) % TOKENS == 1 else []
            self.finish(request, chunk)
        self.end(request)
        return found

    def finish(self, request, chunk=8):
        while request.computed < request.num_tokens:
            count = min(chunk, request.num_tokens - request.computed)
            self.heard(self.work(self.plan({request.request_id: count})))

    def end(self, request):
        assert self.scheduler.request_finished(request, request.blocks) == (False, None)
        self.free += reversed(request.blocks)
        del self.requests[request.request_id]
        self._started.discard(request.request_id)
        self.ended = request

    def whole(self, request, blocks=None):
        """Has the KV cache what the model says of its tokens, in every block?"""
        count = len(request.tokens) // TOKENS if blocks is None else blocks
        for number in range(len(self.caches[0].places)):
            before = b""
            for i in range(count):
                expected = [grown(before, request.part(i), (number, rank))[
                    :self.caches[0].places[number][3]] for rank in range(len(self.caches))]
                if [cache.read(number, request.blocks[i]) for cache in self.caches] != expected:
                    return False
                before = b"".join(expected)
        return True

    def close(self):
        self.scheduler.shutdown()
        for worker in self.workers:
            worker.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
