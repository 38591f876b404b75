"""HostPool: one of SGLang's pools of host memory: where its pages are, what their objects are
called, and its registration."""

from typing import Any, List, Optional, Sequence, Tuple

from simm import _native
from simm.log import logger
from simm.mappings import descriptors_of
from simm.memory import deregister_mr, register_mr
from simm.sglang.keys import KeyMaker, fingerprint
from simm.tensors import torch_or_none

KV = "kv"
# Its state belongs to one rank also where the KV pages are the same on all of them.
ALWAYS_OF_A_RANK = ("mamba",)


def _buffers(pool: Any) -> List[Any]:
    get = getattr(pool, "get_hybrid_pool_buffer", None)
    found = get() if get is not None else getattr(pool, "kv_buffer", None)
    listed = list(found) if isinstance(found, (list, tuple)) else [found]
    return [buffer for buffer in listed if buffer is not None and buffer.numel() > 0]


class HostPool:
    """Thread: that of attach and detach; the rest is read by storage threads.

    RuntimeError: the pool can not be used, and what to change.
    """

    def __init__(self, name: str, host_pool: Any, keys: KeyMaker) -> None:
        # A group of pools stands for its anchor.
        anchor = getattr(host_pool, "anchor_entry", None)
        self._pool = host_pool if anchor is None else anchor.host_pool
        self.name = name
        self.page_size: int = getattr(self._pool, "page_size", 1) or 1
        self._regions: List[_native.MrExt] = []
        self._tensors = _buffers(self._pool)
        self.is_logical = not self._tensors  # an anchor of indices: no bytes of its own
        self.suffixes: List[str] = []
        self.fingerprint = fingerprint(self._pool, ())
        # MHA pools have heads, of which a rank has its own.
        of_a_rank = name in ALWAYS_OF_A_RANK or hasattr(self._pool, "head_num")
        self.is_replicated = keys.is_replicated and not of_a_rank
        self._split = keys.split_factor if name == KV else 1
        self._steps: Optional[List[Tuple[int, int]]] = None
        self._sizes: Sequence[int] = ()
        if not self.is_logical:
            self._name_parts(keys)

    def _name_parts(self, keys: KeyMaker) -> None:
        torch = torch_or_none()
        try:
            starts, sizes = self._ask(torch.arange(self.page_size))
            self._find_steps(torch, starts, sizes)
        except Exception as error:
            raise RuntimeError(f"host pool {self.name}: {error}: start SGLang with "
                               "--hicache-mem-layout page_first or page_first_direct") from error
        if len(sizes) > 2 * self._split and getattr(self._pool, "layout", "") == "layer_first":
            logger.warning("host pool %s: layout layer_first: %d objects a page: "
                           "--hicache-mem-layout page_first makes it 1 or 2", self.name, len(sizes))
        page_head = self.name == KV and getattr(self._pool, "layout", "") == "page_head"
        of_one_rank = sizes[:len(sizes) // self._split]
        self.fingerprint = fingerprint(self._pool, of_one_rank)
        self.suffixes = keys.suffixes(self.name, self.fingerprint, len(sizes), self.is_replicated,
                                      page_head)

    def _find_steps(self, torch: Any, starts: Sequence[int], sizes: Sequence[int]) -> None:
        """In all of SGLang's layouts a page is at a fixed distance from the one before; asking the
        pool costs more than the rest of a call. Checked at both ends; else the pool is asked."""
        pages = (getattr(self._pool, "size", None) or 0) // self.page_size
        if pages < 3:
            return
        some = [1, pages // 2, pages - 1]
        asked, asked_sizes = self._ask(torch.tensor(
            [page * self.page_size + i for page in some for i in range(self.page_size)]))
        parts = len(starts)
        steps = [(start, asked[i] - start) for i, start in enumerate(starts)]
        wanted = [start + page * step for page in some for start, step in steps]
        if wanted == list(asked) and list(asked_sizes) == list(sizes) * len(some) and parts:
            self._steps, self._sizes = steps, list(sizes)

    @property
    def is_registered(self) -> bool:
        return self.is_logical or bool(self._regions)

    def register(self) -> bool:
        """False: its memory was refused, as the log says."""
        files = descriptors_of(self._pool)
        regions = [register_mr(tensor, fds=files) for tensor in self._tensors]
        made = [region for region in regions if region is not None]
        if len(made) < len(regions):
            for region in made:
                deregister_mr(region)
            return False
        self._regions = made
        return True

    @property
    def parts(self) -> int:
        """Objects of a page."""
        return len(self.suffixes)

    def places(self, host_indices: Any) -> Tuple[Sequence[int], Sequence[int]]:
        """Addresses and sizes of the objects of these pages, in the order of names()."""
        size = self.page_size
        if self._steps is None:
            return self._ask(host_indices)
        firsts = host_indices.tolist()[::size]
        if size > 1 and any(first % size for first in firsts):
            return self._ask(host_indices)  # SGLang has none; its own arithmetic decides
        return ([start + first // size * step for first in firsts for start, step in self._steps],
                list(self._sizes) * len(firsts))

    def _ask(self, host_indices: Any) -> Tuple[Sequence[int], Sequence[int]]:
        if self._split > 1:
            found = self._pool.get_split_heads_page_buffer_meta(host_indices, self._split)
        else:
            found = self._pool.get_page_buffer_meta(host_indices)
        return found[0], found[1]

    def names(self, prefix: str, hashes: Sequence[str]) -> List[str]:
        if len(self.suffixes) == 1:
            only = self.suffixes[0]
            return [prefix + page + only for page in hashes]
        return [prefix + page + part for page in hashes for part in self.suffixes]

    def pages_of(self, found: Sequence[bool]) -> List[bool]:
        """Of results for names(): which pages are whole?"""
        if self.parts == 1:
            return list(found)
        if self.parts == 2:
            return [first and second for first, second in zip(found[::2], found[1::2])]
        return [all(found[i:i + self.parts]) for i in range(0, len(found), self.parts)]

    def copied(self) -> Optional[str]:
        """Why its memory is copied once more on the way, or None when it is not."""
        for region in self._regions:
            for _, _, kind, reason in region.pieces:
                if kind == "staged":
                    return reason
        return None

    def close(self) -> None:
        regions, self._regions = self._regions, []
        for region in regions:
            deregister_mr(region)
