#include "daemon/memory/helper/client_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "ipc/fd.h"
#include "ipc/peer_identity.h"

namespace simm::memory {

namespace {

// The text after "\n<label>" in a file of /proc; empty when there is none.
std::string proc_field(const std::string& path, std::string_view label) {
  ipc::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text;
  const ssize_t count = file ? ::read(file.get(), text.data(), text.size()) : -1;
  if (count <= 0) return {};
  const std::string_view all(text.data(), static_cast<std::size_t>(count));
  const std::size_t at = all.find("\n" + std::string(label));
  if (at == all.npos) return {};
  const std::size_t begin = at + 1 + label.size();
  return std::string(all.substr(begin, all.find('\n', begin) - begin));
}

Error refused(const char* why) {
  return Error{Status::permission_denied, why};
}

}  // namespace

Outcome check_before(const ClientProcess& client) {
  const std::string named = proc_field("/proc/self/fdinfo/" + std::to_string(client.pidfd), "Pid:");
  if (std::strtol(named.c_str(), nullptr, 10) != client.pid || client.pid <= 0) {
    return refused("the pid is not that of the process that connected");
  }
  const std::uint64_t start = ipc::process_start_time_ticks(client.pid);
  if (start == 0 || start != client.start_time_ticks) {
    return refused("the process is not the one that connected (start time)");
  }
  unsigned ids[4] = {};
  const std::string uids = proc_field("/proc/" + std::to_string(client.pid) + "/status", "Uid:");
  if (std::sscanf(uids.c_str(), "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4) {
    return refused("the user of the process can not be read");
  }
  for (const unsigned id : ids) {
    if (id != client.uid) return refused("the process runs as another user than it connected as");
  }
  return Done{};
}

Outcome check_after(const ClientProcess& client) {
  if (!ipc::pidfd_is_alive(client.pidfd)) return refused("the process has exited");
  return Done{};
}

}  // namespace simm::memory
