// EachTenant: a T for each tenant that uses one, which lives as long as somebody keeps it.
// Thread: the adopter.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

namespace simm::memory {

template <typename T>
class EachTenant {
public:
  // The tenant's, made at its first use.
  std::shared_ptr<T> of(std::uint64_t tenant) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<T>& known = known_[tenant];
    std::shared_ptr<T> kept = known.lock();
    if (kept == nullptr) known = kept = std::make_shared<T>();
    return kept;
  }

private:
  std::map<std::uint64_t, std::weak_ptr<T>> known_;
};

}  // namespace simm::memory
