#!/usr/bin/env python3
"""tests/CLIENTS.md: each row names a file of tests and a test in it. Both must be there, so that a
test that goes, or gets another name, takes its row along.

    check_clients.py [DOCUMENT]
"""
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| (?P<wrong>[^|]+) \| `(?P<file>[^`|]+)` \| (?P<test>[^|]*)\|$")
SPLIT_LITERAL = re.compile(r'"\s*\n\s*"')


def faults_of(document):
    rows, faults = 0, []
    for number, line in enumerate(document.read_text("utf-8").splitlines(), 1):
        row = ROW.match(line)
        if row is None:
            if line.startswith("| ") and not line.startswith("| what went wrong"):
                faults.append(f"{document.name}:{number}: not | what | `file` | test |")
            continue
        rows += 1
        file, test = TESTS / row["file"], row["test"].strip()
        if not file.is_file():
            faults.append(f"{document.name}:{number}: no such file: tests/{row['file']}")
        elif test not in SPLIT_LITERAL.sub("", file.read_text("utf-8")):
            faults.append(f"{document.name}:{number}: tests/{row['file']} has no test '{test}'")
    return rows, faults


def main():
    document = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else TESTS / "CLIENTS.md"
    rows, faults = faults_of(document)
    for fault in faults:
        print(fault)
    print(f"{rows} rows, {len(faults)} faults")
    return 1 if faults or rows == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
