"""Options: what a connector is told: by its URL, then by LMCache's extra config.

| URL | key of the extra config, after `remote_storage_plugin.simm.` | |
|---|---|---|
| simm://HOST:PORT | manager_address | the cluster's manager; the daemon refuses another's |
| use_sync=0, 1 | use_sync | 1: a call waits in a thread; 0 (default): in LMCache's event loop |
| namespace=NAME | namespace | as SIMM_NAMESPACE |
| socket=PATH | socket | as SIMM_SOCKET |

`plugin://simm.NAME` reads `remote_storage_plugin.simm.NAME.` instead. What neither says comes from
simm/settings.py; exact sizes are never asked for, since a last chunk may be a part of one.
"""

import dataclasses
from typing import Any, Dict, Mapping, Optional
from urllib.parse import parse_qs, urlsplit

from simm.settings import Settings

SCHEME = "simm://"
PLUGIN_SCHEME = "plugin://"
EXTERNAL_SCHEME = "external://"
PLUGIN_TYPE = "simm"
_KEYS = ("manager_address", "use_sync", "namespace", "socket")
_TRUTH = {"1": True, "true": True, "0": False, "false": False}


def plugin_of(url: str) -> Optional[str]:
    """The plugin's name when the URL is `plugin://simm` or `plugin://simm.NAME`."""
    name = url[len(PLUGIN_SCHEME):] if url.startswith(PLUGIN_SCHEME) else ""
    return name if name.split(".", 1)[0] == PLUGIN_TYPE else None


def settings_of(values: Mapping[str, Any], exact_size: bool) -> Settings:
    """simm/settings.py's with `values` (its file's keys) above them."""
    return dataclasses.replace(Settings.read(values), exact_size=exact_size)


@dataclasses.dataclass(frozen=True)
class Options:
    settings: Settings
    use_sync: bool

    @staticmethod
    def read(url: str, extra_config: Optional[Mapping[str, Any]]) -> "Options":
        """ValueError, RuntimeError: what makes no sense, and the remedy."""
        prefix = f"remote_storage_plugin.{plugin_of(url) or PLUGIN_TYPE}."
        values: Dict[str, Any] = {}
        for key in _KEYS:
            value = (extra_config or {}).get(prefix + key)
            if value is not None:
                values[key] = value
        values.update(_of_url(url))
        use_sync = values.pop("use_sync", False)
        if not isinstance(use_sync, bool):
            text = str(use_sync).lower()
            if text not in _TRUTH:
                raise ValueError(f"use_sync = {use_sync!r}: 0 or 1")
            use_sync = _TRUTH[text]
        return Options(settings_of(values, exact_size=False), use_sync)


def _of_url(url: str) -> Dict[str, str]:
    if url.startswith(PLUGIN_SCHEME) or url == "":
        return {}
    parts = urlsplit(url)
    found: Dict[str, str] = {}
    try:
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url}: {error}: simm://HOST:PORT/") from None
    if parts.hostname and port:  # external://host:0/...: no manager is named
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        found["manager_address"] = f"{host}:{port}"
    elif url.startswith(SCHEME):
        raise ValueError(f"{url}: names no manager: simm://HOST:PORT/?use_sync=1")
    for key, texts in parse_qs(parts.query, keep_blank_values=True).items():
        if key in _KEYS[1:]:
            found[key] = texts[-1]
        elif not url.startswith(EXTERNAL_SCHEME):
            raise ValueError(f"{url}: {key}: one of {', '.join(_KEYS[1:])}")
    return found
