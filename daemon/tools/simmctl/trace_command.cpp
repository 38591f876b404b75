#include "daemon/tools/simmctl/trace_command.h"

#include <charconv>
#include <cstdio>
#include <future>

#include "daemon/tools/simmctl/chrome_trace.h"
#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

constexpr std::uint32_t kMsPerSecond = 1000;

Expected<ordered_json> trace_of(AdminWishes admin, const std::string& argument,
                                std::uint32_t trace_ms) {
  admin.timeout_ms += trace_ms;  // it answers at the end
  auto client = reach(admin);
  if (!client) return std::move(client).error();
  auto answer = ask_json(*client, "trace", argument);
  if (answer && !answer->contains("records")) {
    return Error{Status::incompatible, "the daemon's answer is no trace"};
  }
  return answer;
}

void tell(const ordered_json& daemon) {
  std::fprintf(stderr, "%s: %s of %s operations, %s dropped\n",
               daemon["daemon"].get<std::string>().c_str(), daemon["sampled"].dump().c_str(),
               daemon["begun"].dump().c_str(), daemon["dropped"].dump().c_str());
}

}  // namespace

std::uint32_t one_in_of(const std::string& sample) {
  const std::size_t from = sample.compare(0, 2, "1/") == 0 ? 2 : 0;
  std::uint32_t one_in = 0;
  const char* const end = sample.data() + sample.size();
  const auto parsed = std::from_chars(sample.data() + from, end, one_in);
  return parsed.ec == std::errc() && parsed.ptr == end ? one_in : 0;
}

int run_trace(const AdminWishes& admin, const TraceWishes& wishes) {
  const std::uint32_t one_in = one_in_of(wishes.sample);
  if (one_in == 0) {
    return failed({Status::invalid_argument,
                   "--sample " + wishes.sample + ": write 1/N, for instance 1/64; 1/1 is all"});
  }
  const auto trace_ms = static_cast<std::uint32_t>(wishes.seconds * kMsPerSecond);
  const ordered_json argument = {{"ms", trace_ms}, {"one_in", one_in}, {"seed", wishes.seed}};
  std::vector<AdminWishes> daemons = {admin};
  for (const std::string& path : wishes.also) {
    daemons.push_back(admin);
    daemons.back().admin_socket = path;
  }
  std::vector<std::future<Expected<ordered_json>>> answers;
  for (const AdminWishes& daemon : daemons) {
    answers.push_back(std::async(std::launch::async, trace_of, daemon, argument.dump(), trace_ms));
  }
  std::vector<ordered_json> traces;
  int code = kDone;
  for (auto& answer : answers) {
    auto trace = answer.get();
    if (trace) {
      tell(*trace);
      traces.push_back(std::move(*trace));
    } else {
      code = failed(trace.error());
    }
  }
  if (code != kDone) return code;
  return write_to(
      wishes.file,
      chrome_trace(traces).dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace simm::ctl
