"""simm.vllm: SiMM as a secondary tier of vLLM's offloading connector. vLLM loads SimmTier by
`module_path`; an older one loads SimmTieringSpec by `spec_module_path`. And SimmConnector, a
connector of its own, with SimmWorker, whose KV cache is memory that a daemon can take. README.md of
the package tells of both.

Nothing is imported before it is asked for.
"""

import importlib
from typing import Any

_HOMES = {
    "SimmTier": "simm.vllm.tier",
    "SimmTieringSpec": "simm.vllm.spec",
    "SimmConnector": "simm.vllm.connector",
    "SimmWorker": "simm.vllm.worker",
}

__all__ = ["SimmConnector", "SimmTier", "SimmTieringSpec", "SimmWorker"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
