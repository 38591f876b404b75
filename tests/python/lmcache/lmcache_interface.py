"""What simm.lmcache needs of LMCache, as small as it can be: the names, attributes and rules of the
release of July 2026. install() makes it importable as `lmcache`."""

import abc
import dataclasses
import enum
import importlib
import struct
import sys
import threading
import types
import urllib.parse

import torch

HEADER = struct.Struct("<qii4q")
DTYPES = [None, torch.uint8, torch.float16, torch.float32, torch.bfloat16]


class MemoryFormat(enum.Enum):
    UNDEFINED = 0
    KV_2LTD = 1
    BINARY_BUFFER = 2


@dataclasses.dataclass
class RemoteMetadata:
    length: int
    shapes: list
    dtypes: list
    fmt: MemoryFormat

    def serialize(self):
        shape = (list(self.shapes[0]) + [0] * 4)[:4]
        return HEADER.pack(self.length, self.fmt.value, DTYPES.index(self.dtypes[0]), *shape)

    @staticmethod
    def deserialize(data):
        length, fmt, dtype, *shape = HEADER.unpack(data)
        return RemoteMetadata(length, [torch.Size(shape)], [DTYPES[dtype]], MemoryFormat(fmt))


@dataclasses.dataclass
class Metadata:
    shape: torch.Size
    dtype: torch.dtype
    fmt: MemoryFormat


def bytes_of(shape, dtype):
    size = torch.tensor([], dtype=dtype).element_size()
    for dimension in shape:
        size *= dimension
    return size


class MemoryObj:
    """In the pool (raw_data is a slice of it), or, as a serializer makes them, a bytearray."""

    def __init__(self, raw_data, metadata, free):
        self.raw_data = raw_data
        self.meta = metadata
        self._free = free
        self._references = 1

    def get_size(self):
        if self.meta.fmt == MemoryFormat.BINARY_BUFFER:
            return len(self.raw_data)
        return bytes_of(self.meta.shape, self.meta.dtype)

    def get_shapes(self):
        if self.meta.fmt == MemoryFormat.BINARY_BUFFER:
            return [torch.Size([len(self.raw_data), 0, 0, 0])]
        return [self.meta.shape]

    def get_dtypes(self):
        return [self.meta.dtype]

    def get_memory_format(self):
        return self.meta.fmt

    @property
    def byte_array(self):
        if isinstance(self.raw_data, bytearray):
            return self.raw_data
        return memoryview(self.raw_data.numpy())[:self.get_size()]

    def ref_count_up(self):
        self._references += 1

    def ref_count_down(self):
        self._references -= 1
        if self._references == 0:
            self._free()

    def get_ref_count(self):
        return self._references


class Allocator:
    """Of one tensor. Memory is used again for chunks of the same size. Thread: any."""

    def __init__(self, size):
        self.buffer = torch.zeros(size, dtype=torch.uint8)
        self.used = 0
        self._next = 0
        self._idle = {}
        self._lock = threading.Lock()

    def allocate(self, shapes, dtypes, fmt):
        metadata = Metadata(shapes[0], dtypes[0], fmt)
        if fmt == MemoryFormat.BINARY_BUFFER:
            return MemoryObj(bytearray(shapes[0][0]), metadata, lambda: None)
        size = bytes_of(shapes[0], dtypes[0])
        with self._lock:
            idle = self._idle.setdefault(size, [])
            if idle:
                start = idle.pop()
            elif self._next + size > len(self.buffer):
                return None
            else:
                start = self._next
                self._next += size
            self.used += size
        return MemoryObj(self.buffer[start:start + size], metadata,
                         lambda: self._free(start, size))

    def _free(self, start, size):
        with self._lock:
            self._idle[size].append(start)
            self.used -= size


class LocalCPUBackend:
    def __init__(self, config, metadata, memory_allocator):
        self.config = config
        self.metadata = metadata
        self.memory_allocator = memory_allocator

    def allocate(self, shapes, dtypes, fmt=None, eviction=True, busy_loop=True):
        assert not busy_loop, "it would wait in the event loop, for ever"
        return self.memory_allocator.allocate(shapes, dtypes, fmt)

    def batched_allocate(self, shapes, dtypes, batch_size, fmt=None, eviction=True,
                         busy_loop=True):
        """All or nothing."""
        assert not eviction and not busy_loop, "it would throw out layers of other chunks"
        chunks = []
        while len(chunks) < batch_size:
            one = self.memory_allocator.allocate(shapes, dtypes, fmt)
            if one is None:
                for made in chunks:
                    made.ref_count_down()
                return None
            chunks.append(one)
        return chunks


