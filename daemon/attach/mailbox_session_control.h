// MailboxSessionControl: the SessionControl of a running daemon. Sessions are made here and handed
// to data agents through their mailboxes, each to the agent with the fewest; requests that find a
// mailbox full wait here, in order. Owned by the composition root; outlives the data threads.
// Thread: control.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "daemon/attach/session_control.h"
#include "daemon/base/config.h"
#include "daemon/base/waiter.h"
#include "daemon/control/control_bell.h"
#include "daemon/session/session_mail.h"

namespace simm::control {

// One data agent as the control thread sees it.
struct AgentMail {
  session::SessionCommands* commands = nullptr;
  session::SessionEvents* events = nullptr;
  base::Waiter* waiter = nullptr;
};

class MailboxSessionControl final : public SessionControl {
public:
  MailboxSessionControl(const base::Config& config, const TenantRules& tenants,
                        const std::vector<AgentMail>& agents);

  // Before the first session.
  void connect(SessionControlEvents& events) noexcept { events_ = &events; }

  // Delivers what the agents have said, and what had to wait for room. Call when the bell rings.
  void deliver();

  void open_session(const SessionStart& start) override;
  void open_name_space(std::uint64_t session_id, session::OpenNameSpace name_space) override;
  void add_region(std::uint64_t session_id, std::unique_ptr<memory::RegionMemory> region) override;
  void remove_region(std::uint64_t session_id, ipc::RegionHandle handle) override;
  void close_session(std::uint64_t session_id, ipc::PoisonReason poison,
                     bool client_waits) override;

private:
  struct Agent {
    AgentMail mail;
    std::uint32_t sessions = 0;
    std::deque<session::SessionCommand> waiting;
  };
  struct Running {
    std::unique_ptr<session::Session> session;
    std::size_t agent = 0;
  };

  void send(std::uint64_t session_id, session::SessionCommand command);
  void flush(Agent& agent);
  void on_event(const session::SessionEvent& event);
  std::unique_ptr<session::Session> take(std::uint64_t session_id);

  const base::Config& config_;
  const TenantRules& tenants_;
  SessionControlEvents* events_ = nullptr;
  std::vector<Agent> agents_;
  std::map<std::uint64_t, Running> running_;
};

}  // namespace simm::control
