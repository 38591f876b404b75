#include "daemon/tools/simm-device-plugin/command_line.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/real_clock.h"
#include "daemon/tools/simm-device-plugin/channel.h"
#include "daemon/tools/simm-device-plugin/plugin.h"
#include "simm/version.h"

namespace simm::kube {
namespace {

constexpr timespec kTurnLength{1, 0};
constexpr std::chrono::seconds kCheck{3};

int fail(const std::string& why) {
  std::fprintf(stderr, "simm-device-plugin: %s\n", why.c_str());
  return EXIT_FAILURE;
}

// Whether the plugin that runs answers for every tenant: what a probe asks.
int check(const Options& options) {
  for (const Tenant& tenant : options.tenants) {
    const std::string socket = options.plugins() + "/" + options.endpoint_of(tenant);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCheck);
    const auto stub = v1beta1::DevicePlugin::NewStub(connect_to(socket));
    v1beta1::DevicePluginOptions answer;
    const grpc::Status asked = stub->GetDevicePluginOptions(&context, v1beta1::Empty(), &answer);
    if (!asked.ok()) return fail("nobody answers at " + socket + ": " + asked.error_message());
  }
  return EXIT_SUCCESS;
}

// Until a signal ends it. Signals are blocked before gRPC makes threads.
int serve(const Options& options) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  ::umask(0077);

  const base::RealClock clock;
  base::Log log(clock, base::LogLevel::info);
  PodLookup pods(options.pods_socket());
  std::vector<std::unique_ptr<Plugin>> plugins;
  for (const Tenant& tenant : options.tenants) {
    plugins.push_back(std::make_unique<Plugin>(options, tenant, pods, log));
  }
  do {
    for (const auto& plugin : plugins) plugin->turn();
  } while (sigtimedwait(&ends, nullptr, &kTurnLength) < 0);
  return EXIT_SUCCESS;
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app(
      "Kubernetes' device plugin of SiMM: gives containers the directory of a tenant, by "
      "namespace.",
      "simm-device-plugin");
  Options options;
  std::vector<std::string> tenants;
  bool only_check = false;
  app.set_version_flag("--version", std::string("simm-device-plugin ") + SIMM_VERSION_STRING);
  app.add_option("--tenant", tenants,
                 "A tenant and the namespaces whose pods may be it: NAME=NAMESPACE,NAMESPACE")
      ->required();
  app.add_option("--domain", options.domain, "What stands before the tenant in a resource's name");
  app.add_option("--host-path", options.host_path,
                 "The directory of the node that has those of the tenants");
  app.add_option("--directory", options.directory, "The same directory, as it is seen here");
  app.add_option("--kubelet", options.kubelet, "The root directory of the kubelet");
  app.add_option("--engines", options.engines,
                 "How many containers of the node may be one tenant at a time")
      ->check(CLI::Range(1U, kEnginesMax));
  app.add_flag("--check", only_check,
               "Ask the plugin that runs with the same options whether it answers, and end");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& text : tenants) {
    auto tenant = parse_tenant(text);
    if (!tenant) return fail(tenant.error().context);
    options.tenants.push_back(std::move(*tenant));
  }
  if (const Outcome right = check_options(options); !right) return fail(right.error().context);
  return only_check ? check(options) : serve(options);
}

}  // namespace simm::kube
