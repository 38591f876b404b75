#include "simm/client.h"

#include <errno.h>

#include <algorithm>
#include <cinttypes>
#include <new>
#include <type_traits>
#include <utility>

#include "libclient/completion_queue.h"
#include "libclient/core.h"
#include "libclient/core_registry.h"
#include "libclient/gpu_memory.h"
#include "libclient/last_error.h"
#include "libclient/lease_record.h"
#include "libclient/line.h"
#include "libclient/log.h"
#include "libclient/memory_map.h"
#include "libclient/page_list.h"
#include "libclient/region_memory.h"

namespace simm {
namespace {

// Runs a set-up call: its errors become the thread's last error, a lack of memory becomes one.
template <typename Body>
auto set_up(Body body) -> decltype(body()) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  try {
    auto result = body();
    if (!result) return detail::fail(std::move(result).error());
    return result;
  } catch (const std::bad_alloc&) {
    return detail::fail(Error{Status::out_of_memory, "no memory left in this process"});
  }
}

constexpr const char* kMovedFrom = "this Client was moved from: use the one that it was moved to";

// The same for a Client's methods.
template <typename Body>
auto set_up(const std::shared_ptr<detail::Core>& core, Body body) -> decltype(body()) {
  if (core == nullptr) return detail::fail(Error{Status::invalid_state, kMovedFrom});
  return set_up(std::move(body));
}

Outcome check(const ClientOptions& options) {
  const auto refuse = [](const char* field, std::uint64_t value, const char* range) {
    return Error{Status::invalid_argument,
                 std::string(field) + " = " + std::to_string(value) + ": " + range};
  };
  if (options.lanes < 2 || options.lanes > ipc::kLanesMax) {
    return refuse("lanes", options.lanes, "2 to 64");
  }
  if (options.async_lanes < 1 || options.async_lanes >= options.lanes) {
    return refuse("async_lanes", options.async_lanes, "at least 1 and fewer than lanes");
  }
  if (options.wait > WaitMode::event) {
    return refuse("wait", static_cast<std::uint64_t>(options.wait), "spin, adaptive or event");
  }
  if (options.sync_timeout_ms == 0) return refuse("sync_timeout_ms", 0, "at least 1");
  if (options.async_timeout_ms == 0) return refuse("async_timeout_ms", 0, "at least 1");
  if (options.connect_timeout_ms == 0) return refuse("connect_timeout_ms", 0, "at least 1");
  constexpr std::uint64_t kStagingMin = 64 * 1024;
  constexpr std::uint64_t kStagingMax = 64ull << 30;
  if (options.staging_bytes < kStagingMin || options.staging_bytes > kStagingMax) {
    return refuse("staging_bytes", options.staging_bytes, "64 KiB to 64 GiB");
  }
  if (options.name.size() > ipc::kNameBytesMax) {
    return refuse("name: bytes", options.name.size(), "at most 256");
  }
  if (!detail::is_line(options.name)) {
    return refuse("name: bytes", options.name.size(),
                  "one of them is a control character: use a line of text");
  }
  return Done{};
}

// CallReport grows by fields at its end; the first version has these bytes.
constexpr std::size_t kReportBytes = sizeof(CallReport);

Status check_report(const CallReport& report) noexcept {
  const std::size_t bytes = report.struct_size;
  if (bytes == kReportBytes) return Status::ok;
  constexpr std::size_t kReportBytesMax = 1024;
  const auto* const newer = reinterpret_cast<const unsigned char*>(&report);
  // SAFETY: struct_size says that the caller's report has these bytes.
  if (bytes > kReportBytes && bytes <= kReportBytesMax &&
      std::all_of(newer + kReportBytes, newer + bytes,
                  [](unsigned char byte) { return byte == 0; })) {
    return Status::ok;
  }
  return detail::fail(Status::incompatible,
                      "report.struct_size = %zu: this library knows %zu; leave it as the header "
                      "sets it, and newer fields empty",
                      bytes, kReportBytes);
}

// What the calls with a list have in common: their arguments, whose faults are told like others.
template <typename List, typename Call>
auto with_list(const List& list, std::span<PageResult> results, const CallReport& report, Call call)
    -> decltype(call(detail::PageList())) {
  using Result = decltype(call(detail::PageList()));
  const detail::ErrorText text(report.error_text);
  const detail::ErrorScope scope(text);
  text.clear();
  Status valid = check_report(report);
  if (valid == Status::ok && list.size() != results.size()) {
    valid = detail::fail(Status::invalid_argument,
                         "results: %zu entries for a list of %zu: one for each page",
                         results.size(), list.size());
  }
  if (valid == Status::ok && !report.user_data.empty() && report.user_data.size() != list.size()) {
    valid = detail::fail(Status::invalid_argument,
                         "report.user_data: %zu entries for a list of %zu: one for each page, or "
                         "none",
                         report.user_data.size(), list.size());
  }
  if (valid == Status::ok) return call(detail::PageList(list, results.data()));
  for (PageResult& result : results) result = {valid, 0};
  if constexpr (std::is_same_v<Result, Status>) {
    return valid;
  } else {
    return Error{valid, last_error()};
  }
}

}  // namespace

