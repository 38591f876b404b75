#!/usr/bin/env python3
"""Writes the dashboards for Grafana, *.json beside this file, of boards/ and the table of metrics.

generate.py [--check]: with --check nothing is written, and what differs is named.
"""
import json
import pathlib
import sys

from board import board_json
from boards import BOARDS
from metric_table import read_table

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS_MAX = 100


def written(value, indent=""):
    """JSON with one line for whatever fits into one, so that a changed panel is a short diff."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= COLUMNS_MAX or not isinstance(value, (dict, list)):
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(key)}: {written(part, inner)}"
                 for key, part in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + indent + "}"
    return "[\n" + ",\n".join(inner + written(part, inner) for part in value) + f"\n{indent}]"


def files():
    """{path: text} of all dashboards."""
    metrics = read_table()
    return {HERE / f"{name}.json": written(board_json(board, metrics)) + "\n"
            for name, board in BOARDS.items()}


def main():
    wanted = files()
    stale = [path for path in HERE.glob("*.json") if path not in wanted]
    differing = [path for path, text in wanted.items()
                 if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in stale + differing:
            print(f"{path}: is not what config/grafana/generate.py writes: run it", file=sys.stderr)
        return 1 if stale + differing else 0
    for path in stale:
        path.unlink()
    for path in differing:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
