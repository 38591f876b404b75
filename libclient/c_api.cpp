// The C interface: handles around the C++ objects, codes for Status, and no exception past it.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "libclient/c_handles.h"
#include "libclient/completion_queue.h"
#include "libclient/core.h"
#include "libclient/gpu_allocator.h"
#include "libclient/last_error.h"
#include "libclient/log.h"
#include "libclient/page_list.h"
#include "simm/client.h"
#include "simm/error_code.h"
#include "simm/simm.h"
#include "simm/trace.h"

namespace simm::detail {

static_assert(sizeof(simm_item) == SIMM_ITEM_BYTES);

Item PageList::page_of_c_item(const void* given) noexcept {
  simm_item item;
  // SAFETY: an item has at least SIMM_ITEM_BYTES: item_bytes_of().
  std::memcpy(&item, given, sizeof item);
  Item page;
  page.key = std::string_view(static_cast<const char*>(item.key), item.key_bytes);
  page.view = item.region != nullptr ? View(item.region->region, item.offset, item.length)
                                     : View(item.address, item.length);
  page.object_offset = item.object_offset;
  page.depth = item.depth;
  return page;
}

namespace {

// No struct of options grows beyond: a larger size was never set.
constexpr std::size_t kOptionsBytesMax = 1024;

// Copies a struct whose first field is its size as the caller knows it; what the caller does not
// know is zero. False: a newer header's, and what only that one knows is not at its default.
template <typename Options>
bool copy_options(const Options* given, Options& out) noexcept {
  out = Options{};
  if (given == nullptr) return true;
  const std::size_t bytes = given->struct_size;
  const auto* const newer = reinterpret_cast<const unsigned char*>(given);
  if (bytes < sizeof(size_t) || bytes > kOptionsBytesMax ||
      // SAFETY: struct_size says that the caller's struct has these bytes.
      std::any_of(newer + std::min(bytes, sizeof(Options)), newer + bytes,
                  [](unsigned char byte) { return byte != 0; })) {
    (void)fail(Status::incompatible,
               "struct_size = %zu: this library knows %zu; use the *_INIT macro of its own header, "
               "and leave newer fields 0",
               bytes, sizeof(Options));
    return false;
  }
  std::memcpy(&out, given, std::min(bytes, sizeof(Options)));
  return true;
}

// The size of an item as the caller knows it, or 0: refused, because of what only a newer library
// knows. Items of an older header end sooner; so far there is none.
std::size_t item_bytes_of(const simm_item* items, std::size_t count, std::size_t given) noexcept {
  if (given == 0 || given == sizeof(simm_item)) return sizeof(simm_item);
  bool fits =
      given >= SIMM_ITEM_BYTES && given <= kOptionsBytesMax && given % alignof(simm_item) == 0;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(items);
  for (std::size_t i = 0; fits && i < count; ++i) {
    // SAFETY: item_bytes says that each of the caller's items has these bytes.
    fits = std::all_of(bytes + i * given + sizeof(simm_item), bytes + (i + 1) * given,
                       [](unsigned char byte) { return byte == 0; });
  }
  if (fits) return given;
  (void)fail(Status::incompatible,
             "item_bytes = %zu: this library knows %zu; give sizeof(simm_item) of the caller's "
             "header, and leave newer fields 0",
             given, sizeof(simm_item));
  return 0;
}

template <typename Value>
void take_if_set(Value given, Value& out) noexcept {
  if (given != Value{}) out = given;
}

ClientOptions client_options(const simm_client_options& given) {
  ClientOptions options;
  if (given.socket_path != nullptr) options.socket_path = given.socket_path;
  if (given.name != nullptr) options.name = given.name;
  if (given.manager_address != nullptr) options.manager_address = given.manager_address;
  take_if_set(given.lanes, options.lanes);
  take_if_set(given.async_lanes, options.async_lanes);
  take_if_set(given.sync_timeout_ms, options.sync_timeout_ms);
  take_if_set(given.async_timeout_ms, options.async_timeout_ms);
  take_if_set(given.connect_timeout_ms, options.connect_timeout_ms);
  take_if_set(given.floor_bytes_per_s, options.floor_bytes_per_s);
  take_if_set(given.staging_bytes, options.staging_bytes);
  options.wait = given.wait == SIMM_WAIT_ADAPTIVE ? WaitMode::adaptive
                 : given.wait == SIMM_WAIT_SPIN   ? WaitMode::spin
                 : given.wait == SIMM_WAIT_EVENT  ? WaitMode::event
                                                  : static_cast<WaitMode>(UINT8_MAX);
  options.reattach = given.no_reattach == 0;
  return options;
}

int make_region(simm_region** out, Expected<Region> made) {
  if (!made) return code(made.status());
  *out = new simm_region{std::move(*made)};
  return SIMM_OK;
}

CallOptions call_options(const simm_call_options& given) noexcept {
  CallOptions options;
  if (given.name_space != nullptr) options.name_space = given.name_space->name_space;
  options.timeout_ms = given.timeout_ms;
  options.mode = given.replace != 0 ? PutMode::replace : PutMode::if_absent;
  options.ttl_ms = given.ttl_ms;
  options.lease_ms = given.lease_ms;
  options.exact_size = (given.flags & SIMM_EXACT_SIZE) != 0;
  options.shared = (given.flags & SIMM_SHARED_READS) != 0;
  options.ranged = (given.flags & SIMM_RANGED) != 0;
  return options;
}

RegisterOptions register_options(const simm_region_options& given) noexcept {
  RegisterOptions options;
  options.kind = static_cast<RegionKind>(std::min<std::uint32_t>(given.kind, UINT8_MAX));
  options.allow_foreign = given.allow_foreign != 0;
  options.stopped_daemon =
      given.wait_if_stopped != 0 ? StoppedDaemon::wait : StoppedDaemon::take_back;
  return options;
}

bool known_call_flags(const simm_call_options& options) noexcept {
  return known_flags(options.flags, SIMM_EXACT_SIZE | SIMM_SHARED_READS | SIMM_RANGED,
                     "SIMM_EXACT_SIZE, SIMM_SHARED_READS and SIMM_RANGED");
}

PageCallback page_callback(const simm_call_options& known) {
  return [call = known.page_callback, context = known.page_context](const PageEnd& page) {
    const simm_page_end told = {page.ticket,       page.user_data,           page.index,
                                page.result.bytes, code(page.result.status), 0};
    call(context, &told);
  };
}

bool valid_batch(const simm_client* client, const simm_item* items, size_t count,
                 const simm_result* results) noexcept {
  if (client == nullptr) return null_argument("client") == SIMM_OK;
  if (count != 0 && items == nullptr) return null_argument("items") == SIMM_OK;
  if (count != 0 && results == nullptr) return null_argument("results") == SIMM_OK;
  return true;
}

}  // namespace

// A friend of Client: the way to the calls that take a PageList.
struct CAccess {
  // What the calls and their asynchronous twins have in common: arguments, whose faults are told
  // like others.
  template <typename Body>
  static int with_list(simm_client* client, const simm_item* items, size_t count,
                       simm_result* results, const simm_call_options* options, Body body) noexcept {
    simm_call_options known;
    if (!copy_options(options, known)) return SIMM_INCOMPATIBLE;
    CallReport report;
    report.error_text = {known.error_text, known.error_text_bytes};
    if (known.user_data != nullptr) report.user_data = {known.user_data, count};
    const ErrorText text(report.error_text);
    const ErrorScope scope(text);
    text.clear();
    if (!valid_batch(client, items, count, results)) return SIMM_INVALID_ARGUMENT;
    if (!known_call_flags(known)) return SIMM_INVALID_ARGUMENT;
    const std::size_t item_bytes = item_bytes_of(items, count, known.item_bytes);
    if (item_bytes == 0) return SIMM_INCOMPATIBLE;
    return guarded([&] {
      if (known.page_callback != nullptr) report.on_page = page_callback(known);
      return body(client->client, PageList(items, count, item_bytes, results), call_options(known),
                  report);
    });
  }

