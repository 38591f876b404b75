"""run_pytest.py {torch | no-torch} ARGUMENTS...: runs tests with pytest, in a Python with torch or
in one that has none. Says loudly (and CTest shows it as skipped) when that is not to be had."""

import sys


def skipped(what: str) -> int:
    print(f"SKIPPED: {sys.executable} has no {what}: scripts/install_packages.sh installs it")
    return 0


def main() -> int:
    half, *arguments = sys.argv[1:]
    try:
        import pytest
    except ImportError:
        return skipped("pytest")
    try:
        import torch
        print(f"torch {torch.__version__}")
    except ImportError as error:
        if half == "torch":
            return skipped(f"torch ({error})")
    else:
        if half == "no-torch":
            print("torch is not blocked")
            return 1
    # What a thread or a finalizer raises is a failure of the test.
    unseen = ("error::pytest.PytestUnhandledThreadExceptionWarning",
              "error::pytest.PytestUnraisableExceptionWarning")
    return pytest.main(["-q", "-rs", "--durations=5", "-p", "no:cacheprovider", "-p",
                        "no:hypothesispytest", "-W", unseen[0], "-W", unseen[1], *arguments])


# Spawned children import this file again.
if __name__ == "__main__":
    sys.exit(main())