Expected<Client> Client::connect(const ClientOptions& wanted) {
  return set_up([&]() -> Expected<Client> {
    ClientOptions options = wanted;
    if (Outcome valid = check(options); !valid) return std::move(valid).error();
    if (options.socket_path.empty()) {
      Expected<std::string> found = detail::find_socket();
      if (!found) return std::move(found).error();
      options.socket_path = std::move(*found);
    }
    if (options.name.empty()) {
      const std::string_view program = program_invocation_short_name;
      const bool is_name = program.size() <= ipc::kNameBytesMax && detail::is_line(program);
      options.name = is_name ? program : "a program";
    }
    detail::Core& core =
        detail::CoreRegistry::instance().core(options.socket_path, options.manager_address);
    Expected<std::shared_ptr<detail::Core>> opened = detail::Core::open(core, options);
    if (!opened) return std::move(opened).error();
    return Client(std::move(*opened), options);
  });
}

Client::Client(std::shared_ptr<detail::Core> core, const ClientOptions& options)
    : core_(std::move(core)),
      options_(options),
      queue_(std::make_unique<detail::CompletionQueue>(core_->engines().choose())) {}
Client::Client(Client&& other) noexcept = default;
Client& Client::operator=(Client&& other) noexcept {
  // Member by member would close our core before our queue has drained.
  std::swap(core_, other.core_);
  std::swap(options_, other.options_);
  std::swap(queue_, other.queue_);
  return *this;
}
Client::~Client() {
  const detail::PublicCall frame;
  queue_.reset();  // it drains before the core is let go of
  core_.reset();
}

// ---- memory ----

Expected<Region> Client::allocate_region(std::uint64_t bytes, const AllocateOptions& options) {
  return set_up(core_, [&]() -> Expected<Region> {
    Expected<detail::RegionMemory> memory = detail::make_shared_memory(bytes, options);
    if (!memory) return std::move(memory).error();
    return detail::Core::add_region(core_, std::move(*memory));
  });
}

Expected<Region> Client::register_region(void* address, std::uint64_t bytes,
                                         const RegisterOptions& options) {
  return set_up(core_, [&]() -> Expected<Region> {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    if (address == nullptr || bytes == 0 || bytes > UINTPTR_MAX - start) {
      return Error{Status::invalid_argument, "address = " + std::to_string(start) +
                                                 ", bytes = " + std::to_string(bytes) +
                                                 ": memory of at least 1 byte"};
    }
    if (options.kind > RegionKind::gpu) {
      return Error{Status::invalid_argument,
                   "kind = " + std::to_string(static_cast<int>(options.kind)) +
                       ": automatic, shared, adopted, staged, foreign or gpu"};
    }
    detail::RegionMemory memory;
    memory.address = static_cast<std::byte*>(address);
    memory.length = bytes;
    memory.name = "registered";
    memory.wish = options.kind;
    if (options.kind == RegionKind::gpu ||
        (options.kind == RegionKind::automatic && detail::is_gpu_memory(address))) {
      Expected<detail::GpuExport> exported = detail::export_gpu_memory(address, bytes);
      if (!exported) return std::move(exported).error();
      memory.wish = RegionKind::gpu;
      memory.fd = std::move(exported->allocation);
      memory.fd_offset = exported->offset;
      memory.gpu_uuid = exported->uuid;
      memory.gpu_allocation_bytes = exported->allocation_bytes;
      memory.gpu_context = exported->context;
    } else {
      memory.is_read_only = detail::any_read_only(address, bytes);
    }
    memory.allow_foreign = options.allow_foreign;
    memory.stopped_daemon = options.stopped_daemon;
    return detail::Core::add_region(core_, std::move(memory));
  });
}

