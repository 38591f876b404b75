#include "daemon/tools/simm-bench/store_traffic.h"

#include <algorithm>
#include <string_view>

#include "daemon/base/hash.h"

namespace simm::bench {
namespace {

constexpr base::TimeNs kPutEveryNs = base::kNsPerMs;
constexpr base::TimeNs kTurnNs = 10'000;

// Keys are numbers, each a group of its own.
store::ObjectKey key_of(const std::uint64_t& number) {
  static const base::KeyHasher hasher(42);
  store::ObjectKey key;
  key.bytes = {reinterpret_cast<const char*>(&number), sizeof number};
  key.hash = hasher(key.bytes);
  key.group = key.hash.high;
  key.tenant = {1};
  key.name_space = {1};
  return key;
}

}  // namespace

void StoreTraffic::put(std::uint64_t bytes, const Length& length) {
  for (std::uint64_t put = 0; put < bytes;) {
    const std::uint64_t next = length(random_);
    put_one(++number_, next);
    put += next + use_an_old_one(length);
  }
}

void StoreTraffic::put_one(const std::uint64_t& number, std::uint64_t length) {
  const store::StoreStats before = store_.stats();
  now_ns_ += kPutEveryNs;
  store::WriteRequest request;
  request.key = key_of(number);
  request.length = length;
  request.mode = ipc::PutMode::replace;
  store::WriteResult result = store_.begin_write(request, now_ns_);
  for (; result.start == store::WriteStart::wait; ++use_.waits) {
    now_ns_ += kTurnNs;
    store_.do_work(now_ns_);
    result = store_.begin_write(request, now_ns_);
  }
  if (result.start != store::WriteStart::reserved) return;
  store_.publish(result.reservation, 0, 1, now_ns_);
  store_.do_work(now_ns_);
  const store::StoreStats after = store_.stats();
  if (after.evicted == 0) return;
  ++use_.moments;
  use_.payload_bytes_sum += static_cast<double>(after.payload_bytes);
  use_.payload_bytes_least = std::min(use_.payload_bytes_least, after.payload_bytes);
  use_.put_bytes += length;
  use_.moved_bytes += after.moved_bytes - before.moved_bytes;
  use_.evictions += after.evicted - before.evicted;
  use_.evictions_max = std::max(use_.evictions_max, after.evicted - before.evicted);
}

// As engines do: what is not found is computed, and put again.
std::uint64_t StoreTraffic::use_an_old_one(const Length& length) {
  const std::uint64_t recent = std::min(number_ - change_, 2 * store_.stats().objects + 1);
  const std::uint64_t number = number_ - random_.below(recent);
  store::ReadPin pin;
  if (store_.begin_read(key_of(number), store::kNoLease, now_ns_, pin) == Status::ok) {
    store_.end_read(pin);
    return 0;
  }
  const std::uint64_t again = length(random_);
  put_one(number, again);
  return again;
}

}  // namespace simm::bench
