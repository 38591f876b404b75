// The table of all configuration keys: the one place that says what a key is called, what it does,
// what it may hold, and its default.
// Thread: any (constant).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/config.h"

namespace simm::base {

enum class KeyType : std::uint8_t {
  boolean,
  integer,
  bytes,           // integer or "64MiB"
  bytes_or_share,  // bytes or "10%"
  text,
  texts,     // one text, or a list of texts; none of them has a comma
  choice,    // one of KeySpec::choices, separated by '|'
  integers,  // list of integers within min..max
};

// A value of a key after its type and range were checked.
struct KeyValue {
  bool flag = false;
  std::int64_t number = 0;
  ByteShare share;
  std::string text;
  std::vector<std::int64_t> list;
  std::uint32_t choice = 0;  // index into KeySpec::choices
};

struct KeySpec {
  // Dotted; "tenants[].name" is a key of each object of the list "tenants".
  std::string_view path;
  KeyType type;
  // As JSON text; empty: must be given (keys of list elements only); "null": may be left out, and
  // then nothing is assigned.
  std::string_view fallback;
  std::int64_t min;
  std::int64_t max;
  std::string_view choices;
  std::string_view help;  // one sentence, with the unit
  // Stores a checked value; `element` is the position in the list of a "[]" key.
  void (*assign)(Config& config, std::size_t element, const KeyValue& value);
};

std::span<const KeySpec> config_keys();

// The name that a key had in an earlier release, without its section; empty: it never had another.
// A file may use that name instead.
std::string_view former_name(std::string_view path) noexcept;

// The JSON schema of a configuration file, generated from the table.
std::string config_schema();

}  // namespace simm::base
