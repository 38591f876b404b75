#!/usr/bin/env python3
"""What programs that are linked already rely on: the functions of libsimm.so, and the layout of
their structs, are those of the record. So no change of them goes by unseen, and an addition is
recorded as well.

    abi.py check LIBRARY RECORD
    abi.py record LIBRARY RECORD       # after a look at what `check` says

The library needs debug information with types. Tools: abidw and abidiff (abigail-tools). Exit
status 77: they are not there.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SUPPRESSIONS = ["--suppressions", str(HERE / "abi.suppr")]
# Bits of abidiff's exit status; others say how much has changed.
ERROR, USAGE = 1, 2


def write(library, file):
    """The interface as XML. Nothing in it depends on where the tree lies."""
    subprocess.run(
        ["abidw", "--exported-interfaces-only", *SUPPRESSIONS, "--no-show-locs",
         "--no-corpus-path", "--no-comp-dir-path", "--no-elf-needed", "--type-id-style", "hash",
         "--out-file", file, library], check=True)
    written = pathlib.Path(file)
    written.write_text(re.sub(r" path='[^']*/", " path='", written.read_text("utf-8")), "utf-8")


def main():
    action, library, record = sys.argv[1:]
    if shutil.which("abidw") is None or shutil.which("abidiff") is None:
        print("SKIPPED: abigail-tools is not installed: scripts/install_packages.sh does that")
        return 77
    if action == "record":
        write(library, record)
        return 0
    with tempfile.TemporaryDirectory() as place:
        write(library, f"{place}/now.abi")
        found = subprocess.run(["abidiff", "--harmless", record, f"{place}/now.abi"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               check=False)
    if found.returncode == 0:
        return 0
    print(found.stdout)
    if found.returncode & (ERROR | USAGE):
        return 1
    print("abi: the interface of libsimm.so is not that of the record, see above.\n"
          "A new function, and a field at the end of a struct with struct_size: record it.\n"
          "Anything else breaks programs that are linked already: make it a new function, or\n"
          "begin a new minor version (libclient/API.md). To record:\n"
          f"    python3 {pathlib.Path(__file__)} record {library} {record}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
