#!/usr/bin/env python3
"""The manual pages: well formed, and complete in both directions.

manual_test.py BIN_DIR PAGE...: each page's program is the page's name; simm.json(5) has none and
is compared with the schema that simmd prints. A command of simmctl(1) begins with what --help says
of it: `manual_test.py BIN_DIR .../simmctl.1 --write` writes those lines anew.
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

BIN = pathlib.Path(sys.argv[1])
PAGES = [pathlib.Path(name) for name in sys.argv[2:] if name != "--write"]
FLAG = re.compile(r"--[a-z][a-z-]*")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def section(text, name):
    """The lines of a section of CLI11's help."""
    found = re.search(rf"^{name}:\n(.*?)(?=^\S|\Z)", text, re.S | re.M)
    return found.group(1) if found else ""


def commands_of(program):
    """{path: options} of a program and all of its subcommands, out of their --help."""
    found, waiting = {}, [()]
    while waiting:
        path = waiting.pop()
        text = output_of(BIN / program, *path, "--help")
        heads = [line for line in section(text, "Options").splitlines() if re.match(r"  -", line)]
        flags = {flag for line in heads for flag in FLAG.findall(line.split("  ")[1])}
        found[path] = flags - {"--help"}
        for line in section(text, "Subcommands").splitlines():
            name = re.match(r"  ([a-z][a-z-]*)", line)
            if name:
                waiting.append(path + (name.group(1),))
    return found


def with_help(page):
    """The text of a page, with the line below each command's head as the program's --help says."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(lines):
        head = re.match(r"\.It Ic ((?:[a-z][a-z-]*(?: |$))+)", line)
        if head:
            text = output_of(BIN / page.stem, *head.group(1).split(), "--help")
            lines[i + 1] = " ".join(text.split("Usage:")[0].split()) + "."
    return "\n".join(lines) + "\n"


def described_in(page):
    """{path: options} of a manual page: what stands behind `.It Ic` and in the text below it."""
    found, path = {(): set()}, ()
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith(".It Ic "):
            names = re.match(r"\.It Ic ((?:[a-z][a-z-]*(?: |$))+)", line).group(1)
            path = tuple(names.split())
            found.setdefault(path, set())
        elif line.startswith(".S") or line.startswith(".El"):
            path = ()
        found[path] |= {"-" + flag for flag in re.findall(r"\bFl (-[a-z][a-z-]*)", line)}
    return found


def keys_of(schema, prefix=""):
    for name, value in schema["properties"].items():
        items = value.get("items", {})
        if "properties" in value:
            yield from keys_of(value, f"{prefix}{name}.")
        elif "properties" in items:
            yield from keys_of(items, f"{prefix}{name}[].")
        else:
            yield prefix + name


class Manual(unittest.TestCase):
    def test_well_formed(self):
        for page in PAGES:
            with self.subTest(page=page.name):
                lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page],
                                      capture_output=True, text=True, check=False)
                self.assertEqual((lint.returncode, lint.stdout), (0, ""))
                groff = subprocess.run(["groff", "-ww", "-mandoc", "-T", "utf8", page],
                                       capture_output=True, text=True, check=True)
                self.assertEqual(groff.stderr, "")

    def test_programs(self):
        for page in PAGES:
            program = page.stem
            if page.suffix == ".5":
                continue
            with self.subTest(page=page.name):
                real, described = commands_of(program), described_in(page)
                leaves = {path for path in real
                          if not any(other[:len(path)] == path and other != path
                                     for other in real)} | {()}
                self.assertEqual(leaves, set(described))
                for path in leaves:
                    self.assertEqual(real[path], described[path], " ".join((program,) + path))

    def test_help(self):
        for page in (page for page in PAGES if page.name == "simmctl.1"):
            self.assertEqual(page.read_text(encoding="utf-8"), with_help(page),
                             f"write it: {sys.argv[0]} {BIN} {page} --write")

    def test_configuration(self):
        page = next(page for page in PAGES if page.suffix == ".5")
        described = re.findall(r"^\.It Va (\S+)$", page.read_text(encoding="utf-8"), re.M)
        schema = json.loads(output_of(BIN / "simmd", "--print-schema"))
        self.assertEqual(list(keys_of(schema)), described)


if __name__ == "__main__":
    if "--write" in sys.argv:
        for changed in PAGES:
            changed.write_text(with_help(changed), encoding="utf-8")
        sys.exit()
    unittest.main(argv=sys.argv[:1])