Expected<Region> Client::register_fd(int fd, std::uint64_t offset, std::uint64_t bytes,
                                     void* address, const RegisterOptions& options) {
  return set_up(core_, [&]() -> Expected<Region> {
    Expected<detail::RegionMemory> memory =
        detail::take_descriptor(fd, offset, bytes, address, options);
    if (!memory) return std::move(memory).error();
    return detail::Core::add_region(core_, std::move(*memory));
  });
}

Expected<GpuLease> Client::lend_gpu(std::string_view gpu, std::uint64_t bytes,
                                    std::uint32_t notice_ms) {
  return set_up(core_, [&]() -> Expected<GpuLease> {
    const auto uuid = detail::gpu_uuid_of(gpu);
    if (!uuid) return uuid.error();
    auto record =
        detail::LeaseRecord::lend(core_, {*uuid, bytes, notice_ms, options_.connect_timeout_ms});
    if (!record) return std::move(record).error();
    return GpuLease(std::move(*record));
  });
}

Expected<Namespace> Client::open_namespace(std::string_view name, const NamespaceOptions& options) {
  return set_up(core_, [&] {
    return core_->open_namespace(name, {options.exact_size, options.shared, false});
  });
}
Expected<Namespace> Client::open_immutable_namespace(std::string_view name,
                                                     const NamespaceOptions& options) {
  return set_up(core_, [&] {
    return core_->open_namespace(name, {options.exact_size, options.shared, true});
  });
}

// ---- synchronous calls ----

Status Client::call(std::uint8_t opcode, const detail::PageList& pages, const CallOptions& options,
                    std::span<char> error_text) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  detail::BatchRun run;
  run.text = detail::ErrorText(error_text);
  run.pages = pages;
  run.opcode = static_cast<ipc::Opcode>(opcode);
  if (core_ == nullptr) {
    run.stop(Status::invalid_state);
    return detail::fail(Status::invalid_state, "%s", kMovedFrom);
  }
  const Status prepared =
      core_->prepare(run, options, options_.sync_timeout_ms, options_.floor_bytes_per_s);
  if (prepared != Status::ok) return prepared;
  return core_->carry_out(run, options_.reattach);
}

namespace {

constexpr auto kNoop = static_cast<std::uint8_t>(ipc::Opcode::noop);
constexpr auto kPut = static_cast<std::uint8_t>(ipc::Opcode::put);
constexpr auto kGet = static_cast<std::uint8_t>(ipc::Opcode::get);
constexpr auto kExists = static_cast<std::uint8_t>(ipc::Opcode::exists);
constexpr auto kRemove = static_cast<std::uint8_t>(ipc::Opcode::remove);
constexpr auto kPin = static_cast<std::uint8_t>(ipc::Opcode::pin);
constexpr auto kUnpin = static_cast<std::uint8_t>(ipc::Opcode::unpin);

}  // namespace

PageResult Client::put(std::string_view key, const View& value, const CallOptions& options) {
  const Item item{key, value, 0, 0};
  PageResult result;
  (void)call(kPut, detail::PageList(std::span(&item, 1), &result), options);
  return result;
}

PageResult Client::get(std::string_view key, const View& target, const CallOptions& options) {
  const Item item{key, target, 0, 0};
  PageResult result;
  (void)call(kGet, detail::PageList(std::span(&item, 1), &result), options);
  return result;
}

PageResult Client::exists(std::string_view key, const CallOptions& options) {
  PageResult result;
  (void)call(kExists, detail::PageList(std::span(&key, 1), &result), options);
  return result;
}

Status Client::remove(std::string_view key, const CallOptions& options) {
  PageResult result;
  (void)call(kRemove, detail::PageList(std::span(&key, 1), &result), options);
  return result.status;
}

Status Client::pin(std::string_view key, const CallOptions& options) {
  PageResult result;
  (void)call(kPin, detail::PageList(std::span(&key, 1), &result), options);
  return result.status;
}

Status Client::unpin(std::string_view key, const CallOptions& options) {
  PageResult result;
  (void)call(kUnpin, detail::PageList(std::span(&key, 1), &result), options);
  return result.status;
}

Status Client::ping(const CallOptions& options) {
  return call(kNoop, detail::PageList(std::span<const Item>(), nullptr), options);
}

