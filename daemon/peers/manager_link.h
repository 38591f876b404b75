// ManagerLink: a daemon's connection to the manager of its cluster: dials it, carries the messages
// of a ClusterMember, dials again with back-off when the connection is lost, and gives the member
// its turns. The manager's absence is normal operation: it is logged once, and everything goes on.
// Owned by the composition root. Thread: control.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/cluster/cluster_member.h"
#include "daemon/control/deadline.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/cluster_channel.h"
#include "daemon/peers/cluster_dialer.h"

namespace simm::control {

class ManagerLink final : private cluster::MemberLink,
                          private ClusterDialerEvents,
                          private ClusterChannelEvents {
public:
  using OnStatus = std::function<void(const std::string& status)>;

  // `address`: host:port of the manager, or of all managers: see text_list.h. `events` may stop()
  // this link, not destroy it. `on_status` is called with status() whenever its state has changed;
  // empty: never.
  ManagerLink(ClusterAccess& access, std::string address, const cluster::MemberConfig& config,
              cluster::MemberEvents& events, OnStatus on_status = {});
  ManagerLink(const ManagerLink&) = delete;
  ManagerLink& operator=(const ManagerLink&) = delete;

  void start();
  // From now on this daemon wants no slots; the connection stays, so that it hears when it has
  // none.
  void drain();
  // See ClusterMember.
  void want_weight(std::uint64_t weight_bytes);
  void report_load() { member_.report_load(); }
  void stop();

  // To ask, and to look at.
  Status ask(const cluster::Question& question) { return member_.ask(question); }
  [[nodiscard]] const cluster::ClusterMember& member() const noexcept { return member_; }
  // One line for people: the state, and what is in the way.
  [[nodiscard]] std::string status() const;
  // What is in the way; empty: nothing.
  [[nodiscard]] const std::string& trouble() const noexcept {
    return member_.reason().empty() ? trouble_ : member_.reason();
  }

private:
  // MemberLink.
  void send(std::span<const std::byte> message) override;
  void close(const std::string& why) override;
  // ClusterDialerEvents.
  void on_dialled(ClusterDialer& dialer, ipc::UniqueFd socket,
                  const cluster::HelloResult& result) override;
  void on_dial_failed(ClusterDialer& dialer, const Error& error) override;
  // ClusterChannelEvents.
  void on_message(ClusterChannel& channel, std::span<const std::byte> payload) override;
  void on_closed(ClusterChannel& channel, const Error& cause) override;

  void redial();
  void lose();
  void turn();
  void log_state();

  ClusterAccess& access_;
  const OnStatus on_status_;
  cluster::ClusterMember member_;
  ClusterDialer dialer_;
  std::unique_ptr<ClusterChannel> channel_;
  Deadline timer_;
  Deadline soon_;
  std::string trouble_;  // why the last attempt to reach the manager failed
  std::optional<cluster::LinkState> logged_;
};

}  // namespace simm::control
