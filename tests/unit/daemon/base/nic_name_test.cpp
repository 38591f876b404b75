#include "daemon/base/nic_name.h"

#include <doctest/doctest.h>

namespace nic_name_test {

using simm::base::NicName;
using simm::base::parse_pci_address;

TEST_CASE("a NIC's name is a device, or a port of one") {
  const auto all = NicName::parse("mlx5_bond.0-a");
  REQUIRE(all.has_value());
  CHECK(all->device == "mlx5_bond.0-a");
  CHECK(all->covers("mlx5_bond.0-a", 7));
  CHECK_FALSE(all->covers("mlx5_bond.0", 7));
  const auto port = NicName::parse("mlx5_0/2");
  REQUIRE(port.has_value());
  CHECK(port->covers("mlx5_0", 2));
  CHECK_FALSE(port->covers("mlx5_0", 1));
  for (const char* bad : {"", "/1", "a/", "a/0", "a/256", "a/1/2", "a/+1", "a/1x", "a b", "../a"}) {
    CAPTURE(bad);
    CHECK_FALSE(NicName::parse(bad).has_value());
  }
}

TEST_CASE("names overlap where some port is meant by both") {
  const auto overlap = [](const char* one, const char* other) {
    return NicName::parse(one)->overlaps(*NicName::parse(other));
  };
  CHECK(overlap("a", "a"));
  CHECK(overlap("a", "a/2"));
  CHECK(overlap("a/2", "a"));
  CHECK(overlap("a/2", "a/2"));
  CHECK_FALSE(overlap("a/1", "a/2"));
  CHECK_FALSE(overlap("a", "b"));
}

TEST_CASE("a PCI address is written as the kernel does, however somebody else wrote it") {
  CHECK(parse_pci_address("0000:1b:00.0") == "0000:1b:00.0");
  CHECK(parse_pci_address("00000000:1B:00.0") == "0000:1b:00.0");
  CHECK(parse_pci_address("1b:1f.7") == "0000:1b:1f.7");
  CHECK(parse_pci_address("10001:00:02.3") == "10001:00:02.3");
  for (const char* bad :
       {"", "1b", "1b:00", "0000:1b.0", "0000:1b:20.0", "0000:1b:00.8", "0:0:100:00.0",
        "0000:100:00.0", "x000:1b:00.0", "0000::00.0", "1b.0:00", "cuda:0", "0000:1b:00.0 "}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_pci_address(bad).has_value());
  }
}

}  // namespace nic_name_test
