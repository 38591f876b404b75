"""SimmConnector: a KV connector of vLLM (v1) between its KV cache and the pool, without a tier in
host memory. The scheduler's half asks which blocks are there and says what a step loads and saves;
each worker's half moves the bytes of its own KV cache. Only the set-up raises, and a call behind
which the engine would take bytes for loaded that are not."""

import dataclasses
import functools
import hashlib
import json
import os
from typing import Any, Dict, List, Optional, Set, Tuple

from vllm.distributed.kv_transfer.kv_connector.v1 import base as _v1
from vllm.distributed.parallel_state import get_tp_group

from simm.link import Link
from simm.log import logger
from simm.vllm.batches import Batches
from simm.vllm.blocks import REMEDY, Blocks
from simm.vllm.calm import never_raises, nothing
from simm.vllm.matches import Matches
from simm.vllm.moves import Moves
from simm.vllm.options import ConnectorOptions

_never_raises = functools.partial(never_raises, "SimmConnector")
_NAME = "SimmConnector"


@dataclasses.dataclass
class SimmMetadata(_v1.KVConnectorMetadata):
    """What a step loads and saves: hashes, and the blocks where they are."""

    loads: List[Tuple[bytes, int]]
    saves: List[Tuple[bytes, int]]


@dataclasses.dataclass
class SimmHandshake(_v1.KVConnectorHandshakeMetadata):
    """prefix: of the keys of a worker: it names all that shapes the bytes of a block there."""

    prefix: str


def _no_match() -> Tuple[int, bool]:
    return 0, False


def _not_finished() -> Tuple[None, None]:
    return None, None


def _may_be_freed() -> Tuple[bool, None]:
    return False, None


