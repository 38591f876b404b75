// `simmctl get`, `put`, `exists`, `delete`: one object by hand, as a client through libsimm.
// Thread: the main thread.
#pragma once

#include <cstdint>
#include <string>

#include "simm/expected.h"

namespace simm::ctl {

struct ObjectWishes {
  std::string socket;      // of the daemon, and so of the tenant; empty: as libsimm finds it
  std::string name_space;  // empty: the default one
  std::string key;         // as it was typed
  std::string file;  // put: the value, get: where it goes; empty or "-": standard input, output
  std::uint32_t timeout_ms = 5000;
  std::uint32_t ttl_ms = 0;
  std::uint32_t lease_ms = 0;
  bool hex = false;  // the key is hex digits
  bool replace = false;
  bool json = false;
};

// The bytes of a key as it was typed; invalid_argument says what is wrong.
Expected<std::string> key_of(const ObjectWishes& wishes);

// `verb`: the subcommand. Returns the exit code.
[[nodiscard]] int run_object(const std::string& verb, const ObjectWishes& wishes);

}  // namespace simm::ctl
