// DepartingObjects: the objects of a shard whose slots have other owners now, and that may follow
// their slots there. They are in nobody's sight, and leave like others when room is needed.
// Made where it is needed; the book outlives it. Thread: the data agent that owns the store.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/base/clock.h"
#include "daemon/base/slot_departures.h"
#include "daemon/store/object_book.h"
#include "daemon/store/read_pin.h"

namespace simm::store {

// An object whose slot is another owner's now. The key lies in the record: good until the next
// call.
struct DepartingObject {
  std::string_view key;
  base::KeyHash hash;
  std::uint64_t group = 0;       // its hash
  std::uint64_t generation = 0;  // of its record: another object there has another one
  base::TenantId tenant;
  base::NamespaceId name_space;
  base::Slot slot = 0;
  std::uint64_t length = 0;
  std::uint64_t digest = 0;
  base::TimeNs expires_ns = 0;  // 0: no limit of its own
  std::uint8_t depth_step = 0;  // of depth_queue.h
  bool was_used = false;        // since it was put
};

class DepartingObjects {
public:
  explicit DepartingObjects(ObjectBook& book) noexcept : book_(book) {}

  // False: the record of that number is none of `departures`, or is damaged, or its TTL ends by
  // `needed_until_ns`.
  [[nodiscard]] bool look_at(std::uint32_t record, const base::SlotDepartures& departures,
                             base::TimeNs needed_until_ns, DepartingObject& object) const noexcept;
  // Pins an object that was just looked at, without a lease.
  [[nodiscard]] ReadPin pin(std::uint32_t record) noexcept;
  // The object is with its new owner now, or never will be: it goes, if it is still one of
  // `departures`. The pin stays valid.
  void drop(const ReadPin& pin, const base::SlotDepartures& departures) noexcept;

private:
  ObjectBook& book_;
};

}  // namespace simm::store
