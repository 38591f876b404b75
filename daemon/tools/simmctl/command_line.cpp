#include "daemon/tools/simmctl/command_line.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/choice.h"
#include "daemon/base/choices.h"
#include "daemon/base/event_kind.h"
#include "daemon/tools/simmctl/file_command.h"
#include "daemon/tools/simmctl/output.h"
#include "daemon/tools/simmctl/top_view.h"
#include "daemon/tools/simmctl/version_command.h"
#include "simm/version.h"

namespace simm::ctl {
namespace {

constexpr std::uint32_t kTimeoutMaxMs = 600'000;
constexpr std::uint32_t kTtlMaxMs = 0xffff'ffff;

// Named and explained as in its row.
CLI::App* add_command(CLI::App& app, base::AdminCommand command) {
  const base::AdminCommandRow& row = base::row_of(command);
  return app.add_subcommand(std::string(row.name), std::string(row.help));
}

std::vector<std::string> event_kind_names() {
  std::vector<std::string> names;
  for (const base::EventKindRow& row : base::kEventKinds) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> top_sort_words() {
  std::vector<std::string> words;
  for (const TopSort& sort : top_sorts()) words.emplace_back(sort.word);
  return words;
}

constexpr const char* kExitCodes =
    "Exit status: 0 done, a hit; 1 a miss; 2 wrong use or file; 3 no daemon; 4 permission denied; "
    "5 no answer in time; 6 versions do not fit; 7 failed otherwise.";

}  // namespace

CommandLine::CommandLine() : app_("Looks into SiMM daemons and administers them.", "simmctl") {
  app_.set_version_flag("--version", std::string("simmctl ") + SIMM_VERSION_STRING);
  app_.add_option("--admin", admin_.admin_socket,
                  "Admin socket; default: beside $SIMM_SOCKET, else in /run/simm, "
                  "$XDG_RUNTIME_DIR/simm or /tmp/simm-<uid>");
  app_.add_option("--timeout-ms", admin_.timeout_ms, "How long the daemon may take to answer")
      ->check(CLI::Range(1U, kTimeoutMaxMs));
  app_.add_flag("--json", admin_.json, "JSON instead of a table");
  app_.require_subcommand(1);
  app_.fallthrough();  // options may stand behind the command
  app_.footer(kExitCodes);
  add_reports();
  add_events();
  add_top();
  add_drain();
  add_trace();
  add_objects();
  add_files();
  app_.add_subcommand("version", "Versions of this program, its library and the daemon");
}

void CommandLine::add_reports() {
  for (const base::AdminCommandRow& row : base::kAdminCommands) {
    if (row.use != base::AdminUse::report) continue;
    CLI::App* const report = app_.add_subcommand(std::string(row.name), std::string(row.help));
    add_argument(*report, row.argument);
    if (row.command != base::AdminCommand::stats) continue;
    report->add_option("--counters", report_.counters_file,
                       "Read this counters file instead of asking the daemon");
    report->add_option("--daemon", report_.daemon,
                       "Of this daemon of the cluster, asked through the manager");
  }
  app_.add_subcommand("store", "The pool of this daemon, by shard and by tenant");
  app_.add_subcommand("cache", "The node cache: reads that processes share, by data agent")
      ->alias("flights");
}

void CommandLine::add_argument(CLI::App& report, const base::AdminArgument& argument) {
  if (argument.name.empty()) return;
  const std::string name(argument.name);
  const std::string help(argument.help);
  if (name.starts_with("--")) {
    report.add_flag_callback(
        name, [this, word = name.substr(2)] { report_.argument = word; }, help);
    return;
  }
  CLI::Option* const option = report.add_option(name, report_.argument, help);
  if (!argument.choices.empty()) {
    option->check(CLI::IsMember(base::choice_list(argument.choices)));
  }
}

void CommandLine::add_events() {
  CLI::App* const events = add_command(app_, base::AdminCommand::events);
  events->add_flag("--follow", events_.follow, "Go on with what happens, until interrupted");
  events->add_option("--since", events_.since, "Only events with larger numbers");
  events->add_option("--kind", events_.kind, "Only events of this kind")
      ->check(CLI::IsMember(event_kind_names()));
  add_key_events(*events);
}

void CommandLine::add_key_events(CLI::App& events) {
  CLI::Option* const keys =
      events.add_flag("--keys", of_keys_,
                      "Keys that are stored and removed from now on, as hashes, until interrupted");
  for (const char* const other : {"--follow", "--since", "--kind"}) {
    keys->excludes(events.get_option(other));
  }
  const auto only = [&events](const std::string& name, std::optional<std::string>& value,
                              const std::string& help) {
    events.add_option_function<std::string>(
        name, [&value](const std::string& given) { value = given; }, help);
  };
  only("--tenant", key_events_.tenant, "With --keys: of this tenant alone");
  only("--namespace", key_events_.name_space,
       "With --keys: of this namespace alone; empty: the default one");
  events.add_flag("--present", key_events_.present,
                  "With --keys or --publish: first the keys that are there");
  events.add_flag("--runs", key_events_.runs,
                  "With --keys: for programs, a line for many keys that are stored or removed");
  CLI::Option* const publish =
      events.add_option("--publish", publish_.address,
                        "Send the events of one namespace to routers: tcp://127.0.0.1:PORT or "
                        "ipc://PATH, as a ZeroMQ publisher");
  publish->excludes(events.get_option("--follow"));
  events.add_option("--replay", publish_.replay, "Where subscribers ask for earlier messages")
      ->needs(publish);
  events
      .add_option("--wire", publish_.wire,
                  "How messages are written: vLLM's events as maps or arrays, or a pool's")
      ->check(CLI::IsMember(base::choice_list("maps|arrays|pool")))
      ->needs(publish);
  events.add_option("--topic", publish_.topic, "Topic of the messages; default: empty")
      ->needs(publish);
  events
      .add_option("--curve", publish_.curve,
                  "Directory with server.key_secret and the public keys of subscribers in clients")
      ->needs(publish);
}

void CommandLine::add_top() {
  CLI::App* const top =
      app_.add_subcommand("top", "What the daemon or the cluster does now: rates, latencies");
  top->add_option("--interval", top_.interval_s, "Seconds between two looks")
      ->check(CLI::Range(0.05, 3600.0));
  top->add_option("--count", top_.count, "End after so many intervals; 0: when interrupted");
  top->add_flag("--once", top_once_, "One interval, then end");
  top->add_flag("--cluster", top_.of_cluster, "Of all daemons, as its manager hears of them");
  top->add_option("--sort", top_.sort, "Of what the rows are sorted by; keys change it")
      ->check(CLI::IsMember(top_sort_words()));
}

void CommandLine::add_drain() {
  CLI::App* const drain = add_command(app_, base::AdminCommand::drain);
  drain->add_option("daemon", drain_.daemon,
                    "This daemon of the cluster; default: the one that is asked");
  CLI::Option* const deadline = drain->add_option(
      "--deadline", drain_.deadline,
      "So long (90s, 10m) objects may take; what is left then is dropped; default: no end");
  CLI::Option* const wait =
      drain->add_flag("--wait", drain_.wait, "Wait for the end; exit status 0: nothing was left");
  CLI::Option* const force = drain->add_flag(
      "--force", drain_.force, "Also while another daemon drains; objects may be lost then");
  drain->add_flag("--cancel", drain_.cancel, "End the drain: the daemon gets its slots back")
      ->excludes(deadline)
      ->excludes(wait)
      ->excludes(force);
}

void CommandLine::add_trace() {
  CLI::App* const trace = add_command(app_, base::AdminCommand::trace);
  trace->add_option("--seconds", trace_.seconds, "For how long; it ends by itself")
      ->check(CLI::Range(0.001, 60.0));
  trace->add_option("--sample", trace_.sample, "1/N: one of N operations");
  trace->add_option("--out", trace_.file, "File to write; default: standard output");
  trace->add_option("--also", trace_.also, "Admin socket of another daemon of this host to join")
      ->allow_extra_args(false);
  trace->add_option("--seed", trace_.seed, "Of the choice; 0: drawn by each daemon");
}

CLI::App* CommandLine::add_object(const std::string& verb, const std::string& help) {
  CLI::App* const command = app_.add_subcommand(verb, help);
  command->add_option("key", object_.key, "The key")->required();
  command->add_flag("--hex", object_.hex, "The key is written as hex digits");
  command->add_option("--socket", object_.socket,
                      "Socket of the daemon, which decides the tenant; default: $SIMM_SOCKET, else "
                      "as every client finds it");
  command->add_option("--namespace", object_.name_space, "Namespace of the key; default: none");
  return command;
}

void CommandLine::add_objects() {
  CLI::App* const get = add_object("get", "Write an object to a file or standard output");
  get->add_option("--out", object_.file, "File to write; default: standard output");
  get->add_option("--lease-ms", object_.lease_ms, "Keep the object at least so long")
      ->check(CLI::Range(0U, kTtlMaxMs));
  CLI::App* const put = add_object("put", "Store a file or standard input as an object");
  put->add_option("--in", object_.file, "File to read; default: standard input");
  put->add_flag("--replace", object_.replace, "Replace an object; default: keep the old one");
  put->add_option("--ttl-ms", object_.ttl_ms, "Life of the object; default: until it is evicted")
      ->check(CLI::Range(0U, kTtlMaxMs));
  CLI::App* const exists = add_object("exists", "Exit status 0 when there is such an object");
  exists->add_option("--lease-ms", object_.lease_ms, "Keep the object at least so long")
      ->check(CLI::Range(0U, kTtlMaxMs));
  add_object("delete", "Remove an object");
  add_object("pin", "Keep an object from eviction, within the tenant's budget for pins");
  add_object("unpin", "Let a pinned object go when its turn comes");
}

void CommandLine::add_files() {
  CLI::App* const config = app_.add_subcommand("config", "Configuration: in effect, or of a file");
  config->require_subcommand(1);
  config->add_subcommand("show", std::string(base::row_of(base::AdminCommand::config).help));
  CLI::App* const check = config->add_subcommand("check", "Check a file as the daemon would");
  check->add_option("role", role_, "The role that it is for")
      ->required()
      ->check(CLI::IsMember(base::choice_list(base::kRoleNames)));
  check->add_option("file", file_, "The configuration file")->required();
  CLI::App* const secret = app_.add_subcommand("secret", "The secret that a cluster shares");
  secret->require_subcommand(1);
  secret->add_subcommand("create", "Write a new secret into a new file of mode 0600")
      ->add_option("file", file_, "The file")
      ->required();
  secret->add_subcommand("check", "Whether a daemon of this user would accept the file")
      ->add_option("file", file_, "The file")
      ->required();
}

int CommandLine::run(int argc, char** argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app_.exit(wrong) == 0 ? kDone : kUsage;
  }
  return carry_out();
}

int CommandLine::carry_out() {
  const CLI::App* const command = app_.get_subcommands().front();
  const std::string name = command->get_name();
  if (name == "version") return run_version(admin_);
  if (name == "events" && !publish_.address.empty()) {
    return run_publish(admin_, key_events_, publish_);
  }
  const bool is_for_keys =
      key_events_.tenant || key_events_.name_space || key_events_.present || key_events_.runs;
  if (name == "events" && is_for_keys && !of_keys_) {
    return failed(
        {Status::invalid_argument,
         "--tenant, --namespace, --present and --runs are of events of keys: add --keys"});
  }
  if (name == "events" && of_keys_) return run_key_events(admin_, key_events_);
  if (name == "events") return run_events(admin_, events_);
  if (name == "top") {
    if (top_once_) top_.count = 1;
    return run_top(top_, admin_);
  }
  if (name == "drain") return run_drain(admin_, drain_);
  if (name == "trace") return run_trace(admin_, trace_);
  if (name == "get" || name == "put" || name == "exists" || name == "delete" || name == "pin" ||
      name == "unpin") {
    return carry_out_object(name);
  }
  if (name == "config" && command->got_subcommand("check")) return check_config(role_, file_);
  if (name == "secret" && command->got_subcommand("create")) return create_secret(file_);
  if (name == "secret") return check_secret(file_);
  return run_report(name, admin_, report_);
}

int CommandLine::carry_out_object(const std::string& verb) {
  object_.json = admin_.json;
  object_.timeout_ms = admin_.timeout_ms;
  if (object_.socket.empty() && !admin_.admin_socket.empty()) {
    auto socket = data_socket_of(admin_);
    if (!socket) return failed(socket.error());
    object_.socket = std::move(*socket);
  }
  return run_object(verb, object_);
}

}  // namespace simm::ctl
