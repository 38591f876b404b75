"""simm.sglang: SiMM in SGLang. `HiCacheSimm` is the storage of its hierarchical cache by the
`dynamic` backend; `simm.sglang.repair` makes SGLang's own `simm` backend start where it would not.

Nothing is imported before it is asked for, so repair works where SGLang is not installed.
"""

import importlib
from typing import Any

__all__ = ["HiCacheSimm"]


def __getattr__(name: str) -> Any:
    if name != "HiCacheSimm":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("simm.sglang.backend").HiCacheSimm
