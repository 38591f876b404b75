// The time of day, for people who read logs and events. Nothing decides by it. Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace simm::base {

// Nanoseconds since 1970 in UTC.
std::uint64_t wall_time_ns() noexcept;

// "2026-01-31T12:00:00.123Z".
std::string wall_time_text(std::uint64_t wall_ns);

}  // namespace simm::base
