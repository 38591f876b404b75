#include "ipc/cuda/driver.h"

#include <dlfcn.h>

#include <type_traits>

namespace simm::cuda {

namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// Null: all were found; else the name of the first one that is not there.
const char* bind(void* library, Driver& driver) {
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    void* const address = ::dlsym(library, name);
    if (address == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  find("cuInit", driver.init);
  find("cuGetErrorName", driver.get_error_name);
  find("cuDeviceGetCount", driver.device_get_count);
  find("cuDeviceGet", driver.device_get);
  find("cuDeviceGetUuid_v2", driver.device_get_uuid);
  find("cuDeviceGetName", driver.device_get_name);
  find("cuDeviceGetAttribute", driver.device_get_attribute);
  find("cuDeviceCanAccessPeer", driver.device_can_access_peer);
  find("cuDevicePrimaryCtxRetain", driver.primary_context_retain);
  find("cuCtxSetCurrent", driver.context_set_current);
  find("cuCtxPushCurrent_v2", driver.context_push);
  find("cuCtxPopCurrent_v2", driver.context_pop);
  find("cuCtxSynchronize", driver.context_synchronize);
  find("cuPointerGetAttribute", driver.pointer_get_attribute);
  find("cuMemGetAddressRange_v2", driver.get_address_range);
  find("cuMemCreate", driver.memory_create);
  find("cuMemRelease", driver.memory_release);
  find("cuMemRetainAllocationHandle", driver.memory_retain_handle);
  find("cuMemExportToShareableHandle", driver.memory_export);
  find("cuMemImportFromShareableHandle", driver.memory_import);
  find("cuMemGetAllocationPropertiesFromHandle", driver.memory_get_properties);
  find("cuMemGetAllocationGranularity", driver.memory_get_granularity);
  find("cuMemAddressReserve", driver.address_reserve);
  find("cuMemAddressFree", driver.address_free);
  find("cuMemMap", driver.memory_map);
  find("cuMemUnmap", driver.memory_unmap);
  find("cuMemSetAccess", driver.memory_set_access);
  find("cuMemHostRegister_v2", driver.host_register);
  find("cuMemcpyHtoDAsync_v2", driver.copy_to_device);
  find("cuMemcpyDtoHAsync_v2", driver.copy_from_device);
  find("cuMemcpyDtoDAsync_v2", driver.copy_on_device);
  find("cuMemsetD8Async", driver.fill);
  find("cuMemGetInfo_v2", driver.memory_get_info);
  find("cuStreamCreate", driver.stream_create);
  find("cuStreamSynchronize", driver.stream_synchronize);
  find("cuEventCreate", driver.event_create);
  find("cuEventRecord", driver.event_record);
  find("cuEventQuery", driver.event_query);
  find("cuEventDestroy_v2", driver.event_destroy);
  return missing;
}

}  // namespace

Expected<const Driver*> Driver::load() {
  static Driver driver;
  static const Outcome loaded = []() -> Outcome {
    void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      return Error{Status::unsupported, std::string(kLibrary) + " can not be loaded (" +
                                            (why == nullptr ? "" : why) +
                                            "): install NVIDIA's driver on this host"};
    }
    if (const char* const missing = bind(library, driver)) {
      return Error{Status::unsupported, std::string(kLibrary) + " has no " + missing +
                                            ": install a driver of CUDA 12 or newer"};
    }
    return Done{};
  }();
  if (!loaded) return loaded.error();
  return &driver;
}

const Driver* Driver::find() noexcept {
  // A process that has never loaded it has no memory of a GPU.
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  ::dlclose(library);
  const Expected<const Driver*> driver = load();
  return driver ? driver.value() : nullptr;
}

std::string Driver::error_name(Result result) const {
  const char* name = nullptr;
  const bool is_known = get_error_name(result, &name) == kSuccess && name != nullptr;
  return std::string(is_known ? name : "unknown error") + " (" + std::to_string(result) + ")";
}

}  // namespace simm::cuda
