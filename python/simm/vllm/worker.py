"""SimmWorker: vLLM's worker of a GPU, whose KV cache is memory that a daemon can take. vLLM's own
is of cudaMalloc, for which the driver gives no descriptor, so no other process can map it."""

from typing import Any

from vllm.v1.worker.gpu_worker import Worker

import simm.gpu
from simm.tensors import torch_or_none


class SimmWorker(Worker):
    """Named by `--worker-cls simm.vllm.SimmWorker`. Only the KV cache is made so: all else is
    allocated as ever. RuntimeError: as simm.gpu.pool()."""

    def initialize_from_config(self, *arguments: Any, **more: Any) -> Any:
        """vLLM allocates the KV cache here. The pool stays as long as the worker."""
        self._simm_pool = simm.gpu.pool()
        with torch_or_none().cuda.use_mem_pool(self._simm_pool):
            return super().initialize_from_config(*arguments, **more)
