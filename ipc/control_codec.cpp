#include "ipc/control_codec.h"

#include <string>
#include <utility>

#include "attach.capnp.h"
#include "ipc/capnp_packet.h"

namespace simm::ipc {
namespace {

using packet::line_of;
using packet::text_of;

// A reason is for people: the end of a long one is no loss, where an error would be.
capnp::Text::Reader reason_text(std::string& cut, const std::string& reason) {
  cut = reason.substr(0, kReasonBytesMax);
  for (char& c : cut) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return capnp::Text::Reader(cut.c_str(), cut.size());
}

struct ClientEncoder {
  schema::ClientMessage::Builder root;

  void operator()(const Hello& hello) {
    auto to = root.initHello();
    to.setLayoutVersion(hello.layout_version);
    to.setFeatureBits(hello.feature_bits);
    to.setExtensions(hello.extensions);
    to.setLayoutVersionMax(hello.layout_version_max);
    to.setLibraryVersion(text_of("libraryVersion", hello.library_version, kNameBytesMax));
    to.setClientName(text_of("clientName", hello.client_name, kNameBytesMax));
    to.setLaneCount(hello.lane_count);
    to.setManagerAddress(text_of("managerAddress", hello.manager_address, kNameBytesMax));
  }
  void operator()(const Mapped&) { root.setMapped(); }
  void operator()(const OpenNamespace& open) {
    auto to = root.initOpenNamespace();
    to.setRequestId(open.request_id);
    to.setName(text_of("namespace name", open.name, kNameBytesMax));
    to.setExactSize(open.exact_size);
    to.setShared(open.shared);
    to.setImmutable(open.immutable);
  }
  void operator()(const RegisterRegion& region) {
    auto to = root.initRegisterRegion();
    to.setRequestId(region.request_id);
    to.setKind(static_cast<std::uint16_t>(region.kind));
    to.setAddress(region.address);
    to.setLength(region.length);
    to.setFdOffset(region.fd_offset);
    to.setHasFd(region.has_fd);
    to.setName(text_of("region name", region.name, kNameBytesMax));
    if (region.kind != RegionRequestKind::gpu) return;
    to.setGpuUuid(kj::ArrayPtr<const kj::byte>(region.gpu_uuid.data(), region.gpu_uuid.size()));
    to.setGpuAllocationBytes(region.gpu_allocation_bytes);
  }
  void operator()(const DeregisterRegion& region) {
    auto to = root.initDeregisterRegion();
    to.setRequestId(region.request_id);
    to.setHandle(region.handle);
  }
  void operator()(const Goodbye&) { root.setGoodbye(); }
  void operator()(const GpuLend& lend) {
    auto to = root.initGpuLend();
    to.setRequestId(lend.request_id);
    to.setUuid(kj::ArrayPtr<const kj::byte>(lend.uuid.data(), lend.uuid.size()));
    to.setBytes(lend.bytes);
    to.setNoticeMs(lend.notice_ms);
  }
  void operator()(const GpuReclaim& reclaim) {
    auto to = root.initGpuReclaim();
    to.setRequestId(reclaim.request_id);
    to.setLease(reclaim.lease);
  }
  void operator()(const FollowKeys& follow) {
    auto to = root.initFollowKeys();
    to.setRequestId(follow.request_id);
    to.setFollower(follow.follower);
    to.setNameSpace(text_of("namespace name", follow.name_space, kNameBytesMax));
    to.setSince(follow.since);
    to.setPresents(follow.presents);
    to.setBegins(follow.begins);
    to.setEnds(follow.ends);
  }
};

struct DaemonEncoder {
  schema::DaemonMessage::Builder root;
  std::string cut;

