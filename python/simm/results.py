"""Code and Length: the results of data calls. Plain ints whose truth value means success."""


class Code(int):
    """Result of put and delete: 0 is success (and true), a negative number the reason why not."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self == 0


class Length(int):
    """Result of get: the bytes written into the view (true), or a negative code (false)."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self > 0


OK = 0
INVALID_ARGUMENT = -1000
NOT_IMPLEMENTED = -1001
TIMEOUT = -1002
OUT_OF_MEMORY = -1003
INVALID_STATE = -1004
UNREACHABLE = -2300
NOT_FOUND = -4003
NO_SPACE = -4006
TRANSFER_FAILED = -4008
