// Which keys are read by several processes of a node, by their shape alone: SGLang names a page of
// an MLA model, which every tensor-parallel rank reads whole, `<sha256hex>__k`. Pages of other
// models carry their rank between the underscores.
// Thread: any.
#pragma once

#include <string_view>

#include "daemon/engine/operation.h"

namespace simm::engine {

// Ends with at least 32 hex digits and "__k".
bool is_shared_key(std::string_view key) noexcept;

// A get is shared as a whole: one page that is not makes all of it a batch like any other.
bool is_shared_get(const Operation& operation) noexcept;

// One of whole objects of an immutable namespace, for a client: what is hot of it may be a copy.
bool may_be_hot_get(const Operation& operation) noexcept;

}  // namespace simm::engine
