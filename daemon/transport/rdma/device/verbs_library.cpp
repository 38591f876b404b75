#include "daemon/transport/rdma/device/verbs_library.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace simm::transport {
namespace {

constexpr const char* kVerbsLibrary = "libibverbs.so.1";

struct Verbs {
  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_device) query_device;
  decltype(&::ibv_query_port) query_port;
  decltype(&::_ibv_query_gid_ex) query_gid_ex;
  decltype(&::ibv_query_pkey) query_pkey;
  decltype(&::ibv_port_state_str) port_state_str;
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2;
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr;
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
};
// Written once, before the first device is there.
Verbs verbs;

// Null: all were found; else the name of the first one that is not there.
const char* bind_verbs(void* library) {
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    void* const address = ::dlsym(library, name);
    if (address == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  find("ibv_get_device_list", verbs.get_device_list);
  find("ibv_free_device_list", verbs.free_device_list);
  find("ibv_get_device_name", verbs.get_device_name);
  find("ibv_open_device", verbs.open_device);
  find("ibv_close_device", verbs.close_device);
  find("ibv_query_device", verbs.query_device);
  find("ibv_query_port", verbs.query_port);
  find("_ibv_query_gid_ex", verbs.query_gid_ex);
  find("ibv_query_pkey", verbs.query_pkey);
  find("ibv_port_state_str", verbs.port_state_str);
  find("ibv_get_async_event", verbs.get_async_event);
  find("ibv_ack_async_event", verbs.ack_async_event);
  find("ibv_alloc_pd", verbs.alloc_pd);
  find("ibv_dealloc_pd", verbs.dealloc_pd);
  find("ibv_reg_mr_iova2", verbs.reg_mr_iova2);
  find("ibv_reg_dmabuf_mr", verbs.reg_dmabuf_mr);
  find("ibv_dereg_mr", verbs.dereg_mr);
  find("ibv_create_comp_channel", verbs.create_comp_channel);
  find("ibv_destroy_comp_channel", verbs.destroy_comp_channel);
  find("ibv_create_cq", verbs.create_cq);
  find("ibv_destroy_cq", verbs.destroy_cq);
  find("ibv_get_cq_event", verbs.get_cq_event);
  find("ibv_ack_cq_events", verbs.ack_cq_events);
  find("ibv_create_qp", verbs.create_qp);
  find("ibv_modify_qp", verbs.modify_qp);
  find("ibv_destroy_qp", verbs.destroy_qp);
  return missing;
}

}  // namespace

Outcome load_verbs_library() {
  static const Outcome loaded = []() -> Outcome {
    void* const library = ::dlopen(kVerbsLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      return Error{Status::unsupported,
                   std::string("RDMA needs ") + kVerbsLibrary + ", which can not be loaded (" +
                       (why == nullptr ? "" : why) +
                       "): install libibverbs1 (Debian, Ubuntu) or rdma-core, then restart simmd"};
    }
    if (const char* const missing = bind_verbs(library)) {
      return Error{Status::unsupported, std::string("RDMA needs ") + kVerbsLibrary +
                                            " of rdma-core 34 or newer: this one has no " +
                                            missing + "; install a newer one, then restart simmd"};
    }
    return Done{};
  }();
  return loaded;
}

}  // namespace simm::transport

// ibv_query_port is a macro as well; in parentheses it is not.
extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  return simm::transport::verbs.get_device_list(count);
}

void ibv_free_device_list(ibv_device** devices) {
  simm::transport::verbs.free_device_list(devices);
}

const char* ibv_get_device_name(ibv_device* device) {
  return simm::transport::verbs.get_device_name(device);
}

ibv_context* ibv_open_device(ibv_device* device) {
  return simm::transport::verbs.open_device(device);
}

int ibv_close_device(ibv_context* context) {
  return simm::transport::verbs.close_device(context);
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return simm::transport::verbs.query_device(context, attributes);
}

int(ibv_query_port)(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return simm::transport::verbs.query_port(context, port, attributes);
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_bytes) {
  return simm::transport::verbs.query_gid_ex(context, port, index, entry, flags, entry_bytes);
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* key) {
  return simm::transport::verbs.query_pkey(context, port, index, key);
}

const char* ibv_port_state_str(ibv_port_state state) {
  return simm::transport::verbs.port_state_str(state);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return simm::transport::verbs.get_async_event(context, event);
}

void ibv_ack_async_event(ibv_async_event* event) {
  simm::transport::verbs.ack_async_event(event);
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return simm::transport::verbs.alloc_pd(context);
}

int ibv_dealloc_pd(ibv_pd* domain) {
  return simm::transport::verbs.dealloc_pd(domain);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t bytes, std::uint64_t iova,
                         unsigned access) {
  return simm::transport::verbs.reg_mr_iova2(domain, address, bytes, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                          std::uint64_t iova, int descriptor, int access) {
  return simm::transport::verbs.reg_dmabuf_mr(domain, offset, bytes, iova, descriptor, access);
}

int ibv_dereg_mr(ibv_mr* region) {
  return simm::transport::verbs.dereg_mr(region);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return simm::transport::verbs.create_comp_channel(context);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return simm::transport::verbs.destroy_comp_channel(channel);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  return simm::transport::verbs.create_cq(context, entries, cq_context, channel, vector);
}

int ibv_destroy_cq(ibv_cq* queue) {
  return simm::transport::verbs.destroy_cq(queue);
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** cq_context) {
  return simm::transport::verbs.get_cq_event(channel, queue, cq_context);
}

void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  simm::transport::verbs.ack_cq_events(queue, count);
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  return simm::transport::verbs.create_qp(domain, wanted);
}

int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  return simm::transport::verbs.modify_qp(pair, attributes, mask);
}

int ibv_destroy_qp(ibv_qp* pair) {
  return simm::transport::verbs.destroy_qp(pair);
}

}  // extern "C"
