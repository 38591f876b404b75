// AdminServer: the socket of simmctl. Only root and the daemon's own user are answered, whatever
// the file's permissions say. A reply longer than a packet comes in pages of one and the same text.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/control/admin_reports.h"
#include "daemon/control/environment.h"
#include "daemon/control/readiness.h"
#include "ipc/admin_message.h"
#include "ipc/fd_listener.h"

namespace simm::control {

class AdminServer {
public:
  AdminServer(Environment& environment, const AdminReports& reports);

  Outcome listen(const std::string& path);
  void stop();

private:
  struct Connection {
    Connection(boost::asio::io_context& io, ipc::FdSocket accepted)
        : socket(std::move(accepted)), readable(io) {}
    ipc::FdSocket socket;
    Readiness readable;  // after the socket: stops before it closes
    std::string text;    // the reply that is being paged out
  };

  void accept_next();
  void read_next(std::uint64_t id);
  void on_readable(std::uint64_t id);
  [[nodiscard]] ipc::AdminReply answer(Connection& connection, const ipc::AdminRequest& request);
  void close(std::uint64_t id);

  Environment& environment_;
  const AdminReports& reports_;
  std::unique_ptr<ipc::FdListener> listener_;
  Readiness readable_;
  bool waiting_ = false;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
};

}  // namespace simm::control
