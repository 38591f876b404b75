"""Settings: how a Store connects: from set_flag(), the JSON file of SGLang's backend and the
environment, in that order.

| what | flag | key of the JSON file | environment |
|---|---|---|---|
| manager | cm_primary_node_ip, _port | manager_address | SIMM_CLUSTER_MANAGER |
| socket | | socket | SIMM_SOCKET (comes first) |
| namespace | | namespace | SIMM_NAMESPACE (comes first) |
| exact size | | exact_size | SIMM_EXACT_SIZE (comes first; 0 or 1) |
| immutable namespace | | immutable (default false) | SIMM_IMMUTABLE (comes first; 0 or 1) |
| profile | | enable_profile (default false) | SIMM_PROFILE (comes first; 0 or 1) |

Above all of them stand the `overrides` of a caller that has a configuration of its own, with the
file's keys (simm.sglang: SGLang's extra config).

The file is the one that SGLANG_HICACHE_SIMM_CONFIG_PATH names, else FLEXKV_SIMM_CONFIG_PATH: their
engines read it too. Exact size is on unless something says otherwise where there is a file, and for
SGLang's own backend and FlexKV's client however they are configured. Without a socket libsimm looks
for one; without a manager any daemon will do. hints.py has the keys that name what daemons decide.
"""

import dataclasses
import json
import os
import sys
from typing import Any, Dict, Mapping, Optional

from simm import hints
from simm.flags import EFFECTIVE, flag, flag_number

# Where SGLang defines what its backends are, and the name of its own one for SiMM.
SGLANG_INTERFACE = "sglang.srt.mem_cache.hicache_storage"
SGLANG_BACKEND = "HiCacheSiMM"
# Where FlexKV defines its client of SiMM.
FLEXKV_CLIENT = "flexkv.external.simm_utils"
CONFIG_PATH_VARIABLE = "SGLANG_HICACHE_SIMM_CONFIG_PATH"
_CONFIG_PATH_VARIABLES = (CONFIG_PATH_VARIABLE, "FLEXKV_SIMM_CONFIG_PATH")
_KEYS = ("manager_address", "socket", "namespace", "exact_size", "immutable", "enable_profile")


@dataclasses.dataclass(frozen=True)
class Settings:
    manager: str  # "host:port", or empty
    socket: str  # path, or empty: libsimm looks for it
    name_space: str  # empty: the default namespace
    exact_size: bool  # a get whose view has another size than the value is a miss
    immutable: bool  # keys of the namespace are hashes of the values: one value for ever
    enable_profile: bool  # a line in the log for each call that moves bytes
    sync_timeout_ms: int
    async_timeout_ms: int
    floor_bytes_per_s: int

    @staticmethod
    def read(overrides: Optional[Mapping[str, Any]] = None) -> "Settings":
        """RuntimeError names the file, flag or variable that makes no sense, and the remedy."""
        first = overrides or {}
        try:
            config = _read_file()
            hints.check(config, f"file of {CONFIG_PATH_VARIABLE}", _KEYS)
            hints.check(first, "extra config")
            settings = Settings(
                manager=_text(first, "manager_address", "extra config") or _manager(config),
                socket=(_text(first, "socket", "extra config") or os.environ.get("SIMM_SOCKET")
                        or _text(config, "socket")),
                name_space=(_text(first, "namespace", "extra config")
                            or os.environ.get("SIMM_NAMESPACE") or _text(config, "namespace")),
                exact_size=first.get("exact_size") is True
                or _truth(config, "exact_size", "SIMM_EXACT_SIZE",
                          bool(config) or _names_no_model()),
                immutable=first.get("immutable") is True
                or _truth(config, "immutable", "SIMM_IMMUTABLE", False),
                enable_profile=_truth(config, "enable_profile", "SIMM_PROFILE", False),
                sync_timeout_ms=flag_number("clnt_sync_req_timeout_ms"),
                async_timeout_ms=flag_number("clnt_async_req_timeout_ms"),
                floor_bytes_per_s=flag_number("clnt_floor_bytes_per_s"),
            )
            if settings.immutable and not settings.name_space:
                raise ValueError("immutable = true without a namespace: name one (namespace or "
                                 "SIMM_NAMESPACE), or let the daemon's namespaces[] say so")
            for what in ("manager", "socket", "name_space"):
                _check_unicode(what.replace("_", ""), getattr(settings, what))
            return settings
        except ValueError as error:
            raise RuntimeError(str(error)) from None


def _read_file() -> Dict[str, Any]:
    for variable in _CONFIG_PATH_VARIABLES:
        path = os.environ.get(variable)
        if not path:
            continue
        try:
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
        except (OSError, ValueError) as error:
            raise ValueError(f"{variable}={path}: {error}: name a JSON file") from None
        if not isinstance(config, dict):
            raise ValueError(f"{variable}={path}: not a JSON object: {{...}}")
        return config
    return {}


def _text(config: Mapping[str, Any], key: str,
          where: str = f"file of {CONFIG_PATH_VARIABLE}") -> str:
    value = config.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key} = {value!r} in the {where}: a text")
    return value


def _check_unicode(what: str, text: str) -> None:
    """A variable's bytes that are no UTF-8 come as lone surrogates, and so they may in JSON."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} = {text!r}: no UTF-8 (SIMM_SOCKET, SIMM_NAMESPACE, "
                         "SIMM_CLUSTER_MANAGER or the JSON file): use another name") from None


def _manager(config: Dict[str, Any]) -> str:
    host = flag("cm_primary_node_ip")
    if host:
        port = flag("cm_primary_node_port") or EFFECTIVE["cm_primary_node_port"]
        if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise ValueError(f"flag cm_primary_node_port = {port!r}: a number from 1 to 65535")
        bare = ":" in host and not host.startswith("[")
        return f"[{host}]:{port}" if bare else f"{host}:{port}"
    return _text(config, "manager_address") or os.environ.get("SIMM_CLUSTER_MANAGER", "")


def _names_no_model() -> bool:
    """Has this process SGLang's own backend, or FlexKV's client? Their keys do not name the model:
    a page of another size is another model's, or has another dtype, and would fill a part of what
    is asked for."""
    if FLEXKV_CLIENT in sys.modules:
        return True
    interface = getattr(sys.modules.get(SGLANG_INTERFACE), "HiCacheStorage", None)
    return interface is not None and any(
        kind.__name__ == SGLANG_BACKEND for kind in interface.__subclasses__())


def _truth(config: Mapping[str, Any], key: str, variable: str, otherwise: bool) -> bool:
    text = os.environ.get(variable)
    if text is not None and text != "":
        if text not in ("0", "1"):
            raise ValueError(f"{variable}={text}: 0 or 1")
        return text == "1"
    wanted = config.get(key, otherwise)
    if not isinstance(wanted, bool):
        raise ValueError(f"{key} = {wanted!r} in the file of {CONFIG_PATH_VARIABLE}: true or false")
    return wanted
