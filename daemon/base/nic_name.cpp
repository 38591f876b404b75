#include "daemon/base/nic_name.h"

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <system_error>

namespace simm::base {
namespace {

constexpr std::uint32_t kPortMax = 255;  // port numbers have eight bits

// The whole text as a number; nothing: it is none, or greater.
std::optional<std::uint32_t> number(std::string_view text, int base, std::uint32_t max) {
  std::uint32_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, base);
  if (text.empty() || error != std::errc() || end != last || value > max) return std::nullopt;
  return value;
}

}  // namespace

std::optional<NicName> NicName::parse(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  const std::size_t slash = text.find('/');
  const std::string_view device = text.substr(0, slash);
  if (device.empty() || device.find_first_not_of(kLetters) != std::string_view::npos) {
    return std::nullopt;
  }
  if (slash == std::string_view::npos) return NicName{std::string(device), 0};
  const auto port = number(text.substr(slash + 1), 10, kPortMax);
  if (!port || *port == 0) return std::nullopt;
  return NicName{std::string(device), *port};
}

std::optional<std::string> parse_pci_address(std::string_view text) {
  constexpr int kHex = 16;
  const std::size_t dot = text.rfind('.');
  const std::size_t device_at = text.rfind(':');
  if (dot == std::string_view::npos || device_at == std::string_view::npos || dot < device_at) {
    return std::nullopt;
  }
  const std::string_view before = text.substr(0, device_at);
  const std::size_t bus_at = before.rfind(':');
  const bool has_domain = bus_at != std::string_view::npos;
  const std::string_view bus_digits = has_domain ? before.substr(bus_at + 1) : before;
  const std::string_view device_digits = text.substr(device_at + 1, dot - device_at - 1);
  if (bus_digits.size() != 2 || device_digits.size() != 2) return std::nullopt;
  const auto domain = has_domain ? number(before.substr(0, bus_at), kHex, 0xffff'ffff)
                                 : std::optional<std::uint32_t>(0);
  const auto bus = number(bus_digits, kHex, 0xff);
  const auto device = number(device_digits, kHex, 0x1f);
  const auto function = number(text.substr(dot + 1), kHex, 7);
  if (!domain || !bus || !device || !function) return std::nullopt;
  char written[32];
  const int length = std::snprintf(written, sizeof written, "%04x:%02x:%02x.%x", *domain, *bus,
                                   *device, *function);
  return std::string(written, static_cast<std::size_t>(length));
}

}  // namespace simm::base
