// AsyncBatch: one asynchronous batch, from its start until it is handed back. AsyncEngine carries
// it out, for the BatchOwner that started it. Owned by the engine until it is done, then by its
// owner. Thread: see AsyncEngine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "libclient/batch_run.h"
#include "libclient/batch_starter.h"
#include "libclient/page_ends.h"
#include "libclient/session.h"
#include "simm/client.h"

namespace simm::detail {

struct AsyncBatch;

// What an engine tells whoever starts batches. All under the engine's mutex.
class BatchOwner {
public:
  virtual ~BatchOwner() = default;
  virtual void add_pending(AsyncBatch& batch) noexcept = 0;
  virtual void want_watch() noexcept = 0;  // a thread of the owner has come: after_turn() counts
  // null: it has ended, or there is none.
  [[nodiscard]] virtual AsyncBatch* find_pending(std::uint64_t ticket) const noexcept = 0;
  virtual void pages_ended(AsyncBatch& batch) noexcept = 0;  // some were published
  virtual void hand_over(std::unique_ptr<AsyncBatch> batch) = 0;
  // Something of what was just told is done, and the thread that works is not the owner's.
  virtual void signal() noexcept = 0;
  // So many batches are done, no other is pending, or there is something to call back.
  [[nodiscard]] virtual bool has_enough(std::size_t wanted) const noexcept = 0;
  // A thread has worked. `next_look_ns`: when something must be looked at even if nothing happens.
  virtual void after_turn(const std::shared_ptr<Session>& session, std::uint64_t next_look_ns,
                          bool has_more) noexcept = 0;
  virtual void after_fork_child() noexcept = 0;
};

struct AsyncBatch : BatchRun {
  BatchOwner* owner = nullptr;
  std::shared_ptr<BatchStarter> starter;
  Client::Callback callback;
  Completed completed;
  AsyncBatch* next_pending = nullptr;    // CompletionQueue's, of the same bucket
  AsyncBatch* next_cancelled = nullptr;  // AsyncEngine's
  bool cancel_asked = false;             // under the engine's mutex
  // --- of a batch that tells its pages; CompletionQueue's
  std::shared_ptr<PageEnds> ends;
  AsyncBatch* next_untold = nullptr;
  bool is_listed = false;   // as one with pages to be told
  bool is_telling = false;  // a thread is at it
};

}  // namespace simm::detail
