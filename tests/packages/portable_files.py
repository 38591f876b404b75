#!/usr/bin/env python3
"""What the files of scripts/portable.sh ask of a host, and what they show to other libraries.

    portable_files.py TREE WHEEL_TREE WHEEL_NAME ORDINARY_PROGRAM

TREE and WHEEL_TREE are the unpacked archive and the unpacked wheel. ORDINARY_PROGRAM is one of the
ordinary build: these rules have to find fault with it, or they find nothing.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of the host: its C library, and the unwinder that comes with that. RDMA's library is found at run
# time.
HOST = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1",
        "ld-linux-x86-64.so.2"}
OWN = "libsimm.so.0"
# What RHEL 9 has; Ubuntu 22.04 has 2.35. A build on a newer system than Debian 12 may ask for more.
GLIBC_MAX = (2, 34)
GCC_MAX = (4, 3, 0)
GLIBC_OF_BUILDER_MAX = (2, 36)


def said(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def elf_files(tree):
    return [path for path in sorted(tree.rglob("*"))
            if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"]


def glibc_of(path):
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)",
                          said("readelf", "--wide", "--version-info", path))
    return max((int(major), int(minor)) for major, minor in versions)


def exports_of(path):
    """The names that other libraries see, without copies of the C library's own variables."""
    lines = said("nm", "-D", "--defined-only", "--with-symbol-versions", path).splitlines()
    names = [line.split()[-1] for line in lines]
    return {name.split("@")[0] for name in names if "@GLIBC_" not in name}


def faults_of(path, may_need):
    dynamic = said("readelf", "--wide", "--dynamic", path)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    if needed - may_need:
        yield f"needs {', '.join(sorted(needed - may_need))}"
    for found in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        if not all(part.startswith("$ORIGIN") for part in found.split(":")):
            yield f"looks for libraries in {found}"
    versions = said("readelf", "--wide", "--version-info", path)
    foreign = set(re.findall(r"\b(?:GLIBCXX|CXXABI|OPENSSL)_[\w.]+", versions))
    foreign |= {found for found in re.findall(r"\bGCC_[\d.]+", versions)
                if tuple(map(int, found[4:].split("."))) > GCC_MAX}
    if foreign:
        yield f"asks for {', '.join(sorted(foreign))}"


def main(tree, wheel_tree, wheel_name, ordinary):
    faults = []
    programs = {name: tree / "bin" / name for name in ("simmd", "simmctl", "simm-bench")}
    module = next((wheel_tree / "simm").glob("_native.*.so"))
    files = elf_files(tree) + elf_files(wheel_tree)
    library = (tree / "lib" / OWN).resolve()
    expected = {*programs.values(), library, module}
    if set(files) != expected:
        faults.append(f"other files than expected: {sorted(map(str, set(files) ^ expected))}")
    for path in files:
        may_need = HOST | {OWN} if path in (programs["simmctl"], programs["simm-bench"]) else HOST
        faults += [f"{path}: {fault}" for fault in faults_of(path, may_need)]
    found = len(list(faults_of(ordinary, HOST)))
    if found < 2:
        faults.append(f"{ordinary}: only {found} faults found in a program that has two kinds")

    newest = max(map(glibc_of, files))
    promised = re.search(r"-manylinux_(\d+)_(\d+)_x86_64\.whl$", wheel_name)
    if not promised or tuple(map(int, promised.groups())) != newest:
        faults.append(f"{wheel_name}: the files ask for the C library {newest}")
    builder = tuple(map(int, said("getconf", "GNU_LIBC_VERSION").split()[1].split(".")[:2]))
    if newest > GLIBC_MAX and builder <= GLIBC_OF_BUILDER_MAX:
        faults.append(f"the C library {newest} is newer than {GLIBC_MAX}")

    with open(ROOT / "libclient/exports.txt", encoding="utf-8") as lines:
        listed = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    c_interface = {name for name in listed if name.startswith("simm_")}
    seen = {path: exports_of(path) for path in files}
    wanted = {library: listed | {name for name in seen[library] if re.match(r"SIMM_\d", name)},
              module: c_interface | {"PyInit__native"}}
    for path in files:
        wrong = seen[path] ^ wanted.get(path, set())
        if path in (programs["simmctl"], programs["simm-bench"]):
            wrong -= listed  # those that it has as well: libsimm takes the program's
        if wrong:
            faults.append(f"{path}: shows other names than it should: {sorted(wrong)[:20]}")

    # Of this clone nothing is left in them: another clone makes the same files.
    for path in (*tree.rglob("*"), *wheel_tree.rglob("*")):
        if path.name == "direct_url.json":
            continue  # pip's: where it found the wheel
        if path.is_file() and str(ROOT).encode() in path.read_bytes():
            faults.append(f"{path}: names {ROOT}")
    if faults:
        sys.exit("portable: " + "\nportable: ".join(faults))
    print(f"portable: {len(files)} files need the C library {newest[0]}.{newest[1]} and no other")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3],
         pathlib.Path(sys.argv[4]))
