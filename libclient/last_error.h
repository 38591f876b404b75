// The last failure of the calling thread in words: what simm::last_error() and simm_last_error()
// return. A fixed buffer per thread, so that a failing data call allocates nothing.
// Thread: any; each has its own.
#pragma once

#include "simm/expected.h"

namespace simm::detail {

// printf-style; longer texts are cut. Returns `status`, so that a failure is one statement.
Status fail(Status status, const char* format, ...) noexcept __attribute__((format(printf, 2, 3)));

// The same for an Error on its way out of the library.
Error fail(Error error) noexcept;

}  // namespace simm::detail
