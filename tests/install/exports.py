#!/usr/bin/env python3
"""What a program sees of libsimm.so: the names of exports.txt and no others, all of them with the
library's version; and the library stays in a process that has closed it.

    exports.py LIBRARY EXPORTS_TXT MAJOR.MINOR NM
"""
import _ctypes
import ctypes
import subprocess
import sys

library, listed_in, version, nm = sys.argv[1:]
faults = []


def readable(names):
    text = "\n".join(sorted(names))
    return subprocess.run(["c++filt"], input=text, stdout=subprocess.PIPE, text=True,
                          check=True).stdout.replace("\n", "\n    ")


with open(listed_in, encoding="utf-8") as lines:
    listed = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
table = subprocess.run([nm, "-D", "--defined-only", "--with-symbol-versions", library],
                       stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
node = f"SIMM_{version}"
exported = set()
for name in (line.split()[-1] for line in table):
    if name in (node, f"{node}@@{node}"):
        continue  # the version itself
    exported.add(name.split("@")[0])
    if not name.endswith(f"@@{node}"):
        faults.append(f"{name}: its version is not {node}")
if exported - listed:
    faults.append(f"exported, but not listed:\n    {readable(exported - listed)}")
if listed - exported:
    faults.append(f"listed, but not exported (a new minor version?):\n"
                  f"    {readable(listed - exported)}")

handle = ctypes.CDLL(library)._handle
_ctypes.dlclose(handle)
with open("/proc/self/maps", encoding="utf-8") as maps:
    if library not in maps.read():
        faults.append("dlclose() unmaps the library under its sessions")

if faults:
    sys.exit("exports: " + "\nexports: ".join(faults))
