#include "daemon/peers/drain_question.h"

#include <nlohmann/json.hpp>
#include <string>

namespace simm::control {
namespace {

Error wrong(const std::string& what) {
  return {Status::invalid_argument,
          "drain: " + what + "; write {\"daemon\": \"storage/a\", \"deadline_ms\": 0 to " +
              std::to_string(cluster::kDrainMsMax) +
              "} or {\"daemon\": \"storage/a\", \"cancel\": true}"};
}

}  // namespace

Expected<cluster::Question> drain_question(std::string_view argument) {
  const auto given = nlohmann::json::parse(argument, nullptr, false);
  if (!given.is_object()) return wrong("this is no JSON object");
  cluster::Question question;
  question.topic = cluster::Topic::drain;
  for (const auto& [name, value] : given.items()) {
    if (name == "daemon" && value.is_string()) {
      question.target = value.get<std::string>();
    } else if (name == "deadline_ms" && value.is_number_unsigned() &&
               value.get<std::uint64_t>() <= cluster::kDrainMsMax) {
      question.deadline_ms = value.get<std::uint32_t>();
    } else if (name == "force" && value.is_boolean()) {
      question.is_forced = value.get<bool>();
    } else if (name == "cancel" && value.is_boolean()) {
      if (value.get<bool>()) question.topic = cluster::Topic::cancel_drain;
    } else {
      return wrong("'" + name.substr(0, 64) + "' is no field of a drain, or has a wrong value");
    }
  }
  if (question.topic == cluster::Topic::cancel_drain && question.deadline_ms != 0) {
    return wrong("the end of a drain has no deadline_ms");
  }
  if (question.target.size() > cluster::kTargetBytesMax ||
      !cluster::is_printable(question.target)) {
    return wrong("the name in 'daemon' is no name of a daemon");
  }
  question.is_named = !question.target.empty();
  return question;
}

}  // namespace simm::control
