#include "daemon/tools/simmctl/file_command.h"

#include <cstdlib>
#include <cstring>

#include "daemon/base/config.h"
#include "daemon/base/secret_file.h"
#include "daemon/tools/simmctl/output.h"

namespace simm::ctl {
namespace {

int failed_usage(const Error& error) {
  return failed({Status::invalid_argument, error.context});
}

}  // namespace

int check_config(const std::string& role, const std::string& file) {
  const auto wanted = base::parse_role(role);
  if (!wanted) {
    return failed({Status::invalid_argument,
                   "role = '" + role + "': write all, node, storage, manager or adopt"});
  }
  const auto config = base::load_config(file);
  if (!config) return failed_usage(config.error());
  const Outcome fits = base::check_for_role(*config, *wanted);
  if (!fits) return failed_usage({fits.status(), file + ": " + fits.error().context});
  return kDone;
}

int create_secret(const std::string& file) {
  const Outcome made = base::create_secret_file(file);
  return made ? static_cast<int>(kDone) : failed(made.error());
}

int check_secret(const std::string& file) {
  const char* const credentials = std::getenv("CREDENTIALS_DIRECTORY");
  auto secret = base::read_secret_file(file, credentials == nullptr ? "" : credentials);
  if (!secret) return failed(secret.error());
  ::explicit_bzero(secret->data(), secret->size());
  return kDone;
}

}  // namespace simm::ctl
