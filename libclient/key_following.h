// KeyFollowing: a follower's side of FollowKeys (ipc/ATTACH.md): one question at a time on the
// attach socket, which is posted and looked for, never waited for with a lock held. When all is
// read it asks again after a pause, so a program that reads all the time costs the daemon 100
// questions a second. Owned by KeyFollower. Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/control_message.h"
#include "libclient/core.h"
#include "simm/expected.h"
#include "simm/key_follower.h"

namespace simm::detail {

class KeyFollowing {
public:
  KeyFollowing(std::shared_ptr<Core> core, std::string name_space, const FollowOptions& options)
      : core_(std::move(core)), name_space_(std::move(name_space)), options_(options) {}
  ~KeyFollowing();
  KeyFollowing(const KeyFollowing&) = delete;
  KeyFollowing& operator=(const KeyFollowing&) = delete;

  Expected<std::size_t> read(std::span<KeyEvent> events, std::uint32_t timeout_ms);
  [[nodiscard]] bool token(std::string_view key, KeyToken& out) const noexcept;

private:
  // Asks, or takes the answer: what can be done without waiting.
  Outcome turn(std::uint64_t now_ns, std::uint64_t deadline_ns);
  Outcome take(const ipc::KeyEventsReply& reply, std::uint64_t now_ns);
  void wait(std::uint64_t now_ns, std::uint64_t deadline_ns) const;
  void note_unsure();

  const std::shared_ptr<Core> core_;
  const std::string name_space_;
  const FollowOptions options_;
  std::uint32_t generation_ = 0;  // of the session; 0: none yet
  std::uint64_t asked_ = 0;       // the question that has no answer yet; 0: none
  std::uint64_t next_ask_ns_ = 0;
  std::uint64_t follower_ = 0;  // 0: has to subscribe
  std::uint64_t since_ = 0;
  std::uint64_t presents_ = 0;
  bool begins_ = false;  // the next question asks for the present keys from the first one
  bool is_complete_ = false;
  bool is_salted_ = false;
  std::uint64_t salt_ = 0;
  std::vector<KeyEvent> waiting_;
  std::size_t handed_out_ = 0;  // of waiting_
};

}  // namespace simm::detail
