// What simmctl says: results on standard output, what went wrong on standard error.
// Thread: the main thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "daemon/tools/simmctl/exit_code.h"
#include "simm/expected.h"

namespace simm::ctl {

// Writes everything and flushes. A reader that has seen enough (`| head`) is no failure; a full
// disk is one, and said.
[[nodiscard]] int write_out(std::string_view text);

// The same into a file, which is made or emptied; "" and "-" are standard output.
[[nodiscard]] int write_to(const std::string& file, std::string_view text);

// Standard output is not a pipe whose reader has gone.
[[nodiscard]] bool has_reader();

// "simmctl: <what went wrong>", and the exit code that goes with it.
[[nodiscard]] int failed(const Error& error);

// As JSON, or as a table for people.
[[nodiscard]] int show(const nlohmann::ordered_json& value, bool json);

}  // namespace simm::ctl
