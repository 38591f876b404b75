// ObjectPart: the name of bytes that never change: those of an object from `offset` on. Whoever has
// a copy of bytes that are called so may use the copy instead. A name is never given to other bytes
// while the daemon lives: an object that is put anew has another serial number.
// Thread: any; a value.
#pragma once

#include <cstdint>

namespace simm::memory {

struct ObjectPart {
  std::uint32_t origin = 0;  // who counts the serial numbers; 0: the bytes have no name
  std::uint64_t serial = 0;
  std::uint64_t offset = 0;
};

}  // namespace simm::memory
