"""The keys of chunks: two engines get the same key when, and only when, they may read each other's
bytes. So a key names all that shapes a chunk, then vLLM's own key: the hash of the tokens up to its
end, and its group of layers.
"""

import hashlib
import json
from typing import Any, Dict, Iterable, List, Optional, Tuple

# Where the versions of vLLM have each fact, newest first: below the spec's `config`, below the spec
# itself (as one that has no `config`).
_FACTS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("model", ("config.model.name", "config.model_name", "vllm_config.model_config.model")),
    ("dtype", ("config.model.dtype", "config.kv_cache_dtype",
               "vllm_config.cache_config.cache_dtype")),
    ("tokens_per_hash", ("config.cache.tokens_per_hash", "config.hash_block_size",
                         "vllm_config.cache_config.block_size")),
    ("blocks_per_chunk", ("config.cache.blocks_per_chunk", "config.block_size_factor",
                          "block_size_factor")),
    ("replicated", ("config.replicated_layout",)),
    ("canonical", ("config.canonical_layout",)),
    ("layout", ("config.kv_cache_layout",)),
    ("format", ("storage_format",)),
)
# What those need not have whose bytes do not depend on how the work is shared out.
_PARALLEL: Tuple[Tuple[str, Tuple[str, ...]], ...] = tuple(
    (name, (f"config.parallel.{name}_size", f"config.{name}_size",
            f"vllm_config.parallel_config.{full}")) for name, full in (
        ("tp", "tensor_parallel_size"), ("pp", "pipeline_parallel_size"),
        ("pcp", "prefill_context_parallel_size"), ("dcp", "decode_context_parallel_size")))
_NEEDED = ("model", "dtype", "tokens_per_hash", "blocks_per_chunk")


def _at(thing: Any, path: str) -> Any:
    for name in path.split("."):
        thing = getattr(thing, name, None)
        if thing is None:
            return None
    return thing


def _first(spec: Any, paths: Tuple[str, ...]) -> Optional[Any]:
    for path in paths:
        found = _at(spec, path)
        if found is not None:
            return found
    return None


def _groups(spec: Any) -> Any:
    groups = _at(spec, "config.groups")
    if groups is None:
        groups = _at(spec, "kv_cache_config.kv_cache_groups") or ()
    sizes = ("tokens_per_block", "block_size", "kv_cache_spec.block_size")
    return [[str(_first(group, sizes)), [str(name) for name in group.layer_names]]
            for group in groups]


def identity_of(spec: Any, row_bytes: int) -> Dict[str, Any]:
    """All that shapes a chunk of that OffloadingSpec. ValueError: this vLLM does not say it."""
    found = {name: _first(spec, paths) for name, paths in _FACTS}
    lacking = [name for name in _NEEDED if found[name] is None]
    if lacking:
        raise ValueError(f"{type(spec).__name__} does not say {', '.join(lacking)}: this version "
                         "of vLLM is not known to simm.vllm: take one of README.md's table")
    identity = {name: str(value) for name, value in found.items() if value not in (None, False)}
    if not _at(spec, "config.parallel.is_parallelism_agnostic"):
        identity.update((name, str(value)) for name, value in
                        ((name, _first(spec, paths)) for name, paths in _PARALLEL)
                        if value is not None)
    return {**identity, "groups": _groups(spec), "row_bytes": row_bytes}


def prefix_of(identity: Dict[str, Any]) -> str:
    """What stands before vLLM's own key. The pool takes the first run of 32 hexadecimal digits or
    more for the digest of a page, and keeps what has the same one together: so this has fewer."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return f"vllm/{hashlib.sha256(text.encode()).hexdigest()[:24]}/"


def key_of(prefix: str, key: bytes) -> str:
    """Of one key what keys_of() makes."""
    return keys_of(prefix, (key,))[0]


def keys_of(prefix: str, keys: Iterable[bytes]) -> List[str]:
    """vLLM's key is the hash, then the number of its group of layers in 4 bytes. So all groups of a
    chunk live together, and go together."""
    texts = []
    group, end = b"", ""
    for key in keys:  # most are of the same group as the one before
        if key[-4:] != group:
            group = key[-4:]
            end = f"_{int.from_bytes(group, 'big')}"
        texts.append(f"{prefix}{key[:-4].hex()}{end}")
    return texts
