// The envelope of a manager's state, wherever it is kept: a header of 48 bytes (little endian),
// then the state's bytes. So what is torn, damaged, of another version or foreign is noticed.
//
//   0  8  magic "simmstat"          24  8  bytes of the state
//   8  4  format version, 1         32  8  xxh3-64 of the state
//  12  4  zero                      40  8  xxh3-64 of the 40 bytes before
//  16  8  epoch
//
// Pure functions. Thread: any.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "daemon/cluster/coordinator.h"

namespace simm::cluster {

inline constexpr std::size_t kEnvelopeBytes = 48;

std::vector<std::byte> seal_state(const StoredState& state);

// corrupt, incompatible: what is wrong. `where`: what errors call it; `remedy`: how they end.
Expected<StoredState> open_state(std::span<const std::byte> sealed, const std::string& where,
                                 const std::string& remedy);

// invalid_argument: no store() may take this state.
Outcome check_state(base::Epoch expected, const StoredState& state);

}  // namespace simm::cluster
