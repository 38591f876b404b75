// Connection: a Store's way to the daemon, for synchronous calls: one native call for a whole list,
// without the interpreter's lock while it waits. Channel: the same for the asynchronous calls of
// one event loop: a descriptor becomes readable, drain() says what has completed. No threads.
//
// Thread: any, with the interpreter's lock. A Channel is for its event loop's thread;
// close() is for any.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/native/batch.h"
#include "python/native/followed_keys.h"
#include "python/native/gil_release.h"
#include "python/native/registration.h"
#include "simm/client.h"

namespace simm::python {

class Channel;

// The end of a lease is a reclaim, which may take the lease's notice: other threads go on.
struct LeaseEnd {
  void operator()(GpuLease* lease) const noexcept {
    const GilRelease released;
    delete lease;
  }
};
using HeldLease = std::unique_ptr<GpuLease, LeaseEnd>;

class Connection : public std::enable_shared_from_this<Connection> {
public:
  // `report(operation, code, pages, text, before)` is told of a failure when it is new, then at
  // most once a minute, with the number of calls that failed so before. `warn_taken_back()` is
  // told when shared memory of the process has become private. Throws RuntimeError with what is
  // wrong and the remedy.
  Connection(const ClientOptions& options, const std::string& name_space, bool exact_size,
             bool immutable, pybind11::object report, pybind11::object warn_taken_back);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(); }

  pybind11::list run(Operation operation, const pybind11::object& keys,
                     const pybind11::object& views, const pybind11::object& offsets,
                     CallOptions options);
  std::shared_ptr<Channel> open_channel();
  // Of its namespace. Throws RuntimeError.
  std::shared_ptr<FollowedKeys> follow_keys(bool present);
  std::shared_ptr<Registration> allocate(std::uint64_t bytes, const AllocateOptions& options);
  // Throws ValueError or RuntimeError, with what is wrong and the remedy.
  HeldLease lend_gpu(const std::string& gpu, std::uint64_t bytes, std::uint32_t notice_ms);
  // Later calls answer invalid_state; calls of other threads end as they would. Safe twice.
  void close() noexcept;
  [[nodiscard]] bool closed() const noexcept { return client_ == nullptr; }
  // False while the daemon is away, and when closed.
  [[nodiscard]] bool attached() const noexcept { return client_ != nullptr && client_->attached(); }
  [[nodiscard]] pybind11::dict facts() const;
  int ping(std::uint32_t timeout_ms);

private:
  friend class Channel;
  // Throws what a signal's handler raises, which the interpreter would else call inside `report`.
  void report(const Batch& batch, const std::string& text);
  void warn_if_taken_back();

  ClientOptions options_;
  std::string session_;  // what its regions belong to
  std::shared_ptr<Client> client_;
  Namespace name_space_;
  bool exact_size_;
  pybind11::object report_;
  pybind11::object warn_taken_back_;
  std::uint64_t taken_back_ = 0;  // slices of the process's session that it was told of
  struct Reported {
    std::chrono::steady_clock::time_point last;
    std::uint64_t unsaid = 0;  // calls since then
  };
  std::map<std::pair<Operation, Status>, Reported> reported_;  // at most one for each pair
};

class Channel {
public:
  Channel(std::shared_ptr<Connection> connection, std::unique_ptr<Client> client);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() { close(); }

  // The batch's ticket, or the list of results when it ended at once. One that tells its pages
  // sends each of them by itself.
  pybind11::object start(Operation operation, const pybind11::object& keys,
                         const pybind11::object& views, const pybind11::object& offsets,
                         CallOptions options, bool tells_pages = false);
  // [(ticket, results)] of what has completed. When a signal's handler raises meanwhile, the next
  // call has them, and take_completed(), which calls no Python.
  pybind11::list drain();
  pybind11::list take_completed() { return std::exchange(completed_, pybind11::list()); }
  // [(ticket, index, result)] of the pages that have ended, of batches that tell them: those that
  // the calls of drain() and finish() have found. Calls no Python.
  pybind11::list take_pages() { return std::exchange(pages_, pybind11::list()); }
  // As drain(), after waiting until nothing is pending: at most the deadlines and the fence grace.
  pybind11::list finish();
  [[nodiscard]] int fileno();
  [[nodiscard]] std::size_t pending() const noexcept {
    return started_ ? started_->batches.size() : 0;
  }
  // Waits for the batches; calls of other threads end as they would. Safe twice.
  void close() noexcept;

private:
  // What a call holds on to while another thread closes the channel. With the last of them it
  // waits for the batches, whose memory libsimm uses until then.
  struct Started {
    explicit Started(std::unique_ptr<Client> mine) : client(std::move(mine)) {}
    Started(const Started&) = delete;
    Started& operator=(const Started&) = delete;
    ~Started();
    std::shared_ptr<Client> client;
    std::unordered_map<std::uint64_t, std::unique_ptr<Batch>> batches;
    std::vector<PageEnd> ended_pages;  // at most those of the batches
  };
  // Appends what has completed. A copy of the pointer: close() may take ours away.
  void take(std::shared_ptr<Started> mine);

  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Started> started_;  // null: closed
  pybind11::list completed_;          // and not yet returned
  pybind11::list pages_;              // the same
};

void bind_connection(pybind11::module_& module);

}  // namespace simm::python
