#include "daemon/traces/otlp_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/base/json_text.h"
#include "daemon/base/mix.h"
#include "daemon/base/tracer.h"
#include "simm/status.h"
#include "simm/version.h"

namespace simm::traces {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Of the protocol: Span.SpanKind and Status.StatusCode.
constexpr int kKindInternal = 1;
constexpr int kKindServer = 2;
constexpr int kStatusError = 2;

std::string hexadecimal(std::uint64_t number) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

ordered_json text_value(const char* key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
// 64-bit numbers are texts in the JSON encoding of protocol buffers.
ordered_json number_value(const char* key, std::uint64_t value) {
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}

struct Range {
  std::uint64_t from_ns;
  std::uint64_t to_ns;
};

ordered_json span(const std::string& trace, std::uint64_t id, std::uint64_t parent,
                  const std::string& name, int kind, Range range) {
  ordered_json out = {{"traceId", trace}, {"spanId", hexadecimal(id)}};
  if (parent != 0) out["parentSpanId"] = hexadecimal(parent);
  out["name"] = name;
  out["kind"] = kind;
  out["startTimeUnixNano"] = std::to_string(range.from_ns);
  out["endTimeUnixNano"] = std::to_string(range.to_ns);
  return out;
}

void add_spans(ordered_json& spans, const ToldTrace& told, std::uint64_t wall_offset_ns) {
  const base::TraceRecord& record = told.trace.record;
  const base::TraceParent& parent = told.trace.parent;
  const std::string trace = hexadecimal(parent.trace_high) + hexadecimal(parent.trace_low);
  // A stage that was left out is as long as nothing, at the end of the one before.
  std::array<std::uint64_t, base::kTraceStampsMax> at_ns{};
  std::uint64_t last_ns = 0;
  for (std::size_t i = 0; i < at_ns.size(); ++i) {
    last_ns = std::max<std::uint64_t>(last_ns, record.stamps_ns[i]);
    at_ns[i] = last_ns + wall_offset_ns;
  }
  const std::string name = std::string("simm ") + base::operation_name(record.opcode) +
                           (record.is_request ? " at owner" : "");
  ordered_json whole =
      span(trace, record.id, parent.span, name, kKindServer, {at_ns.front(), at_ns.back()});
  const auto status = static_cast<Status>(record.status);
  whole["attributes"] = {
      text_value("simm.tenant", told.tenant), number_value("simm.pages", record.pages),
      number_value("simm.pages_ok", record.pages_ok), number_value("simm.bytes", record.bytes),
      text_value("simm.status", std::string(status_name(status)))};
  if (!record.is_request) whole["attributes"].push_back(text_value("simm.peer", told.peer));
  if (status != Status::ok) {
    whole["status"] = {{"code", kStatusError}, {"message", std::string(status_name(status))}};
  }
  spans.push_back(std::move(whole));
  const std::span<const char* const> stages =
      record.is_request ? std::span<const char* const>(base::kRequestStages)
                        : std::span<const char* const>(base::kOperationStages);
  for (std::size_t i = 1; i < stages.size(); ++i) {
    if (at_ns[i] == at_ns[i - 1]) continue;
    const std::uint64_t id = base::mix(record.id + i) | 1;
    spans.push_back(span(trace, id, record.id, stages[i], kKindInternal, {at_ns[i - 1], at_ns[i]}));
  }
}

}  // namespace

std::string otlp_text(std::span<const ToldTrace> told, const std::string& daemon,
                      std::uint64_t wall_offset_ns) {
  ordered_json spans = ordered_json::array();
  for (const ToldTrace& each : told) add_spans(spans, each, wall_offset_ns);
  ordered_json scope;
  scope["scope"] = {{"name", "simmd"}, {"version", SIMM_VERSION_STRING}};
  scope["spans"] = std::move(spans);
  ordered_json resource;
  resource["resource"]["attributes"] = ordered_json::array(
      {text_value("service.name", "simmd"), text_value("service.instance.id", daemon),
       text_value("service.version", SIMM_VERSION_STRING)});
  resource["scopeSpans"] = ordered_json::array({std::move(scope)});
  ordered_json request;
  request["resourceSpans"] = ordered_json::array({std::move(resource)});
  return base::json_text(request);
}

std::uint64_t rejected_spans(const std::string& answer) {
  const json given = json::parse(answer, nullptr, false);
  if (!given.is_object()) return 0;
  const auto partial = given.find("partialSuccess");
  if (partial == given.end() || !partial->is_object()) return 0;
  const auto count = partial->find("rejectedSpans");
  if (count == partial->end()) return 0;
  if (count->is_number_unsigned()) return count->get<std::uint64_t>();
  if (!count->is_string()) return 0;
  std::uint64_t number = 0;
  for (const char digit : count->get<std::string>()) {
    if (digit < '0' || digit > '9' || number > 1'000'000'000) return 0;
    number = 10 * number + static_cast<std::uint64_t>(digit - '0');
  }
  return number;
}

}  // namespace simm::traces