Status Client::put(std::span<const Item> items, std::span<PageResult> results,
                   const CallOptions& options) {
  return put(items, results, options, CallReport());
}
Status Client::put(std::span<const Item> items, std::span<PageResult> results,
                   const CallOptions& options, const CallReport& report) {
  return with_list(items, results, report, [&](const detail::PageList& pages) {
    return call(kPut, pages, options, report.error_text);
  });
}

Status Client::get(std::span<const Item> items, std::span<PageResult> results,
                   const CallOptions& options) {
  return get(items, results, options, CallReport());
}
Status Client::get(std::span<const Item> items, std::span<PageResult> results,
                   const CallOptions& options, const CallReport& report) {
  return with_list(items, results, report, [&](const detail::PageList& pages) {
    return call(kGet, pages, options, report.error_text);
  });
}

Status Client::exists(std::span<const std::string_view> keys, std::span<PageResult> results,
                      const CallOptions& options) {
  return exists(keys, results, options, CallReport());
}
Status Client::exists(std::span<const std::string_view> keys, std::span<PageResult> results,
                      const CallOptions& options, const CallReport& report) {
  return with_list(keys, results, report, [&](const detail::PageList& pages) {
    return call(kExists, pages, options, report.error_text);
  });
}

Status Client::remove(std::span<const std::string_view> keys, std::span<PageResult> results,
                      const CallOptions& options) {
  return remove(keys, results, options, CallReport());
}
Status Client::remove(std::span<const std::string_view> keys, std::span<PageResult> results,
                      const CallOptions& options, const CallReport& report) {
  return with_list(keys, results, report, [&](const detail::PageList& pages) {
    return call(kRemove, pages, options, report.error_text);
  });
}

Status Client::pin(std::span<const std::string_view> keys, std::span<PageResult> results,
                   const CallOptions& options) {
  return pin(keys, results, options, CallReport());
}
Status Client::pin(std::span<const std::string_view> keys, std::span<PageResult> results,
                   const CallOptions& options, const CallReport& report) {
  return with_list(keys, results, report, [&](const detail::PageList& pages) {
    return call(kPin, pages, options, report.error_text);
  });
}

Status Client::unpin(std::span<const std::string_view> keys, std::span<PageResult> results,
                     const CallOptions& options) {
  return unpin(keys, results, options, CallReport());
}
Status Client::unpin(std::span<const std::string_view> keys, std::span<PageResult> results,
                     const CallOptions& options, const CallReport& report) {
  return with_list(keys, results, report, [&](const detail::PageList& pages) {
    return call(kUnpin, pages, options, report.error_text);
  });
}

// ---- asynchronous batches ----

Expected<std::uint64_t> Client::start(std::uint8_t opcode, const detail::PageList& pages,
                                      const CallOptions& options, Callback callback,
                                      const CallReport& report) {
  return set_up(core_, [&]() -> Expected<std::uint64_t> {
    auto batch = std::make_unique<detail::AsyncBatch>();
    batch->pages = pages;
    batch->opcode = static_cast<ipc::Opcode>(opcode);
    batch->text = detail::ErrorText(report.error_text);
    const Status prepared =
        core_->prepare(*batch, options, options_.async_timeout_ms, options_.floor_bytes_per_s);
    if (prepared != Status::ok) return Error{prepared, last_error()};
    if (report.on_page) {
      batch->ends = std::make_shared<detail::PageEnds>(*batch, report.on_page, report.user_data,
                                                       pages.size());
    }
    batch->owner = queue_.get();
    batch->callback = std::move(callback);
    batch->starter = queue_->starter();
    batch->completed.ticket = queue_->begin();
    const std::uint64_t ticket = batch->completed.ticket;
    if (ticket == 0) {
      return Error{Status::out_of_memory, std::to_string(kPendingBatchesMax) +
                                              " batches are pending: drain() or poll() first"};
    }
    queue_->start(std::move(batch), options_.reattach);
    return ticket;
  });
}

Expected<std::uint64_t> Client::put_async(std::span<const Item> items,
                                          std::span<PageResult> results, const CallOptions& options,
                                          Callback callback) {
  return put_async(items, results, options, std::move(callback), CallReport());
}
Expected<std::uint64_t> Client::put_async(std::span<const Item> items,
                                          std::span<PageResult> results, const CallOptions& options,
                                          Callback callback, const CallReport& report) {
  return with_list(items, results, report, [&](const detail::PageList& pages) {
    return start(kPut, pages, options, std::move(callback), report);
  });
}

