// What a daemon takes for its memory, from files like those of the kernel.
#include "daemon/base/host_memory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace {

using simm::base::HostMemory;

// A directory that stands for "/".
class FakeHost {
public:
  FakeHost() {
    write("/proc/meminfo", "MemFree: 1 kB\nMemTotal:       16777216 kB\nBuffers: 99 kB\n");
  }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  HostMemory read() const { return HostMemory::read(root_.path()); }

private:
  const simm::test_support::TemporaryDirectory root_;
};

constexpr std::uint64_t kGib = 1ull << 30;

}  // namespace

TEST_CASE("host memory: without control groups it is the machine's") {
  const FakeHost host;
  CHECK(host.read().usable_bytes() == 16 * kGib);
  CHECK(host.read().origin() == "this machine has 16.0 GiB");
}

TEST_CASE("host memory: the tightest group on the way to the top decides") {
  const FakeHost host;
  host.write("/proc/self/cgroup", "0::/simm.slice/node.service\n");
  host.write("/sys/fs/cgroup/simm.slice/node.service/memory.max", "max\n");
  host.write("/sys/fs/cgroup/simm.slice/memory.max", "4294967296\n");
  CHECK(host.read().usable_bytes() == 4 * kGib);
  CHECK(host.read().origin() == "the control group /simm.slice allows 4.0 GiB");
  host.write("/sys/fs/cgroup/simm.slice/node.service/memory.max", "2147483648\n");
  CHECK(host.read().usable_bytes() == 2 * kGib);
  CHECK(host.read().origin() == "the control group /simm.slice/node.service allows 2.0 GiB");
}

TEST_CASE("host memory: a container sees its own limit at the top") {
  const FakeHost host;
  host.write("/proc/self/cgroup", "0::/docker/0123abcd\n");
  host.write("/sys/fs/cgroup/memory.max", "1073741824\n");
  CHECK(host.read().usable_bytes() == kGib);
  CHECK(host.read().origin() == "the control group / allows 1.0 GiB");
  host.write("/proc/self/cgroup", "0::/\n");
  CHECK(host.read().usable_bytes() == kGib);
}

TEST_CASE("host memory: groups of version 1, and limits that are none") {
  const FakeHost host;
  host.write("/proc/self/cgroup", "7:cpu,cpuacct:/a\n5:rdma,memory:/b\n0::/\n");
  host.write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n");  // another controller's
  host.write("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "3221225472\n");
  CHECK(host.read().usable_bytes() == 3 * kGib);
  host.write("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(host.read().usable_bytes() == 16 * kGib);
  host.write("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "");
  CHECK(host.read().usable_bytes() == 16 * kGib);
}
