#include "daemon/peers/manager_survey.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "daemon/base/json_text.h"
#include "daemon/base/sanitize.h"
#include "daemon/cluster/cluster_codec.h"
#include "daemon/peers/cluster_channel.h"
#include "daemon/peers/cluster_dialer.h"
#include "ipc/text_list.h"

namespace simm::control {
namespace {

using Json = nlohmann::ordered_json;

// What each row has, in its order; a manager's report has no more than these.
constexpr const char* kFields[] = {"state", "epoch",    "daemons", "owners", "kept_in",
                                   "term",  "lease_ms", "lineage", "leader", "trouble"};

}  // namespace

// One manager, asked once.
class ManagerSurvey::Inquiry final : private ClusterDialerEvents, private ClusterChannelEvents {
public:
  Inquiry(ManagerSurvey& survey, const std::string& address)
      : survey_(survey),
        address_(address),
        dialer_(survey.access_,
                {"cluster.manager", address, {cluster::HelloPurpose::report, {}, 0, 0}}, *this) {
    dialer_.start();
  }

  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  [[nodiscard]] Json row() const {
    Json out;
    out["address"] = address_;
    out["name"] = name_.empty() ? Json() : Json(name_);
    for (const char* const field : kFields) {
      out[field] = report_.contains(field) ? report_[field] : Json();
    }
    if (!is_over_) out["trouble"] = "it has not answered in time";
    if (!trouble_.empty()) out["trouble"] = trouble_;
    if (out["state"].is_null()) out["state"] = "away";
    return out;
  }

private:
  void on_dialled(ClusterDialer&, ipc::UniqueFd socket,
                  const cluster::HelloResult& result) override {
    name_ = result.peer.name;
    ClusterChannelEvents& events = *this;
    channel_ = std::make_unique<ClusterChannel>(survey_.access_, std::move(socket), result, events);
  }
  void on_dial_failed(ClusterDialer&, const Error& error) override { end(error.context); }
  void on_message(ClusterChannel&, std::span<const std::byte> payload) override {
    const auto decoded = cluster::decode_manager_message(payload);
    const auto* const answer = decoded ? std::get_if<cluster::Answer>(&*decoded) : nullptr;
    if (answer == nullptr) return end("it answers something else");
    take(answer->text);
  }
  void on_closed(ClusterChannel&, const Error& cause) override { end(cause.context); }

  void take(const std::string& text) {
    Json report = Json::parse(text, nullptr, false);
    if (!report.is_object()) return end("its report is not JSON");
    report_ = std::move(report);
    end("");
  }
  void end(const std::string& trouble) {
    if (std::exchange(is_over_, true)) return;
    trouble_ = base::sanitize(trouble);
    dialer_.stop();
    survey_.end_if_over();
  }

  ManagerSurvey& survey_;
  const std::string address_;
  ClusterDialer dialer_;
  std::unique_ptr<ClusterChannel> channel_;
  std::string name_;
  Json report_ = Json::object();
  std::string trouble_;
  bool is_over_ = false;
};

ManagerSurvey::ManagerSurvey(ClusterAccess& access) : access_(access), deadline_(access.io) {}

ManagerSurvey::~ManagerSurvey() = default;

void ManagerSurvey::ask(const std::string& addresses, AdminAnswer answer) {
  waiting_.push_back(std::move(answer));
  if (waiting_.size() > 1) return;
  for (const std::string& address : ipc::text_list(addresses)) {
    inquiries_.push_back(std::make_unique<Inquiry>(*this, address));
  }
  deadline_.after(kSurveyNs, [this] { end(); });
}

void ManagerSurvey::stop() {
  deadline_.cancel();
  inquiries_.clear();
  answer_all(Error{Status::unreachable, "this daemon stops"});
}

// Not from in here: this is a call of an inquiry's.
void ManagerSurvey::end_if_over() {
  const bool is_over = std::all_of(inquiries_.begin(), inquiries_.end(),
                                   [](const auto& inquiry) { return inquiry->is_over(); });
  if (is_over) deadline_.after(0, [this] { end(); });
}

void ManagerSurvey::end() {
  Json managers = Json::array();
  for (const auto& inquiry : inquiries_) managers.push_back(inquiry->row());
  inquiries_.clear();
  answer_all(base::json_text(Json{{"managers", std::move(managers)}}));
}

void ManagerSurvey::answer_all(const Expected<std::string>& text) {
  const std::vector<AdminAnswer> waiting = std::exchange(waiting_, {});
  for (const AdminAnswer& answer : waiting) answer(text);
}

}  // namespace simm::control
