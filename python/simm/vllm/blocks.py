"""Blocks: vLLM's KV cache as pieces: what one block has of one tensor, in runs of bytes. A tensor
of (2, blocks, ...) has two pieces of each block, one of (blocks, ...) has one, and so has a tensor
of all layers. The memory is registered once; that of a GPU has to be of simm.gpu."""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from simm import _native
from simm.memory import register_mr
from simm.tensors import torch_or_none

REMEDY = ("start vLLM with --worker-cls simm.vllm.SimmWorker, without its sleep mode, or take "
          "simm.vllm.SimmTier")


class _Layout(NamedTuple):
    """offsets: of the pieces of block 0; step: from one block to the next; in bytes. form: what
    tells apart what two engines may not read of each other."""

    offsets: Tuple[int, ...]
    step: int
    piece_bytes: int
    form: List[Any]


class Layer(NamedTuple):
    """names: of the layers whose bytes these are."""

    names: Tuple[str, ...]
    base: int
    layout: _Layout
    memory: _native.MrExt

    def views(self, blocks: Sequence[int], pieces: range) -> _native.Views:
        """Of each block these pieces, block by block."""
        layout = self.layout
        ptrs = [self.base + block * layout.step + layout.offsets[piece]
                for block in blocks for piece in pieces]
        return _native.Views(ptrs, [layout.piece_bytes] * len(ptrs), self.memory)


def _layout(name: str, tensor: Any, count: int, first: int) -> _Layout:
    """The axis of the blocks is the first one from `first` on that has their count."""
    shape, strides, item = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
    axes = [axis for axis in range(first, len(shape)) if shape[axis] == count]
    if not axes:
        raise ValueError(f"{name} has the shape {shape}, and none of its axes is the {count} "
                         f"blocks: this version of vLLM is not known to simm.vllm: {REMEDY}")
    at = axes[0]
    outer = [axis for axis in range(len(shape)) if axis != at and strides[axis] > strides[at]]
    inner = sorted((axis for axis in range(len(shape)) if axis != at and axis not in outer),
                   key=lambda axis: strides[axis])
    size = 1
    for axis in inner:
        if shape[axis] != 1 and strides[axis] != size:
            raise ValueError(f"{name}: shape {shape}, strides {strides}: a block is no run of "
                             f"bytes: {REMEDY}")
        size *= shape[axis]
    if size > strides[at] and count > 1:
        raise ValueError(f"{name}: shape {shape}, strides {strides}: blocks overlap: {REMEDY}")
    offsets = [0]
    for axis in outer:
        offsets = [offset + i * strides[axis] * item for offset in offsets
                   for i in range(shape[axis])]
    form = [str(tensor.dtype), item, [[axis, shape[axis]] for axis in outer],
            [[axis, shape[axis], strides[axis]] for axis in inner]]
    return _Layout(tuple(offsets), strides[at] * item, size * item, form)


class Blocks:
    """ValueError: a layout that it does not understand. RuntimeError: memory that no daemon could
    take. Thread: one at a time."""

    def __init__(self, tensors: Dict[str, Any], count: int, has_all_layers: bool = False) -> None:
        """tensors: by layer; has_all_layers: one of all layers, which are its first axis."""
        self._tensors = list(tensors.values())  # whose memory has to stay
        self._is_on_gpu = any(tensor.device.type == "cuda" for tensor in self._tensors)
        self.layers: List[Layer] = []
        self._number: Dict[str, int] = {}
        places: Dict[Tuple[int, str], int] = {}
        found: List[Tuple[List[str], Any, _Layout]] = []
        for name, tensor in tensors.items():
            layout = _layout(name, tensor, count, 1 if has_all_layers else 0)
            place = (tensor.data_ptr(), repr(layout))
            if place not in places:  # else layers share it
                places[place] = len(found)
                found.append(([], tensor, layout))
            found[places[place]][0].append(name)
            self._number[name] = places[place]
        try:
            for names, tensor, layout in found:
                self.layers.append(Layer(tuple(names), tensor.data_ptr(), layout,
                                         self._register(names[0], tensor)))
        except RuntimeError:
            self.close()
            raise

    @staticmethod
    def _register(name: str, tensor: Any) -> _native.MrExt:
        last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride()))
        memory = register_mr(tensor.data_ptr(), (last + 1) * tensor.element_size())
        if memory is None:
            raise RuntimeError(f"the KV cache of {name} can not be registered (the line before "
                               f"this one says why): {REMEDY}")
        return memory

    @property
    def form(self) -> List[Any]:
        """What the bytes of a block depend on, beside the model."""
        return [[layer.names, layer.layout.form] for layer in self.layers]

    def number_of(self, name: str) -> int:
        """Of the layer of that name; with one tensor of all layers always 0."""
        return self._number.get(name, 0)

    def settle(self) -> None:
        """What the GPU was told to do is done: nobody writes to blocks of ended requests then."""
        torch = torch_or_none() if self._is_on_gpu else None
        if torch is not None:
            torch.cuda.synchronize()

    def close(self) -> None:
        """Waits for what still uses the memory. Safe twice."""
        for layer in self.layers:
            layer.memory.deregister()
