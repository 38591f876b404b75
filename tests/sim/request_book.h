// RequestBook: where each request is that goes over sockets: posted, in the bytes of a connection,
// at its server, or gone. So the histories know the moment from which a request can have no more
// effect, also of one that never arrives: it was given up before its last byte was sent, or the
// server's end of its connection has ended.
//
// A request is known by its serial, which travels as its trace_id. The book reads the frames that
// nodes send. Thread: the one simulated thread.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "daemon/transport/tcp/wire.h"
#include "tests/sim/report.h"
#include "tests/sim/stream_watcher.h"
#include "tests/sim/wire_request.h"

namespace simm::sim {

class RequestBook final : public StreamWatcher {
public:
  // `done` is called once for each request.
  RequestBook(Report& report, std::function<void(WireRequest&)> done)
      : report_(report), done_(std::move(done)) {}

  void post(const WireRequestPtr& wire) { open_[wire->serial].wire = wire; }
  // Its node waits no more for it.
  void give_up(std::uint64_t serial);
  // A server has begun with it. Null: it can not have come, or not again.
  WireRequestPtr arrive(std::uint64_t serial);
  // The server has answered or dropped it.
  void end(std::uint64_t serial);

  // StreamWatcher.
  void on_sent(std::uint64_t connection, std::span<const std::byte> bytes) override;
  void on_server_end(std::uint64_t connection) override;

private:
  struct Entry {
    WireRequestPtr wire;
    bool is_sent = false;  // to the last byte
  };
  // What a node has sent over one connection.
  struct Stream {
    std::vector<std::byte> frame;  // the beginning of the one that is not whole
    std::uint64_t skip_bytes = 0;  // of it, behind that
    std::uint64_t serial = 0;      // of the request in it; 0: another frame
    std::vector<std::uint64_t> requests;
    bool is_over = false;
  };

  void read(Stream& stream, std::span<const std::byte>& bytes);
  void end_frame(Stream& stream);

  Report& report_;
  std::function<void(WireRequest&)> done_;
  std::map<std::uint64_t, Entry> open_;      // by serial
  std::map<std::uint64_t, Stream> streams_;  // by connection
};

}  // namespace simm::sim
