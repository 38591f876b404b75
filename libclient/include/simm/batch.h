// The words that batches are made of: View (where the bytes are), Item (one page: key and view),
// PageResult (what became of it), CallOptions (how), CallReport (what else is told, and where),
// Completed (the end of an asynchronous batch). The calls are methods of Client (simm/client.h).
//
// Units: bytes, milliseconds. Status values are those of simm/status.h and part of the API.
// Thread: plain values; an object belongs to one thread at a time.
#pragma once

#include "simm/compiler.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "simm/region.h"
#include "simm/status.h"

namespace simm {

namespace detail {
struct NamespaceRecord;
}

// A namespace of the connection's tenant: the same key in two namespaces is two objects. It
// separates mistakes (two models on one cluster), not attackers. Made by Client::open_namespace();
// a default-made one is the default namespace. Survives a re-attach.
class Namespace {
public:
  Namespace() noexcept = default;
  [[nodiscard]] detail::NamespaceRecord* record() const noexcept { return record_; }  // libclient's

private:
  friend class detail::Core;
  explicit Namespace(detail::NamespaceRecord* record) noexcept : record_(record) {}
  detail::NamespaceRecord* record_ = nullptr;  // lives as long as the process
};

struct NamespaceOptions {
  bool exact_size = false;  // every get is an exact-size get (CallOptions::exact_size)
  bool shared = false;      // other processes of this node read the same keys: one fetch serves all
};

// Where the bytes of a page are: a part of a region, or an address inside a registered region. An
// address is looked up, once per run of pages in the same region. Never owns anything.
class View {
public:
  View() noexcept = default;
  View(const Region& region, std::uint64_t offset, std::uint64_t length) noexcept
      : record_(region.record_.get()),
        offset_(offset),
        length_(length),
        generation_(region.generation_) {}
  View(const void* address, std::uint64_t length) noexcept
      : offset_(reinterpret_cast<std::uintptr_t>(address)), length_(length) {}

  // What libclient reads. record() null: offset() is an address.
  [[nodiscard]] detail::RegionRecord* record() const noexcept { return record_; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::uint64_t length() const noexcept { return length_; }

private:
  detail::RegionRecord* record_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint64_t length_ = 0;
  std::uint32_t generation_ = 0;
};

// One page of a get or put. Key: 1 to 1,024 bytes, any bytes. Value: 1 byte to the daemon's
// max_value_bytes (at most 1 GiB).
struct Item {
  std::string_view key;
  View view;                        // put: the value; get: where it goes
  std::uint64_t object_offset = 0;  // get: first byte of the object wanted (ranged get)
  std::uint32_t depth = 0;          // put: position in its prefix, in pages; 0 = unknown. A hint
};

struct PageResult {
  Status status = Status::invalid_state;
  std::uint64_t bytes = 0;  // get: bytes written into the view; put, exists: the object's length

  [[nodiscard]] bool ok() const noexcept { return status == Status::ok; }
};

enum class PutMode : std::uint8_t {
  if_absent = 0,  // an existing key answers ok without moving a byte
  replace = 1,    // atomic: readers see the old or the new object
};

// How a call is carried out. A field that means nothing for an operation is ignored by it.
struct CallOptions {
  Namespace name_space = {};
  // 0: the Client's patience (sync_timeout_ms or async_timeout_ms, plus bytes / floor_bytes_per_s).
  // A page is given up when nothing moves for so long, and after ten times that at the latest.
  // Otherwise the whole deadline. The call returns by its deadline plus the fence grace (100 ms);
  // beside a daemon that is stopped, 100 ms later.
  std::uint32_t timeout_ms = 0;
  PutMode mode = PutMode::if_absent;
  std::uint32_t ttl_ms = 0;    // put: life of the object; 0 = until it is evicted
  std::uint32_t lease_ms = 0;  // exists, get: keep it at least this long; 0 = the daemon's default
  bool exact_size = false;     // get: a stored length other than the view's is not_found
  // get: a view takes what it holds of a longer object, from object_offset on. Implied by an
  // object_offset above 0; without either, an object longer than the view is invalid_argument.
  bool ranged = false;
  bool shared = false;  // get: other processes of this node read it too
};

// The end of one page of an asynchronous batch.
struct PageEnd {
  std::uint64_t ticket = 0;     // what the *_async call returned
  std::size_t index = 0;        // in the batch's list
  std::uint64_t user_data = 0;  // the caller's for that page (CallReport::user_data), else 0
  PageResult result;            // as in the batch's results
};
using PageCallback = std::function<void(const PageEnd&)>;

// What a batch tells besides its results, and where: the last argument of a call that has one.
// Unlike the other structs it grows: later versions append fields, and know by struct_size how far
// the caller's goes.
struct CallReport {
  std::size_t struct_size = sizeof(CallReport);  // stays as it is
  // The caller's own room for the words of the failure: what last_error() says of this call,
  // whichever threads have worked on it. Always ends with a zero byte, and is cut between two
  // characters of UTF-8. Empty when nothing failed. An asynchronous batch writes there until it has
  // completed.
  std::span<char> error_text = {};
  // Asynchronous: called once for each page as it ends, in poll(), drain() and wait() of the
  // Client. For the last page that is before the batch itself is handed back. It may do what the
  // batch's callback may. The page's memory is free then. Each page then goes to the daemon by
  // itself, which costs more time for each page, and shows the first pages before the last ones are
  // moved.
  PageCallback on_page = {};
  std::span<const std::uint64_t> user_data =
      {};  // empty, or one for each page; stays until the end
};

// The end of one asynchronous batch.
struct Completed {
  std::uint64_t ticket = 0;    // what the *_async call returned
  Status status = Status::ok;  // as the synchronous call would have returned
};

// The failure of this thread's last call in words: the field, its value and the remedy. Of a batch
// with several, that of one page. Empty when nothing of the call failed; a page that is not_found
// is no failure. For data calls, whose result is a bare Status. Valid until the thread's next call
// of a method that is not const. Batches that end in poll(), drain() or wait() leave their text
// there.
const char* last_error() noexcept;

}  // namespace simm
