// TopSource: asks a daemon, or through it the cluster's manager, what happened since the last time.
// Reaches the daemon anew when it did not answer.
// Thread: the main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/tools/simmctl/admin_client.h"
#include "daemon/tools/simmctl/cluster_rates.h"
#include "daemon/tools/simmctl/report_command.h"
#include "daemon/tools/simmctl/top_view.h"
#include "simm/expected.h"

namespace simm::ctl {

class TopSource {
public:
  TopSource(AdminWishes admin, bool of_cluster)
      : admin_(std::move(admin)), of_cluster_(of_cluster) {}

  // The first one has no rates to speak of. Of a manager always the cluster.
  Expected<TopLook> look();
  // How long an answer may take from now on.
  void set_timeout_ms(std::uint32_t timeout_ms) { admin_.timeout_ms = timeout_ms; }

private:
  using Clock = std::chrono::steady_clock;

  Expected<TopLook> ask();
  Expected<nlohmann::ordered_json> daemon();
  Expected<TopLook> of_daemon(nlohmann::ordered_json daemon);
  Expected<TopLook> of_cluster(nlohmann::ordered_json daemon);

  AdminWishes admin_;
  const bool of_cluster_;
  std::optional<AdminClient> client_;
  Clock::time_point since_ = Clock::now();
  // What the last look was made of.
  std::int64_t pid_ = 0;
  Load load_;
  nlohmann::ordered_json tenants_ = nlohmann::ordered_json::array();
  ClusterRates cluster_;
};

}  // namespace simm::ctl
