#include "python/native/transfers.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

namespace simm::python {
namespace {

bool touches(const Item& item, const MemoryRange& range) noexcept {
  const std::uint64_t start = item.view.offset();  // of a view by address: the address
  return start < range.address ? item.view.length() > range.address - start
                               : range.length > start - range.address;
}

bool has_completed(const std::weak_ptr<Client>& weak, std::uint64_t ticket) noexcept {
  const std::shared_ptr<Client> client = weak.lock();
  if (client == nullptr) return true;  // its end waited for its batches
  try {
    return client->has_completed(ticket);
  } catch (const std::exception&) {
    return false;  // no memory at the moment: the next look may have some
  }
}

}  // namespace

void Transfer::begin(std::span<const Item> items) {
  Transfers& all = Transfers::instance();
  const std::lock_guard lock(all.mutex_);
  all.open_.push_back(this);
  items_ = items;
  number_ = all.next_number_++;
}

void Transfer::goes_on(const std::shared_ptr<Client>& client, std::uint64_t ticket) noexcept {
  Transfers& all = Transfers::instance();
  const std::lock_guard lock(all.mutex_);
  client_ = client;
  ticket_ = ticket;
  all.changed_.notify_all();
}

void Transfer::end() noexcept {
  if (number_ == 0) return;
  Transfers& all = Transfers::instance();
  const std::lock_guard lock(all.mutex_);
  number_ = 0;
  std::erase(all.open_, this);
  all.changed_.notify_all();
}

Transfers& Transfers::instance() {
  // Leaked on purpose: objects of a dying interpreter may outlive static destructors.
  static Transfers* const transfers = new Transfers;
  return *transfers;
}

Transfers::Transfers() {
  // A child must not inherit the mutex from a thread that it does not have.
  (void)::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                         &after_fork_child);
}

// The calls are those of the parent's threads, which the child has not.
void Transfers::after_fork_child() {
  Transfers& all = instance();
  for (Transfer* transfer : all.open_) transfer->number_ = 0;
  all.open_.clear();
  new (&all.changed_) std::condition_variable;
  all.mutex_.unlock();
}

Transfer* Transfers::find(std::span<const MemoryRange> ranges, std::uint64_t before) noexcept {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Transfer* transfer) {
    return transfer->number_ < before &&
           std::any_of(transfer->items_.begin(), transfer->items_.end(), [&](const Item& item) {
             return std::any_of(ranges.begin(), ranges.end(),
                                [&](const MemoryRange& range) { return touches(item, range); });
           });
  });
  return found == open_.end() ? nullptr : *found;
}

void Transfers::forget_pages(std::uint64_t number) noexcept {
  for (Transfer* transfer : open_) {
    if (transfer->number_ == number) transfer->items_ = {};
  }
}

void Transfers::wait(std::span<const MemoryRange> ranges) noexcept {
  constexpr std::chrono::milliseconds kLook(1);  // nobody else may ask libsimm meanwhile
  std::unique_lock lock(mutex_);
  const std::uint64_t before = next_number_;
  while (const Transfer* const open = find(ranges, before)) {
    if (open->ticket_ == 0) {
      changed_.wait(lock);
      continue;
    }
    const std::uint64_t number = open->number_;
    const std::uint64_t ticket = open->ticket_;
    const std::weak_ptr<Client> client = open->client_;
    lock.unlock();
    const bool done = has_completed(client, ticket);
    lock.lock();
    if (done) {
      forget_pages(number);
    } else {
      changed_.wait_for(lock, kLook);
    }
  }
}

}  // namespace simm::python
