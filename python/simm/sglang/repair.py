"""Makes SGLang's own `simm` backend start where it would not, without a change of its files:

- on a host without /sys/class/infiniband its constructor calls `.get` of an empty *list* of NICs,
  which is an AttributeError: its helper then answers an empty dict;
- SIMM_CLUSTER_MANAGER names the manager when neither the extra config nor a JSON file does.

install() is called by `import simm.kv`, which that backend does before it defines its class, and by
SGLang's plugin group. Each repair is logged once. SIMM_SGLANG_REPAIR=0 turns both off.
"""

import functools
import importlib.abc
import importlib.machinery
import os
import sys
import types
from typing import Any, Optional, Sequence

from simm.log import logger
from simm.settings import (CONFIG_PATH_VARIABLE, SGLANG_BACKEND as BACKEND,
                           SGLANG_INTERFACE as INTERFACE)

SWITCH = "SIMM_SGLANG_REPAIR"
NIC_DIRECTORY = "/sys/class/infiniband"
MANAGER = "SIMM_CLUSTER_MANAGER"


def install() -> None:
    """Repair the backend when it is defined. Nothing is imported. Safe twice.
    Thread: as for imports."""
    if os.environ.get(SWITCH) == "0":
        return
    interface = sys.modules.get(INTERFACE)
    if interface is not None and hasattr(interface, "HiCacheStorage"):
        _watch(interface.HiCacheStorage)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the module that defines the interface, and hands it to _watch()."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]],
                  target: Optional[types.ModuleType] = None,
                  ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != INTERFACE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            @functools.wraps(execute)
            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                _watch(module.HiCacheStorage)

            setattr(spec.loader, "exec_module", exec_module)
        return spec


def _watch(interface: Any) -> None:
    if "__init_subclass__" in vars(interface):
        return

    @classmethod  # type: ignore[misc]
    def __init_subclass__(cls: Any, **options: Any) -> None:
        super(interface, cls).__init_subclass__(**options)
        if cls.__name__ == BACKEND:
            repair(sys.modules[cls.__module__])

    interface.__init_subclass__ = __init_subclass__


def repair(backend: Any) -> None:
    """`backend`: the module that defines HiCacheSiMM. Each part only where it is needed."""
    mapping = getattr(backend, "get_numa_nic_mapping", None)
    if mapping is not None and not os.path.exists(NIC_DIRECTORY):
        backend.get_numa_nic_mapping = dict
        logger.warning("SGLang's SiMM backend would not start without %s: its table of NICs is "
                       "empty instead (%s=0 leaves it alone)", NIC_DIRECTORY, SWITCH)
    config = getattr(backend, "SiMMConfig", None)
    if config is not None:
        _repair_config(config)


def _repair_config(config: Any) -> None:
    from_file = config.from_file

    @functools.wraps(from_file)
    def from_file_or_environment() -> Any:
        manager = os.environ.get(MANAGER)
        if os.environ.get(CONFIG_PATH_VARIABLE) is not None or not manager:
            return from_file()
        logger.warning("SGLang's SiMM backend: manager %s, of %s (%s=0 leaves it alone)", manager,
                       MANAGER, SWITCH)
        return config.load_from_extra_config({"manager_address": manager})

    config.from_file = staticmethod(from_file_or_environment)
