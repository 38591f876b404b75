"""The keys under which LMCache's chunks are stored."""

import hashlib
from typing import Any

KEY_BYTES_MAX = 1024


def bounded(text: str) -> str:
    """The text itself, or, when SiMM does not take a key that long, its SHA-256 with a prefix that
    no key of LMCache has (those begin with a model's name and "@")."""
    if text.isascii() and 0 < len(text) <= KEY_BYTES_MAX:  # as all keys are in practice
        return text
    data = text.encode("utf-8", "surrogatepass")
    if 0 < len(data) <= KEY_BYTES_MAX:
        return text
    return "lmcache#" + hashlib.sha256(data).hexdigest()


def key_of(key: Any) -> str:
    """Of LMCache's CacheEngineKey: it names model, world size, worker, chunk, dtype and tags."""
    return bounded(key.to_string())
