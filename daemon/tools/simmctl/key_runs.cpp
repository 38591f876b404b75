#include "daemon/tools/simmctl/key_runs.h"

#include <charconv>
#include <utility>

namespace simm::ctl {

void KeyRuns::add(bool is_there, std::string_view hash) {
  std::uint64_t key = 0;
  const std::string_view half = hash.substr(0, 16);
  (void)std::from_chars(half.data(), half.data() + half.size(), key, 16);
  if (count_ == kKeysPerRunMax) end_run();
  std::size_t at = key % slots_.size();
  while (slots_[at].run == run_ && slots_[at].key != key) at = (at + 1) % slots_.size();
  if (slots_[at].run == run_ && slots_[at].is_there != is_there) {
    end_run();
    at = key % slots_.size();
  }
  slots_[at] = {key, run_, is_there};
  (is_there ? stored_ : removed_) += hash;
  ++count_;
}

void KeyRuns::say(std::string_view line) {
  end_run();
  text_ += line;
  text_ += '\n';
}

std::string KeyRuns::take() {
  end_run();
  return std::exchange(text_, {});
}

// No key is in both parts, so either may be the first.
void KeyRuns::end_run() {
  const auto tell = [&](std::string_view what, std::string& hashes) {
    if (hashes.empty()) return;
    text_ += what;
    text_ += hashes;
    text_ += '\n';
    hashes.clear();
  };
  tell("stored ", stored_);
  tell("removed ", removed_);
  count_ = 0;
  if (++run_ != 0) return;
  slots_.assign(slots_.size(), {});
  run_ = 1;
}

}  // namespace simm::ctl
