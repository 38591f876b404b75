#include "daemon/tools/simmctl/object_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "daemon/tools/simmctl/output.h"
#include "ipc/fd.h"
#include "ipc/layout.h"
#include "simm/client.h"

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

int hex_value(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

// The whole of a file, or of standard input; invalid_argument when it is longer than `bytes_max`.
Expected<std::string> read_value(const std::string& file, std::uint64_t bytes_max) {
  const bool is_input = file.empty() || file == "-";
  ipc::UniqueFd opened;
  if (!is_input) {
    opened.reset(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened) return Error{Status::invalid_argument, file + ": " + std::strerror(errno)};
  }
  const std::string name = is_input ? "standard input" : file;
  std::string value;
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t got =
        ::read(is_input ? STDIN_FILENO : opened.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Status::invalid_argument, name + ": " + std::strerror(errno)};
    if (got == 0) break;
    value.append(buffer.data(), static_cast<std::size_t>(got));
    if (value.size() > bytes_max) {
      return Error{Status::invalid_argument, name + " is longer than a value may be (" +
                                                 std::to_string(bytes_max) + " bytes)"};
    }
  }
  if (value.empty()) {
    return Error{Status::invalid_argument, name + " is empty: a value has at least one byte"};
  }
  return value;
}

Error error_of(Status status, const std::string& verb, const std::string& key) {
  if (status == Status::not_found) return {status, verb + ": no object with the key '" + key + "'"};
  const std::string why = last_error();
  return {status, verb + " '" + key + "': " + std::string(status_name(status)) +
                      (why.empty() ? "" : ": " + why)};
}

// One verb of one client.
class ObjectCall {
public:
  ObjectCall(Client& client, const ObjectWishes& wishes, CallOptions options, std::string key)
      : client_(client), wishes_(wishes), options_(options), key_(std::move(key)) {}

  int get() {
    // How long it is is not known before, and another put may come in between.
    constexpr int kTries = 3;
    PageResult found;
    for (int i = 0; i < kTries; ++i) {
      found = client_.exists(key_, options_);
      if (!found.ok()) return failed(error_of(found.status, "get", wishes_.key));
      auto region = client_.allocate_region(found.bytes);
      if (!region) return failed(region.error());
      CallOptions exact = options_;
      exact.exact_size = true;
      found = client_.get(key_, View(*region, 0, found.bytes), exact);
      if (found.ok()) {
        return write_to(wishes_.file, {reinterpret_cast<const char*>(region->data()), found.bytes});
      }
      if (found.status != Status::not_found) break;
    }
    return failed(error_of(found.status, "get", wishes_.key));
  }

  int put() {
    auto value = read_value(wishes_.file, client_.max_value_bytes());
    if (!value) return failed(value.error());
    auto region = client_.allocate_region(value->size());
    if (!region) return failed(region.error());
    std::memcpy(region->data(), value->data(), value->size());
    const PageResult stored = client_.put(key_, View(*region, 0, value->size()), options_);
    if (!stored.ok()) return failed(error_of(stored.status, "put", wishes_.key));
    return tell({{"key", wishes_.key}, {"bytes", stored.bytes}});
  }

  int exists() {
    const PageResult found = client_.exists(key_, options_);
    if (!found.ok()) return failed(error_of(found.status, "exists", wishes_.key));
    return tell({{"key", wishes_.key}, {"bytes", found.bytes}});
  }

  int remove() {
    const Status status = client_.remove(key_, options_);
    if (status != Status::ok) return failed(error_of(status, "delete", wishes_.key));
    return tell({{"key", wishes_.key}});
  }

  int pin() { return keep("pin", client_.pin(key_, options_)); }
  int unpin() { return keep("unpin", client_.unpin(key_, options_)); }

private:
  [[nodiscard]] int keep(const std::string& verb, Status status) const {
    if (status == Status::no_space) {
      return failed({status, verb + " '" + wishes_.key +
                                 "': the tenant's budget for pins (store.pin_budget_percent) is "
                                 "used up: unpin something"});
    }
    if (status != Status::ok) return failed(error_of(status, verb, wishes_.key));
    return tell({{"key", wishes_.key}});
  }
  [[nodiscard]] int tell(const ordered_json& what) const {
    return wishes_.json ? show(what, true) : kDone;
  }

  Client& client_;
  const ObjectWishes& wishes_;
  const CallOptions options_;
  const std::string key_;
};

}  // namespace

Expected<std::string> key_of(const ObjectWishes& wishes) {
  std::string key = wishes.key;
  if (wishes.hex) {
    key.clear();
    const bool are_digits = std::all_of(wishes.key.begin(), wishes.key.end(),
                                        [](char digit) { return hex_value(digit) >= 0; });
    if (!are_digits || wishes.key.size() % 2 != 0) {
      return Error{Status::invalid_argument,
                   "key = '" + wishes.key + "': with --hex write two hex digits for each byte"};
    }
    for (std::size_t i = 0; i < wishes.key.size(); i += 2) {
      key += static_cast<char>(hex_value(wishes.key[i]) * 16 + hex_value(wishes.key[i + 1]));
    }
  }
  if (key.empty() || key.size() > ipc::kKeyBytesMax) {
    return Error{Status::invalid_argument, "a key has 1 to " + std::to_string(ipc::kKeyBytesMax) +
                                               " bytes, this one " + std::to_string(key.size())};
  }
  return key;
}

int run_object(const std::string& verb, const ObjectWishes& wishes) {
  auto key = key_of(wishes);
  if (!key) return failed(key.error());
  ClientOptions how;
  how.socket_path = wishes.socket;
  how.name = "simmctl";
  how.lanes = 2;
  how.async_lanes = 1;
  how.connect_timeout_ms = wishes.timeout_ms;
  how.reattach = false;
  auto client = Client::connect(how);
  if (!client) return failed(client.error());
  CallOptions options;
  options.timeout_ms = wishes.timeout_ms;
  options.ttl_ms = wishes.ttl_ms;
  options.lease_ms = wishes.lease_ms;
  options.mode = wishes.replace ? PutMode::replace : PutMode::if_absent;
  if (!wishes.name_space.empty()) {
    auto opened = client->open_namespace(wishes.name_space);
    if (!opened) return failed(opened.error());
    options.name_space = *opened;
  }
  ObjectCall call(*client, wishes, options, std::move(*key));
  if (verb == "get") return call.get();
  if (verb == "put") return call.put();
  if (verb == "exists") return call.exists();
  if (verb == "pin") return call.pin();
  if (verb == "unpin") return call.unpin();
  return call.remove();
}

}  // namespace simm::ctl