class SimmConnector(_v1.KVConnectorBase_V1):
    """vLLM makes one in its scheduler and one in each worker, from `kv_connector` and
    `kv_connector_module_path`; ConnectorOptions says what kv_connector_extra_config may have. A
    daemon that is not there is no error: it may come.

    ValueError, RuntimeError: an option, a setting, a model or memory that it can not serve, and
    the remedy. Thread: one at a time, as vLLM guarantees.
    """

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        transfer = vllm_config.kv_transfer_config
        self._options = ConnectorOptions.read(transfer.kv_connector_extra_config or {},
                                              str(transfer.kv_role))
        if self._options.layered and not hasattr(_v1.KVConnectorBase_V1,
                                                 "requires_piecewise_for_cudagraph"):
            raise ValueError("layered = true: this vLLM may leave the calls for each layer out: "
                             "take a later one, or leave the option out")
        self._cache = kv_cache_config
        group = _only_group(vllm_config, kv_cache_config)
        self._tokens = int(group.kv_cache_spec.block_size)
        hashed = getattr(vllm_config.cache_config, "hash_block_size", None) or self._tokens
        if self._tokens % hashed:
            raise ValueError(f"blocks of {self._tokens} tokens, hashes of {hashed}: {REMEDY}")
        self._link = Link(_NAME, self._options.settings, with_channel=True)
        self._batches = Batches(self._link, _NAME)
        self._matches = Matches(self._batches, self._options, self._tokens,
                                self._tokens // hashed)
        self._blocks: Optional[Blocks] = None
        self._moves: Optional[Moves] = None
        self._prefix = ""
        self._closed = False
        if os.environ.get("PYTHONHASHSEED", "random") == "random":
            logger.warning("SimmConnector: PYTHONHASHSEED is not set: vLLM's hashes are of this "
                           "process only: set it to 0 everywhere")

    @property
    def prefer_cross_layer_blocks(self) -> bool:
        """One piece of each block is moved faster than two of each layer."""
        return not self._options.layered

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: Dict[str, Any]) -> bool:
        """A graph of the whole pass would leave out the calls for each layer."""
        return bool(extra_config.get("layered", False))

    # --- scheduler --------------------------------------------------------------------------------

    def set_xfer_handshake_metadata(self, metadata: Dict[int, Any]) -> None:
        """What each worker's keys begin with. Before that the pool has nothing for anybody."""
        ranks = int(self._vllm_config.parallel_config.tensor_parallel_size)
        if sorted(metadata) != list(range(ranks)):
            logger.error("SimmConnector: of %d workers only %s said what their keys are: nothing "
                         "is loaded", ranks, sorted(metadata))
            return
        self._matches.prefixes = tuple(metadata[rank].prefix for rank in range(ranks))

    @_never_raises(_no_match)
    def get_num_new_matched_tokens(self, request: Any,
                                   num_computed_tokens: int) -> Tuple[Optional[int], bool]:
        """Tokens that a step would load; None: ask in the next step, which is after
        ConnectorOptions.lookup_ms a number."""
        if not self._options.loads:
            return 0, False
        return self._matches.match(request, num_computed_tokens), False

    def update_state_after_alloc(self, request: Any, blocks: Any,
                                 num_external_tokens: int) -> None:
        """The request has blocks. Raises where the engine would take bytes for loaded of which
        nobody knows: no answer of this method could keep it from that."""
        self._matches.allocated(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> SimmMetadata:
        """What the step loads and saves."""
        return SimmMetadata(self._matches.take_loads(), self._saves(scheduler_output))

    @_never_raises(list)
    def _saves(self, output: Any) -> List[Tuple[bytes, int]]:
        return self._matches.saves(output)

    @_never_raises(nothing)
    def update_connector_output(self, connector_output: Any) -> None:
        """Blocks that a worker could not load are misses for a while."""
        failed = getattr(connector_output, "invalid_block_ids", None)
        if failed:
            self._matches.note_failed(list(failed))

    @_never_raises(_may_be_freed)
    def request_finished(self, request: Any, block_ids: Any) -> Tuple[bool, None]:
        """Its blocks are free at once: what a step saves is saved when the step ends."""
        self._matches.finished(request.request_id)
        return False, None

    # --- worker -----------------------------------------------------------------------------------

    def register_kv_caches(self, kv_caches: Dict[str, Any]) -> None:
        """The memory of each layer."""
        self._register(Blocks(kv_caches, self._count()))

    def register_cross_layers_kv_cache(self, kv_cache: Any, *_backend: Any, **_more: Any) -> None:
        """That of all layers, in one tensor."""
        self._register(Blocks({"all": kv_cache}, self._count(), True))

    def _count(self) -> int:
        count = getattr(self._cache, "num_blocks", None)
        return int(count or self._vllm_config.cache_config.num_gpu_blocks)

    def _register(self, blocks: Blocks) -> None:
        config = self._vllm_config
        facts: Dict[str, Any] = {
            "model": str(config.model_config.model),
            "revision": str(getattr(config.model_config, "revision", None)),
            "quantization": str(getattr(config.model_config, "quantization", None)),
            "dtype": str(config.model_config.dtype),
            "cache": str(config.cache_config.cache_dtype),
            "tokens": self._tokens,
            "ranks": int(config.parallel_config.tensor_parallel_size),
            "rank": int(get_tp_group().rank_in_group),
            "layers": blocks.form,
        }
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        self._prefix = f"vllm-kv/{hashlib.sha256(text.encode()).hexdigest()[:24]}/"
        self._blocks = blocks
        self._moves = Moves(self._batches, blocks, self._prefix, self._options.timeout_ms)
        logger.info("SimmConnector: keys of this worker begin with %s, which stands for %s",
                    self._prefix, {**facts, "layers": len(blocks.layers)})

    def get_handshake_metadata(self) -> Optional[SimmHandshake]:
        """For the scheduler's half."""
        return SimmHandshake(self._prefix) if self._prefix else None

    @_never_raises(nothing)
    def start_load_kv(self, forward_context: Any, **_more: Any) -> None:
        """Begins with what the step loads; ends it, where layers are not waited for one by one."""
        if self._moves is not None and self._has_wishes():
            self._moves.load(self._get_connector_metadata().loads)
            if not self._options.layered:
                self._moves.wait_for_loads()

    @_never_raises(nothing)
    def wait_for_layer_load(self, layer_name: str) -> None:
        """Until a layer is loaded."""
        if self._moves is not None:
            self._moves.wait_for_layer(layer_name)

    @_never_raises(nothing)
    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any,
                      **_more: Any) -> None:
        """Begins with a layer, where they are saved one by one."""
        if self._options.layered and self._moves is not None and self._has_wishes():
            self._moves.save_layer(layer_name, self._get_connector_metadata().saves)

    @_never_raises(nothing)
    def wait_for_save(self) -> None:
        """Until all of the step is saved: behind this its blocks may have other bytes."""
        if self._moves is not None:
            self._moves.wait_for_loads()
            self._moves.finish_saves(
                self._get_connector_metadata().saves if self._has_wishes() else [])

    def _has_wishes(self) -> bool:
        """Is the step one that the scheduler's half knows?"""
        return isinstance(self._connector_metadata, SimmMetadata)

    @_never_raises(_not_finished)
    def get_finished(self, finished_req_ids: Set[str]) -> Tuple[None, None]:
        """Nothing is under way between two steps."""
        return None, None

    @_never_raises(set)
    def get_block_ids_with_load_errors(self) -> Set[int]:
        """Blocks whose bytes did not come: vLLM computes them, or ends their requests, as
        kv_load_failure_policy says."""
        return set() if self._moves is None else self._moves.take_failed()

    # --- about ------------------------------------------------------------------------------------

    def stats(self) -> Dict[str, Any]:
        """Counts of this half, and what Store.stats() says. Never waits."""
        counts = self._matches.counts if self._moves is None else self._moves.counts
        return {**counts, **self._link.stats()}

    @_never_raises(nothing)
    def shutdown(self) -> None:
        """Waits for what is under way. Safe twice."""
        if self._closed:
            return
        self._closed = True
        self._batches.close()
        if self._blocks is not None:
            self._blocks.close()
        self._link.close()


def _only_group(config: Any, cache: Any) -> Any:
    """ValueError: a model whose blocks are not all alike, or are of several workers."""
    groups = list(getattr(cache, "kv_cache_groups", ()) or ())
    if len(groups) != 1:
        raise ValueError(f"{len(groups)} groups of layers: SimmConnector knows models with one: "
                         "take simm.vllm.SimmTier, or another vLLM")
    for name in ("pipeline_parallel_size", "decode_context_parallel_size",
                 "prefill_context_parallel_size"):
        size = getattr(config.parallel_config, name, 1)
        if size not in (None, 1):
            raise ValueError(f"{name} = {size}: SimmConnector knows 1: take simm.vllm.SimmTier")
    spec = groups[0].kv_cache_spec
    for name in ("sliding_window", "attention_chunk_size", "shapes"):
        if getattr(spec, name, None) is not None:
            raise ValueError(f"{type(spec).__name__} with {name}: SimmConnector knows full "
                             "attention alone: take simm.vllm.SimmTier")
    return groups[0]
