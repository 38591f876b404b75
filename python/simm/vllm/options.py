"""Options: what a tier is told by its entry in `secondary_tiers`, and a connector by
`kv_connector_extra_config`."""

import dataclasses
from typing import Any, Dict, Mapping, Sequence, Tuple

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
_CONNECTOR_NUMBERS = tuple(row for row in _NUMBERS if row[0] not in ("recheck_s", "log_interval_s"))


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
        return Options(_settings(given), **_numbers("SimmTier", given, _NUMBERS, ()))


@dataclasses.dataclass(frozen=True)
class ConnectorOptions:
    """As above. layered: layers are waited for and saved one by one, in the model's pass; else all
    of them before it and behind it. loads, saves: as vLLM's kv_role says."""

    settings: Settings
    lease_ms: int
    step_budget_us: int
    lookup_ms: int
    timeout_ms: int
    layered: bool
    loads: bool
    saves: bool

    @staticmethod
    def read(given: Mapping[str, Any], role: str) -> "ConnectorOptions":
        """As Options.read()."""
        layered = given.get("layered", False)
        if not isinstance(layered, bool):
            raise ValueError(f"layered = {layered!r} of kv_connector_extra_config: true or false")
        numbers = _numbers("SimmConnector", given, _CONNECTOR_NUMBERS, ("layered",))
        return ConnectorOptions(_settings(given), layered=layered, loads=role != "kv_producer",
                                saves=role != "kv_consumer", **numbers)


def _settings(given: Mapping[str, Any]) -> Settings:
    values: Dict[str, Any] = {name: given[name] for name in _TEXTS if given.get(name)}
    return dataclasses.replace(Settings.read(values), exact_size=True)


def _numbers(who: str, given: Mapping[str, Any], rows: Sequence[Tuple[str, int, int, int]],
             others: Sequence[str]) -> Dict[str, int]:
    numbers = {name: _number(who, name, given.get(name, default), least, most)
               for name, default, least, most in rows}
    unknown = sorted(set(given) - set(_TEXTS) - set(numbers) - set(others))
    if unknown:
        logger.warning("%s: %s: no such option; there are %s", who, ", ".join(unknown),
                       ", ".join([*_TEXTS, *numbers, *others]))
    return numbers


def _number(who: str, name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} = {value!r} of {who}: a whole number from {least} to {most}")
    return value