  static int call(simm_client* client, ipc::Opcode opcode, const simm_item* items, size_t count,
                  simm_result* results, const simm_call_options* options) noexcept {
    return with_list(
        client, items, count, results, options,
        [opcode](Client& known, const PageList& pages, const CallOptions& how,
                 const CallReport& report) {
          return code(known.call(static_cast<std::uint8_t>(opcode), pages, how, report.error_text));
        });
  }

  static int start(simm_client* client, ipc::Opcode opcode, const simm_item* items, size_t count,
                   simm_result* results, const simm_call_options* options, simm_callback callback,
                   void* context, uint64_t* ticket) noexcept {
    return with_list(client, items, count, results, options,
                     [=](Client& known, const PageList& pages, const CallOptions& how,
                         const CallReport& report) {
                       Client::Callback wrapped;
                       if (callback != nullptr) {
                         wrapped = [callback, context](const Completed& completed) {
                           callback(context, completed.ticket, code(completed.status));
                         };
                       }
                       const Expected<std::uint64_t> started =
                           known.start(static_cast<std::uint8_t>(opcode), pages, how,
                                       std::move(wrapped), report);
                       if (started && ticket != nullptr) *ticket = *started;
                       return code(started.status());
                     });
  }
};

}  // namespace simm::detail

using simm::detail::CAccess;
using simm::ipc::Opcode;

