#include "daemon/attach/session_memory_budget.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "daemon/attach/attach_counters.h"
#include "daemon/base/limits.h"
#include "ipc/layout.h"
#include "ipc/range.h"

namespace simm::control {

SessionMemoryBudget::Bounds SessionMemoryBudget::Bounds::of(const base::Config& config,
                                                            std::uint64_t usable_bytes) noexcept {
  const std::uint64_t sessions =
      std::uint64_t{config.session.sessions_max} + base::kUnauthenticatedMax;
  const std::uint64_t wanted = sessions * ipc::session_bytes(config.session.lanes_default);
  Bounds bounds;
  bounds.tenant_bytes = std::min(wanted, usable_bytes / 4);
  bounds.daemon_bytes = std::min(wanted * kSessionMemoryDaemonShare, usable_bytes / 2);
  return bounds;
}

SessionMemoryBudget::SessionMemoryBudget(boost::asio::io_context& io, const base::Clock& clock,
                                         Bounds bounds, base::CounterSet& counters)
    : clock_(clock),
      bounds_(bounds),
      kept_(AttachCounters(counters).session_memory_bytes),
      news_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
      readable_(io) {
  if (news_ && readable_.watch(news_.get())) listen();
}

SessionMemoryBudget::~SessionMemoryBudget() = default;

Outcome SessionMemoryBudget::admit(const Tenant& tenant, std::uint64_t bytes) {
  read_news();
  forget_unwatched();
  const std::uint64_t own = bytes_of(tenant);
  const bool is_own_full = !ipc::range_within(own, bytes, bounds_.tenant_bytes);
  const bool is_small = own <= bounds_.tenant_bytes / kSessionMemoryOwnPart;
  const bool is_all_full = !is_small && !ipc::range_within(bytes_, bytes, bounds_.daemon_bytes);
  if (!is_own_full && !is_all_full) return Done{};
  const std::string whose = is_own_full ? "tenant " + tenant.name : std::string("this daemon");
  return Error{
      Status::out_of_memory,
      "session memory of " + whose + ": " + std::to_string(is_own_full ? own : bytes_) + " of " +
          std::to_string(is_own_full ? bounds_.tenant_bytes : bounds_.daemon_bytes) +
          " bytes are in use or kept by clients, and this session needs " + std::to_string(bytes) +
          " (the bound is session.sessions_max + " + std::to_string(base::kUnauthenticatedMax) +
          " sessions of session.lanes_default lanes, at most a quarter of the memory): end "
          "processes of the tenant that keep memory of sessions, ask for fewer lanes, or raise "
          "session.sessions_max and restart the daemon"};
}

void SessionMemoryBudget::add(const Tenant& tenant, std::uint64_t session_id, std::uint64_t bytes,
                              int fd) {
  Entry entry;
  entry.tenant = tenant.id.value;
  entry.bytes = bytes;
  entries_[session_id] = entry;
  bytes_by_tenant_[entry.tenant] += bytes;
  bytes_ += bytes;
  kept_.set(bytes_);
  watch(session_id, fd);
}

void SessionMemoryBudget::watch(std::uint64_t session_id, int fd) {
  const auto found = entries_.find(session_id);
  if (!news_ || fd < 0 || found == entries_.end()) return;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int watch = ::inotify_add_watch(news_.get(), path.c_str(), IN_DELETE_SELF);
  if (watch < 0) return;
  found->second.watch = watch;
  found->second.until_ns = 0;  // the news come
  sessions_by_watch_[watch] = session_id;
}

void SessionMemoryBudget::forget(std::uint64_t session_id) {
  const auto found = entries_.find(session_id);
  if (found != entries_.end()) erase(found);
}

void SessionMemoryBudget::end(std::uint64_t session_id) {
  const auto found = entries_.find(session_id);
  if (found == entries_.end()) return;
  found->second.is_over = true;
  if (found->second.watch < 0) found->second.until_ns = clock_.now_ns() + kUnwatchedKeptNs;
}

std::uint64_t SessionMemoryBudget::bytes_of(const Tenant& tenant) const {
  const auto found = bytes_by_tenant_.find(tenant.id.value);
  return found == bytes_by_tenant_.end() ? 0 : found->second;
}

void SessionMemoryBudget::listen() {
  readable_.when_readable([this] {
    read_news();
    listen();
  });
}

void SessionMemoryBudget::read_news() {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t length = ::read(news_.get(), buffer.data(), buffer.size());
    if (length <= 0) return;
    const auto bytes = static_cast<std::size_t>(length);
    inotify_event event;
    for (std::size_t at = 0; ipc::range_within(at, sizeof event, bytes);
         at += sizeof event + event.len) {
      std::memcpy(&event, buffer.data() + at, sizeof event);
      if ((event.mask & IN_Q_OVERFLOW) != 0) on_news_lost();
      if ((event.mask & IN_DELETE_SELF) == 0) continue;
      const auto watched = sessions_by_watch_.find(event.wd);
      if (watched != sessions_by_watch_.end()) erase(entries_.find(watched->second));
    }
  }
}

void SessionMemoryBudget::forget_unwatched() {
  const base::TimeNs now_ns = clock_.now_ns();
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->second.until_ns != 0 && entry->second.until_ns <= now_ns) erase(entry);
    entry = next;
  }
}

void SessionMemoryBudget::on_news_lost() {
  const base::TimeNs until_ns = clock_.now_ns() + kUnwatchedKeptNs;
  for (auto& [session_id, entry] : entries_) {
    if (entry.is_over && entry.until_ns == 0) entry.until_ns = until_ns;
  }
}

void SessionMemoryBudget::erase(Entries::iterator entry) {
  const auto tenant = bytes_by_tenant_.find(entry->second.tenant);
  tenant->second -= entry->second.bytes;
  if (tenant->second == 0) bytes_by_tenant_.erase(tenant);
  bytes_ -= entry->second.bytes;
  kept_.set(bytes_);
  sessions_by_watch_.erase(entry->second.watch);
  entries_.erase(entry);
}

}  // namespace simm::control
