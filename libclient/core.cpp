#include "libclient/core.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "ipc/futex.h"
#include "libclient/last_error.h"
#include "libclient/line.h"
#include "libclient/no_cancel.h"
#include "libclient/region_registration.h"

namespace simm::detail {
namespace {

RestoreTask forget_task(ipc::RegionHandle handle) {
  RestoreTask task;
  ipc::DeregisterRegion message;
  message.handle = handle;
  task.message = message;
  task.apply = [](const ipc::DaemonMessage&) -> std::optional<RestoreTask> { return std::nullopt; };
  return task;
}

RestoreTask restore_task(RegionRecord& record, std::uint32_t generation, RegionRequest request) {
  RestoreTask task;
  task.message = std::move(request.message);
  task.fd = request.fd;
  task.region = &record;
  task.region_generation = record.generation();
  task.apply = [&record, same = task.region_generation,
                generation](const ipc::DaemonMessage& message) -> std::optional<RestoreTask> {
    const auto* reply = std::get_if<ipc::RegionReply>(&message);
    if (reply == nullptr) return std::nullopt;
    const HeldRegion held(record, same);
    if (!held) {  // it was deregistered since it was asked for
      if (reply->handle == ipc::kNoRegion) return std::nullopt;
      return forget_task(reply->handle);
    }
    Expected<std::optional<RegionRequest>> next = take_reply(record, generation, *reply, true);
    if (!next || !*next) return std::nullopt;
    return restore_task(record, generation, std::move(**next));
  };
  return task;
}

// The caller has the memory already, and leaves to us how a daemon reaches it. The next session
// asks for all regions, so it does not matter whether this one was there when the daemon was away.
bool may_come_later(const RegionRecord& record) noexcept {
  const RegionMemory& memory = record.memory();
  return memory.mapping.data() == nullptr &&
         (memory.fd.valid() || memory.wish == RegionKind::automatic);
}

RestoreTask restore_task(NamespaceRecord& record, std::uint32_t generation) {
  RestoreTask task;
  task.message = ipc::OpenNamespace{0, record.name, record.kind.exact_size, record.kind.shared,
                                    record.kind.immutable};
  task.apply = [&record,
                generation](const ipc::DaemonMessage& message) -> std::optional<RestoreTask> {
    const auto* reply = std::get_if<ipc::NamespaceReply>(&message);
    if (reply != nullptr && reply->status == Status::ok) record.set_id(generation, reply->id);
    return std::nullopt;
  };
  return task;
}

const char* wait_name(WaitMode mode) noexcept {
  if (mode == WaitMode::spin) return "spin";
  return mode == WaitMode::adaptive ? "adaptive" : "event";
}

// What a further Client of the process asks of the session that it can not have any more. A value
// that is the default asks for nothing; nor does the name, which only `simmctl` shows.
Outcome check_shared(const ClientOptions& wanted, const ClientOptions& session) {
  const ClientOptions defaults;
  struct Field {
    const char* name;
    std::string wanted;
    std::string standard;
    std::string decided;
  };
  const Field fields[] = {
      {"lanes", std::to_string(wanted.lanes), std::to_string(defaults.lanes),
       std::to_string(session.lanes)},
      {"async_lanes", std::to_string(wanted.async_lanes), std::to_string(defaults.async_lanes),
       std::to_string(session.async_lanes)},
      {"wait", wait_name(wanted.wait), wait_name(defaults.wait), wait_name(session.wait)},
      {"staging_bytes", std::to_string(wanted.staging_bytes),
       std::to_string(defaults.staging_bytes), std::to_string(session.staging_bytes)},
  };
  for (const Field& field : fields) {
    if (field.wanted == field.standard || field.wanted == field.decided) continue;
    return Error{Status::invalid_argument,
                 field.name + (" = " + field.wanted) + ": this process has " + field.decided +
                     ", as its first Client of this daemon asked for: give the same or the "
                     "default (" +
                     field.standard + "), or close the Clients and Regions first"};
  }
  return Done{};
}

}  // namespace

Core::Core(std::string socket_path, std::string manager_address)
    : link_(std::move(socket_path), std::move(manager_address),
            [this](std::uint32_t generation) { return restore(generation); }),
      regions_(*this),
      staging_(link_),
      driver_(regions_, staging_),
      engines_(link_, driver_) {}

Expected<std::shared_ptr<Core>> Core::open(Core& core, const ClientOptions& options) {
  if (Outcome acquired = core.acquire(options); !acquired) return std::move(acquired).error();
  return std::shared_ptr<Core>(&core, [](Core* used) {
    const NoCancel no_cancel;
    used->release();
  });
}

Outcome Core::acquire(const ClientOptions& options) {
  const std::lock_guard lock(open_mutex_);
  if (users_ == 0) {
    options_ = options;
    pool_.configure(options.lanes, options.async_lanes, static_cast<ipc::WaitMode>(options.wait));
    engines_.configure(pool_);
    driver_.set_staging_bytes(options.staging_bytes);
    staging_.set_answer_ms(options.connect_timeout_ms);
    if (Outcome opened = link_.open(options_, options.connect_timeout_ms); !opened) return opened;
  } else {
    if (Outcome shared = check_shared(options, options_); !shared) return shared;
    // Others wait for the daemon to come back; this one wants to know whether it is there.
    if (!link_.ready_to_set_up()) {
      if (Outcome opened = link_.open(options_, options.connect_timeout_ms); !opened) return opened;
    }
  }
  ++users_;
  return Done{};
}

void Core::release() noexcept {
  const std::lock_guard lock(open_mutex_);
  if (--users_ != 0) return;
  for (const std::unique_ptr<Lane>& lane : pool_.all()) lane->unbind();
  link_.close();
}

std::deque<RestoreTask> Core::restore(std::uint32_t generation) {
  std::deque<RestoreTask> tasks;
  regions_.for_each([&](RegionRecord& record) {
    if (std::optional<RegionRequest> request = first_request(record)) {
      tasks.push_back(restore_task(record, generation, std::move(*request)));
    }
  });
  const std::lock_guard lock(namespace_mutex_);
  for (NamespaceRecord& record : namespaces_) tasks.push_back(restore_task(record, generation));
  return tasks;
}

Expected<Region> Core::add_region(const std::shared_ptr<Core>& core, RegionMemory memory) {
  if (!is_line(memory.name)) {
    return Error{Status::invalid_argument,
                 "name: of " + std::to_string(memory.name.size()) +
                     " bytes, one of them a control character: use a line of text"};
  }
  (void)core->link_.ready_to_set_up();
  Expected<RegionRecord*> added = core->regions_.add(std::move(memory));
  if (!added) return std::move(added).error();
  RegionRecord* const record = *added;
  std::shared_ptr<RegionRecord> handle(record, [core](RegionRecord* last) {
    const NoCancel no_cancel;
    (void)core->deregister(*last);  // it can only fail when the daemon has forgotten it anyway
    core->regions_.recycle(*last);
  });
  if (Outcome registered = core->register_with_daemon(*record); !registered) {
    return std::move(registered).error();
  }
  return Region(std::move(handle), record->generation());
}

Outcome Core::register_with_daemon(RegionRecord& record) {
  std::optional<RegionRequest> next = first_request(record);
  const bool is_gpu = record.memory().wish == RegionKind::gpu;
  record.set_wire(0, ipc::kNoRegion, is_gpu ? RegionKind::gpu : RegionKind::staged,
                  is_gpu ? "gpu: the daemon is away, and asked again when it is back"
                  : next ? "staged: the daemon is away, and asked again when it is back"
                         : "staged: as asked for");
  while (next) {
    std::uint32_t generation = 0;
    const std::span<const int> fds(&next->fd, next->fd >= 0 ? 1 : 0);
    const Expected<ipc::DaemonMessage> message =
        link_.request(next->message, fds, options_.connect_timeout_ms, generation);
    // A daemon that did not answer has lost this session, and is as good as away.
    const bool is_away =
        message.status() == Status::unreachable || message.status() == Status::timeout;
    if (is_away && may_come_later(record)) return Done{};
    if (!message) return message.error();
    Expected<std::optional<RegionRequest>> more =
        take_reply(record, generation, std::get<ipc::RegionReply>(*message), false);
    if (!more) return std::move(more).error();
    next = std::move(*more);
  }
  return Done{};
}

Outcome Core::deregister(RegionRecord& record) {
  record.close();
  constexpr std::uint64_t kStepNs = 1'000'000;
  while (!record.wait_unused(ipc::monotonic_now_ns() + kStepNs)) {
    engines_.advance();  // asynchronous batches have nobody else who is sure to come
  }
  regions_.unlist(record);
  const ipc::RegionHandle handle = record.take_handle(link_.generation());
  if (handle == ipc::kNoRegion) return Done{};
  ipc::DeregisterRegion message;
  message.handle = handle;
  std::uint32_t generation = 0;
  const Expected<ipc::DaemonMessage> reply =
      link_.request(message, {}, options_.connect_timeout_ms, generation);
  // A daemon that has gone, or was replaced, has forgotten it.
  if (!reply && reply.status() != Status::unreachable) return reply.error();
  return Done{};
}

Expected<Namespace> Core::open_namespace(std::string_view name, const NamespaceKind& kind) {
  constexpr std::size_t kNameMax = 255;
  if (name.empty() || name.size() > kNameMax) {
    return Error{Status::invalid_argument,
                 "name: " + std::to_string(name.size()) + " bytes; a namespace has 1 to 255"};
  }
  if (!is_line(name)) {
    return Error{Status::invalid_argument,
                 "name: of " + std::to_string(name.size()) +
                     " bytes, one of them a control character: use a line of text"};
  }
  (void)link_.ready_to_set_up();
  for (;;) {
    {
      const std::lock_guard lock(namespace_mutex_);
      NamespaceRecord* const known = find_namespace(name, kind);
      std::uint16_t id = 0;
      if (known != nullptr && known->id(link_.generation(), id)) return Namespace(known);
    }
    std::uint32_t generation = 0;
    const Expected<ipc::DaemonMessage> message = link_.request(
        ipc::OpenNamespace{0, std::string(name), kind.exact_size, kind.shared, kind.immutable}, {},
        options_.connect_timeout_ms, generation);
    if (!message) return message.error();
    const auto& reply = std::get<ipc::NamespaceReply>(*message);
    if (reply.status != Status::ok) {
      return Error{reply.status, "namespace '" + std::string(name) + "': " + reply.reason};
    }
    NamespaceRecord& record = keep_namespace(name, kind);
    record.set_id(generation, reply.id);
    // From now on each attach opens it. One that came before that did not: once more.
    if (link_.generation() == generation) return Namespace(&record);
  }
}

NamespaceRecord* Core::find_namespace(std::string_view name, const NamespaceKind& kind) noexcept {
  for (NamespaceRecord& known : namespaces_) {
    if (known.name == name && known.kind == kind) return &known;
  }
  return nullptr;
}

// One that the daemon has accepted: what it refuses must not be part of each later attach.
NamespaceRecord& Core::keep_namespace(std::string_view name, const NamespaceKind& kind) {
  const std::lock_guard lock(namespace_mutex_);
  NamespaceRecord* const known = find_namespace(name, kind);
  if (known != nullptr) return *known;
  return namespaces_.emplace_back(this, std::string(name), kind);
}

ClientStats Core::stats() const noexcept {
  ClientStats sum;
  for (const std::unique_ptr<Lane>& lane : pool_.all()) {
    const LaneCounters& counters = lane->counters;
    sum.submissions += counters.submissions.load(std::memory_order_relaxed);
    sum.pages += counters.pages.load(std::memory_order_relaxed);
    sum.pages_ok += counters.pages_ok.load(std::memory_order_relaxed);
    sum.bytes_moved += counters.bytes_moved.load(std::memory_order_relaxed);
    sum.bytes_staged += counters.bytes_staged.load(std::memory_order_relaxed);
    sum.timeouts += counters.timeouts.load(std::memory_order_relaxed);
    sum.unreachable += counters.unreachable.load(std::memory_order_relaxed);
    sum.taken_back += counters.taken_back.load(std::memory_order_relaxed);
  }
  sum.bytes_made_present = driver_.presence().made_bytes();
  sum.lane_waits = pool_.waits();
  sum.attaches = link_.attaches();
  return sum;
}

void Core::before_fork() noexcept {
  while (!open_mutex_.try_hold_for_fork() && !link_.opening()) {
    std::this_thread::yield();  // whoever holds it waits for nobody
  }
  // Most cores of a long life are closed; holding the locks of those too could be very many.
  if (users_ == 0) return open_mutex_.release();
  engines_.before_fork();
  regions_.before_fork();
  namespace_mutex_.hold_for_fork();
  link_.before_fork();
}

void Core::after_fork_parent() noexcept {
  link_.after_fork_parent();
  namespace_mutex_.release();
  regions_.after_fork_parent();
  engines_.after_fork_parent();
  open_mutex_.release();
}

void Core::after_fork_child() noexcept {
  pool_.after_fork_child();
  link_.after_fork_child();
  regions_.after_fork_child();
  namespace_mutex_.release_in_child();
  engines_.after_fork_child();
  open_mutex_.release_in_child();
}

}  // namespace simm::detail
