"""FlatPages: pages that SGLang hands over as tensors (its generic path, draft pages) instead of
places in a host pool: they are copied through memory that the daemon shares."""

import os
import threading
from typing import Any, List, Optional, Sequence, Tuple

from simm import _native
from simm.sglang.link import Link
from simm.tensors import torch_or_none

SCRATCH_BYTES = 32 << 20


def _bytes(tensor: Any) -> Any:
    """A contiguous tensor as 1-D uint8: no copy."""
    return tensor.reshape(-1).view(torch_or_none().uint8)


class FlatPages:
    """Thread: one at a time copies; others wait for it, for two deadlines at most."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._block: Optional[_native.Block] = None

    def _locked(self) -> threading.Lock:
        if self._pid != os.getpid():  # a child shares the block with its parent, who uses it
            self._start()
        return self._lock

    def put(self, names: Sequence[str], tensors: Sequence[Any]) -> List[bool]:
        done: List[bool] = []
        with self._locked():
            for part, pages in self._parts(names, [t.contiguous() for t in tensors]):
                views = self._views(pages)
                if views is None:
                    done += [False] * len(part)
                    continue
                for place, page in zip(views[1], pages):
                    place.copy_(_bytes(page))
                done += [code == 0 for code in self._link.put(part, views[0])]
        return done

    def get(self, names: Sequence[str], tensors: Sequence[Any]) -> List[bool]:
        """Fills the tensors of those that were there."""
        done: List[bool] = []
        with self._locked():
            for part, pages in self._parts(names, tensors):
                views = self._views(pages)
                if views is None:
                    done += [False] * len(part)
                    continue
                codes = self._link.get(part, views[0], False)
                for code, place, page in zip(codes, views[1], pages):
                    if code > 0:
                        page.copy_(place.view(page.dtype).reshape(page.shape))
                done += [code > 0 for code in codes]
        return done

    def _parts(self, names: Sequence[str],
               tensors: Sequence[Any]) -> List[Tuple[Sequence[str], Sequence[Any]]]:
        """In pieces that fit into the scratch memory; a larger page is one for itself."""
        parts = []
        first, used = 0, 0
        for i, tensor in enumerate(tensors):
            size = tensor.numel() * tensor.element_size()
            if i > first and used + size > SCRATCH_BYTES:
                parts.append((names[first:i], tensors[first:i]))
                first, used = i, 0
            used += size
        parts.append((names[first:], tensors[first:]))
        return parts

    def _views(self, pages: Sequence[Any]) -> Optional[Tuple[_native.Views, List[Any]]]:
        """Places for these pages, for the daemon and as tensors."""
        sizes = [page.numel() * page.element_size() for page in pages]
        starts = [sum((size + 63) // 64 * 64 for size in sizes[:i]) for i in range(len(sizes))]
        wanted = starts[-1] + sizes[-1]
        if self._block is None or self._block.size < wanted:
            self._block = self._link.allocate(max(wanted, SCRATCH_BYTES))
        if self._block is None:
            return None
        whole = self._block.as_ref()
        places = [whole[start:start + size] for start, size in zip(starts, sizes)]
        return _native.Views([self._block.ptr + start for start in starts], sizes), places

    def close(self) -> None:
        with self._locked():
            self._block = None
