// How often the test program took memory from the heap while it was told to count: it replaces
// operator new. Thread: each thread counts its own.
#pragma once

#include <cstdint>

namespace counted_allocations {

inline thread_local bool t_is_counting = false;
inline thread_local std::uint64_t t_count = 0;

// Of what stands for a network: nothing is counted meanwhile.
class Pause {
public:
  Pause() noexcept : was_counting_(t_is_counting) { t_is_counting = false; }
  ~Pause() { t_is_counting = was_counting_; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

private:
  const bool was_counting_;
};

}  // namespace counted_allocations
