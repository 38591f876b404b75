"""torch's memory on a real GPU: torch_check.py SOCKET. What its default allocator makes is refused,
what simm.gpu.pool() makes is taken and holds the bytes that were got. Run by real.sh."""
import os
import sys

import torch

import simm.gpu
from simm import kv

PAGE = 1 << 20


def main():
    os.environ["SIMM_SOCKET"] = sys.argv[1]
    with kv.Store() as store:
        default = torch.zeros(4 * PAGE, dtype=torch.uint8, device="cuda")
        assert kv.register_mr(default) is None, "cudaMalloc memory was taken"
        with torch.cuda.use_mem_pool(simm.gpu.pool()):
            pages = torch.randint(0, 256, (4, PAGE), dtype=torch.uint8, device="cuda")
        mr = kv.register_mr(pages)
        assert mr is not None and mr.pieces[0][2] == "gpu", mr
        wanted = pages.clone()
        keys = [f"torch/{i}" for i in range(4)]
        views = [kv.BlockView.from_tensor(page, mr) for page in pages]
        assert store.mput(keys, views) == [0] * 4
        pages.zero_()
        torch.cuda.synchronize()
        assert store.mget(keys, views) == [PAGE] * 4
        assert torch.equal(pages, wanted), "other bytes"
        assert kv.deregister_mr(mr)


main()
