// The content of a page as a function of its key: any process can make it and check it again
// without having seen it. Word i (8 bytes, little-endian) is a mix of the key's xxh3-64 and i, so a
// page of another key, a shifted page and a page that is partly another one all differ almost
// everywhere. Thread: any; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace simm::bench {

void fill_page(std::string_view key, void* page, std::size_t bytes);

// The number of bytes of `page` that are not what fill_page() would write.
std::size_t count_wrong_bytes(std::string_view key, const void* page, std::size_t bytes);

}  // namespace simm::bench
