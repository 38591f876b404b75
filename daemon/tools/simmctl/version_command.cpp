#include "daemon/tools/simmctl/version_command.h"

#include <cstdio>

#include "daemon/tools/simmctl/output.h"
#include "ipc/layout.h"
#include "simm/simm.h"
#include "simm/version.h"

namespace simm::ctl {

using nlohmann::ordered_json;

int run_version(const AdminWishes& admin) {
  ordered_json out = {{"simmctl", SIMM_VERSION_STRING},
                      {"library", simm_version()},
                      {"layout_version", ipc::kLayoutVersion}};
  auto client = reach(admin);
  auto status = client ? ask_json(*client, "status") : Expected<ordered_json>(client.error());
  if (!status) {
    const int shown = show(out, admin.json);
    return shown != kDone ? shown : failed(status.error());
  }
  const ordered_json layout = status->value("layout_version", ordered_json());
  out["daemon"] = status->value("version", "unknown");
  out["daemon_role"] = status->value("role", "unknown");
  out["daemon_layout_version"] = layout;
  out["daemon_cluster_protocol"] = status->value("cluster_protocol", ordered_json());
  // The previous release speaks one layout, and says no range.
  const ordered_json oldest = status->value("layout_version_min", layout);
  const bool fits = layout >= ipc::kLayoutVersionMin && oldest <= ipc::kLayoutVersion;
  out["fits"] = fits;
  const int shown = show(out, admin.json);
  if (shown != kDone || fits) return shown;
  return failed({Status::incompatible,
                 "the daemon shares memory in layout " + layout.dump() + ", this library in " +
                     std::to_string(ipc::kLayoutVersion) +
                     ": it refuses clients with this library; upgrade the older one of the two"});
}

}  // namespace simm::ctl
