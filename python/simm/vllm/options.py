"""Options: what a tier is told by its entry in `secondary_tiers`."""

import dataclasses
from typing import Any, Dict, Mapping, Tuple

from simm.log import logger
from simm.settings import Settings

_TEXTS = ("manager_address", "socket", "namespace")
# Name, default, least and most.
_NUMBERS: Tuple[Tuple[str, int, int, int], ...] = (
    ("lease_ms", 10_000, 1_000, 600_000),
    ("step_budget_us", 100, 0, 100_000),
    ("lookup_ms", 100, 1, 60_000),
    ("timeout_ms", 0, 0, 2**32 - 1),
    ("recheck_s", 60, 0, 86_400),
    ("log_interval_s", 60, 0, 86_400),
)


@dataclasses.dataclass(frozen=True)
class Options:
    """settings: how the Store connects, with exact sizes. lease_ms: how long a chunk stays that a
    lookup has found. step_budget_us: how long the lookups of one step may wait for answers, at
    most. lookup_ms: a lookup without an answer by then is a miss. timeout_ms: of a transfer; 0: as
    in simm/settings.py. recheck_s: between two rounds of questions for chunks that were told as
    stored; 0: none. log_interval_s: between two lines of figures; 0: none."""

    settings: Settings
    lease_ms: int
    step_budget_us: int
    lookup_ms: int
    timeout_ms: int
    recheck_s: int
    log_interval_s: int

    @staticmethod
    def read(given: Mapping[str, Any]) -> "Options":
        """ValueError, RuntimeError: what makes no sense, and the remedy. Names that this version
        does not know have no effect, and are logged: a later vLLM may add some."""
        values: Dict[str, Any] = {name: given[name] for name in _TEXTS if given.get(name)}
        numbers = {name: _number(name, given.get(name, default), least, most)
                   for name, default, least, most in _NUMBERS}
        unknown = sorted(set(given) - set(_TEXTS) - set(numbers))
        if unknown:
            logger.warning("SimmTier: %s: no such option; there are %s", ", ".join(unknown),
                           ", ".join([*_TEXTS, *numbers]))
        settings = dataclasses.replace(Settings.read(values), exact_size=True)
        return Options(settings, **numbers)


def _number(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} = {value!r} of the secondary tier: a whole number from {least} "
                         f"to {most}")
    return value