Expected<std::uint64_t> Client::get_async(std::span<const Item> items,
                                          std::span<PageResult> results, const CallOptions& options,
                                          Callback callback) {
  return get_async(items, results, options, std::move(callback), CallReport());
}
Expected<std::uint64_t> Client::get_async(std::span<const Item> items,
                                          std::span<PageResult> results, const CallOptions& options,
                                          Callback callback, const CallReport& report) {
  return with_list(items, results, report, [&](const detail::PageList& pages) {
    return start(kGet, pages, options, std::move(callback), report);
  });
}

Expected<std::uint64_t> Client::exists_async(std::span<const std::string_view> keys,
                                             std::span<PageResult> results,
                                             const CallOptions& options, Callback callback) {
  return exists_async(keys, results, options, std::move(callback), CallReport());
}
Expected<std::uint64_t> Client::exists_async(std::span<const std::string_view> keys,
                                             std::span<PageResult> results,
                                             const CallOptions& options, Callback callback,
                                             const CallReport& report) {
  return with_list(keys, results, report, [&](const detail::PageList& pages) {
    return start(kExists, pages, options, std::move(callback), report);
  });
}

Expected<std::uint64_t> Client::remove_async(std::span<const std::string_view> keys,
                                             std::span<PageResult> results,
                                             const CallOptions& options, Callback callback) {
  return remove_async(keys, results, options, std::move(callback), CallReport());
}
Expected<std::uint64_t> Client::remove_async(std::span<const std::string_view> keys,
                                             std::span<PageResult> results,
                                             const CallOptions& options, Callback callback,
                                             const CallReport& report) {
  return with_list(keys, results, report, [&](const detail::PageList& pages) {
    return start(kRemove, pages, options, std::move(callback), report);
  });
}

int Client::completion_fd() {
  const detail::PublicCall frame;
  detail::forget_last_error();
  const int fd = queue_ ? queue_->fd() : -1;
  if (queue_ == nullptr) (void)detail::fail(Status::invalid_state, "%s", kMovedFrom);
  if (queue_ != nullptr && fd < 0) {
    (void)detail::fail(Status::io_error,
                       "completion_fd: no descriptor can be made: raise `ulimit -n`");
  }
  return fd;
}
std::size_t Client::poll() {
  const detail::PublicCall frame;
  detail::forget_last_error();
  return queue_ ? queue_->poll(options_.reattach) : 0;
}
std::size_t Client::drain(std::span<Completed> out) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  return queue_ ? queue_->drain(out, options_.reattach) : 0;
}
void Client::wait(std::uint32_t timeout_ms) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  if (queue_) queue_->wait(timeout_ms, options_.wait, options_.reattach);
}
std::size_t Client::wait_at_least(std::size_t count, std::uint32_t timeout_ms) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  if (queue_ == nullptr) return 0;
  return queue_->wait_at_least(count, timeout_ms, options_.wait, options_.reattach);
}
bool Client::has_completed(std::uint64_t ticket) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  return queue_ && queue_->has_completed(ticket, options_.reattach);
}
Status Client::cancel(std::uint64_t ticket) {
  const detail::PublicCall frame;
  detail::forget_last_error();
  if (queue_ == nullptr) return detail::fail(Status::invalid_state, "%s", kMovedFrom);
  if (queue_->cancel(ticket, options_.reattach)) return Status::ok;
  return detail::fail(Status::not_found,
                      "ticket: %" PRIu64 " is not pending: the batch has ended, or there was none",
                      ticket);
}
std::size_t Client::pending() const noexcept {
  return queue_ ? queue_->pending() : 0;
}

// ---- about ----

bool Client::attached() const noexcept {
  return core_ && core_->link().generation() != 0;
}
const std::string& Client::socket_path() const noexcept {
  static const std::string kNone;
  return core_ ? core_->link().socket_path() : kNone;
}
std::uint64_t Client::max_value_bytes() const noexcept {
  const std::shared_ptr<detail::Session> session = core_ ? core_->link().session() : nullptr;
  return session ? session->limits().value_bytes_max : 0;
}
ClientStats Client::stats() const noexcept {
  return core_ ? core_->stats() : ClientStats{};
}

}  // namespace simm