@dataclasses.dataclass
class EngineMetadata:
    """shape: parts, layers, tokens, hidden."""
    model_name: str
    shape: torch.Size
    dtype: torch.dtype


@dataclasses.dataclass
class EngineConfig:
    remote_url: str
    extra_config: dict
    remote_storage_plugins: list
    use_layerwise: bool = False


@dataclasses.dataclass(frozen=True)
class CacheEngineKey:
    model_name: str
    worker_id: int
    chunk_hash: int

    def to_string(self):
        return f"{self.model_name}@8@{self.worker_id}@{self.chunk_hash:x}@half"


class RemoteConnector(abc.ABC):
    def __init__(self, config, metadata):
        assert metadata is not None
        self.save_chunk_meta = config.extra_config.get("save_chunk_meta", True)
        self.meta_shapes = [metadata.shape]
        self.meta_dtypes = [metadata.dtype]
        self.meta_fmt = MemoryFormat.KV_2LTD
        self.full_chunk_size_bytes = bytes_of(metadata.shape, metadata.dtype)
        self.single_token_size = self.full_chunk_size_bytes // metadata.shape[2]
        self.remote_metadata_bytes = HEADER.size

    def reshape_partial_chunk(self, memory_obj, bytes_read):
        if bytes_read % self.single_token_size or not 0 < bytes_read <= self.full_chunk_size_bytes:
            raise ValueError(f"bytes_read: {bytes_read}")
        shape = list(memory_obj.meta.shape)
        shape[2] = bytes_read // self.single_token_size
        memory_obj.raw_data = memory_obj.raw_data[:bytes_read]
        memory_obj.meta.shape = torch.Size(shape)
        return memory_obj

    @abc.abstractmethod
    async def exists(self, key): ...

    @abc.abstractmethod
    def exists_sync(self, key): ...

    @abc.abstractmethod
    async def get(self, key): ...

    @abc.abstractmethod
    async def put(self, key, memory_obj): ...

    @abc.abstractmethod
    async def list(self): ...

    @abc.abstractmethod
    async def close(self): ...


class ConnectorAdapter(abc.ABC):
    def __init__(self, schema=""):
        self.schema = schema

    @abc.abstractmethod
    def create_connector(self, context): ...


def create_connector(url, loop, local_cpu_backend, config, metadata):
    """By remote_storage_plugins, or external://HOST:PORT/MODULE/?connector_name=CLASS."""
    if url.startswith("external://"):
        parts = urllib.parse.urlsplit(url)
        module = importlib.import_module(parts.path.strip("/"))
        kind = getattr(module, urllib.parse.parse_qs(parts.query)["connector_name"][0])
        assert issubclass(kind, RemoteConnector)
        return kind(loop=loop, local_cpu_backend=local_cpu_backend, config=config)
    for plugin in config.remote_storage_plugins:
        prefix = f"remote_storage_plugin.{plugin}."
        module = importlib.import_module(config.extra_config[prefix + "module_path"])
        adapter = getattr(module, config.extra_config[prefix + "class_name"])()
        assert isinstance(adapter, ConnectorAdapter)
        if adapter.can_parse(url):
            return adapter.create_connector(types.SimpleNamespace(
                url=url, loop=loop, local_cpu_backend=local_cpu_backend, config=config,
                metadata=metadata, plugin_name=plugin))
    raise ValueError(f"no adapter for {url}")


def install():
    homes = {"lmcache": [], "lmcache.v1": [], "lmcache.v1.storage_backend": [],
             "lmcache.v1.protocol": [RemoteMetadata],
             "lmcache.v1.storage_backend.connector": [ConnectorAdapter],
             "lmcache.v1.storage_backend.connector.base_connector": [RemoteConnector]}
    for name, things in homes.items():
        module = types.ModuleType(name)
        module.__path__ = []
        for thing in things:
            setattr(module, thing.__name__, thing)
        sys.modules[name] = module
