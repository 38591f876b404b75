// ReaderRules: who may read the status page and its data. Without a token (metrics.token_file)
// readers on this host alone, who then see no name of a tenant or a client. With one it is asked
// for, from wherever a reader comes. The files of the page themselves are harmless: they need no
// token, since they are what asks a person for it.
//
// Another site can make a browser here ask this server, under a name of that site's own ("DNS
// rebinding"). So a request has to name this server as its readers do: by localhost, a loopback
// address, the address that it came to, or a configured name (metrics.host_names). And a request
// that a browser says is of another site is refused.
// Immutable. Owned by the MetricsServer. Thread: control.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/config.h"
#include "simm/expected.h"

namespace simm::control {

// What a request says, and where it came in. Empty: it does not say it.
struct Reader {
  std::string_view host;           // the Host header
  std::string_view origin;         // Origin
  std::string_view site;           // Sec-Fetch-Site
  std::string_view authorization;  // Authorization
  std::string address;             // of this end of the connection, numeric
  bool is_local = false;           // both ends are loopback
};

// Whether a Host header names localhost or any numeric address; a foreign site can choose neither.
[[nodiscard]] bool is_address_or_localhost(std::string_view host);

class ReaderRules {
public:
  // Reads the token. The errors name the key and the remedy.
  static Expected<ReaderRules> make(const base::Config& config);

  // An empty token: none is asked for.
  ReaderRules(std::string token, std::vector<std::string> host_names);

  [[nodiscard]] bool asks_for_token() const noexcept { return !token_.empty(); }

  struct Refusal {
    unsigned code;
    std::string_view reason;
    std::string text;
    std::string_view more = {};  // header lines
  };
  // Of the files of the page; nothing: they may be read.
  [[nodiscard]] std::optional<Refusal> refuse_page(const Reader& reader) const;
  // Of what the page shows: the same, and the token.
  [[nodiscard]] std::optional<Refusal> refuse_status(const Reader& reader) const;

private:
  [[nodiscard]] bool is_name_of_this(const Reader& reader) const;
  [[nodiscard]] bool has_token(std::string_view authorization) const;

  std::string token_;
  std::vector<std::string> host_names_;  // in lower case
};

}  // namespace simm::control
