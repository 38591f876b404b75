#include "libclient/batch_starter.h"

#include <array>
#include <utility>

namespace simm::detail {
namespace {

thread_local bool is_thread_over = false;  // what ends with the thread may still call a Client

struct OfThread {
  std::array<std::shared_ptr<BatchStarter>, BatchStarter::kQueuesMax> starters;
  ~OfThread() { is_thread_over = true; }
};

std::shared_ptr<BatchStarter>& place_of(std::uint64_t queue) noexcept {
  thread_local OfThread here;
  return here.starters[queue % BatchStarter::kQueuesMax];
}

}  // namespace

std::uint64_t BatchStarter::number_queue() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::shared_ptr<BatchStarter> BatchStarter::begin(std::uint64_t queue) {
  if (is_thread_over) return nullptr;
  std::shared_ptr<BatchStarter>& place = place_of(queue);
  if (place == nullptr || place->queue_ != queue) place = std::make_shared<BatchStarter>(queue);
  (void)place->take_news();
  return place;
}

BatchStarter* BatchStarter::find(std::uint64_t queue) noexcept {
  if (is_thread_over) return nullptr;
  BatchStarter* const starter = place_of(queue).get();
  return starter != nullptr && starter->queue_ == queue ? starter : nullptr;
}

std::size_t BatchStarter::take_news() noexcept {
  const std::uint32_t now = handed_back_.load(std::memory_order_acquire);
  return now - std::exchange(seen_, now);
}

}  // namespace simm::detail
