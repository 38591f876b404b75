#include "daemon/attach/mailbox_session_control.h"

#include <algorithm>
#include <utility>

#include "daemon/attach/tenant_account.h"
#include "simm/check.h"

namespace simm::control {

using session::SessionCommand;
using session::SessionEvent;

MailboxSessionControl::MailboxSessionControl(const base::Config& config, const TenantRules& tenants,
                                             const std::vector<AgentMail>& agents)
    : config_(config), tenants_(tenants) {
  for (const AgentMail& mail : agents) agents_.push_back({mail, 0, {}});
}

void MailboxSessionControl::open_session(const SessionStart& start) {
  const auto fewest =
      std::min_element(agents_.begin(), agents_.end(),
                       [](const Agent& a, const Agent& b) { return a.sessions < b.sessions; });
  session::SessionConfig config;
  config.id = start.session_id;
  config.tenant = start.tenant->id;
  config.default_name_space = {tenants_.namespace_id(""),
                               tenants_.is_immutable(start.tenant->id, "")};
  config.lane_count = start.memory->lanes;
  config.tenant_bytes_max = start.tenant->in_flight_bytes_max;
  config.tenant_operations_max = config_.engine.operations_max;
  config.bandwidth = start.account->bandwidth();
  config.traffic = &start.account->traffic(static_cast<std::size_t>(fewest - agents_.begin()));
  config.limits.timeout_default_ns = config_.engine.timeout_default_ms * base::kNsPerMs;
  config.limits.timeout_max_ns = config_.session.timeout_max_ms * base::kNsPerMs;
  config.limits.regions_max = config_.session.regions_max;

  auto session = std::make_unique<session::Session>(config, start.memory->pages.mapping.data(),
                                                    std::move(start.memory->bell));
  SessionCommand command;
  command.kind = SessionCommand::Kind::attach;
  command.session = session.get();
  ++fewest->sessions;
  running_.emplace(start.session_id,
                   Running{std::move(session), static_cast<std::size_t>(fewest - agents_.begin())});
  send(start.session_id, command);
}

void MailboxSessionControl::open_name_space(std::uint64_t session_id,
                                            session::OpenNameSpace name_space) {
  SessionCommand command;
  command.kind = SessionCommand::Kind::open_name_space;
  command.name_space = name_space;
  send(session_id, command);
}

void MailboxSessionControl::add_region(std::uint64_t session_id,
                                       std::unique_ptr<memory::RegionMemory> region) {
  SessionCommand command;
  command.kind = SessionCommand::Kind::add_region;
  command.region = region.release();
  send(session_id, command);
}

void MailboxSessionControl::remove_region(std::uint64_t session_id, ipc::RegionHandle handle) {
  SessionCommand command;
  command.kind = SessionCommand::Kind::remove_region;
  command.handle = handle;
  send(session_id, command);
}

void MailboxSessionControl::close_session(std::uint64_t session_id, ipc::PoisonReason poison,
                                          bool client_waits) {
  SessionCommand command;
  if (poison != ipc::PoisonReason::none) {
    command.kind = SessionCommand::Kind::poison;
    command.reason = poison;
    send(session_id, command);
  }
  command.kind = SessionCommand::Kind::drain;
  command.client_waits = client_waits;
  send(session_id, command);
}

void MailboxSessionControl::send(std::uint64_t session_id, SessionCommand command) {
  const auto found = running_.find(session_id);
  SIMM_CHECK(found != running_.end());
  command.session = found->second.session.get();
  Agent& agent = agents_[found->second.agent];
  agent.waiting.push_back(command);
  flush(agent);
}

void MailboxSessionControl::flush(Agent& agent) {
  bool sent = false;
  while (!agent.waiting.empty() && agent.mail.commands->try_push(agent.waiting.front())) {
    agent.waiting.pop_front();
    sent = true;
  }
  if (sent) agent.mail.waiter->wake();
}

void MailboxSessionControl::deliver() {
  for (Agent& agent : agents_) {
    SessionEvent event;
    while (agent.mail.events->try_pop(event)) on_event(event);
    flush(agent);
    // An agent keeps an event while its mailbox is full: there is room now.
    agent.mail.waiter->wake();
  }
}

void MailboxSessionControl::on_event(const SessionEvent& event) {
  const std::uint64_t id = event.session->config().id;
  switch (event.kind) {
    case SessionEvent::Kind::attached:
      return events_->on_session_opened(id, Status::ok);
    case SessionEvent::Kind::refused:
      // Commands may be on their way to the agent that name the session: gone comes behind them.
      return events_->on_session_opened(id, Status::out_of_memory);
    case SessionEvent::Kind::region_added: {
      const bool refused = event.handle == ipc::kNoRegion;
      return events_->on_region_added(
          id, event.handle,
          std::unique_ptr<memory::RegionMemory>(refused ? event.region : nullptr));
    }
    case SessionEvent::Kind::region_removed:
      return events_->on_region_removed(id, std::unique_ptr<memory::RegionMemory>(event.region));
    case SessionEvent::Kind::name_space_opened: {
      const bool opened = event.name_space_id != session::NameSpaceTable::kFull;
      return events_->on_name_space_opened(id, opened ? Status::ok : Status::out_of_memory,
                                           static_cast<std::uint16_t>(event.name_space_id));
    }
    case SessionEvent::Kind::poisoned:
      return events_->on_session_poisoned(id, event.reason);
    case SessionEvent::Kind::gone: {
      // No reference stays here: whoever gets the session destroys it before what it lies in.
      std::unique_ptr<session::Session> session = take(id);
      ipc::BellSocket bell = session->take_bell();
      SessionRemains remains;
      session->regions().retire_all();
      while (auto region = session->regions().take_idle()) {
        remains.regions.push_back(std::move(region));
      }
      remains.session = std::move(session);
      return events_->on_session_gone(id, std::move(remains), std::move(bell));
    }
  }
}

std::unique_ptr<session::Session> MailboxSessionControl::take(std::uint64_t session_id) {
  const auto found = running_.find(session_id);
  SIMM_CHECK(found != running_.end());
  --agents_[found->second.agent].sessions;
  std::unique_ptr<session::Session> session = std::move(found->second.session);
  running_.erase(found);
  return session;
}

}  // namespace simm::control
