#include "daemon/tools/simm-bench/perftest.h"

#include <doctest/doctest.h>

namespace simm::bench::perftest_test {

// As ib_write_bw of perftest 4.5 prints it, tabs included.
constexpr const char* kBandwidth =
    "---------------------------------------------------------------------------------------\n"
    "                    RDMA_Write BW Test\n"
    " Dual-port       : OFF\t\tDevice         : rxe0\n"
    " Mtu             : 4096[B]\n"
    "---------------------------------------------------------------------------------------\n"
    " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
    " 1048576    100              6.09               5.50   \t\t   0.000006\n"
    "---------------------------------------------------------------------------------------\n";
constexpr const char* kLatency =
    " Data ex. method : Ethernet\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
    " 64      500          91.40          10019.84      395.03  \t       2505.50     \t2024.41\t\t"
    "7246.49 \t\t10019.84\n";

const PerftestRun kWrites{"ib_write_bw", 1'048'576, 100};
const PerftestRun kSends{"ib_send_lat", 64, 500};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

void check_refused(const PerftestRun& run, const std::string& text, const std::string& why) {
  CAPTURE(text);
  const Expected<double> value = parse_perftest(run, text);
  REQUIRE_FALSE(value);
  CHECK(value.error().context.find(run.program) == 0);
  CHECK(value.error().context.find(why) != std::string::npos);
}

TEST_CASE("of a bandwidth the mean counts, in units of 2^20 bytes") {
  const Expected<double> value = parse_perftest(kWrites, kBandwidth);
  REQUIRE(value);
  CHECK(*value == doctest::Approx(5.5 * 1'048'576));
  const std::string renamed =
      replaced(replaced(kBandwidth, "peak[MB", "peak[MiB"), "average[MB", "average[MiB");
  REQUIRE(parse_perftest(kWrites, renamed));
  CHECK(*parse_perftest(kWrites, renamed) == doctest::Approx(5.5 * 1'048'576));
}

TEST_CASE("of a latency the median counts") {
  const Expected<double> value = parse_perftest(kSends, kLatency);
  REQUIRE(value);
  CHECK(*value == doctest::Approx(395.03));
}

TEST_CASE("what is not understood is an error that shows it") {
  check_refused(kWrites, "", "no head");
  check_refused(kWrites, "Couldn't connect to 127.0.0.1:18515\n", "Couldn't connect");
  // Another unit is another figure.
  check_refused(kWrites, replaced(kBandwidth, "average[MB/sec]", "average[Gb/sec]"), "no head");
  check_refused(kSends, kBandwidth, "no head");
  check_refused(kSends, replaced(kLatency, "t_typical[usec]", "t_typical[cycles]"), "no head");
  const std::string text = kBandwidth;
  check_refused(kWrites, text.substr(0, text.find(" 1048576")), "columns");
  check_refused(kWrites, replaced(text, "0.000006", ""), "columns");
  check_refused(kWrites, replaced(text, "0.000006", "0.000006 1"), "columns");
  check_refused(kWrites, replaced(text, "1048576", "65536"), "not the row");
  check_refused(kWrites, replaced(text, "100 ", "10x "), "not the row");
  check_refused(kWrites, replaced(text, "5.50", "5,50"), "'5,50' is no figure");
  check_refused(kWrites, replaced(text, "5.50", "nan"), "'nan' is no figure");
  check_refused(kWrites, replaced(text, "5.50", "0.00"), "'0.00' is no figure");
}

TEST_CASE("devices that are not there are refused with what to do") {
  const auto pairs = device_pairs({"no_such_device"}, {"../no_such_device"});
  REQUIRE_FALSE(pairs);
  const std::string& why = pairs.error().context;
  const bool has_devices = why.find("this host has no RDMA device") == std::string::npos;
  CHECK(why.find(has_devices ? "no RDMA device 'no_such_device'" : "modprobe rdma_rxe") !=
        std::string::npos);
  REQUIRE_FALSE(device_pairs({}, {}));
  REQUIRE_FALSE(device_pairs({"a", "b"}, {"c"}));
}

TEST_CASE("a host without perftest is told what to install") {
  const auto value = run_perftest({"ib_no_such_lat", 64, 5}, {{"a", "b"}});
  REQUIRE_FALSE(value);
  CHECK(value.error().context.find("ib_no_such_lat") != std::string::npos);
  CHECK(value.error().context.find("apt-get install perftest") != std::string::npos);
}

}  // namespace simm::bench::perftest_test
