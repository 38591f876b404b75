// How a GPU is called where people read: by its UUID, as nvidia-smi writes it. Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace simm::ipc {

// "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf"
inline std::string gpu_name(const std::array<std::uint8_t, 16>& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) name += '-';
    name += kDigits[uuid[i] >> 4];
    name += kDigits[uuid[i] & 15];
  }
  return name;
}

}  // namespace simm::ipc
