// simmctl: looks into running daemons and administers them. See `simmctl --help` and simmctl.1.
#include <csignal>
#include <cstdio>
#include <exception>

#include "daemon/tools/simmctl/command_line.h"
#include "daemon/tools/simmctl/exit_code.h"

int main(int argc, char** argv) {
  // A reader of ours that has gone is an answer of write(), not the end of us.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return simm::ctl::CommandLine().run(argc, argv);
  } catch (const std::exception& unexpected) {
    // Out of memory.
    std::fprintf(stderr, "simmctl: %s\n", unexpected.what());
    return simm::ctl::kFailed;
  }
}
