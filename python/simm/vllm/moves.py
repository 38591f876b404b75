"""Moves: the worker's half of a connector: blocks of the KV cache to the pool and back, one batch
for each layer. The last piece of a block, `end`, is put when all others are there: so whoever finds
that one finds them all, and they leave the pool together, because they have one digest."""

from typing import Dict, List, Sequence, Set, Tuple

from simm import _native
from simm.vllm.batches import Batches
from simm.vllm.blocks import Blocks, Layer

# The hash of the tokens up to the block's end, and where the block is.
Wanted = Sequence[Tuple[bytes, int]]

END = "end"


def key_of(prefix: str, block_hash: bytes, piece: str) -> str:
    return f"{prefix}{block_hash.hex()}_{piece}"


class Moves:
    """Thread: one at a time. Nothing raises, but for wrong types."""

    def __init__(self, batches: Batches, blocks: Blocks, prefix: str, timeout_ms: int) -> None:
        self._batches = batches
        self._blocks = blocks
        self._prefix = prefix
        self._timeout_ms = timeout_ms
        self._loading: Set[int] = set()  # layers
        self._failed: Set[int] = set()  # blocks
        self._saving: Dict[bytes, int] = {}
        self._unsaved: Set[bytes] = set()
        self._begun: Set[int] = set()  # layers
        self.counts = {"loaded": 0, "not_loaded": 0, "saved": 0, "not_saved": 0}

    def _pieces(self, number: int) -> range:
        """Of a layer: all but `end`."""
        is_last = number == len(self._blocks.layers) - 1
        return range(len(self._blocks.layers[number].layout.offsets) - is_last)

    def _keys(self, number: int, hashes: Sequence[bytes], pieces: range) -> List[str]:
        return [key_of(self._prefix, block_hash, f"{number}.{piece}")
                for block_hash in hashes for piece in pieces]

    # --- loads ------------------------------------------------------------------------------------

    def load(self, wanted: Wanted) -> None:
        """Begins with all layers. Where that raises, all of it has failed."""
        if not wanted:
            return
        try:
            self._blocks.settle()
            self._loading = set(range(len(self._blocks.layers)))
            for number, layer in enumerate(self._blocks.layers):
                self._load_layer(number, layer, wanted)
        except Exception:
            self._failed.update(block for _, block in wanted)
            raise

    def _load_layer(self, number: int, layer: Layer, wanted: Wanted) -> None:
        hashes = [block_hash for block_hash, _ in wanted]
        pieces = self._pieces(number)
        keys = self._keys(number, hashes, pieces)
        count = len(pieces)
        views = range(len(layer.layout.offsets))  # all, `end` among them
        if len(views) > count:
            keys = [key for i, block_hash in enumerate(hashes)
                    for key in (*keys[i * count:(i + 1) * count],
                                key_of(self._prefix, block_hash, END))]

        def done(results: Sequence[int]) -> None:
            self._loading.discard(number)
            for i, (_, block) in enumerate(wanted):
                part = results[i * len(views):(i + 1) * len(views)]
                if any(length != layer.layout.piece_bytes for length in part):
                    self._failed.add(block)
            if not self._loading:
                failed = sum(block in self._failed for _, block in wanted)
                self.counts["not_loaded"] += failed
                self.counts["loaded"] += len(wanted) - failed

        self._batches.start(_native.Operation.get, keys,
                            layer.views([block for _, block in wanted], views), done,
                            timeout_ms=self._timeout_ms)

    def wait_for_layer(self, name: str) -> None:
        """Until the layer's bytes are there, or are known not to come."""
        number = self._blocks.number_of(name)
        self._batches.wait(lambda: number not in self._loading)

    def wait_for_loads(self) -> None:
        """The same of all layers."""
        self._batches.wait(lambda: not self._loading)

    def take_failed(self) -> Set[int]:
        """Blocks that were not loaded whole, since the last call."""
        failed, self._failed = self._failed, set()
        return failed

    # --- saves ------------------------------------------------------------------------------------

    def save_layer(self, name: str, wanted: Wanted) -> None:
        """Begins with a layer, when its bytes are there."""
        if wanted:
            self._saving.update(wanted)
            self._begin_save(self._blocks.number_of(name))

    def _begin_save(self, number: int) -> None:
        pieces = self._pieces(number)
        if number in self._begun:
            return
        self._begun.add(number)
        if pieces:
            hashes = list(self._saving)
            self._put(hashes, self._keys(number, hashes, pieces),
                      self._blocks.layers[number].views(list(self._saving.values()), pieces))

    def _put(self, hashes: List[bytes], keys: List[str], views: _native.Views) -> None:
        count = len(keys) // len(hashes)

        def done(results: Sequence[int]) -> None:
            self._unsaved.update(hashes[i // count] for i, code in enumerate(results) if code != 0)

        self._batches.start(_native.Operation.put, keys, views, done, if_absent=True,
                            timeout_ms=self._timeout_ms)

    def finish_saves(self, wanted: Wanted) -> None:
        """All layers, and then `end` of each block that is there. Waits: behind this the blocks may
        have other bytes."""
        self._saving.update(wanted)
        if not self._saving:
            return
        for number in range(len(self._blocks.layers)):
            self._begin_save(number)
        self._batches.finish()
        whole = {block_hash: block for block_hash, block in self._saving.items()
                 if block_hash not in self._unsaved}
        if whole:
            last = self._blocks.layers[-1]
            end = len(last.layout.offsets) - 1
            self._put(list(whole), [key_of(self._prefix, block_hash, END) for block_hash in whole],
                      last.views(list(whole.values()), range(end, end + 1)))
            self._batches.finish()
        self.counts["saved"] += len(self._saving) - len(self._unsaved)
        self.counts["not_saved"] += len(self._unsaved)
        self._saving = {}
        self._unsaved = set()
        self._begun = set()
