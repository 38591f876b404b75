#include "daemon/http/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>

namespace simm::http {

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a zero
  // SAFETY: the source has bytes.size() bytes, the target has the room that the manual asks for.
  const int length = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  // OpenSSL takes blanks at both ends, and padding anywhere.
  const std::size_t digits = std::min(text.find_first_not_of(kDigits), text.size());
  const std::string_view rest = text.substr(digits);
  if (text.size() % 4 != 0 || (rest != "" && rest != "=" && rest != "==")) return std::nullopt;
  const std::size_t padding = rest.size();
  std::string bytes(text.size() / 4 * 3, '\0');
  // SAFETY: the target has three bytes for each four of the source.
  const int length = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                       reinterpret_cast<const unsigned char*>(text.data()),
                                       static_cast<int>(text.size()));
  if (length < 0 || static_cast<std::size_t>(length) < padding) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(length) - padding);
  return bytes;
}

}  // namespace simm::http
