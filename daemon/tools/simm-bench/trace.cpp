#include "daemon/tools/simm-bench/trace.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

namespace simm::bench {
namespace {

// Where in the input a value stands, for errors.
struct Place {
  const std::string& name;
  std::uint64_t line;

  Error error(const std::string& field, const std::string& value, const std::string& remedy) const {
    return Error{Status::invalid_argument, name + ":" + std::to_string(line) + ": field '" + field +
                                               "' is " + value + ": " + remedy};
  }
};

// At most the first 60 characters: a line of a trace can be long.
std::string shorten(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

Expected<std::uint64_t> count_of(const nlohmann::json& value, const std::string& field,
                                 std::uint64_t max, const Place& place) {
  if (!value.is_number_integer() ||
      (!value.is_number_unsigned() && value.get<std::int64_t>() < 0)) {
    return place.error(field, shorten(value.dump()), "write an integer that is not negative");
  }
  const std::uint64_t number = value.get<std::uint64_t>();
  if (number > max) {
    return place.error(field, std::to_string(number),
                       "write a number of at most " + std::to_string(max));
  }
  return number;
}

Expected<std::vector<std::uint64_t>> blocks_of(const nlohmann::json& value, const Place& place) {
  if (!value.is_array() || value.empty()) {
    return place.error("hash_ids", shorten(value.dump()),
                       "write a list of one integer per 512 tokens of the prompt");
  }
  std::vector<std::uint64_t> blocks;
  blocks.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Expected<std::uint64_t> id =
        count_of(value[i], "hash_ids[" + std::to_string(i) + "]", ~std::uint64_t{0}, place);
    if (!id) return id.error();
    blocks.push_back(*id);
  }
  return blocks;
}

Expected<TraceRequest> parse_line(const std::string& text, const Place& place) {
  const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) {
    return place.error("(line)", "'" + shorten(text) + "'", "write one JSON object per line");
  }
  TraceRequest request;
  struct Field {
    const char* name;
    std::uint64_t max;
    std::uint64_t& value;
  };
  const Field fields[] = {{"timestamp", ~std::uint64_t{0} >> 1, request.timestamp_ms},
                          {"input_length", kTraceTokensMax, request.input_tokens},
                          {"output_length", kTraceTokensMax, request.output_tokens}};
  for (const Field& field : fields) {
    const auto found = line.find(field.name);
    if (found == line.end()) return place.error(field.name, "missing", "add it to the line");
    const Expected<std::uint64_t> number = count_of(*found, field.name, field.max, place);
    if (!number) return number.error();
    field.value = *number;
  }
  const auto found = line.find("hash_ids");
  if (found == line.end()) return place.error("hash_ids", "missing", "add it to the line");
  Expected<std::vector<std::uint64_t>> blocks = blocks_of(*found, place);
  if (!blocks) return blocks.error();
  request.block_ids = std::move(*blocks);
  return request;
}

}  // namespace

Expected<Trace> read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    Error error = system_error(path, errno);
    error.context += ": name a readable trace file with --trace";
    return error;
  }
  return read_trace(file, path);
}

Expected<Trace> read_trace(std::istream& stream, const std::string& name) {
  Trace trace;
  std::string text;
  std::uint64_t line = 0;
  while (std::getline(stream, text)) {
    ++line;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Place place{name, line};
    Expected<TraceRequest> request = parse_line(text, place);
    if (!request) return request.error();
    if (!trace.empty() && request->timestamp_ms < trace.back().timestamp_ms) {
      return place.error("timestamp", std::to_string(request->timestamp_ms),
                         "sort the lines by timestamp");
    }
    trace.push_back(std::move(*request));
  }
  if (stream.bad()) return Error{Status::io_error, name + ": can not be read: is it a file?"};
  if (trace.empty()) {
    return Error{Status::invalid_argument, name + ": no requests: name a file with JSON lines"};
  }
  return trace;
}

void write_trace(std::ostream& stream, const Trace& trace) {
  for (const TraceRequest& request : trace) {
    stream << "{\"timestamp\": " << request.timestamp_ms
           << ", \"input_length\": " << request.input_tokens
           << ", \"output_length\": " << request.output_tokens << ", \"hash_ids\": [";
    for (std::size_t i = 0; i < request.block_ids.size(); ++i) {
      stream << (i == 0 ? "" : ", ") << request.block_ids[i];
    }
    stream << "]}\n";
  }
}

}  // namespace simm::bench
