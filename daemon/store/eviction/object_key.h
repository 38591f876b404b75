// ObjectKey: the name of an object, as the store is asked for it. The bytes belong to the caller
// and are copied where they are kept. Thread: any; a plain value.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"

namespace simm::store {

struct ObjectKey {
  base::KeyHash hash;       // of tenant, namespace and bytes: finds candidates
  std::uint64_t group = 0;  // keyed hash of the group
  base::TenantId tenant;
  base::NamespaceId name_space;
  std::string_view bytes;  // 1 .. ipc::kKeyBytesMax; compared in full
};

}  // namespace simm::store
