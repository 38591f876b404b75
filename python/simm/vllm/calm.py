"""What goes wrong in a call of the engine is logged: an engine must not end by its cache."""

import functools
from typing import Any, Callable, TypeVar

from simm.log import report_failure
from simm.results import INVALID_STATE

Method = TypeVar("Method", bound=Callable[..., Any])


def report(method: str, error: Exception) -> None:
    report_failure(method, INVALID_STATE, 1, f"{type(error).__name__}: {error}")


def never_raises(name: str, answer: Callable[[], Any]) -> Callable[[Method], Method]:
    """Of a method of the class `name`: answers `answer()` where it would raise."""

    def wrap(method: Method) -> Method:
        @functools.wraps(method)
        def call(self: Any, *arguments: Any, **more: Any) -> Any:
            try:
                return method(self, *arguments, **more)
            except Exception as error:
                report(f"{name}.{method.__name__}", error)
                return answer()

        return call  # type: ignore[return-value]

    return wrap


def nothing() -> None:
    return None
