#!/usr/bin/env python3
"""The rules of the tree that a compiler does not check: sizes, widths, who may include whom.

Prints one line a violation, `file:line: what, and the remedy`, and exits 1 when there is any.
`tidy.py --self-test` feeds each rule a violation and fails when the rule stays silent.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 600
FILE_LINES_MEDIAN_MAX = 140
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
SOURCES = (".cpp", ".h", ".c", ".py", ".sh", ".capnp", ".cmake")
CPP = (".cpp", ".h", ".c")

ANY_BEFORE = None  # all rooms that stand before this one
# Room -> rooms it may include. A room is a folder; a folder that is not here belongs to the one
# above it. Data flows one way: a room names only rooms that stand before it, so there is no circle.
# What is not listed is forbidden. A new arrow is written here, where a review sees it.
ROOMS = {
    "ipc": (),
    "libclient": ("ipc",),
    "python": (),  # the installed headers only: simm/...
    "daemon/base": ("ipc",),
    "daemon/memory/helper": ("ipc",),
    "daemon/memory/gpu": ("ipc", "daemon/base", "daemon/memory/helper"),
    "daemon/memory": ("ipc", "daemon/base", "daemon/memory/helper", "daemon/memory/gpu"),
    "daemon/store/space": ("ipc",),
    "daemon/store/eviction": ("ipc", "daemon/base", "daemon/store/space"),
    "daemon/store/pool": ("ipc", "daemon/base", "daemon/store/space", "daemon/store/eviction"),
    "daemon/store": ("ipc", "daemon/base", "daemon/store/space", "daemon/store/eviction",
                     "daemon/store/pool"),
    "daemon/transport": ("ipc", "daemon/base", "daemon/memory/helper", "daemon/memory"),
    "daemon/transport/local": ("ipc", "daemon/base", "daemon/transport"),
    "daemon/transport/tcp": ("ipc", "daemon/base", "daemon/memory", "daemon/transport"),
    "daemon/transport/rdma/device": ("ipc", "daemon/base"),
    "daemon/transport/rdma/registration": ("ipc", "daemon/base", "daemon/memory",
                                           "daemon/transport/rdma/device"),
    "daemon/transport/rdma": ("ipc", "daemon/base", "daemon/transport",
                              "daemon/transport/rdma/device",
                              "daemon/transport/rdma/registration"),
    "daemon/engine": ("ipc", "daemon/base", "daemon/transport"),
    "daemon/session": ("ipc", "daemon/base", "daemon/memory", "daemon/transport", "daemon/engine"),
    "daemon/server": ("ipc", "daemon/base", "daemon/store/eviction", "daemon/store",
                      "daemon/transport"),
    "daemon/shared_reads": ("ipc", "daemon/base", "daemon/memory", "daemon/store/space",
                      "daemon/transport", "daemon/engine"),
    "daemon/moves": ("ipc", "daemon/base", "daemon/memory", "daemon/store/eviction", "daemon/store",
                     "daemon/transport", "daemon/engine", "daemon/server"),
    "daemon/cluster/hello": ("ipc", "daemon/base"),
    "daemon/cluster": ("ipc", "daemon/base", "daemon/engine", "daemon/cluster/hello"),
    "daemon/http": ("ipc", "daemon/base"),
    "daemon/etcd": ("ipc", "daemon/base", "daemon/http", "daemon/cluster"),
    "daemon/control": ("ipc", "daemon/base", "daemon/session"),
    "daemon/attach": ("ipc", "daemon/base", "daemon/memory/gpu", "daemon/memory", "daemon/session",
                      "daemon/control"),
    "daemon/peers": ("ipc", "daemon/base", "daemon/transport", "daemon/transport/tcp",
                     "daemon/transport/rdma/device", "daemon/transport/rdma/registration",
                     "daemon/transport/rdma", "daemon/cluster/hello", "daemon/cluster",
                     "daemon/control"),
    "daemon/metrics": ("ipc", "daemon/base", "daemon/store/eviction", "daemon/cluster/hello",
                       "daemon/control", "daemon/attach", "daemon/peers"),
    "daemon/admin": ("ipc", "daemon/base", "daemon/memory/gpu", "daemon/transport/rdma/device",
                     "daemon/transport/rdma/registration", "daemon/session",
                     "daemon/cluster/hello", "daemon/control", "daemon/attach", "daemon/peers",
                     "daemon/metrics"),
    "daemon/traces": ("ipc", "daemon/base", "daemon/http", "daemon/control", "daemon/admin"),
    # The two rooms that put the others together.
    "daemon/agent": ANY_BEFORE,
    "daemon/process": ANY_BEFORE,
    "daemon": ("ipc", "daemon/base", "daemon/control", "daemon/process"),
    "daemon/tools/simmctl": ("ipc", "libclient", "daemon/base"),
    "daemon/tools/simm-device-plugin": ("ipc", "daemon/base"),
    # It measures the store itself: policies on traces, space, index. For a manager it is many
    # members.
    "daemon/tools/simm-bench": ("ipc", "libclient", "daemon/base", "daemon/store/space",
                                "daemon/store/eviction", "daemon/store", "daemon/cluster",
                                "daemon/cluster/hello", "daemon/control", "daemon/peers"),
}
DATA_PATH = ("daemon/session/", "daemon/engine/", "daemon/transport/", "daemon/server/",
             "daemon/store/", "daemon/shared_reads/")
# Inside those, yet with threads of their own, on which no data agent waits while links are in use.
OFF_DATA_PATH = ("daemon/transport/rdma/registration/chunk_registrar.",
                 "daemon/transport/rdma/device/queue_pair_reaper.",
                 "daemon/transport/rdma/device/rail_device.",
                 "daemon/transport/rdma/device/rail_port.",  # its polling takes none
                 "daemon/transport/rdma/device/verbs_device.")
# A class lies in at most two sources: a larger one has to become several nouns.
CLASS_SOURCES_MAX = 2
MEMBER = re.compile(r"^(?:[A-Za-z_][\w:<>,&* ]*?[ &*])?(?:[a-z]\w*::)*([A-Z]\w+)::~?\w+\(", re.M)
BLOCKING = re.compile(r"std::(mutex|shared_mutex|recursive_mutex|lock_guard|unique_lock|"
                      r"scoped_lock|condition_variable|this_thread::sleep|jthread)")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s+"((?:ipc|daemon|libclient|simm)/[^"]+)"')
# Public headers, which are included as "simm/...", that lie in ipc/include; the rest: libclient.
IPC_PUBLIC = {header.name for header in ROOT.glob("ipc/include/simm/*.h")}


def room_of(path):
    """The room that holds the path: the longest of ROOMS; or None."""
    if path.startswith("simm/"):
        return "ipc" if path[len("simm/"):] in IPC_PUBLIC else "libclient"
    holders = [room for room in ROOMS if path.startswith(room + "/")]
    return max(holders, key=len) if holders else None


def may_include(room, other):
    """Whether a file in `room` may include one in `other`."""
    if room == other:
        return True
    if ROOMS[room] is ANY_BEFORE:
        return list(ROOMS).index(other) < list(ROOMS).index(room)
    return other in ROOMS[room]


def circular_rooms():
    """Rooms that name one which does not stand before them: the table itself is wrong then."""
    names = list(ROOMS)
    return [room for room in names for other in ROOMS[room] or ()
            if other not in names or names.index(other) >= names.index(room)]


def function_lengths(lines):
    """(first line, length) of each function body: a brace that opens after a parameter list."""
    found, stack, signature = [], [], ""
    for number, raw in enumerate(lines, 1):
        line = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'|//.*', "", raw)
        for char in line:
            if char == "{":
                text = signature.strip()
                is_type = re.search(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$", text)
                is_function = ")" in text and not is_type
                inside = any(kind for kind, _ in stack)
                stack.append((is_function and not inside, number))
                signature = ""
            elif char == "}":
                if stack:
                    is_function, start = stack.pop()
                    if is_function:
                        found.append((start, number - start + 1))
                signature = ""
            elif char == ";":
                signature = ""
            else:
                signature += char
        signature += " "
    return found


def check_file(path, text):
    """Yields (line, message) for each violation of one file."""
    lines = text.splitlines()
    suffix = pathlib.Path(path).suffix
    if len(lines) > FILE_LINES_MAX:
        yield 1, f"{len(lines)} lines, at most {FILE_LINES_MAX}: split it where its nouns part"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, at most {COLUMNS_MAX}"
        if UNFINISHED.search(line):
            yield number, "an unfinished mark: finish it or take it out"
    if suffix not in CPP:
        return
    is_test = path.startswith("tests/")
    if not is_test:
        for start, length in function_lengths(lines):
            if length > FUNCTION_LINES_MAX:
                yield start, f"a function of {length} lines, at most {FUNCTION_LINES_MAX}"
    if suffix == ".h" and not text.lstrip().startswith(("//", "/*")):
        yield 1, "a header opens with its contract: what it is, who owns it, which thread calls it"
    room = room_of(path)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        is_installed = room == "python" and match and match[1].startswith("simm/")
        if match and room and not is_installed and not may_include(room, room_of(match[1])):
            yield number, f"{room} may not include {match[1]}: see ROOMS in tidy.py"
        code = line.split("//")[0]
        is_data_path = path.startswith(DATA_PATH) and not path.startswith(OFF_DATA_PATH)
        if is_data_path and BLOCKING.search(code):
            yield number, "a lock or sleep on the data path: use a mailbox"
        if re.search(r"\bfor \([^;]* : [^;]*\)\[[^]]*\]\)", code):
            yield number, "a loop over a part of a temporary, which is gone by then: name it first"
        if re.search(r"^\s*//.*-{6}", line):
            yield number, "a ruled separator, which formatting breaks: write // ---- words ----"
        if "atomic_thread_fence" in code:
            yield number, "a fence: order on the words themselves, TSan does not model fences"
        if re.search(r"\bSubmission\s*&\s*\w", code) and not path.startswith(("ipc/", "tests/")):
            if "const" not in code:
                yield number, "a mutable Submission& outside ipc/: copy it, then look at the copy"


def class_sources(sources):
    """Yields (file, message) for each class whose members are defined in too many of the sources.

    `sources` is {path: text}. The daemon and the library may have classes of one name.
    """
    found = {}
    for path, text in sources.items():
        if path.endswith(".cpp") and not path.startswith("tests/"):
            for name in set(MEMBER.findall(text)):
                found.setdefault((path.split("/")[0], name), []).append(path)
    for (_, name), paths in found.items():
        if len(paths) > CLASS_SOURCES_MAX:
            yield min(paths), (f"{name} lies in {len(paths)} sources, at most {CLASS_SOURCES_MAX}: "
                               "make a part of it a class of its own")


def tracked_files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files"], check=True, capture_output=True,
                            text=True).stdout.splitlines()
    return [f for f in listed if f.endswith(SOURCES) and (pathlib.Path(root) / f).exists()]


def self_test():
    long_function = "// x\nvoid f(int a) {\n" + "  a++;\n" * 80 + "}\n"
    cases = {
        "file lines": ("daemon/base/a.cpp", "// x\n" * 601),
        "columns": ("daemon/base/a.cpp", "/" * 101 + "\n"),
        "unfinished": ("daemon/base/a.cpp", "// TO" "DO\n"),
        "function": ("daemon/base/a.cpp", long_function),
        "header": ("daemon/base/a.h", "#pragma once\n"),
        "include": ("ipc/a.cpp", '#include "daemon/base/clock.h"\n'),
        "include of a room beside": ("daemon/peers/a.cpp", '#include "daemon/admin/texts.h"\n'),
        "include of a room within": ("daemon/memory/helper/a.cpp",
                                     '#include "daemon/memory/region.h"\n'),
        "include past the installed": ("python/native/a.h", '#include "ipc/lanes.h"\n'),
        "include of the library": ("daemon/base/a.cpp", '#include "simm/client.h"\n'),
        "mutex": ("daemon/engine/a.cpp", "std::mutex m;\n"),
        "fence": ("ipc/a.cpp", "std::atomic_thread_fence(std::memory_order_seq_cst);\n"),
        "separator": ("daemon/engine/a.cpp", "// --- data ------------------\n"),
        "loop": ("tests/a.cpp", 'for (const auto& x : report("a")["b"]) f(x);\n'),
        "submission": ("daemon/session/a.cpp", "void f(ipc::Submission& s);\n"),
    }
    silent = [name for name, (path, text) in cases.items() if not list(check_file(path, text))]
    parts = {f"daemon/engine/{part}.cpp": "int ns::Job::f() {\n}\n" for part in "abc"}
    if not list(class_sources(parts)):
        silent.append("class in many sources")
    clean = list(check_file("ipc/a.cpp", '#include "ipc/b.h"\nvoid f(int a) {\n  g(a);\n}\n'))
    clean += class_sources({"daemon/a.cpp": "int Job::f() {}", "daemon/b.cpp": "int Job::g() {}",
                            "daemon/c.cpp": "  Job::f(1);", "libclient/a.cpp": "int Job::f() {}"})
    circular = circular_rooms()
    if silent or clean or circular:
        print(f"silent rules: {silent}; false alarms: {clean}; rooms in a circle: {circular}")
    return 1 if silent or clean or circular else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    violations, lengths = 0, []
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in tracked_files(ROOT)}
    for path, message in class_sources(texts):
        print(f"{path}: {message}")
        violations += 1
    for path, text in texts.items():
        if path.endswith(CPP):
            lengths.append(len(text.splitlines()))
        for line, message in check_file(path, text):
            print(f"{path}:{line}: {message}")
            violations += 1
    lengths.sort()
    median = lengths[len(lengths) // 2]
    print(f"{len(lengths)} C++ files, median {median} lines, longest {lengths[-1]}")
    if median > FILE_LINES_MEDIAN_MAX:
        print(f"median file length {median}, at most {FILE_LINES_MEDIAN_MAX}")
        violations += 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
