// SimClient: a client process of a simulated cluster. Submits random batches through real rings,
// checks every answer against the history, reuses its pages the moment a completion is there, and
// attaches again when its node has died.
// Thread: the one simulated thread.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "tests/sim/client_link.h"
#include "tests/sim/dice.h"
#include "tests/sim/event_log.h"
#include "tests/sim/history.h"
#include "tests/sim/page_frames.h"
#include "tests/sim/process.h"
#include "tests/sim/scenario.h"

namespace simm::sim {

// One key of one page of a batch.
struct ClientPage {
  KeyIndex key = 0;
  std::uint32_t frame = 0;
  std::uint64_t length = 0;
  std::uint64_t object_offset = 0;
  PutIndex put = 0;
  Payload payload;          // of a put
  std::size_t removal = 0;  // of a remove
};

struct ClientBatch {
  std::uint64_t token = 0;
  ipc::Opcode opcode = ipc::Opcode::noop;
  bool replace = false;
  bool exact_size = false;
  bool shared = false;
  bool ranged = false;
  bool says_immutable = false;  // that its keys have one value for ever
  std::uint32_t name_space = 0;
  std::uint32_t ttl_ms = 0;
  std::uint32_t lease_ms = 0;
  base::TimeNs timeout_ns = 0;
  base::TimeNs complete_by_ns = 0;  // pauses of the node do not count
  Interval when;
  std::uint32_t lane = 0;
  std::uint32_t page_first = 0;  // in the lane
  std::vector<ClientPage> pages;
};

// What a put of a sweep writes.
struct SweptPut {
  std::uint64_t bytes = 64;  // of each page
  std::uint32_t pages = 1;
  base::TimeNs timeout_ns = 2 * kSecond;
  std::uint32_t ttl_ms = 0;
};

// A read of the first keys of the immutable namespace, from copies of the node.
struct SharedSweep {
  std::uint32_t pages = 1;
  std::uint32_t lease_ms = 1;
  base::TimeNs timeout_ns = 2 * kSecond;
  bool says_immutable = true;
};

class SimClient {
public:
  SimClient(const Scenario& scenario, std::uint32_t number, std::uint32_t tenant, EventLoop& loop,
            Dice dice, EventLog& log, Report& report, History& history);

  [[nodiscard]] base::TenantId tenant() const { return tenant_id(tenant_); }
  [[nodiscard]] std::span<std::byte> pages() { return frames_.memory(); }

  // From now on it works through this link, to that node.
  void attached(ClientLink& link, Process& node);
  // Its node, of that incarnation, has died with everything under way. With devices, its calls
  // return when these have gone as well: until then bytes may be moved.
  void detached(Serial node, bool has_devices);
  void on_devices_gone(Serial node);

  // Random batches until the scenario's number of them is done.
  void start();
  [[nodiscard]] bool done() const { return submitted_ >= scenario_.batches && idle(); }
  [[nodiscard]] bool idle() const { return batches_.empty() && bereft_.empty(); }

  // One batch on every key of its tenant and namespace, or on the first ones where bytes are moved:
  // for single scenes, and for the end of a run.
  void sweep(ipc::Opcode opcode, std::uint32_t name_space, SweptPut put = {});
  void read_shared(const SharedSweep& sweep);
  // How many pages of the last sweep were answered ok, and the bytes that they have in a store.
  [[nodiscard]] std::uint32_t sweep_ok() const { return sweep_ok_; }
  [[nodiscard]] std::uint64_t sweep_bytes() const { return sweep_bytes_; }

  void check_pages() const { frames_.check_free(report_); }

private:
  // Over sockets a client comes back to keys whose puts have failed: it puts them again, and then
  // looks at them for a while.
  struct Doubt {
    KeyIndex key = 0;
    bool is_put_again = false;
  };
  void give_up(const std::vector<ClientBatch>& batches);
  void think();
  void step();
  void poll();
  ClientBatch draw();
  void draw_pages(ClientBatch& batch);
  ClientBatch follow_up();
  [[nodiscard]] std::uint64_t draw_length();
  // Of a value of that key.
  [[nodiscard]] std::uint64_t draw_length(KeyIndex key);
  [[nodiscard]] KeyIndex draw_key(std::uint32_t name_space);
  [[nodiscard]] KeyIndex key_of(std::uint32_t name_space, std::uint32_t number);
  void doubt(KeyIndex key);
  void settle(KeyIndex key);
  void submit(ClientBatch batch);
  void write_pages(ClientBatch& batch);
  void complete(const ClientBatch& batch, const ipc::Completion& completion);
  void complete_page(const ClientBatch& batch, const ClientPage& page, Status status,
                     std::uint64_t bytes);
  void read_copies(PageRead& read) const;
  void check_answer(const ClientBatch& batch, Status status);
  void watch(ClientBatch& batch);
  void check_in_time(std::uint64_t token, const ClientLink* link);
  [[nodiscard]] base::TimeNs node_time_ns() const { return loop_.now_ns() - node_->stood_ns(); }

  const Scenario& scenario_;
  std::uint32_t number_;
  std::uint32_t tenant_;
  EventLoop& loop_;
  Dice dice_;
  EventLog& log_;
  Report& report_;
  History& history_;
  mutable PageFrames frames_;

  ClientLink* link_ = nullptr;
  Process* node_ = nullptr;
  std::vector<ClientBatch> batches_;                   // under way
  std::map<Serial, std::vector<ClientBatch>> bereft_;  // of dead nodes whose devices move bytes
  std::vector<std::uint32_t> next_page_;               // of each lane
  std::uint32_t submitted_ = 0;
  std::uint64_t token_ = 0;
  Dice doubts_;                  // of its own, so that the other seeds stay what they were
  std::vector<Doubt> doubtful_;  // the last ones
  std::uint32_t sweep_ok_ = 0;
  std::uint64_t sweep_bytes_ = 0;
};

}  // namespace simm::sim
