#include "daemon/tools/simmctl/publish_command.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <vector>

#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {

int run_publish(const AdminWishes& admin, const KeyEventsWishes& keys,
                const PublishWishes& wishes) {
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown) return failed({Status::io_error, "/proc/self/exe: " + unknown.message()});
  // The distribution's own interpreter is the one that has its packages.
  const bool has_own = ::access("/usr/bin/python3", X_OK) == 0;
  std::vector<std::string> words = {has_own ? "/usr/bin/python3" : "python3",
                                    self.parent_path() / "simmctl-publish.py",
                                    "--simmctl=" + self.string(),
                                    "--publish=" + wishes.address,
                                    "--replay=" + wishes.replay,
                                    "--wire=" + wishes.wire,
                                    "--topic=" + wishes.topic,
                                    "--namespace=" + keys.name_space.value_or(""),
                                    "--admin=" + admin.admin_socket};
  if (keys.tenant) words.push_back("--tenant=" + *keys.tenant);
  if (keys.present) words.emplace_back("--present");
  if (!wishes.curve.empty()) words.push_back("--curve=" + wishes.curve);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  ::execvp(arguments.front(), arguments.data());
  return failed(system_error(words.front(), errno));
}

}  // namespace simm::ctl
