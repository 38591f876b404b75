// GreedyClient: a process whose session has gets of a terabyte under way, with an hour each, and
// which then waits for its death. Thread: the test's.
#pragma once

#include <sys/types.h>

#include <string>

namespace simm::siege {

class GreedyClient {
public:
  // What it gets again and again: of the tenant of that socket.
  static void put_object(const std::string& socket);

  explicit GreedyClient(const std::string& socket);
  ~GreedyClient() { kill(); }
  GreedyClient(const GreedyClient&) = delete;
  GreedyClient& operator=(const GreedyClient&) = delete;

  // Waits until all has been pushed; false: something went wrong.
  [[nodiscard]] bool has_pushed() const;
  void kill();

private:
  int said_[2] = {};
  pid_t child_ = 0;
};

}  // namespace simm::siege
