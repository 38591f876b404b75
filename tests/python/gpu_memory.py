"""Memory of a GPU as another library makes it, by calls of the driver: here the tests' own one."""

import ctypes
import mmap
import os

_GRANULE = 2 << 20
_POSIX_DESCRIPTOR = 1


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", _Location),
                ("meta_data", ctypes.c_void_p), ("flags", ctypes.c_uint64)]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class Gpu:
    """The first GPU of the driver. The process keeps the driver until it ends."""

    def __init__(self, driver: str) -> None:
        self.driver = ctypes.CDLL(driver, mode=ctypes.RTLD_GLOBAL)
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments) -> None:
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name} answers {result}")


class Allocation:
    """cuMemCreate's, mapped. `seen` is the test's own sight of the bytes, which no host has."""

    def __init__(self, gpu: Gpu, size: int = _GRANULE) -> None:
        self.size = size
        place = _Location(1, 0)
        wanted = _Properties(1, _POSIX_DESCRIPTOR, place, None, 0)
        handle, self.ptr, file = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int(-1)
        bytes_ = ctypes.c_size_t(size)
        none = ctypes.c_uint64(0)
        gpu.call("cuMemCreate", ctypes.byref(handle), bytes_, ctypes.byref(wanted), none)
        gpu.call("cuMemAddressReserve", ctypes.byref(self.ptr), bytes_, none, none, none)
        gpu.call("cuMemMap", self.ptr, bytes_, none, handle, none)
        gpu.call("cuMemSetAccess", self.ptr, bytes_, ctypes.byref(_Access(place, 3)),
                 ctypes.c_size_t(1))
        gpu.call("cuMemExportToShareableHandle", ctypes.byref(file), handle, _POSIX_DESCRIPTOR,
                 none)
        self.ptr = self.ptr.value
        self.seen = mmap.mmap(file.value, size)
        os.close(file.value)


class DeviceArray:
    """What cupy and numba give: a part of an allocation, in rows."""

    def __init__(self, ptr: int, shape, typestr: str = "|u1", strides=None, read_only=False):
        self.__cuda_array_interface__ = {
            "data": (ptr, read_only), "shape": shape, "typestr": typestr, "strides": strides,
            "version": 3}
