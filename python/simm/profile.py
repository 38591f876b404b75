"""Profile mode: a line in the log for each call that moves bytes, with GB/s. For a Store whose
settings say enable_profile; any other has none of this in its way."""

import time
from typing import Any, Awaitable, Callable, List

from simm import _native
from simm.log import logger

_NAMES = {_native.Operation.put: "put", _native.Operation.get: "get"}


def _report(operation: _native.Operation, views: Any, results: List[Any], began_ns: int) -> None:
    if operation not in _NAMES or not results:
        return
    took_s = max(time.perf_counter_ns() - began_ns, 1) / 1e9
    if operation == _native.Operation.get:
        moved = [int(length) for length in results if length > 0]
    elif len(views) == len(results):
        sizes = views.sizes if isinstance(views, _native.Views) else [one.size for one in views]
        moved = [size for size, code in zip(sizes, results) if code == 0]
    else:
        moved = []
    logger.info("profile: %s: %d of %d pages, %.3f MB in %.3f ms: %.2f GB/s", _NAMES[operation],
                len(moved), len(results), sum(moved) / 1e6, took_s * 1e3, sum(moved) / took_s / 1e9)


def profiled(run: Callable[..., List[Any]]) -> Callable[..., List[Any]]:
    """The same call, which reports itself."""
    def run_and_report(operation: _native.Operation, keys: Any, views: Any = None,
                       *offsets: Any, **options: Any) -> List[Any]:
        began_ns = time.perf_counter_ns()
        results = run(operation, keys, views, *offsets, **options)
        _report(operation, views, results, began_ns)
        return results
    return run_and_report


class ProfiledChannel:
    """The same for the asynchronous calls of an event loop."""

    def __init__(self, call: Callable[..., Awaitable[List[Any]]]) -> None:
        self._call = call

    async def call(self, operation: _native.Operation, keys: Any, views: Any = None,
                   *offsets: Any, **options: Any) -> List[Any]:
        began_ns = time.perf_counter_ns()
        results = await self._call(operation, keys, views, *offsets, **options)
        _report(operation, views, results, began_ns)
        return results
