"""Stand-ins for modules that a checkout imports and this machine lacks: whatever is asked of them
exists and does nothing. The classes under test are the checkout's own."""

import ctypes
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types


class _Kind(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class Nothing(metaclass=_Kind):
    """Any class, decorator, function or object."""

    def __init__(self, *arguments, **options):
        pass

    def __call__(self, *arguments, **options):
        decorated = len(arguments) == 1 and not options and isinstance(
            arguments[0], (type, types.FunctionType))
        return arguments[0] if decorated else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __class_getitem__(cls, item):
        return cls

    def __init_subclass__(cls, **options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        thing = type(name, (Nothing,), {"__module__": self.__name__})
        setattr(self, name, thing)
        return thing


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """For the modules named, and those in them, that can not be found otherwise."""

    def __init__(self, names):
        self._names = tuple(names)
        sys.meta_path.append(self)

    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in self._names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def give_dtypes_a_size() -> None:
    """torch.dtype.itemsize, which torch has since 2.1. The class itself takes no attributes."""
    import torch
    if not hasattr(torch.float16, "itemsize"):
        gc.get_referents(torch.dtype.__dict__)[0]["itemsize"] = property(
            lambda self: torch.empty((), dtype=self).element_size())
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch.dtype))
