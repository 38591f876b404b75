"""What a user writes, for mypy: every line is right, except those that say which error they are.
Not run."""

import logging
from typing import List, Optional

from simm.kv import (Block, BlockView, MrExt, Store, deregister_mr, register_mr, set_flag, set_log)

set_log(logging.getLogger("simm"))
set_log("stderr")  # error: arg-type
known: bool = set_flag("clnt_log_file", "/tmp/simm.log")
set_flag("clnt_thread_pool_size", 10)  # error: arg-type

region: Optional[MrExt] = register_mr(bytearray(4096))
register_mr(0x1000, 4096)
region.size  # error: union-attr
done: bool = deregister_mr(region)

view: BlockView = BlockView.from_buffer(0x1000, 4096, region)
BlockView.from_buffer("0x1000", 4096, region)  # error: arg-type
BlockView.from_tensor(bytearray(4096))
BlockView.from_tensor()  # error: call-arg
length: int = len(view) + view.size + view.ptr
view.size = 7  # error: misc

with Store("ignored", also="ignored") as store:
    block: Block = store.allocate(4096)
    same: BlockView = block.view().view()
    put: int = store.put("key", view, if_absent=True, ttl_ms=1000, timeout_ms=100)
    store.put(b"key", view)  # error: arg-type
    store.put("key", block)  # error: arg-type
    store.put("key", view, lease_ms=7)  # error: call-arg
    got: List[int] = [*store.mget(["key"], [view], lease_ms=7)]
    part: int = store.get_range("key", view, 100)
    parts: List[int] = [*store.mget_range(["key"], [view], [0], timeout_ms=100)]
    there: List[bool] = store.mexists(["key"])
    text: str = store.exists("key")  # error: assignment
    held: List[bool] = store.lease(["key"], 1000)
    store.lease(["key"])  # error: call-arg
    gone: List[int] = [*store.mdelete(("key",))]
    store.alloc_tensor((2, 3), "float32", numa_node=0)
    store.alloc_tensor((2, 3), "float32", True)  # error: misc
    store.frobnicate()  # error: attr-defined


async def main() -> None:
    bytes_got: int = await store.get_async("key", view, lease_ms=7, timeout_ms=100)
    await store.get_async("key", view, ttl_ms=7)  # error: call-arg
    codes: List[int] = [*await store.mput_async(["key"], [view], if_absent=True, ttl_ms=1)]
    await store.mget_async(["key"], [view], on_page=lambda index, length: print(index + length))
    await store.mget_async(["key"], [view], on_page=7)  # error: arg-type
    found: List[bool] = await store.mexists_async(["key"])
    missing: bool = store.exists_async("key")  # error: assignment