extern "C" {

const char* simm_status_name(int code) {
  // status_name() returns literals, which end in 0.
  return simm::status_name(static_cast<simm::Status>(code)).data();
}

const char* simm_status_text(int code) {
  // A literal, too.
  return simm::status_text(static_cast<simm::Status>(code)).data();
}
const char* simm_last_error(void) {
  return simm::last_error();
}
void simm_set_log(simm_log_callback callback, void* context) {
  simm::detail::Log::set(nullptr, callback, context);
}
int simm_set_trace_parent(const char* trace_parent) {
  return simm::detail::code(simm::set_trace_parent(trace_parent != nullptr ? trace_parent : ""));
}
const char* simm_version(void) {
  return SIMM_VERSION_STRING;
}

int simm_connect(const simm_client_options* options, simm_client** out) {
  simm_client_options known;
  if (out == nullptr) return simm::detail::null_argument("out");
  *out = nullptr;
  if (!simm::detail::copy_options(options, known)) return SIMM_INCOMPATIBLE;
  return simm::detail::guarded([&] {
    auto made = simm::Client::connect(simm::detail::client_options(known));
    if (!made) return simm::detail::code(made.status());
    *out = new simm_client{std::move(*made)};
    return SIMM_OK;
  });
}
void simm_close(simm_client* client) {
  delete client;
}
int simm_attached(const simm_client* client) {
  return client != nullptr && client->client.attached() ? 1 : 0;
}
const char* simm_socket_path(const simm_client* client) {
  return client != nullptr ? client->client.socket_path().c_str() : "";
}
int simm_ping(simm_client* client, uint32_t timeout_ms) {
  if (client == nullptr) return simm::detail::null_argument("client");
  simm::CallOptions options;
  options.timeout_ms = timeout_ms;
  return simm::detail::code(client->client.ping(options));
}
uint64_t simm_max_value_bytes(const simm_client* client) {
  return client != nullptr ? client->client.max_value_bytes() : 0;
}
int simm_stats(const simm_client* client, simm_client_stats* out) {
  if (client == nullptr || out == nullptr) return simm::detail::null_argument("client or out");
  const size_t bytes = out->struct_size;
  if (bytes < sizeof(size_t) || bytes > simm::detail::kOptionsBytesMax) {
    return simm::detail::code(
        simm::detail::fail(simm::Status::invalid_argument,
                           "struct_size = %zu: use SIMM_CLIENT_STATS_INIT, which sets it", bytes));
  }
  simm::detail::forget_last_error();
  const simm::ClientStats stats = client->client.stats();
  simm_client_stats known = SIMM_CLIENT_STATS_INIT;
  known.struct_size = bytes;
  known.submissions = stats.submissions;
  known.pages = stats.pages;
  known.pages_ok = stats.pages_ok;
  known.bytes_moved = stats.bytes_moved;
  known.bytes_staged = stats.bytes_staged;
  known.timeouts = stats.timeouts;
  known.unreachable = stats.unreachable;
  known.lane_waits = stats.lane_waits;
  known.attaches = stats.attaches;
  known.taken_back = stats.taken_back;
  known.bytes_made_present = stats.bytes_made_present;
  std::memcpy(out, &known, std::min(bytes, sizeof known));
  return SIMM_OK;
}

int simm_region_allocate(simm_client* client, uint64_t bytes, const simm_region_options* options,
                         simm_region** out) {
  simm_region_options known;
  if (client == nullptr || out == nullptr) return simm::detail::null_argument("client or out");
  *out = nullptr;
  if (!simm::detail::copy_options(options, known)) return SIMM_INCOMPATIBLE;
  return simm::detail::guarded([&] {
    simm::AllocateOptions wanted;
    if (known.name != nullptr) wanted.name = known.name;
    wanted.huge_pages = known.huge_pages != 0;
    wanted.prefault = known.no_prefault == 0;
    // 0 is "no binding" here, so that a zeroed struct means the defaults.
    wanted.numa_node = static_cast<int>(std::min<uint32_t>(known.bind_node, INT32_MAX)) - 1;
    wanted.stopped_daemon = simm::detail::register_options(known).stopped_daemon;
    return simm::detail::make_region(out, client->client.allocate_region(bytes, wanted));
  });
}
int simm_region_register(simm_client* client, void* address, uint64_t bytes,
                         const simm_region_options* options, simm_region** out) {
  simm_region_options known;
  if (client == nullptr || out == nullptr) return simm::detail::null_argument("client or out");
  *out = nullptr;
  if (!simm::detail::copy_options(options, known)) return SIMM_INCOMPATIBLE;
  return simm::detail::guarded([&] {
    return simm::detail::make_region(
        out, client->client.register_region(address, bytes, simm::detail::register_options(known)));
  });
}
int simm_region_register_fd(simm_client* client, int fd, uint64_t offset, uint64_t bytes,
                            void* address, const simm_region_options* options, simm_region** out) {
  simm_region_options known;
  if (client == nullptr || out == nullptr) return simm::detail::null_argument("client or out");
  *out = nullptr;
  if (!simm::detail::copy_options(options, known)) return SIMM_INCOMPATIBLE;
  return simm::detail::guarded([&] {
    return simm::detail::make_region(
        out, client->client.register_fd(fd, offset, bytes, address,
                                        simm::detail::register_options(known)));
  });
}
void* simm_region_data(const simm_region* region) {
  return region != nullptr ? region->region.data() : nullptr;
}
uint64_t simm_region_size(const simm_region* region) {
  return region != nullptr ? region->region.size() : 0;
}
int simm_region_kind_of(const simm_region* region) {
  return region != nullptr ? static_cast<int>(region->region.kind()) : SIMM_REGION_AUTOMATIC;
}
const char* simm_region_kind_name(int kind) {
  const bool is_known = kind >= SIMM_REGION_AUTOMATIC && kind <= SIMM_REGION_GPU;
  return is_known ? simm::region_kind_name(static_cast<simm::RegionKind>(kind)) : "unknown";
}
int simm_region_huge_pages(const simm_region* region) {
  return region != nullptr && region->region.huge_pages() ? 1 : 0;
}
int simm_region_valid(const simm_region* region) {
  return region != nullptr && region->region.valid() ? 1 : 0;
}
size_t simm_region_reason(const simm_region* region, char* text, size_t text_bytes) {
  size_t length = 0;
  (void)simm::detail::guarded([&] {
    const std::string reason = region != nullptr ? region->region.kind_reason() : std::string();
    length = reason.size();
    if (text != nullptr && text_bytes != 0) {
      const size_t copied = std::min(length, text_bytes - 1);
      std::memcpy(text, reason.data(), copied);
      text[copied] = '\0';
    }
    return SIMM_OK;
  });
  return length;
}
int simm_region_deregister(simm_region* region) {
  if (region == nullptr) return simm::detail::null_argument("region");
  return simm::detail::guarded(
      [&] { return simm::detail::code(region->region.deregister().status()); });
}
void simm_region_free(simm_region* region) {
  delete region;
}

int simm_namespace_open(simm_client* client, const char* name, uint32_t flags,
                        simm_namespace** out) {
  if (client == nullptr || name == nullptr || out == nullptr) {
    return simm::detail::null_argument("client, name or out");
  }
  *out = nullptr;
  if (!simm::detail::known_flags(flags, SIMM_EXACT_SIZE | SIMM_SHARED_READS | SIMM_IMMUTABLE,
                                 "SIMM_EXACT_SIZE, SIMM_SHARED_READS and SIMM_IMMUTABLE")) {
    return SIMM_INVALID_ARGUMENT;
  }
  return simm::detail::guarded([&] {
    simm::NamespaceOptions options;
    options.exact_size = (flags & SIMM_EXACT_SIZE) != 0;
    options.shared = (flags & SIMM_SHARED_READS) != 0;
    simm::Client& from = client->client;
    auto opened = (flags & SIMM_IMMUTABLE) != 0 ? from.open_immutable_namespace(name, options)
                                                : from.open_namespace(name, options);
    if (!opened) return simm::detail::code(opened.status());
    *out = new simm_namespace{*opened};
    return SIMM_OK;
  });
}
void simm_namespace_free(simm_namespace* name_space) {
  delete name_space;
}

int simm_put(simm_client* client, const simm_item* items, size_t count, simm_result* results,
             const simm_call_options* options) {
  return CAccess::call(client, Opcode::put, items, count, results, options);
}
int simm_get(simm_client* client, const simm_item* items, size_t count, simm_result* results,
             const simm_call_options* options) {
  return CAccess::call(client, Opcode::get, items, count, results, options);
}
int simm_exists(simm_client* client, const simm_item* items, size_t count, simm_result* results,
                const simm_call_options* options) {
  return CAccess::call(client, Opcode::exists, items, count, results, options);
}
int simm_remove(simm_client* client, const simm_item* items, size_t count, simm_result* results,
                const simm_call_options* options) {
  return CAccess::call(client, Opcode::remove, items, count, results, options);
}
int simm_pin(simm_client* client, const simm_item* items, size_t count, simm_result* results,
             const simm_call_options* options) {
  return CAccess::call(client, Opcode::pin, items, count, results, options);
}
int simm_unpin(simm_client* client, const simm_item* items, size_t count, simm_result* results,
               const simm_call_options* options) {
  return CAccess::call(client, Opcode::unpin, items, count, results, options);
}

int simm_put_async(simm_client* client, const simm_item* items, size_t count, simm_result* results,
                   const simm_call_options* options, simm_callback callback, void* context,
                   uint64_t* ticket) {
  return CAccess::start(client, Opcode::put, items, count, results, options, callback, context,
                        ticket);
}
int simm_get_async(simm_client* client, const simm_item* items, size_t count, simm_result* results,
                   const simm_call_options* options, simm_callback callback, void* context,
                   uint64_t* ticket) {
  return CAccess::start(client, Opcode::get, items, count, results, options, callback, context,
                        ticket);
}
int simm_exists_async(simm_client* client, const simm_item* items, size_t count,
                      simm_result* results, const simm_call_options* options,
                      simm_callback callback, void* context, uint64_t* ticket) {
  return CAccess::start(client, Opcode::exists, items, count, results, options, callback, context,
                        ticket);
}
int simm_remove_async(simm_client* client, const simm_item* items, size_t count,
                      simm_result* results, const simm_call_options* options,
                      simm_callback callback, void* context, uint64_t* ticket) {
  return CAccess::start(client, Opcode::remove, items, count, results, options, callback, context,
                        ticket);
}

int simm_completion_fd(simm_client* client) {
  if (client != nullptr) return client->client.completion_fd();
  (void)simm::detail::null_argument("client");
  return -1;
}
size_t simm_poll(simm_client* client) {
  if (client != nullptr) return client->client.poll();
  (void)simm::detail::null_argument("client");
  return 0;
}
size_t simm_drain(simm_client* client, simm_completed* out, size_t count) {
  if (client == nullptr || out == nullptr) {
    (void)simm::detail::null_argument("client or out");
    return 0;
  }
  size_t taken = 0;
  while (taken < count) {
    simm::Completed part[64];
    const size_t wanted = std::min(count - taken, std::size(part));
    const size_t got = client->client.drain(std::span(part, wanted));
    for (size_t i = 0; i < got; ++i) {
      out[taken++] = {part[i].ticket, static_cast<int32_t>(part[i].status), 0};
    }
    if (got < wanted) break;
  }
  return taken;
}
void simm_wait(simm_client* client, uint32_t timeout_ms) {
  if (client == nullptr) {
    (void)simm::detail::null_argument("client");
    return;
  }
  client->client.wait(timeout_ms);
}
size_t simm_wait_at_least(simm_client* client, size_t count, uint32_t timeout_ms) {
  if (client != nullptr) return client->client.wait_at_least(count, timeout_ms);
  (void)simm::detail::null_argument("client");
  return 0;
}
int simm_has_completed(simm_client* client, uint64_t ticket) {
  return client != nullptr && client->client.has_completed(ticket) ? 1 : 0;
}
int simm_cancel(simm_client* client, uint64_t ticket) {
  if (client == nullptr) return simm::detail::null_argument("client");
  return simm::detail::code(client->client.cancel(ticket));
}
size_t simm_pending(const simm_client* client) {
  return client != nullptr ? client->client.pending() : 0;
}

void* simm_gpu_malloc(size_t bytes, int device, void* /*stream*/) {
  simm::detail::forget_last_error();
  void* made = nullptr;
  (void)simm::detail::guarded([&] {
    const auto memory = simm::detail::allocate_gpu_memory(bytes, device);
    if (!memory) return simm::detail::code(simm::detail::fail(memory.error()).status);
    made = *memory;
    return SIMM_OK;
  });
  return made;
}
void simm_gpu_free(void* address, size_t bytes, int device, void* /*stream*/) {
  simm::detail::forget_last_error();
  if (address == nullptr) return;
  (void)simm::detail::guarded([&] {
    const auto freed = simm::detail::free_gpu_memory(address, bytes, device);
    return freed ? SIMM_OK : simm::detail::code(simm::detail::fail(freed.error()).status);
  });
}
int simm_gpu_lend(simm_client* client, const char* gpu, uint64_t bytes, uint32_t notice_ms,
                  simm_gpu_lease** out) {
  if (client == nullptr || gpu == nullptr || out == nullptr) {
    return simm::detail::null_argument("client, gpu or out");
  }
  *out = nullptr;
  return simm::detail::guarded([&] {
    auto made = client->client.lend_gpu(gpu, bytes, notice_ms == 0 ? 1000 : notice_ms);
    if (!made) return simm::detail::code(made.status());
    *out = new simm_gpu_lease{std::move(*made)};
    return SIMM_OK;
  });
}
int simm_gpu_reclaim(simm_gpu_lease* lease) {
  if (lease == nullptr) return simm::detail::null_argument("lease");
  return simm::detail::code(lease->lease.reclaim().status());
}
uint64_t simm_gpu_lease_bytes(const simm_gpu_lease* lease) {
  return lease == nullptr ? 0 : lease->lease.bytes();
}
void simm_gpu_lease_free(simm_gpu_lease* lease) {
  delete lease;
}

}  // extern "C"
