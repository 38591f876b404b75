// CommandLine: every subcommand and option of simmctl, and which function carries it out. What asks
// a daemon has its words in kAdminCommands (daemon/base/admin_commands.h). The completion reads
// --help; the manual page (simmctl.1) lists the same, and a test compares them.
// Thread: the main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "daemon/base/admin_commands.h"
#include "daemon/tools/simmctl/drain_command.h"
#include "daemon/tools/simmctl/events_command.h"
#include "daemon/tools/simmctl/key_events_command.h"
#include "daemon/tools/simmctl/object_command.h"
#include "daemon/tools/simmctl/publish_command.h"
#include "daemon/tools/simmctl/report_command.h"
#include "daemon/tools/simmctl/top_command.h"
#include "daemon/tools/simmctl/trace_command.h"

namespace simm::ctl {

class CommandLine {
public:
  CommandLine();

  // Parses, carries out, and returns the exit code.
  [[nodiscard]] int run(int argc, char** argv);

private:
  void add_reports();
  void add_argument(CLI::App& report, const base::AdminArgument& argument);
  void add_events();
  void add_key_events(CLI::App& events);
  void add_top();
  void add_drain();
  void add_trace();
  void add_objects();
  void add_files();
  CLI::App* add_object(const std::string& verb, const std::string& help);
  [[nodiscard]] int carry_out();
  [[nodiscard]] int carry_out_object(const std::string& verb);

  CLI::App app_;
  AdminWishes admin_;
  ReportWishes report_;
  EventsWishes events_;
  bool of_keys_ = false;  // events
  KeyEventsWishes key_events_;
  PublishWishes publish_;
  TopWishes top_;
  bool top_once_ = false;
  DrainWishes drain_;
  TraceWishes trace_;
  ObjectWishes object_;
  std::string role_;
  std::string file_;
};

}  // namespace simm::ctl
