"""simm.lmcache: SiMM as LMCache's remote storage. Inside vLLM it loads SimmConnectorAdapter (by
`remote_storage_plugins`) or SimmConnector (by `external://`), its multi-process server loads
SimmL2Client (by `native_plugin`): see README.md of the package.

Nothing is imported before it is asked for.
"""

import importlib
from typing import Any

_HOMES = {
    "SimmConnector": "simm.lmcache.connector",
    "SimmConnectorAdapter": "simm.lmcache.adapter",
    "SimmL2Client": "simm.lmcache.l2_client",
}

__all__ = ["SimmConnector", "SimmConnectorAdapter", "SimmL2Client"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
