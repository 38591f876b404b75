// Any bytes as a configuration file: an error with words, or a configuration; never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/base/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = simm::base::parse_config(text, "fuzz");
  if (config.has_value() ? config->sockets.empty() : config.error().context.empty()) std::abort();
  return 0;
}
