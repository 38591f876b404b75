"""Makes FlexKV's own client start on a host without RDMA devices, without a change of its files:
there it calls `.get` of an empty *list* of NICs, which is an AttributeError. It has a switch of its
own, which an environment that says otherwise keeps."""

import os

from simm.sglang.repair import NIC_DIRECTORY

SKIP = "FLEXKV_SIMM_SKIP_NUMA_DEVICES"


def repair() -> None:
    """Nobody but that client reads the variable. Thread: as for imports."""
    if not os.path.exists(NIC_DIRECTORY):
        os.environ.setdefault(SKIP, "1")
