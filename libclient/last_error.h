// The failure of the calling thread's last call in words: what simm::last_error() and
// simm_last_error() return. Each call of the public interface begins without one. A fixed buffer
// per thread, so that a failing data call allocates nothing. Thread: any; each has its own.
#pragma once

#include <cstddef>

#include "simm/expected.h"

namespace simm::detail {

void forget_last_error() noexcept;

// printf-style; longer texts are cut. Returns `status`, so that a failure is one statement.
Status fail(Status status, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));

// The same for an Error on its way out of the library.
Error fail(Error error) noexcept;

// The daemon's answer for a page that has failed, unless the call has a text already.
void fail_page(std::size_t item, Status status) noexcept;

}  // namespace simm::detail
