#!/usr/bin/env python3
"""Names that documents show: files and functions in backticks, and links. The tree must have them.

A file is looked for beside the document, from the root, and as the end of any tracked path. A
function (`Class::name`) must stand in a source. A table row that names a file and a function says
that the file has the function. `check_names.py --self-test` feeds each rule a violation.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:h|cpp|capnp|py|sh|md|c))`")
FUNCTION = re.compile(r"`([A-Z]\w+)::(\w+)(?:\(\))?`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
PLACEHOLDER = re.compile(r"(?:^|[/_.])[A-Z]{4,}_|(?:^|/)(?:NAME|ROOM)(?:/|$)")
CPP = (".cpp", ".h", ".c")


class Tree:
    """The tracked files of the tree, and the text of its C++ sources."""

    def __init__(self, sources):
        self.files = set(sources)
        self.text = {path: text for path, text in sources.items() if path.endswith(CPP)}
        self.all_text = "\n".join(self.text.values())
        self.ends = {}
        for path in self.files:
            parts = path.split("/")
            for first in range(len(parts)):
                self.ends.setdefault("/".join(parts[first:]), path)

    @staticmethod
    def beside(document, name):
        """The path of what lies at `name`, seen from the document; None above the root."""
        parts = list(pathlib.PurePosixPath(document).parent.parts)
        for part in name.strip("/").split("/"):
            if part != "..":
                parts.append(part)
            elif parts:
                parts.pop()
            else:
                return None
        return "/".join(parts)

    def leads_somewhere(self, document, target):
        path = self.beside(document, target)
        return path in self.files or any(file.startswith(f"{path}/") for file in self.files)

    def find(self, document, name):
        """The tracked path that `name` stands for in the document; or None."""
        path = self.beside(document, name)
        return path if path in self.files else self.ends.get(name)

    def has_function(self, holder, name):
        """Whether a class of that name, or a namespace, has such a function or member."""
        if f"{holder}::{name}" in self.all_text:
            return True
        return any(re.search(rf"\b(?:class|struct|enum class) {holder}\b", text)
                   and re.search(rf"\b{name}\b", text) for text in self.text.values())


def lines_outside_code(text):
    """(number, line) of each line that is not in a fenced block."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def check_document(tree, document, text):
    """Yields (line, message) for each name that the tree does not have."""
    for number, line in lines_outside_code(text):
        paths = []
        for name in FILE.findall(line):
            if PLACEHOLDER.search(name):
                continue
            path = tree.find(document, name)
            if path is None:
                yield number, f"{name}: no such file; name the one that the tree has"
            else:
                paths.append(path)
        for target in LINK.findall(line):
            if not tree.leads_somewhere(document, target):
                yield number, f"({target}): no such file or folder; mend the link"
        is_row = line.startswith("|")
        sources = [tree.text[path] for path in paths if path in tree.text]
        for holder, name in FUNCTION.findall(line):
            if not tree.has_function(holder, name):
                yield number, f"{holder}::{name}: no such function; name the one of the sources"
            elif is_row and sources and not any(
                    re.search(rf"\b{name}\b", source) for source in sources):
                yield number, f"{holder}::{name}: not in {paths[0]}; name the file that has it"


def tracked(root):
    listed = subprocess.run(["git", "-C", root, "ls-files"], check=True, capture_output=True,
                            text=True).stdout.splitlines()
    found = {}
    for path in listed:
        whole = pathlib.Path(root) / path
        if whole.is_file():
            is_text = path.endswith(CPP + (".md",))
            found[path] = whole.read_text(encoding="utf-8") if is_text else ""
    return found


def self_test():
    tree = Tree({"daemon/a/b.cpp": "void Store::open() {}\n", "daemon/a/c.h": "class Lane {\n};\n",
                 "daemon/D.md": ""})
    wrong = {
        "file": "See `a/none.h`.",
        "file above": "See `../b.cpp`.",
        "link": "See [here](a/none.md).",
        "function": "It calls `Store::close()`.",
        "function of a class": "It calls `Lane::close`.",
        "file of a function": "| 1 | `daemon/a/c.h` | `Store::open` | opens |",
    }
    right = ("`b.cpp`, `a/b.cpp`, `daemon/a/NAME_test.h`, `Store::open()`, "
             "[a](a/b.cpp), [b](../daemon)\n"
             "| `a/b.cpp` | `Store::open` |\n```\n`none.h`\n```\n")
    silent = [rule for rule, text in wrong.items()
              if not list(check_document(tree, "daemon/D.md", text))]
    false_alarms = list(check_document(tree, "daemon/D.md", right))
    if silent or false_alarms:
        print(f"silent rules: {silent}; false alarms: {false_alarms}")
    return 1 if silent or false_alarms else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    sources = tracked(ROOT)
    tree = Tree(sources)
    violations = 0
    for document, text in sources.items():
        if not document.endswith(".md"):
            continue
        for number, message in check_document(tree, document, text):
            print(f"{document}:{number}: {message}")
            violations += 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
