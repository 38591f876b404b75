// Transfers: the put and get calls of the process that may touch memory at the moment, so that
// deregister_mr() can wait for those on its memory when the memory stays registered for others.
// Transfer: one such call, from before it is given to libsimm until nothing can touch its pages.
//
// Nothing here waits for the interpreter's lock. Thread: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "simm/client.h"

namespace simm::python {

struct MemoryRange {
  std::uintptr_t address = 0;
  std::uint64_t length = 0;
};

class Transfer {
public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() { end(); }

  // The items stay as they are until end().
  void begin(std::span<const Item> items);
  // It goes on without a thread: whoever waits for its end asks the Client.
  void goes_on(const std::shared_ptr<Client>& client, std::uint64_t ticket) noexcept;
  void end() noexcept;  // safe twice

private:
  friend class Transfers;
  std::span<const Item> items_;
  std::uint64_t number_ = 0;  // 0: not listed
  std::weak_ptr<Client> client_;
  std::uint64_t ticket_ = 0;  // 0: a thread carries it out
};

class Transfers {
public:
  static Transfers& instance();

  // Returns when those that had begun and touch one of the ranges have ended: at most their
  // deadlines and the fence grace. Without the interpreter's lock.
  void wait(std::span<const MemoryRange> ranges) noexcept;

private:
  friend class Transfer;
  Transfers();
  static void after_fork_child();
  // One that began before that number; under the mutex.
  [[nodiscard]] Transfer* find(std::span<const MemoryRange> ranges, std::uint64_t before) noexcept;
  void forget_pages(std::uint64_t number) noexcept;  // under the mutex: they are free

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Transfer*> open_;  // as many as there are calls
  std::uint64_t next_number_ = 1;
};

}  // namespace simm::python
