// How a GPU is called where people read: by its UUID, as nvidia-smi writes it. Thread: any.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

// The UUID of such a name; nothing: it is none.
inline std::optional<std::array<std::uint8_t, 16>> parse_gpu_name(std::string_view name) {
  std::array<std::uint8_t, 16> uuid{};
  std::size_t digits = 0;
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char c : name.substr(std::min<std::size_t>(name.size(), 4))) {
    const std::size_t digit = kDigits.find(c);
    if (digit == kDigits.npos || digits == 2 * uuid.size()) continue;
    std::uint8_t& byte = uuid[digits++ / 2];
    byte = static_cast<std::uint8_t>(16u * byte + digit);
  }
  // What is no digit was left out: the name has to be the one that those digits make.
  if (gpu_name(uuid) != name) return std::nullopt;
  return uuid;
}

}  // namespace simm::ipc
