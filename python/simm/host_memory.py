"""alloc_tensor(): host memory for an engine's pools, without a Store at hand."""

from typing import Any, List, Sequence

from simm.store import Store

_store: List[Store] = []  # of this process, made by the first call


def alloc_tensor(shape: Sequence[int], dtype: Any = None, *, hugepages: bool = False,
                 numa: int = -1, cuda: bool = False) -> Any:
    """A zeroed tensor in memory that the daemon shares: no privilege, no copy, no registration.

    shape: of the tensor; dtype: torch's or numpy's (default uint8). A numpy dtype gives a numpy
    array, as does everything without torch. hugepages: if there are enough. numa: bind to that
    node. cuda: registered with CUDA (pinned). All pages are touched now. The tensor keeps the
    memory alive; views of it need no `mr`.
    ValueError: no element. RuntimeError: no daemon (with the remedy), no memory, no GPU.
    Thread: any. The daemon is found by the first call, as by Store().
    """
    if not _store:
        _store.append(Store())
    return _store[0].alloc_tensor(shape, dtype, huge_pages=hugepages, numa_node=numa,
                                  cuda=cuda)
