"""`python3 -m simm`: what this process would be connected to. Exit status 1 when to nothing."""

import sys

import simm
from simm import _native
from simm.settings import Settings
from simm.store import Store


def main() -> int:
    print(f"simm {simm.__version__}")
    try:
        settings = Settings.read()
        with Store() as store:
            answer = store.ping()
            facts = store.stats()
    except RuntimeError as error:
        print(f"not connected: {error}", file=sys.stderr)
        return 1
    print(f"socket            {facts['socket']}")
    print(f"manager           {settings.manager or 'any'}")
    print(f"namespace         {settings.name_space or 'default'}")
    print(f"exact size        {'yes' if settings.exact_size else 'no'}")
    print(f"largest value     {facts['max_value_bytes']} bytes")
    print(f"timeouts          {settings.sync_timeout_ms} ms, asynchronous "
          f"{settings.async_timeout_ms} ms, plus bytes at {settings.floor_bytes_per_s} B/s")
    print(f"daemon answers    {'yes' if answer else _native.status_name(answer)}")
    return 0 if answer else 1


if __name__ == "__main__":
    sys.exit(main())
