// Addresses of paths and partitions, for subnets that no test has.
#include "daemon/transport/rdma/device/verbs_path.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

namespace verbs_path_test {

using namespace simm;
using namespace simm::transport;

// fe80, then the forwarding LID, the subnet and the port's number.
QueuePairAddress infiniband(std::uint16_t lid, std::uint16_t forwarding, std::uint16_t subnet) {
  QueuePairAddress address;
  address.lid = lid;
  address.gid[0] = 0xfe;
  address.gid[1] = 0x80;
  address.gid[4] = static_cast<std::uint8_t>(forwarding >> 8);
  address.gid[5] = static_cast<std::uint8_t>(forwarding);
  address.gid[6] = static_cast<std::uint8_t>(subnet >> 8);
  address.gid[7] = static_cast<std::uint8_t>(subnet);
  address.gid[15] = static_cast<std::uint8_t>(lid);
  return address;
}

TEST_CASE("verbs path: which address packets go to, by subnet and by what the port demands") {
  struct Row {
    const char* what;
    QueuePairAddress near;
    QueuePairAddress far;
    bool needs_global_header;
    bool is_global;
    std::uint16_t lid;
  };
  QueuePairAddress roce;
  roce.is_ethernet = true;
  roce.gid[15] = 9;
  const std::array rows = {
      Row{"one subnet", infiniband(3, 0, 1), infiniband(7, 0, 1), false, false, 7},
      Row{"a virtual function", infiniband(3, 0, 1), infiniband(7, 0, 1), true, true, 7},
      Row{"a routed subnet", infiniband(3, 0x101, 1), infiniband(7, 0x202, 2), false, true, 0x202},
      Row{"... whose router has no LID", infiniband(3, 0, 1), infiniband(7, 0, 2), false, true, 7},
      Row{"one subnet of a routed network", infiniband(3, 0x101, 1), infiniband(7, 0x101, 1), true,
          true, 7},
      Row{"RoCE", roce, roce, false, true, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    PathSettings settings;
    settings.port = 2;
    settings.gid_index = 5;
    settings.service_level = 3;
    settings.traffic_class = 106;
    settings.needs_global_header = row.needs_global_header;
    const ibv_ah_attr path = path_to(row.near, row.far, settings);
    CHECK((path.is_global != 0) == row.is_global);
    CHECK(path.dlid == row.lid);
    CHECK(path.sl == 3);
    CHECK(path.port_num == 2);
    if (!row.is_global) continue;
    CHECK(path.grh.sgid_index == 5);
    CHECK(path.grh.traffic_class == 106);
    CHECK(path.grh.hop_limit == 64);
    CHECK(std::equal(row.far.gid.begin(), row.far.gid.end(), path.grh.dgid.raw));
  }
}

TEST_CASE("verbs path: a partition is found by its key or its place, and its kind is known") {
  const std::array<std::uint16_t, 4> table = {0xffff, 0, 0x8123, 0x0456};
  CHECK(choose_partition(table, 0, 0)->key == 0xffff);
  CHECK(choose_partition(table, 0, 2)->is_full());
  // Written with the bit of full members, or without.
  for (const int key : {0x8123, 0x0123}) {
    const auto found = choose_partition(table, static_cast<std::uint16_t>(key), 0);
    REQUIRE(found);
    CHECK(found->index == 2);
    CHECK(found->is_full());
  }
  const auto limited = choose_partition(table, 0x8456, 0);
  REQUIRE(limited);
  CHECK(limited->index == 3);
  CHECK_FALSE(limited->is_full());
  const auto missing = choose_partition(table, 0x8777, 0);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().context ==
        "rdma.partition_key = 34679 (0x8777): the port is in no such partition; it is in (index: "
        "key) 0: 0xffff, 2: 0x8123, 3: 0x0456");
  // An entry that is empty is none.
  CHECK_FALSE(choose_partition(table, 0, 1));
  CHECK_FALSE(choose_partition(table, 0, 9));
  CHECK(choose_partition({}, 0, 0).error().context.find("none") != std::string::npos);
}

}  // namespace verbs_path_test
