#!/usr/bin/env python3
"""What a run of tests was, in few lines: a log that is cut still says what was red, and why.

    failures.py TESTS_XML longest    "NAME SECONDS" of the three longest tests, in one line
    failures.py TESTS_XML failed     of each test that failed: what it printed about that
    failures.py --self-test          ends with 1 when the lines that matter are not found

TESTS_XML is what ctest writes with --output-junit.
"""

import re
import sys
import xml.etree.ElementTree as tree

# What says in the output of our tests that something was wrong: doctest, pytest, the programs of
# the guest, sanitizers, a runner whose child was killed.
TELLING = re.compile(
    r"ERROR|FATAL|FAILED|^FAIL |^E  |Assertion|Traceback|Sanitizer|runtime error|exception|"
    r"SIMM_SEED=|seed \d|Timeout|terminate called|values:")
LINES_AFTER = 3  # doctest says below the place what was compared
LINES_OF_A_TEST = 24
LINES_IF_NOTHING_TELLS = 12
COLUMNS = 200


def telling_lines(output):
    """The lines of `output` that say what failed, and what follows each; else its last ones."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    chosen = sorted({
        index + after
        for index, line in enumerate(lines) if TELLING.search(line)
        for after in range(LINES_AFTER + 1) if index + after < len(lines)
    })
    if not chosen:
        return [line[:COLUMNS] for line in lines[-LINES_IF_NOTHING_TELLS:]]
    # The first ones say what was wrong first, the last ones how it ended.
    if len(chosen) > LINES_OF_A_TEST:
        chosen = chosen[:LINES_OF_A_TEST - 4] + chosen[-4:]
    return [lines[index][:COLUMNS] for index in chosen]


def cases(path):
    return list(tree.parse(path).iter("testcase"))


def longest(path):
    timed = sorted(((float(case.get("time")), case.get("name")) for case in cases(path)),
                   reverse=True)
    return ", ".join(f"{name} {seconds:.0f}" for seconds, name in timed[:3])


def failed(path):
    told = []
    for case in cases(path):
        failure = case.find("failure")
        if failure is None:
            continue
        why = failure.get("message") or case.get("status")
        told.append(f"--- {case.get('name')}: {why} after {float(case.get('time')):.0f} s")
        told += telling_lines(case.findtext("system-out") or "")
    return "\n".join(told)


def self_test():
    doctest = "\n".join(["ok"] * 50 + ["a_test.cpp:3: ERROR: CHECK( a == b ) is NOT correct!",
                                       "  values: CHECK( 1 == 2 )"] + ["ok"] * 50)
    told = telling_lines(doctest)
    right = [
        told[0].startswith("a_test.cpp:3"),
        "values" in told[1],
        len(told) <= 2 + LINES_AFTER,
        telling_lines("a\nb\n") == ["a", "b"],
        len(telling_lines("\n".join(["ERROR"] * 1000))) == LINES_OF_A_TEST,
        telling_lines("x\nSUMMARY: ThreadSanitizer: data race\n")[-1].startswith("SUMMARY"),
    ]
    if not all(right):
        print(f"failures.py: a line that matters is not found: {right}")
    return 0 if all(right) else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if len(sys.argv) != 3 or sys.argv[2] not in ("longest", "failed"):
        sys.exit(__doc__)
    print({"longest": longest, "failed": failed}[sys.argv[2]](sys.argv[1]))