  void operator()(const Welcome& welcome) {
    auto to = root.initWelcome();
    to.setLayoutVersion(welcome.layout_version);
    to.setFeatureBits(welcome.feature_bits);
    to.setExtensions(welcome.extensions);
    to.setDaemonVersion(text_of("daemonVersion", welcome.daemon_version, kNameBytesMax));
    to.setSessionId(welcome.session_id);
    to.setTenant(text_of("tenant", welcome.tenant, kNameBytesMax));
    to.setSessionBytes(welcome.session_bytes);
    to.setLaneCount(welcome.lane_count);
    auto limits = to.initLimits();
    limits.setValueBytesMax(welcome.limits.value_bytes_max);
    limits.setKeyBytesMax(welcome.limits.key_bytes_max);
    limits.setRegionsMax(welcome.limits.regions_max);
    limits.setDefaultTimeoutNs(welcome.limits.default_timeout_ns);
    limits.setLeaseDefaultMs(welcome.limits.lease_default_ms);
    limits.setLeaseMaxMs(welcome.limits.lease_max_ms);
  }
  void operator()(const Opened&) { root.setOpened(); }
  void operator()(const Refused& refused) {
    auto to = root.initRefused();
    to.setStatus(static_cast<std::int32_t>(refused.status));
    to.setReason(reason_text(cut, refused.reason));
  }
  void operator()(const NamespaceReply& reply) {
    auto to = root.initNamespaceReply();
    to.setRequestId(reply.request_id);
    to.setStatus(static_cast<std::int32_t>(reply.status));
    to.setId(reply.id);
    to.setReason(reason_text(cut, reply.reason));
  }
  void operator()(const RegionReply& reply) {
    auto to = root.initRegionReply();
    to.setRequestId(reply.request_id);
    to.setStatus(static_cast<std::int32_t>(reply.status));
    to.setHandle(reply.handle);
    to.setKind(static_cast<std::uint16_t>(reply.kind));
    to.setReason(reason_text(cut, reply.reason));
  }
  void operator()(const DeregisterReply& reply) {
    auto to = root.initDeregisterReply();
    to.setRequestId(reply.request_id);
    to.setStatus(static_cast<std::int32_t>(reply.status));
  }
  void operator()(const LeaseReply& reply) {
    auto to = root.initLeaseReply();
    to.setRequestId(reply.request_id);
    to.setStatus(static_cast<std::int32_t>(reply.status));
    to.setLease(reply.lease);
    to.setReason(reason_text(cut, reply.reason));
  }
  void operator()(const Poisoned& poisoned) {
    root.initPoisoned().setReason(static_cast<std::uint32_t>(poisoned.reason));
  }
  void operator()(const KeyEventsReply& reply) {
    auto to = root.initKeyEventsReply();
    to.setRequestId(reply.request_id);
    to.setStatus(static_cast<std::int32_t>(reply.status));
    to.setReason(reason_text(cut, reply.reason));
    to.setFollower(reply.follower);
    to.setSalt(reply.salt);
    to.setNext(reply.next);
    to.setPresents(reply.presents);
    to.setMissed(reply.missed);
    to.setIsLast(reply.is_last);
    to.setIsComplete(reply.is_complete);
    const std::vector<std::byte> bytes = pack_key_news(reply.news);
    to.setEvents(kj::ArrayPtr<const kj::byte>(reinterpret_cast<const kj::byte*>(bytes.data()),
                                              bytes.size()));
  }
};

RegionRequestKind kind_of(std::uint16_t value) {
  if (value >= kRegionRequestKindCount) {
    packet::refuse(Status::invalid_argument, "region kind " + std::to_string(value));
  }
  return static_cast<RegionRequestKind>(value);
}

Hello read(schema::Hello::Reader from) {
  Hello hello;
  hello.layout_version = from.getLayoutVersion();
  hello.feature_bits = from.getFeatureBits();
  hello.extensions = from.getExtensions();
  hello.layout_version_max = from.getLayoutVersionMax();
  hello.library_version = line_of("libraryVersion", from.getLibraryVersion(), kNameBytesMax);
  hello.client_name = line_of("clientName", from.getClientName(), kNameBytesMax);
  hello.lane_count = from.getLaneCount();
  hello.manager_address = line_of("managerAddress", from.getManagerAddress(), kNameBytesMax);
  return hello;
}

OpenNamespace read(schema::OpenNamespace::Reader from) {
  OpenNamespace open;
  open.request_id = from.getRequestId();
  open.name = line_of("namespace name", from.getName(), kNameBytesMax);
  open.exact_size = from.getExactSize();
  open.shared = from.getShared();
  open.immutable = from.getImmutable();
  return open;
}

std::array<std::uint8_t, 16> uuid_of(capnp::Data::Reader from) {
  std::array<std::uint8_t, 16> uuid{};
  if (from.size() != uuid.size()) {
    packet::refuse(Status::invalid_argument,
                   "gpu_uuid of " + std::to_string(from.size()) + " bytes instead of 16");
  }
  std::copy(from.begin(), from.end(), uuid.begin());
  return uuid;
}

GpuLend read(schema::GpuLend::Reader from) {
  return GpuLend{from.getRequestId(), uuid_of(from.getUuid()), from.getBytes(), from.getNoticeMs()};
}

RegisterRegion read(schema::RegisterRegion::Reader from) {
  RegisterRegion region;
  region.request_id = from.getRequestId();
  region.kind = kind_of(from.getKind());
  region.address = from.getAddress();
  region.length = from.getLength();
  region.fd_offset = from.getFdOffset();
  region.has_fd = from.getHasFd();
  region.name = line_of("region name", from.getName(), kNameBytesMax);
  if (region.kind == RegionRequestKind::gpu && from.hasGpuUuid()) {
    region.gpu_uuid = uuid_of(from.getGpuUuid());
    region.gpu_allocation_bytes = from.getGpuAllocationBytes();
  }
  if (region.length == 0 || region.length > UINT64_MAX - region.address ||
      region.length > UINT64_MAX - region.fd_offset) {
    packet::refuse(Status::invalid_argument, "region of " + std::to_string(region.length) +
                                                 " bytes at " + std::to_string(region.address));
  }
  return region;
}

Welcome read(schema::Welcome::Reader from) {
  Welcome welcome;
  welcome.layout_version = from.getLayoutVersion();
  welcome.feature_bits = from.getFeatureBits();
  welcome.extensions = from.getExtensions();
  welcome.daemon_version = line_of("daemonVersion", from.getDaemonVersion(), kNameBytesMax);
  welcome.session_id = from.getSessionId();
  welcome.tenant = line_of("tenant", from.getTenant(), kNameBytesMax);
  welcome.session_bytes = from.getSessionBytes();
  welcome.lane_count = from.getLaneCount();
  const auto limits = from.getLimits();
  welcome.limits.value_bytes_max = limits.getValueBytesMax();
  welcome.limits.key_bytes_max = limits.getKeyBytesMax();
  welcome.limits.regions_max = limits.getRegionsMax();
  welcome.limits.default_timeout_ns = limits.getDefaultTimeoutNs();
  welcome.limits.lease_default_ms = limits.getLeaseDefaultMs();
  welcome.limits.lease_max_ms = limits.getLeaseMaxMs();
  return welcome;
}

Refused read(schema::Refused::Reader from) {
  return Refused{packet::status_of(from.getStatus()),
                 line_of("reason", from.getReason(), kReasonBytesMax)};
}

NamespaceReply read(schema::NamespaceReply::Reader from) {
  return NamespaceReply{from.getRequestId(), packet::status_of(from.getStatus()), from.getId(),
                        line_of("reason", from.getReason(), kReasonBytesMax)};
}

RegionReply read(schema::RegionReply::Reader from) {
  return RegionReply{from.getRequestId(), packet::status_of(from.getStatus()), from.getHandle(),
                     kind_of(from.getKind()), line_of("reason", from.getReason(), kReasonBytesMax)};
}

LeaseReply read(schema::LeaseReply::Reader from) {
  return LeaseReply{from.getRequestId(), packet::status_of(from.getStatus()), from.getLease(),
                    line_of("reason", from.getReason(), kReasonBytesMax)};
}

FollowKeys read(schema::FollowKeys::Reader from) {
  return FollowKeys{from.getRequestId(),
                    from.getFollower(),
                    line_of("namespace name", from.getNameSpace(), kNameBytesMax),
                    from.getSince(),
                    from.getPresents(),
                    from.getBegins(),
                    from.getEnds()};
}

KeyEventsReply read(schema::KeyEventsReply::Reader from) {
  KeyEventsReply reply;
  reply.request_id = from.getRequestId();
  reply.status = packet::status_of(from.getStatus());
  reply.reason = line_of("reason", from.getReason(), kReasonBytesMax);
  reply.follower = from.getFollower();
  reply.salt = from.getSalt();
  reply.next = from.getNext();
  reply.presents = from.getPresents();
  reply.missed = from.getMissed();
  reply.is_last = from.getIsLast();
  reply.is_complete = from.getIsComplete();
  const auto bytes = from.getEvents();
  Expected<std::vector<KeyNews>> news =
      unpack_key_news(std::as_bytes(std::span(bytes.begin(), bytes.size())));
  if (!news) packet::refuse(news.status(), news.error().context);
  reply.news = std::move(*news);
  return reply;
}

Poisoned read(schema::Poisoned::Reader from) {
  const std::uint32_t reason = from.getReason();
  if (reason >= kPoisonReasonCount) {
    packet::refuse(Status::incompatible, "unknown poison reason " + std::to_string(reason));
  }
  return Poisoned{static_cast<PoisonReason>(reason)};
}

}  // namespace

const char* region_kind_name(RegionRequestKind kind) noexcept {
  switch (kind) {
    case RegionRequestKind::automatic:
      return "automatic";
    case RegionRequestKind::shared:
      return "shared";
    case RegionRequestKind::adopted:
      return "adopted";
    case RegionRequestKind::staged:
      return "staged";
    case RegionRequestKind::foreign:
      return "foreign";
    case RegionRequestKind::gpu:
      return "gpu";
  }
  return "unknown";
}

Expected<std::vector<std::byte>> encode(const ClientMessage& message) {
  return packet::guarded([&] {
    capnp::MallocMessageBuilder builder;
    std::visit(ClientEncoder{builder.initRoot<schema::ClientMessage>()}, message);
    return packet::bytes_of(builder, kControlMessageBytesMax);
  });
}

Expected<std::vector<std::byte>> encode(const DaemonMessage& message) {
  return packet::guarded([&] {
    capnp::MallocMessageBuilder builder;
    std::visit(DaemonEncoder{builder.initRoot<schema::DaemonMessage>(), {}}, message);
    return packet::bytes_of(builder, kControlMessageBytesMax);
  });
}

Expected<ClientMessage> decode_client_message(std::span<const std::byte> bytes) {
  return packet::guarded([&]() -> ClientMessage {
    const auto words = packet::words_of(bytes, kControlMessageBytesMax);
    capnp::FlatArrayMessageReader reader(kj::arrayPtr(words.data(), words.size()),
                                         packet::reader_limits());
    const auto root = reader.getRoot<schema::ClientMessage>();
    switch (root.which()) {
      case schema::ClientMessage::HELLO:
        return read(root.getHello());
      case schema::ClientMessage::MAPPED:
        return Mapped{};
      case schema::ClientMessage::OPEN_NAMESPACE:
        return read(root.getOpenNamespace());
      case schema::ClientMessage::REGISTER_REGION:
        return read(root.getRegisterRegion());
      case schema::ClientMessage::DEREGISTER_REGION:
        return DeregisterRegion{root.getDeregisterRegion().getRequestId(),
                                root.getDeregisterRegion().getHandle()};
      case schema::ClientMessage::GOODBYE:
        return Goodbye{};
      case schema::ClientMessage::GPU_LEND:
        return read(root.getGpuLend());
      case schema::ClientMessage::GPU_RECLAIM:
        return GpuReclaim{root.getGpuReclaim().getRequestId(), root.getGpuReclaim().getLease()};
      case schema::ClientMessage::FOLLOW_KEYS:
        return read(root.getFollowKeys());
      case schema::ClientMessage::NONE:
        break;
    }
    packet::refuse(Status::incompatible,
                   "client message kind " + std::to_string(static_cast<unsigned>(root.which())));
  });
}

Expected<DaemonMessage> decode_daemon_message(std::span<const std::byte> bytes) {
  return packet::guarded([&]() -> DaemonMessage {
    const auto words = packet::words_of(bytes, kControlMessageBytesMax);
    capnp::FlatArrayMessageReader reader(kj::arrayPtr(words.data(), words.size()),
                                         packet::reader_limits());
    const auto root = reader.getRoot<schema::DaemonMessage>();
    switch (root.which()) {
      case schema::DaemonMessage::WELCOME:
        return read(root.getWelcome());
      case schema::DaemonMessage::OPENED:
        return Opened{};
      case schema::DaemonMessage::REFUSED:
        return read(root.getRefused());
      case schema::DaemonMessage::NAMESPACE_REPLY:
        return read(root.getNamespaceReply());
      case schema::DaemonMessage::REGION_REPLY:
        return read(root.getRegionReply());
      case schema::DaemonMessage::DEREGISTER_REPLY:
        return DeregisterReply{root.getDeregisterReply().getRequestId(),
                               packet::status_of(root.getDeregisterReply().getStatus())};
      case schema::DaemonMessage::LEASE_REPLY:
        return read(root.getLeaseReply());
      case schema::DaemonMessage::POISONED:
        return read(root.getPoisoned());
      case schema::DaemonMessage::KEY_EVENTS_REPLY:
        return read(root.getKeyEventsReply());
      case schema::DaemonMessage::NONE:
        break;
    }
    packet::refuse(Status::incompatible,
                   "daemon message kind " + std::to_string(static_cast<unsigned>(root.which())));
  });
}

}  // namespace simm::ipc
