"""Hints: keys of the JSON file that wish for what the daemons decide. Each of them is checked and
known, but has no effect: so a file may name it, and whoever does is told what to do instead. A key
that nobody knows is told too: it may be a slip of the pen."""

from typing import Any, Iterable, Mapping, Set

from simm.log import logger

# Of the engines' own readers of the file.
_OF_ENGINES = ("clnt_threadpool_size", "extra_backend_tag")
_HINTS = {
    "replicas": ((int,), "copies of a value are the daemons' to make: namespaces[].replicas, in "
                 "the configuration of each, storage too, of a namespace that is immutable there"),
    "element_type": ((str,), "values are stored as they are, of whatever type"),
    "gpu": ((bool, str), "the daemon chooses what is worth GPU memory: gpu.tier_bytes, gpu_lend"),
    "tier": ((str,), "the daemon chooses the memory of a value: gpu.tier_bytes, gpu_lend"),
}
# What every daemon does anyway.
_DEFAULTS = {"replicas": 1, "gpu": False}

NAMES = tuple(_HINTS)

_told: Set[str] = set()  # of this process


def check(config: Mapping[str, Any], where: str, known: Iterable[str] = ()) -> None:
    """ValueError: a hint of a wrong type. known: what else `config` may have; none: anything."""
    known = set(known)
    for name, value in config.items():
        kinds, text = _HINTS.get(name, ((), ""))
        if kinds:
            if type(value) not in kinds or (name == "replicas" and value < 1):
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise ValueError(f"{name} = {value!r} in the {where}: a hint, of type {wanted}")
            if value != _DEFAULTS.get(name):
                _tell(f"{name} = {value!r} in the {where} has no effect: {text}")
        elif known and name not in known and name not in _OF_ENGINES:
            _tell(f"{name} in the {where}: no such key; there are "
                  f"{', '.join([*sorted(known), *NAMES])}")


def _tell(text: str) -> None:
    if text not in _told:
        _told.add(text)
        logger.warning("%s", text)
