#include "daemon/transport/rdma/device/verbs_kind.h"

#include <doctest/doctest.h>

namespace simm::transport {

TEST_CASE("verbs kind: InfiniBand and RoCE serve, and what does not is told by its name") {
  const auto cause = [](ibv_transport_type transport, int link_layer) {
    return unusable_kind(transport, static_cast<std::uint8_t>(link_layer));
  };
  CHECK(cause(IBV_TRANSPORT_IB, IBV_LINK_LAYER_INFINIBAND).empty());
  CHECK(cause(IBV_TRANSPORT_IB, IBV_LINK_LAYER_ETHERNET).empty());
  CHECK(cause(IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_ETHERNET).find("iWARP") !=
        std::string_view::npos);
  // EFA says neither what it is nor what its link is.
  CHECK(cause(IBV_TRANSPORT_UNSPECIFIED, IBV_LINK_LAYER_UNSPECIFIED).find("EFA") !=
        std::string_view::npos);
  CHECK_FALSE(cause(IBV_TRANSPORT_UNSPECIFIED, IBV_LINK_LAYER_ETHERNET).empty());
  CHECK_FALSE(cause(IBV_TRANSPORT_IB, IBV_LINK_LAYER_UNSPECIFIED).empty());
  CHECK_FALSE(cause(IBV_TRANSPORT_USNIC_UDP, IBV_LINK_LAYER_ETHERNET).empty());
}

}  // namespace simm::transport
