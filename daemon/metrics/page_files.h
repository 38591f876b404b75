// PageFiles: the files of the status page (daemon/metrics/page/), which CMake compiles into the
// daemon. They are the same for every reader and hold nothing of the daemon. Thread: any
// (constant).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace simm::control {

struct PageFile {
  std::string_view path;  // as a browser asks for it: "/page.js"
  std::string_view type;  // the Content-Type
  std::shared_ptr<const std::string> body;
};

// Made at the first call.
const std::vector<PageFile>& page_files();

// What all of them and the data of the page are sent with. Only what this daemon serves is loaded,
// nothing runs that stands in the document itself, and no other site frames or embeds any of it.
inline constexpr std::string_view kPageHeaders =
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";

}  // namespace simm::control
