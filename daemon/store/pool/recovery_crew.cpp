#include "daemon/store/pool/recovery_crew.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace simm::store {

void RecoveryCrew::run(std::size_t parts, const std::function<void(std::size_t part)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> has_failed{false};
  std::exception_ptr failure;
  const auto help = [&] {
    try {
      for (std::size_t part = next.fetch_add(1); part < parts && !has_failed.load();
           part = next.fetch_add(1)) {
        work(part);
      }
    } catch (...) {
      if (!has_failed.exchange(true)) failure = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t wanted = std::min<std::size_t>(threads_, parts);
  helpers.reserve(wanted);
  try {
    while (helpers.size() + 1 < wanted) helpers.emplace_back(help);
  } catch (const std::system_error&) {  // no more threads: those that are there do it
  }
  help();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace simm::store
