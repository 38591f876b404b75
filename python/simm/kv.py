"""simm.kv: the key-value store of this node's SiMM daemon, for inference engines.

    from simm.kv import BlockView, Store, register_mr
    store = Store()
    mr = register_mr(kv_buffer)                           # a torch tensor, once
    view = BlockView.from_buffer(kv_buffer.data_ptr(), 4096, mr)
    store.mput(["key"], [view])                           # [0]
    store.mget(["key"], [view])                           # [4096]

README.md of the package is the guide.
"""

from simm import flexkv
from simm._native import Block, BlockView, MrExt, Views
from simm.flags import set_flag
from simm.key_follower import KeyChange, KeyEvent, KeyFollower
from simm.log import set_log
from simm.memory import deregister_mr, register_mr
from simm.sglang.repair import install
from simm.store import Store
from simm.trace import set_trace_parent


# SGLang's own backend imports this module just before it defines its class, FlexKV's client too.
install()
flexkv.repair()

__all__ = ["Block", "BlockView", "KeyChange", "KeyEvent", "KeyFollower", "MrExt", "Store", "Views",
           "deregister_mr", "register_mr", "set_flag", "set_log", "set_trace_parent"]
