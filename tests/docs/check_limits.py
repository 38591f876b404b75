#!/usr/bin/env python3
"""daemon/LIMITS.md says what the sources, the schema and a running daemon say.

check_limits.py SOURCE_DIR BIN_DIR. Every `kName` row is compared with the constant in a header,
every `section.key` row with the default in the schema, every counter with those of a daemon.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

CONSTANT = re.compile(r"constexpr\s+[\w:]+\s+(k\w+)\s*=\s*([^;]+);")


def constants(source):
    found = {}
    for folder in ("ipc", "daemon", "libclient"):
        for header in sorted((source / folder).rglob("*.h")):
            for name, text in CONSTANT.findall(header.read_text()):
                found.setdefault(name, set()).add(text.strip())
    return found


def value_of(name, found, depth=0):
    """The number of a constant; several definitions that differ are an error."""
    if name not in found:
        raise KeyError(f"no constant {name} in any header")
    values = set()
    for text in found[name]:
        expression = re.sub(r"(\d)'(?=\d)", r"\1", text)
        expression = re.sub(r"std::\w+\{(\w+)\}", r"\1", expression)
        expression = re.sub(r"\b(\d+)(?:u|ull|ul|LL)\b", r"\1", expression)
        if depth < 5:
            expression = re.sub(r"(?:\w+::)*(k[A-Z]\w*)",
                                lambda m: str(value_of(m.group(1), found, depth + 1)), expression)
        if not re.fullmatch(r"[\d\s*+<()-]+", expression):
            raise ValueError(f"{name} = {text}: not a number that this check understands")
        values.add(eval(expression))  # digits and operators only, see above
    if len(values) != 1:
        raise ValueError(f"{name} has several values: {sorted(values)}")
    return values.pop()


def schema_default(schema, key):
    node = schema
    for part in key.split("."):
        node = node["properties"][part.removesuffix("[]")]
        if part.endswith("[]"):
            node = node["items"]
    return node["default"]


def counters(bin_dir, folder):
    """The names that a node with a pool and a cluster counts under, the agent's number as N."""
    config = folder / "node.json"
    config.write_text(json.dumps({
        "run_directory": str(folder), "node": {"pool_bytes": "16MiB", "hugepages": "off"},
        "cluster": {"manager": "127.0.0.1:1", "node_name": "limits"}}))
    daemon = subprocess.Popen([bin_dir / "simmd", "node", "--config", config],
                              stderr=subprocess.DEVNULL)
    try:
        ask = [bin_dir / "simmctl", "--admin", folder / "admin.sock", "stats", "--json"]
        for _ in range(200):
            answer = subprocess.run(ask, capture_output=True, text=True, check=False)
            if answer.returncode == 0:
                return {re.sub(r"\.\d+\.", ".N.", name) for name in json.loads(answer.stdout)}
            time.sleep(0.1)
        raise RuntimeError("the daemon did not answer: " + answer.stderr)
    finally:
        daemon.terminate()
        daemon.wait()


def main():
    source, bin_dir = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = constants(source)
    schema = json.loads((source / "config/simm.schema.json").read_text())
    with tempfile.TemporaryDirectory(prefix="simm-limits-") as folder:
        counted = counters(bin_dir, pathlib.Path(folder))
    wrong, rows = [], 0
    for line in (source / "daemon/LIMITS.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.fullmatch(r"`([\w.\[\]]+)`", cells[0]) if line.startswith("|") else None
        if not name:
            continue
        rows += 1
        name = name.group(1)
        try:
            is_constant = re.match("k[A-Z]", name)
            actual = str(value_of(name, found) if is_constant else schema_default(schema, name))
        except (KeyError, ValueError) as error:
            wrong.append(f"{name}: {error}")
            continue
        if cells[1].strip("`") != actual:
            wrong.append(f"{name}: the document says {cells[1]}, the sources say {actual}")
        for counter in re.findall(r"`([^`]+)`", cells[3]) if len(cells) > 3 else []:
            if counter not in counted:
                wrong.append(f"{name}: no daemon counts {counter}")
    print(*wrong, sep="\n")
    print(f"{rows} limits compared, {len(wrong)} wrong")
    return 1 if wrong or rows < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
