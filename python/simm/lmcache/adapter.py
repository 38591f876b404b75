"""SimmConnectorAdapter: how LMCache makes a SimmConnector, for simm://HOST:PORT/ and plugin://simm.

LMCache loads it when `remote_storage_plugins` names simm and the extra config names this class:
README.md of the package has the lines.
"""

from typing import Any

from lmcache.v1.storage_backend.connector import ConnectorAdapter

from simm.lmcache.connector import SimmConnector
from simm.lmcache.options import SCHEME, plugin_of


class SimmConnectorAdapter(ConnectorAdapter):  # type: ignore[misc]
    """Made by LMCache, without arguments. Thread: LMCache's."""

    def __init__(self) -> None:
        super().__init__(SCHEME)

    def can_parse(self, url: str) -> bool:
        return url.startswith(SCHEME) or plugin_of(url) is not None

    def create_connector(self, context: Any) -> SimmConnector:
        """ValueError, RuntimeError: what the URL or a setting says wrong. A daemon that is not
        there is no error: it may come."""
        return SimmConnector(loop=context.loop, local_cpu_backend=context.local_cpu_backend,
                             config=context.config, metadata=context.metadata, url=context.url)
