// AdminServer: the socket of simmctl. Only root and the daemon's own user are answered, whatever
// the file's permissions say. A reply longer than a packet comes in pages of one and the same text.
// A connection has one question at a time; the next one waits in its socket.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/base/limits.h"
#include "daemon/control/admin_source.h"
#include "daemon/control/asio.h"
#include "daemon/control/readiness.h"
#include "ipc/admin_message.h"
#include "ipc/fd_listener.h"

namespace simm::control {

class AdminServer {
public:
  AdminServer(boost::asio::io_context& io, base::LimitCounters& limits, AdminSource& source);
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

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
  void ask(std::uint64_t id, const ipc::AdminRequest& request);
  void answer(std::uint64_t id, std::uint64_t request_id, Expected<std::string> text);
  void send_page(std::uint64_t id, std::uint64_t request_id, std::uint64_t cursor);
  void send(std::uint64_t id, const ipc::AdminReply& reply);
  void close(std::uint64_t id);

  boost::asio::io_context& io_;
  base::LimitCounters& limits_;
  AdminSource& source_;
  std::unique_ptr<ipc::FdListener> listener_;
  Readiness readable_;
  bool waiting_ = false;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace simm::control
