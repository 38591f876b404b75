// RdmaStripes: between a RdmaResponder and its server: requests that a requester has cut into
// stripes, one over each of several rails, are one request for the server. It is handed over when
// all stripes are there; what the server pulls or pushes is moved by all their links, each its part
// of a page; and each stripe is answered over its own link, behind its own data. So an object is
// stored or read once, whole, with one digest, and no link's answer speaks of what another device
// writes.
//
// A stripe that ends early (its link breaks, its requester cancels) cancels the whole request: the
// others are answered when their moves have ended, and the requester asks for all of it again.
// Requests that are not striped pass through. Owned by a RdmaResponder. Thread: the server's data
// agent. No allocation after construction.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/transport/rdma/rdma_config.h"
#include "daemon/transport/rdma/rdma_incoming.h"
#include "daemon/transport/rdma/registration/chunk_table.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class RdmaStripes final : public ResponderEvents, private ServerOrders {
public:
  explicit RdmaStripes(const RdmaResponderConfig& config)
      : digest_bytes_(config.stripe_digest_bytes), requests_(kStripedRequestsMax) {}

  void connect(ResponderEvents& events) noexcept { events_ = &events; }

  // Of the links, about requests and stripes.
  void on_request(Incoming& incoming) noexcept override;
  void on_moved(Incoming& incoming, std::uint16_t page, MoveResult result) noexcept override;
  void on_cancel(Incoming& incoming) noexcept override;
  void on_aborted(Incoming& incoming) noexcept override;

  // Digests some, and tells the server what has moved.
  int do_work() noexcept;
  [[nodiscard]] bool has_work() const noexcept { return has_work_; }

private:
  // Of the server, about requests that are striped.
  void pull(Incoming& incoming, std::uint16_t page, std::span<std::byte> extent) noexcept override;
  void push(Incoming& incoming, std::uint16_t page, std::span<const std::byte> bytes,
            bool whole_digest) noexcept override;
  void reply(Incoming& incoming, std::span<const PageReply> pages) noexcept override;

  enum class State : std::uint8_t {
    free,
    gathering,  // some stripes are there
    served,     // the server has it
  };
  // Of a page, over all stripes.
  struct Move {
    const std::byte* memory = nullptr;  // the server's
    std::uint64_t length = 0;
    std::uint64_t digested = 0;
    std::uint64_t digest = 0;
    Status status = Status::ok;
    std::uint8_t stripes_open = 0;
    bool is_open = false;
    bool is_pull = false;
    bool is_digested = false;  // or nobody wants it
  };
  static constexpr std::uint16_t kNoPage = 0xffff;

  struct Striped : Incoming {
    State state = State::free;
    std::uint64_t requester = 0;
    std::uint64_t number = 0;
    std::uint8_t stripe_count = 0;
    std::uint8_t arrived = 0;
    bool is_cancelled = false;
    std::uint16_t page_count = 0;
    std::uint16_t digesting = kNoPage;  // whose digest is half done
    base::PayloadDigest digest;
    std::array<RdmaIncoming*, kRailsMax> stripes{};  // null: not there yet, or over
    std::array<PageRequest, kStripedPagesMax> page_list{};
    std::array<Move, kStripedPagesMax> moves{};
    std::array<std::array<char, ipc::kKeyBytesMax>, kStripedPagesMax> keys{};
  };
  // What a stripe has of a page.
  struct Share {
    std::uint16_t page = 0;  // of the stripe
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  // 0: nothing
  };

  [[nodiscard]] Striped* find(const RdmaIncoming& stripe) noexcept;
  static void refuse(RdmaIncoming& stripe) noexcept;
  static void dissolve(Striped& striped) noexcept;
  [[nodiscard]] static bool join(Striped& striped) noexcept;
  [[nodiscard]] static bool add_stripe(Striped& striped, const RdmaIncoming& stripe,
                                       std::uint16_t& pages) noexcept;
  static Share share_of(const RdmaIncoming& stripe, std::uint16_t page) noexcept;
  Move& begin(Striped& striped, std::uint16_t page, std::span<const std::byte> memory,
              bool is_pull) noexcept;
  void cancel(Striped& striped) noexcept;
  [[nodiscard]] static bool has_lost_link(const Striped& striped) noexcept;
  int run(Striped& striped) noexcept;
  bool digest_some(Striped& striped, std::uint16_t page) const noexcept;

  const std::uint64_t digest_bytes_;  // in a turn, of each request
  ResponderEvents* events_ = nullptr;
  std::vector<Striped> requests_;
  bool has_work_ = false;  // something moved, or is to be digested
};

}  // namespace simm::transport
