// Status: the closed set of outcomes that every SiMM interface speaks.
//
// The numeric values are part of the public API, of the shared-memory protocol and of the wire.
// They equal the codes of the published SiMM SDK where that one has a code, so `simm.kv` passes
// them on unchanged. Zero is success, everything else is negative. Never renumber; only append.
#pragma once

#include "simm/compiler.h"

#include <cstdint>
#include <string_view>

namespace simm {

enum class [[nodiscard]] Status : std::int32_t{
    ok = 0,
    invalid_argument = -1000,  // the caller's mistake: a field, its value and the remedy are logged
    not_implemented = -1001,   // known to the protocol, not built (GPU regions)
    timeout = -1002,           // the deadline passed; nothing touches the caller's pages any more
    out_of_memory = -1003,     // a named limit of the daemon or a quota of the tenant
    invalid_state = -1004,     // closed, draining, deregistered
    poisoned = -1005,          // the session broke the protocol and is being torn down
    permission_denied = -1006,  // the kernel's or the daemon's rule says no
    unsupported = -1007,        // this host, kernel or peer can not do it
    incompatible = -1008,       // another layout or protocol version
    io_error = -1009,           // a system call failed; the context names it
    unreachable = -2300,        // no daemon, or the owner of the key is away
    wrong_epoch =
        -2301,  // the asked daemon does not own the slot (internal: refreshed and retried)
    not_found = -4003,
    exists = -4004,         // internal: an if_absent put met an existing object
    size_mismatch = -4005,  // internal: an exact-size get met another size; callers see not_found
    no_space = -4006,
    corrupt = -4007,  // internal: a checksum did not match; callers see not_found
    transfer_failed = -4008,
    cancelled = -4009,  // of Client::cancel(): nobody waits for the answer any more
};

// The enumerator's name, "unknown" for a value outside the set. Never null, static storage.
std::string_view status_name(Status status) noexcept;

// True for a value that is in the set: what decoders use before they cast.
bool is_known_status(std::int32_t value) noexcept;

}  // namespace simm
