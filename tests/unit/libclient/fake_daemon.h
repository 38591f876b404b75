// FakeDaemon: the daemon's side of the socket and the rings, in a thread of the test process, with
// a map for a store. It can stop in the middle of a transfer, poison, die, come back, and refuse.
// Thread: methods from the tests' threads; the loop has its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ipc/control_message.h"
#include "ipc/layout.h"
#include "tests/support/temporary_directory.h"

namespace libclient_test {

struct FakeOptions {
  std::string path;
  std::uint32_t lanes_max = 64;
  std::uint64_t value_bytes_max = 1ull << 30;
  bool adopts = false;  // what `automatic` becomes, else staged
  bool does_foreign = false;
  bool stages_files = false;          // as with several tenants, of files that can be punched
  std::size_t namespaces_max = 1000;  // of a session
  std::string refuses;                // not empty: every hello, with this reason
  std::string manager_address;
  bool knows_patience = false;
  bool takes_traces = false;
  bool silent = false;             // accepts and never answers
  std::string late;                // not empty: pages whose keys begin so get no answer in time
  bool is_older = false;           // then it says of the whole submission that it was late
  bool loses_completions = false;  // writes the results of pages, and no completion
  // As of a daemon whose devices outlive its sockets: stands for the pidfd. -1: none.
  int process_fd = -1;
  bool takes_memory = false;  // the session memory is the client's
  // Makes no absent page of a region present, as a daemon whose budget is used up.
  bool checks_presence = false;
  bool tells_keys = false;    // answers FollowKeys with what FakeStore::key_replies has
  bool maps_in_vain = false;  // says so of every page that is not in staging memory
};

// What is stored: outlives the daemons that serve it one after the other.
struct FakeStore {
  std::mutex mutex;
  std::map<std::string, std::string> objects;         // by "<namespace>/<key>"
  std::set<std::string> pinned;                       // of their names
  std::deque<simm::ipc::KeyEventsReply> key_replies;  // to the next questions; then: nothing is new
  std::vector<simm::ipc::FollowKeys> questions;

  std::string value(const std::string& key) {  // "(none)" when there is none
    const std::lock_guard lock(mutex);
    const auto found = objects.find(key);
    return found == objects.end() ? "(none)" : found->second;
  }
  simm::ipc::KeyEventsReply answer(const simm::ipc::FollowKeys& question) {
    const std::lock_guard lock(mutex);
    questions.push_back(question);
    simm::ipc::KeyEventsReply reply;
    reply.next = question.since;
    reply.presents = question.presents;
    reply.follower = question.follower == 0 ? 7 : question.follower;
    reply.salt = 5;
    if (!key_replies.empty() && !question.ends) {
      reply = key_replies.front();
      key_replies.pop_front();
    }
    reply.request_id = question.request_id;
    return reply;
  }
  std::vector<simm::ipc::FollowKeys> asked() {
    const std::lock_guard lock(mutex);
    return questions;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex);
    return objects.size();
  }
  void clear() {
    const std::lock_guard lock(mutex);
    objects.clear();
  }
  // TSan does not see that two mappings are one memory, and so no order between the two sides.
  // Where a test gives the daemon its own address, this is the order.
  void order() { const std::lock_guard lock(mutex); }
};

// What the loop saw and did.
struct FakeCounts {
  std::atomic<std::uint32_t> hellos{0};
  std::atomic<std::uint32_t> sessions{0};  // now
  std::atomic<std::uint32_t> regions{0};   // now
  std::atomic<std::uint32_t> submissions{0};
  std::atomic<std::uint32_t> pages{0};
  std::atomic<std::uint32_t> pages_most{0};        // of one submission
  std::atomic<std::uint32_t> outstanding_most{0};  // of one lane
  std::atomic<std::uint32_t> absent{0};            // pages refused for it
  std::atomic<std::uint32_t> holding{0};           // taken while stopped
  std::atomic<std::uint32_t> unread{0};            // sessions with messages, while stopped
  std::atomic<std::uint32_t> taken{0};             // session memory of clients, whole
};

class FakeDaemon {
public:
  explicit FakeDaemon(FakeOptions options, std::shared_ptr<FakeStore> store = nullptr);
  ~FakeDaemon();  // dies: every socket is closed at once

  // While stopped it takes submissions and goes no further, as a process stopped between taking a
  // batch and moving its bytes; it then also answers no message. It stands when this returns.
  void stop() {
    stopped_ = true;
    const std::uint64_t turn = turns_;
    while (turns_ == turn && thread_.get_id() != std::this_thread::get_id()) {
      std::this_thread::yield();
    }
  }
  void go_on() { stopped_ = tells_progress_ = false; }
  // Stops when it has read the next message that registers a region, before it answers.
  void stop_at_region() { stops_at_region_ = true; }
  void wait_until_at_region() const {
    while (stops_at_region_ || !stopped_) std::this_thread::yield();
  }
  // While it is slow it does nothing but tell of progress.
  void be_slow() { stopped_ = tells_progress_ = true; }
  [[nodiscard]] bool wait_until_holding(std::uint32_t submissions) const;
  [[nodiscard]] bool wait_until_idle() const;  // nothing is held any more
  void poison() { poison_ = true; }

  [[nodiscard]] const FakeCounts& counts() const { return counts_; }
  [[nodiscard]] std::shared_ptr<FakeStore> store() const { return store_; }
  [[nodiscard]] simm::ipc::Submission last_submission() const;
  [[nodiscard]] std::vector<std::string> namespaces() const;
  [[nodiscard]] std::vector<std::string> client_names() const;

private:
  struct Session;
  struct Loop;

  const FakeOptions options_;
  std::shared_ptr<FakeStore> store_;
  FakeCounts counts_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> stops_at_region_{false};
  std::atomic<std::uint64_t> turns_{0};  // of the loop, which were begun
  std::atomic<bool> tells_progress_{false};
  std::atomic<bool> poison_{false};
  std::atomic<bool> dying_{false};
  mutable std::mutex mutex_;
  simm::ipc::Submission last_{};
  std::vector<std::string> namespaces_;
  std::vector<std::string> client_names_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

// A path in a directory of its own, which goes with the object.
class SocketPlace {
public:
  [[nodiscard]] const std::string& path() const { return path_; }

private:
  const simm::test_support::TemporaryDirectory directory_{
      "/tmp"};  // short, for the name of a socket
  const std::string path_ = directory_ / "simm.sock";
};

}  // namespace libclient_test
