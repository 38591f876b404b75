"""vLLM's own tiering, from the checkout that SIMM_VLLM_CHECKOUT names: the managers of both tiers,
the memory between them, the policies and the factory are its files, unmodified. What they import
besides is a stand-in whose classes do nothing: loggers, metrics, platforms. It needs torch."""

import importlib.abc
import importlib.machinery
import os
import sys
import types

PATH = os.environ.get("SIMM_VLLM_CHECKOUT", "")
_REAL = "vllm.v1.kv_offload"
_PACKAGES = ("vllm", "vllm.v1")


class _Quiet:
    """Stands in for an object of which nothing matters."""

    def __init__(self, *_arguments, **_more):
        pass

    def __call__(self, *_arguments, **_more):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __bool__(self):
        return False


class _StandIn(types.ModuleType):
    __path__: list = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (_Quiet,), {}) if name[0].isupper() else _Quiet()
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path, target=None):
        if fullname.split(".")[0] != "vllm" or fullname.startswith(_REAL):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        module = _StandIn(spec.name)
        if spec.name in _PACKAGES:
            module.__path__ = [os.path.join(PATH, *spec.name.split("."))]
        return module

    def exec_module(self, module):
        pass


def install():
    forget()
    sys.meta_path.insert(0, _Finder())


def forget():
    """So that the next one imports what it has installed."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name in list(sys.modules):
        if name == "vllm" or name.startswith(("vllm.", "simm.vllm")):
            del sys.modules[name]
