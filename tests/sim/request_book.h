// RequestBook: where each request is that goes over sockets or queue pairs: posted, on its way, at
// its server, or gone. So the histories know the moment from which a request can have no more
// effect, also of one that never arrives: it was given up before its last byte was sent, or the
// server's end of its connection has ended. Which queue pair has a request is the transport's
// secret: so one that was given up may come until all have ended that its node had then.
//
// A request is known by its serial, which travels as its trace_id. Of sockets the book reads the
// frames that nodes send. Thread: the one simulated thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "daemon/transport/tcp/wire.h"
#include "tests/sim/report.h"
#include "tests/sim/stream_watcher.h"
#include "tests/sim/wire_request.h"

namespace simm::sim {

class RequestBook final : public StreamWatcher {
public:
  struct Hooks {
    // Called once for each request.
    std::function<void(WireRequest&)> done;
    // The last byte of it has been given to a socket, and none of that has arrived yet.
    std::function<void(const WireRequest&)> sent;
    // A server begins with a request that had come before.
    std::function<void(const WireRequest&)> asked_again;
    // The queue pairs over which a request of that node may come now.
    std::function<std::set<std::uint64_t>(const WireRequest&)> queue_pairs;
  };
  RequestBook(Report& report, Hooks hooks) : report_(report), hooks_(std::move(hooks)) {}

  void post(const WireRequestPtr& wire) { open_[wire->serial].wire = wire; }
  // Its node waits no more for it.
  void give_up(std::uint64_t serial);
  // Its node has the answer.
  void answered(std::uint64_t serial);
  // A server has begun with it. Null: it can not have come, or not again.
  WireRequestPtr arrive(std::uint64_t serial, Carrier carrier);
  // The server has answered or dropped what has arrived.
  void leave(std::uint64_t serial, Carrier carrier);
  // The server's end of a queue pair has ended.
  void on_queue_pair_end(std::uint64_t link);

  // StreamWatcher.
  void on_sent(std::uint64_t connection, std::span<const std::byte> bytes) override;
  void on_server_end(std::uint64_t connection) override;

private:
  struct Entry {
    WireRequestPtr wire;
    bool is_sent = false;          // over a socket, to the last byte
    std::uint32_t active = 0;      // at the server
    bool is_over = false;          // for its node
    std::set<std::uint64_t> left;  // then: queue pairs over which it may still come
  };
  // What a node has sent over one connection.
  struct Stream {
    std::vector<std::byte> frame;  // the beginning of the one that is not whole
    std::uint64_t skip_bytes = 0;  // of it, behind that
    std::uint64_t serial = 0;      // of the request in it; 0: another frame
    std::vector<std::uint64_t> requests;
    bool is_over = false;
  };

  void end(std::uint64_t serial);
  void end_if_over(std::uint64_t serial);
  void read(Stream& stream, std::span<const std::byte>& bytes);
  void end_frame(Stream& stream);

  Report& report_;
  const Hooks hooks_;
  std::map<std::uint64_t, Entry> open_;      // by serial
  std::map<std::uint64_t, Stream> streams_;  // by connection
};

}  // namespace simm::sim
