// NetworkRelay: a bad network between a server and those who dial it. They dial address(); what
// they say goes to the server and back, through whatever trouble the test has made: RelayTrouble
// for each direction, ends of connections that nobody is told of, resets, a line that is cut.
// Trouble holds for connections that there are and for new ones. When a call that makes or ends it
// returns, it is so.
// Thread: the test's calls; the bytes are moved by a thread of its own.
#pragma once

#include <netinet/in.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ipc/fd.h"
#include "tests/support/relay_trouble.h"
#include "tests/support/relayed_stream.h"

struct pollfd;

namespace simm::test_support {

enum class RelayWay : std::uint8_t { to_server = 0, to_caller = 1 };

class NetworkRelay {
public:
  // `server`: "127.0.0.1:port"; nobody has to listen there yet. `seed`: of all damage. `network`:
  // whoever lives in that one, a path like /proc/123/ns/net, dials the server's own address and
  // meets the relay, which tells them apart from all other callers; empty: see address().
  explicit NetworkRelay(const std::string& server, std::uint64_t seed = 1,
                        const std::string& network = "");
  ~NetworkRelay();
  NetworkRelay(const NetworkRelay&) = delete;
  NetworkRelay& operator=(const NetworkRelay&) = delete;

  // What to dial instead of the server.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  void make(RelayWay way, const RelayTrouble& trouble);
  void make_both(const RelayTrouble& trouble);
  // What the connections that there are carry that way is kept until mend(), as with packets that
  // are lost and sent again, also when who sent it has gone meanwhile; that it has gone is not
  // told. New ones are not touched.
  void keep(RelayWay way);
  // Half-open: while this is so, a side whose peer has ended its connection is not told.
  void conceal_ends(bool conceals);
  // All connections are reset, and all new ones until mend().
  void cut();
  // All connections are reset, once.
  void reset();
  // All trouble ends. Who was half-open meanwhile is reset.
  void mend();

  [[nodiscard]] std::size_t connections() const { return open_; }
  [[nodiscard]] std::uint64_t accepted() const { return accepted_; }
  [[nodiscard]] std::uint64_t bytes(RelayWay way) const {
    return bytes_[static_cast<std::size_t>(way)];
  }
  // Of keep(): what waits now.
  [[nodiscard]] std::uint64_t kept_bytes() const { return kept_bytes_; }
  [[nodiscard]] std::uint64_t damages() const { return damages_; }

private:
  void listen(const sockaddr_in& wanted);

  // Index 0 is the server's side, 1 the caller's.
  struct Connection {
    explicit Connection(std::uint64_t seed) : streams{RelayedStream(seed), RelayedStream(~seed)} {}
    std::array<ipc::UniqueFd, 2> sockets;
    std::array<RelayedStream, 2> streams;         // to that side
    std::array<bool, 2> has_ended{false, false};  // that side has said that nothing more comes
    std::array<bool, 2> was_told{false, false};   // that side, that the other one has ended
    std::array<bool, 2> is_kept{false, false};    // what goes to that side
    std::array<bool, 2> was_kept{false, false};   // so it is not told of the other's end
    bool is_connecting = true;                    // to the server
    bool is_concealed = false;                    // one side has gone, and the other is not told
    bool is_over = false;
  };
  struct Wishes {
    std::array<RelayTrouble, 2> troubles;
    bool conceals = false;
    bool is_cut = false;
    bool is_stopped = false;
    std::array<std::uint64_t, 2> keeps{};
    std::uint64_t mends = 0;
    std::uint64_t resets = 0;
    std::uint64_t number = 0;
  };

  template <typename Change>
  void wish(Change&& change);
  void run();
  void obey(Wishes& now);
  void mark_kept(const Wishes& wishes, Connection& connection) const;
  void accept();
  // Adds what to wait for; returns when something will be due.
  RelayedStream::Time watch(const Wishes& wishes, const Connection& connection,
                            std::vector<pollfd>& polled) const;
  void serve(const Wishes& wishes, Connection& connection, const pollfd* polled);
  void look_at_connect(const Wishes& wishes, Connection& connection);
  void move(const Wishes& wishes, Connection& connection, std::size_t to, const pollfd* polled);
  static void lose(const Wishes& wishes, Connection& connection, std::size_t side);
  static void reset(Connection& connection);

  std::string address_;
  sockaddr_in server_;
  ipc::UniqueFd listener_;
  ipc::UniqueFd bell_;
  std::uint64_t seed_;

  std::mutex mutex_;
  std::condition_variable obeyed_;
  Wishes wishes_;
  std::uint64_t obeyed_number_ = 0;

  std::atomic<std::size_t> open_{0};
  std::atomic<std::uint64_t> accepted_{0};
  std::array<std::atomic<std::uint64_t>, 2> bytes_{};
  std::atomic<std::uint64_t> damages_{0};
  std::atomic<std::uint64_t> kept_bytes_{0};

  std::list<Connection> connections_;  // the relay's thread's
  std::uint64_t resets_ = 0;           // of it too
  std::array<std::uint64_t, 2> keeps_{};
  std::uint64_t mends_ = 0;
  std::thread thread_;
};

}  // namespace simm::test_support
