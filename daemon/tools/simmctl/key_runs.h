// KeyRuns: events of keys as a program reads them: a line for many keys that are there, or are not
// any more. The events of one key keep their order; keys that have nothing to do with each other
// lose theirs, because a full pool tells `stored` and `evicted` in turn. Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace simm::ctl {

class KeyRuns {
public:
  static constexpr std::size_t kKeysPerRunMax = 1024;

  // `hash`: 32 hexadecimal digits.
  void add(bool is_there, std::string_view hash);
  // A line of another kind, behind all that was added.
  void say(std::string_view line);
  // The lines so far: "stored", "removed", a space, the hashes in one piece.
  [[nodiscard]] std::string take();

private:
  struct Slot {
    std::uint64_t key = 0;  // the first half of the hash: one in 2^64 ends a run too early
    std::uint32_t run = 0;  // of another run: empty
    bool is_there = false;
  };
  void end_run();

  std::vector<Slot> slots_ = std::vector<Slot>(4 * kKeysPerRunMax);
  std::uint32_t run_ = 1;
  std::size_t count_ = 0;  // of the run
  std::string stored_;
  std::string removed_;
  std::string text_;
};

}  // namespace simm::ctl
