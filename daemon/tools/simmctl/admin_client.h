// AdminClient: questions to a daemon's admin socket. A reply longer than a packet comes in pages,
// which are put together here.
// Thread: one.
#pragma once

#include <cstdint>
#include <string>

#include "ipc/fd_socket.h"
#include "simm/expected.h"

namespace simm::ctl {

class AdminClient {
public:
  // unreachable: no daemon there, with the remedy; permission_denied.
  static Expected<AdminClient> connect(const std::string& path, std::uint32_t timeout_ms);

  // The JSON text of the reply.
  Expected<std::string> ask(const std::string& command, const std::string& argument);

private:
  AdminClient(ipc::FdSocket socket, std::string path, std::uint64_t timeout_ns)
      : socket_(std::move(socket)), path_(std::move(path)), timeout_ns_(timeout_ns) {}

  ipc::FdSocket socket_;
  std::string path_;
  std::uint64_t timeout_ns_;
  std::uint64_t next_id_ = 1;
};

// Where the admin socket is when nobody says: beside the data socket named by $SIMM_SOCKET, else in
// /run/simm, $XDG_RUNTIME_DIR/simm or /tmp/simm-<uid>, the first that has one.
std::string find_admin_socket();

}  // namespace simm::ctl
