#!/usr/bin/env python3
"""Runs the examples of documents: run_examples.py --bin DIR [--env NAME=VALUE] FILE...

In a Markdown file every fenced block whose language is `sh` is run; `console`, `text` and all
others are only shown. What a reader need not see stands in a comment that begins with a line
`<!-- sh` and ends with a line `-->`: it is run too. The blocks of a file are run one after the
other by one bash with `set -e -o pipefail`, in a directory of their own, with DIR first in PATH and
SIMM_SOCKET in that directory. A root user gets an empty /run and a loopback network of its own
where the kernel allows it. Whatever the blocks leave running is ended.

Prints for each file how many blocks ran; a block that fails is printed with what it said. Exit
status 1 when one failed, or when a file has none.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

OPEN = re.compile(r"^(?:```sh|<!-- sh)\s*$")
FENCE = re.compile(r"^```")


def blocks_of(path):
    """[(line number, text)] of the blocks that are to be run."""
    found, lines, other = [], path.read_text(encoding="utf-8").splitlines(), False
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if other:
            other = line.rstrip() != "```"
            continue
        if not OPEN.match(line):
            other = bool(FENCE.match(line))
            continue
        end = "-->" if line.startswith("<!--") else "```"
        first = number + 1
        body = []
        while number < len(lines) and lines[number].strip() != end:
            body.append(lines[number])
            number += 1
        if number == len(lines):
            raise SystemExit(f"{path}:{first - 1}: this block has no end")
        number += 1
        found.append((first, "\n".join(body)))
    return found


def wrapper():
    """What gives root an empty /run and ports of its own, so that no daemon of this host is met."""
    private = ["unshare", "--net", "--mount", "--propagation", "private"]
    empty_run = "ip link set lo up && mount -t tmpfs tmpfs /run && exec \"$@\""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return []
    tried = subprocess.run(private + ["sh", "-c", empty_run, "sh", "true"], check=False,
                           stderr=subprocess.DEVNULL)
    return private + ["sh", "-c", empty_run, "sh"] if tried.returncode == 0 else []


def end_group(group):
    """Ends whatever the blocks have left running: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, number)
            for _ in range(40):
                time.sleep(0.05)
                os.killpg(group, 0)
        except ProcessLookupError:
            return


def run_file(path, options):
    """Runs the blocks of one file. True: all went well."""
    blocks = blocks_of(path)
    if not blocks:
        print(f"{path}: has no block to run")
        return False
    with tempfile.TemporaryDirectory(prefix="simm_docs_") as directory:
        home = pathlib.Path(directory)
        marks = home / ".marks"
        script = ["set -e -o pipefail"]
        for index, (_, text) in enumerate(blocks):
            script.append(f"echo {index} > {marks}\n{text}")
        script.append(f"echo {len(blocks)} > {marks}")
        (home / ".script").write_text("\n".join(script) + "\n", encoding="utf-8")
        environment = dict(os.environ)
        environment.pop("SIMM_ADMIN", None)
        environment.update({"PATH": f"{options.bin}:{os.environ['PATH']}", "HOME": directory,
                            "XDG_RUNTIME_DIR": directory,
                            "SIMM_SOCKET": f"{directory}/simm.sock"})
        environment.update(pair.split("=", 1) for pair in options.env)
        with open(home / ".output", "w+b") as output:
            process = subprocess.Popen(wrapper() + ["bash", str(home / ".script")], cwd=directory,
                                       env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = process.wait(timeout=options.timeout)
            except subprocess.TimeoutExpired:
                code = "no end in time"
            end_group(process.pid)
            process.wait()
            output.seek(0)
            said = output.read().decode(errors="replace")
        done = int(marks.read_text()) if marks.exists() else 0
    if code == 0 and done == len(blocks):
        print(f"{path}: {done} blocks")
        return True
    line, text = blocks[min(done, len(blocks) - 1)]
    print(f"{path}:{line}: this block failed ({code}):\n{text}\n--- and said at its end:\n"
          f"{said[-3000:]}")
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, type=lambda name: str(pathlib.Path(name).resolve()))
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each file")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    results = [run_file(path, options) for path in options.files]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
