// simmd: the daemon of SiMM. One program, several roles; see --help.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

#include "daemon/base/config.h"
#include "daemon/base/config_table.h"
#include "daemon/base/log.h"
#include "daemon/process/adopt_service.h"
#include "daemon/process/data_daemon.h"
#include "daemon/process/etcd_check.h"
#include "daemon/process/gpu_service.h"
#include "daemon/process/manager_daemon.h"
#include "daemon/process/metric_catalogue.h"
#include "daemon/process/privileges.h"
#include "simm/version.h"

namespace {

struct CommandLine {
  std::string config_path;
  std::string socket_path;
  bool check_config = false;
  bool check_etcd = false;
  bool print_schema = false;
  bool print_metrics = false;
};

// On standard error, to the journal as an error.
int fail(const std::string& why) {
  const char* priority = simm::base::Log::stderr_is_journal() ? "<3>" : "";
  std::fprintf(stderr, "%ssimmd: %s\n", priority, why.c_str());
  return EXIT_FAILURE;
}
int fail(const simm::Error& error) {
  return fail(error.context);
}

// The whole of --check-config.
simm::Expected<simm::base::Config> configuration(const CommandLine& line, simm::base::Role role) {
  auto config = line.config_path.empty()
                    ? simm::Expected<simm::base::Config>(simm::base::default_config())
                    : simm::base::load_config(line.config_path);
  if (!config) return config;
  // The helper's --socket is the one that it serves on, and nothing else.
  if (!line.socket_path.empty() && role != simm::base::Role::adopt) {
    simm::base::use_socket(*config, line.socket_path);
  }
  const simm::Outcome fits = simm::base::check_for_role(*config, role);
  if (!fits) return fits.error();
  return config;
}

int serve(simm::base::Role role, const CommandLine& line) {
  auto config = configuration(line, role);
  if (!config) return fail(config.error());
  if (line.check_config) return EXIT_SUCCESS;
  // A client that hangs up while we write to it is an answer of write(), not the end of us.
  std::signal(SIGPIPE, SIG_IGN);
  simm::NodeOptions options;
  options.role = role;
  options.inherited = simm::control::take_inherited_sockets();
  if (const auto raised = simm::raise_descriptor_limit(); !raised) return fail(raised.error());
  if (const auto made = simm::prepare_run_directory(*config); !made) return fail(made.error());
  // Only clients have memory to adopt.
  if (role != simm::base::Role::storage) options.helper = simm::reach_adopt_helper(*config);
  if (role != simm::base::Role::storage) {
    auto keeper = simm::start_gpu_service(*config);
    if (!keeper) return fail(keeper.error());
    options.gpu_keeper = std::move(*keeper);
  }
  if (const auto became = simm::become_user(config->user); !became) return fail(became.error());
  options.config = std::move(*config);
  auto daemon = simm::DataDaemon::create(std::move(options));
  if (!daemon) return fail(daemon.error());
  return (*daemon)->run() ? EXIT_SUCCESS : EXIT_FAILURE;
}

// The whole of --check-etcd.
int report_etcd(const simm::base::Config& config) {
  int status = EXIT_SUCCESS;
  for (const simm::Expected<std::string>& found : simm::check_etcd(config)) {
    if (!found) {
      status = fail(found.error());
    } else {
      std::printf("%s\n", found->c_str());
    }
  }
  return status;
}

int manage(const CommandLine& line) {
  auto config = configuration(line, simm::base::Role::manager);
  if (!config) return fail(config.error());
  if (line.check_etcd) return report_etcd(*config);
  if (line.check_config) return EXIT_SUCCESS;
  std::signal(SIGPIPE, SIG_IGN);
  if (const auto raised = simm::raise_descriptor_limit(); !raised) return fail(raised.error());
  if (const auto made = simm::prepare_run_directory(*config); !made) return fail(made.error());
  if (const auto became = simm::become_user(config->user); !became) return fail(became.error());
  auto daemon = simm::ManagerDaemon::create(std::move(*config));
  if (!daemon) return fail(daemon.error());
  (*daemon)->run();
  return EXIT_SUCCESS;
}

int adopt(const CommandLine& line) {
  auto config = configuration(line, simm::base::Role::adopt);
  if (!config) return fail(config.error());
  if (line.check_config) return EXIT_SUCCESS;
  return fail(
      simm::run_adopt_service(*config, line.socket_path, simm::control::take_inherited_sockets())
          .error());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("simmd: the daemon of SiMM, a shared memory pool for KV caches");
  CommandLine line;
  app.set_version_flag("--version", std::string("simmd ") + SIMM_VERSION_STRING);
  app.add_option("--config", line.config_path, "Configuration file (JSON); none is needed");
  app.add_option("--socket", line.socket_path,
                 "Listen here instead; other files of the daemon go beside it");
  app.add_flag("--check-config", line.check_config, "Check the configuration and end");
  app.add_flag("--print-schema", line.print_schema, "Print the JSON schema of the configuration");
  app.add_flag("--print-metrics", line.print_metrics,
               "Print the metrics that are made of counters, each with its meaning");
  app.fallthrough();
  CLI::App* all = app.add_subcommand("all", "Everything in one process: the default");
  CLI::App* node = app.add_subcommand(
      "node", "The daemon of a host with clients, in a cluster when cluster.manager is set");
  CLI::App* storage =
      app.add_subcommand("storage", "Memory of this host for a cluster; no clients");
  CLI::App* manager =
      app.add_subcommand("manager", "Keeps the members and the map of a cluster; no data");
  CLI::App* helper = app.add_subcommand(
      "adopt", "The helper with the privilege to open memory of clients, as its own service");
  manager->add_flag("--check-etcd", line.check_etcd,
                    "Ask each endpoint of manager.etcd, say what is found, and end");
  app.require_subcommand(0, 1);
  CLI11_PARSE(app, argc, argv);

  if (line.print_schema) {
    std::fputs(simm::base::config_schema().c_str(), stdout);
    return EXIT_SUCCESS;
  }
  try {
    if (line.print_metrics) {
      std::fputs(simm::metric_catalogue().c_str(), stdout);
      return EXIT_SUCCESS;
    }
    if (helper->parsed()) return adopt(line);
    if (manager->parsed()) return manage(line);
    if (storage->parsed()) return serve(simm::base::Role::storage, line);
    return serve(node->parsed() && !all->parsed() ? simm::base::Role::node : simm::base::Role::all,
                 line);
  } catch (const std::exception& unexpected) {
    // Out of memory or descriptors while it starts.
    return fail(unexpected.what());
  }
}
