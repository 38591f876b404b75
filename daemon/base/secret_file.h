// A file that holds a secret, of a cluster or of the readers of the status page: reading it under
// the rules that keep it one, and making a new one. What is done with the secret of a cluster is in
// daemon/cluster/hello/secret.h, with a reader's token in daemon/metrics/reader_rules.h.
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "simm/expected.h"

namespace simm::base {

// Shorter ones can be guessed off-line by whoever saw one hello.
inline constexpr std::size_t kSecretBytesMin = 32;
inline constexpr std::size_t kSecretBytesMax = 4096;
// What people repeat to fill the length has fewer different bytes. 32 random hex digits have fewer
// less than once in ten million secrets.
inline constexpr std::size_t kSecretDistinctMin = 8;

// Whether a text can be a secret; the error says what it has to be.
Outcome check_secret_text(std::string_view text);

// The content of the file, one line end at its end left out; for the caller to wipe. Errors name
// the file, what is wrong and the remedy: permission_denied when somebody besides the owner may
// read it, or another user than root and this one owns it; invalid_argument for a size out of range
// or no regular file. Files in `credentials_directory` ($CREDENTIALS_DIRECTORY, which the service
// manager fills for this service alone) may be readable by their group: that is how an access list
// shows up there.
Expected<std::string> read_secret_file(const std::string& path,
                                       std::string_view credentials_directory = {});

// $CREDENTIALS_DIRECTORY; empty: the service manager filled none.
std::string credentials_directory();

// Where the secret lies that the configuration names: "@name" is the credential `name` of the
// service manager, anything else a path. Errors name `key`, the value and the remedy.
Expected<std::string> secret_path(const std::string& key, const std::string& file);

// Writes a new secret of 256 bits from the kernel, as 64 hex digits and a line end. The file is
// new, has mode 0600, and is on the disk when this returns. Status::exists: there is one, and it
// stays.
Outcome create_secret_file(const std::string& path);

}  // namespace simm::base
