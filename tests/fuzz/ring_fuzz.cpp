// The daemon's end of a lane against a client that writes whatever it likes, in any order with the
// daemon's steps: no access outside the lane (ASan sees its edges), counts that stay true, and no
// more taken than the rings hold.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "ipc/daemon_lane.h"
#include "simm/check.h"

namespace {

using namespace simm::ipc;

// Exactly one lane on the heap.
struct LaneBytes {
  alignas(128) std::byte bytes[kLaneBytes];
};

// Takes values off the input; zeros when it is used up.
class Input {
public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  std::uint32_t word(std::size_t bytes) {
    std::uint32_t value = 0;
    const std::size_t take = bytes < size_ ? bytes : size_;
    std::memcpy(&value, data_, take);
    data_ += take;
    size_ -= take;
    return value;
  }

private:
  const std::uint8_t* data_;
  std::size_t size_;
};

void step(Input& input, LaneBytes& lane, DaemonLane& daemon) {
  LaneControl* const control = LaneMemory(lane.bytes).control();
  std::uint32_t* const words[] = {&control->submission_tail.word, &control->completion_head.word,
                                  &control->client_waiting.word, &control->submission_head.word,
                                  &control->completion_tail.word};
  const std::uint32_t what = input.word(1);
  switch (what % 8) {
    case 0:
      *words[what / 8 % 5] = input.word(4);
      return;
    case 1: {
      std::uint32_t* const word = words[what / 8 % 5];
      for (std::uint32_t n = input.word(1) % 4; n > 0; --n) *word = cursor_next(*word);
      return;
    }
    case 2: {
      const std::uint32_t place = input.word(4) % (kLaneBytes - 4);
      const std::uint32_t value = input.word(4);
      std::memcpy(lane.bytes + place, &value, sizeof value);
      return;
    }
    case 3: {
      const std::uint32_t before = daemon.outstanding();
      Submission submission{};
      const Poll poll = daemon.poll_submission(submission);
      SIMM_CHECK(daemon.outstanding() == before + (poll == Poll::taken ? 1 : 0));
      SIMM_CHECK((poll == Poll::broken) == (daemon.reason() != PoisonReason::none));
      SIMM_CHECK(daemon.outstanding() <= kCompletionSlots);
      return;
    }
    case 4:
      if (daemon.outstanding() != 0) static_cast<void>(daemon.publish_completion(Completion{}));
      return;
    case 5: {
      PageDescriptor pages[4];
      const std::uint32_t first = input.word(4);
      const std::uint32_t count = input.word(1) % 5;
      const bool ok = daemon.copy_pages(first, count, pages) == simm::Status::ok;
      SIMM_CHECK(ok == (std::uint64_t{first} + count <= kPageSlots));
      return;
    }
    case 6: {
      std::byte key[512];
      const std::uint32_t offset = input.word(4);
      const std::uint32_t bytes = input.word(2) % (sizeof key + 1);
      const bool ok = daemon.copy_keys(offset, bytes, key) == simm::Status::ok;
      SIMM_CHECK(ok == (std::uint64_t{offset} + bytes <= kKeyArenaBytes));
      return;
    }
    default:
      daemon.write_result(input.word(2) % kPageSlots, PageResult{});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto lane = std::make_unique<LaneBytes>();
  std::memset(lane->bytes, 0, sizeof(LaneControl));
  DaemonLane daemon{LaneMemory(lane->bytes)};
  Input input(data, size);
  while (!input.empty()) step(input, *lane, daemon);
  return 0;
}
