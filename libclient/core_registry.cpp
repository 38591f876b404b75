#include "libclient/core_registry.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "libclient/log.h"
#include "libclient/take_back.h"
#include "simm/check.h"

namespace simm::detail {
namespace {

// The handlers of fork() are there as soon as the library is. Those that come later are called
// first: a program may hold a lock of its own over its calls of libsimm.
[[maybe_unused]] const CoreRegistry& registered_first = CoreRegistry::instance();

}  // namespace

CoreRegistry& CoreRegistry::instance() {
  // Leaked on purpose: static destructors of the program may still close Clients.
  static CoreRegistry* const registry = new CoreRegistry;
  return *registry;
}

CoreRegistry::CoreRegistry() {
  // Without the handlers a child would share the parent's session; they fail only out of memory.
  SIMM_CHECK(::pthread_atfork(&before_fork, &after_fork_parent, &after_fork_child) == 0);
}

Core& CoreRegistry::core(const std::string& socket_path, const std::string& manager_address) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.socket_path == socket_path && entry.manager_address == manager_address) {
      return *entry.core;
    }
  }
  entries_.push_back(
      {socket_path, manager_address, std::make_unique<Core>(socket_path, manager_address)});
  return *entries_.back().core;
}

void CoreRegistry::before_fork() {
  CoreRegistry& registry = instance();
  registry.mutex_.lock();
  for (Entry& entry : registry.entries_) entry.core->before_fork();
  take_back_before_fork();  // whoever takes pages back may hold a core's lock
  Log::before_fork();       // and whoever notes something any lock
}

void CoreRegistry::after_fork_parent() {
  CoreRegistry& registry = instance();
  Log::after_fork_parent();
  take_back_after_fork();
  for (Entry& entry : registry.entries_) entry.core->after_fork_parent();
  registry.mutex_.unlock();
}

void CoreRegistry::after_fork_child() {
  CoreRegistry& registry = instance();
  Log::after_fork_child();
  take_back_after_fork();
  for (Entry& entry : registry.entries_) entry.core->after_fork_child();
  registry.mutex_.unlock();
}

Expected<std::string> find_socket() {
  const char* const named = std::getenv("SIMM_SOCKET");
  if (named != nullptr && *named != '\0') return std::string(named);
  std::vector<std::string> places = {"/run/simm"};
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != '\0') places.push_back(std::string(runtime) + "/simm");
  // Where the daemon of a user without a runtime directory is. Anybody can make a directory in
  // /tmp.
  const std::string temporary = "/tmp/simm-" + std::to_string(::geteuid());
  struct stat facts {};
  if (::lstat(temporary.c_str(), &facts) == 0 && facts.st_uid == ::geteuid()) {
    places.push_back(temporary);
  }
  std::string tried;
  for (const std::string& place : places) {
    const std::string path = place + "/simm.sock";
    if (::access(path.c_str(), F_OK) == 0) return path;
    tried += (tried.empty() ? "" : ", ") + path;
  }
  return Error{Status::unreachable, "no daemon's socket at " + tried +
                                        ": start `simmd all`, or name its socket in SIMM_SOCKET"};
}

}  // namespace simm::detail
