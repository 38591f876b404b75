// gpu_real SOCKET: pages in the memory of GPU 0 through the daemon of that socket, compared byte by
// byte and timed beside plain copies of the same bytes. `gpu_real SOCKET --stay` registers memory,
// says "ready" and waits for its death. Prints a row each: what, figure, verdict. It calls nothing
// that only the driver of the tests has, so it runs on a real GPU: see real.sh.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ipc/cuda/driver.h"
#include "simm/client.h"
#include "simm/simm.h"

namespace {

using namespace simm;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBufferBytes = 256 << 20;

// The best of them counts, of both sides.
int rounds() {
  const char* const wanted = std::getenv("SIMM_REAL_ROUNDS");
  return wanted == nullptr ? 5 : std::max(1, std::atoi(wanted));
}

const cuda::Driver* driver = nullptr;
bool all_fine = true;

void row(const std::string& what, const std::string& figure, bool is_fine) {
  std::printf("%-44s | %-34s | %s\n", what.c_str(), figure.c_str(), is_fine ? "ok" : "FAILED");
  std::fflush(stdout);
  all_fine &= is_fine;
}

[[noreturn]] void give_up(const std::string& why) {
  row("set-up", why, false);
  std::exit(1);
}

template <typename Work>
double best_seconds(Work&& work) {
  double best = 1e9;
  for (int round = 0; round < rounds(); ++round) {
    const auto began = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - began).count());
  }
  return best;
}

std::string text(const char* format, double first, double second = 0) {
  char line[80];
  std::snprintf(line, sizeof line, format, first, second);
  return line;
}

struct Rig {
  Client client;
  void* memory = nullptr;
  Region gpu;
  Region host;
  cuda::Stream stream = nullptr;

  [[nodiscard]] cuda::DevicePointer address() const {
    return reinterpret_cast<cuda::DevicePointer>(memory);
  }
  void to_gpu(std::uint64_t offset, const std::byte* from, std::uint64_t bytes) const {
    if (driver->copy_to_device(address() + offset, from, bytes, stream) != 0 ||
        driver->stream_synchronize(stream) != 0) {
      give_up("a plain copy into the GPU fails");
    }
  }
  void from_gpu(std::byte* to, std::uint64_t offset, std::uint64_t bytes) const {
    if (driver->copy_from_device(to, address() + offset, bytes, stream) != 0 ||
        driver->stream_synchronize(stream) != 0) {
      give_up("a plain copy out of the GPU fails");
    }
  }
};

Client connect(const char* socket) {
  ClientOptions options;
  options.socket_path = socket;
  auto client = Client::connect(options);
  if (!client) give_up(client.error().context);
  return std::move(*client);
}

Rig make_rig(const char* socket) {
  auto loaded = cuda::Driver::load();
  if (!loaded) give_up(loaded.error().context);
  driver = *loaded;
  cuda::Context context = nullptr;
  if (driver->init(0) != 0 || driver->primary_context_retain(&context, 0) != 0 ||
      driver->context_set_current(context) != 0) {
    give_up("no context on GPU 0");
  }
  Rig rig{connect(socket), simm_gpu_malloc(kBufferBytes, 0, nullptr), {}, {}, nullptr};
  if (rig.memory == nullptr) give_up(simm_last_error());
  auto gpu = rig.client.register_region(rig.memory, kBufferBytes);
  if (!gpu) give_up(gpu.error().context);
  rig.gpu = std::move(*gpu);
  auto host = rig.client.allocate_region(kBufferBytes);
  if (!host) give_up(host.error().context);
  rig.host = std::move(*host);
  (void)driver->host_register(rig.host.data(), kBufferBytes, cuda::kHostRegisterPortable);
  if (driver->stream_create(&rig.stream, cuda::kStreamNonBlocking) != 0) give_up("no stream");
  return rig;
}

std::byte pattern(std::uint64_t object, std::uint64_t at) {
  return static_cast<std::byte>((object * 0x9e3779b97f4a7c15u + at * 0x2545f4914f6cdd1du) >> 56);
}

// GPU to pool to host, and host to pool to GPU, with bytes around the page that must not change.
void compare(Rig& rig) {
  std::uint64_t wrong = 0;
  std::uint64_t failed = 0;
  std::uint64_t object = 1;
  for (const std::uint64_t bytes : {1ul, 4096ul, 65'537ul, 1'048'579ul, 4'500'000ul, 33ul << 20}) {
    const std::string key = "real/" + std::to_string(object);
    const std::uint64_t offset = 4097 * object;
    std::vector<std::byte> own(bytes + 2);
    for (std::uint64_t i = 0; i < bytes + 2; ++i) own[i] = pattern(object, i);
    rig.to_gpu(offset, own.data() + 1, bytes);
    failed += rig.client.put(key, View(rig.gpu, offset, bytes)).status != Status::ok;
    failed += rig.client.get(key, View(rig.host, 0, bytes)).status != Status::ok;
    wrong += !std::equal(own.begin() + 1, own.end() - 1, rig.host.data());
    const std::vector<std::byte> canary(bytes + 2, std::byte{0xcd});
    rig.to_gpu(offset - 1, canary.data(), canary.size());
    failed += rig.client.get(key, View(rig.gpu, offset, bytes)).status != Status::ok;
    std::vector<std::byte> seen(bytes + 2);
    rig.from_gpu(seen.data(), offset - 1, seen.size());
    wrong += !std::equal(own.begin() + 1, own.end() - 1, seen.begin() + 1);
    wrong += seen.front() != std::byte{0xcd} || seen.back() != std::byte{0xcd};
    ++object;
  }
  row("bytes of six sizes, each way, with canaries",
      std::to_string(wrong) + " wrong, " + std::to_string(failed) + " failed",
      wrong == 0 && failed == 0);
}

// Pages of `bytes`, so many at a time, beside as many plain copies.
void measure(Rig& rig, std::uint64_t bytes, std::uint64_t count) {
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < count; ++i) {
    keys.push_back("speed/" + std::to_string(bytes) + "/" + std::to_string(i));
  }
  std::vector<Item> items;
  for (std::uint64_t i = 0; i < count; ++i) {
    items.push_back({keys[i], View(rig.gpu, i * bytes, bytes), 0, 0});
  }
  std::vector<PageResult> results(count);
  bool is_fine = true;
  const auto call = [&](bool is_put) {
    if (is_put) {
      (void)rig.client.put(items, results, {});
    } else {
      (void)rig.client.get(items, results, {});
    }
    for (const PageResult& result : results) is_fine &= result.status == Status::ok;
  };
  const double total = static_cast<double>(bytes * count) / 1e9;
  const double put_s = best_seconds([&] {
    for (const std::string& key : keys) (void)rig.client.remove(key);
    call(true);
  });
  const double get_s = best_seconds([&] { call(false); });
  const auto plain = [&](bool is_out) {
    return best_seconds([&] {
      for (std::uint64_t i = 0; i < count; ++i) {
        std::byte* const own = rig.host.data() + i * bytes;
        const cuda::DevicePointer there = rig.address() + i * bytes;
        is_fine &= (is_out ? driver->copy_from_device(own, there, bytes, rig.stream)
                           : driver->copy_to_device(there, own, bytes, rig.stream)) == 0;
      }
      is_fine &= driver->stream_synchronize(rig.stream) == 0;
    });
  };
  const std::string what = std::to_string(count) + " x " + std::to_string(bytes >> 10) + " KiB";
  row("put " + what, text("%.2f GB/s, plain copies %.2f", total / put_s, total / plain(true)),
      is_fine);
  row("get " + what, text("%.2f GB/s, plain copies %.2f", total / get_s, total / plain(false)),
      is_fine);
}

// Objects that are got again and again, with a tier on the GPU: the same bytes, and how fast.
void measure_tier(Rig& rig) {
  constexpr std::uint64_t kBytes = 2 << 20;
  constexpr std::uint64_t kCount = 64;
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < kCount; ++i) keys.push_back("tier/" + std::to_string(i));
  std::vector<std::byte> own(kBytes * kCount);
  for (std::uint64_t i = 0; i < own.size(); ++i) own[i] = pattern(i / kBytes + 7, i % kBytes);
  rig.to_gpu(0, own.data(), own.size());
  std::vector<Item> items;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    items.push_back({keys[i], View(rig.gpu, i * kBytes, kBytes), 0, 0});
  }
  std::vector<PageResult> results(kCount);
  bool is_fine = true;
  const auto is_all_there = [&] {
    return std::all_of(results.begin(), results.end(), [](const PageResult& r) { return r.ok(); });
  };
  (void)rig.client.put(items, results, {});
  is_fine &= is_all_there();
  // Out of the pool, into the tier, and out of the tier.
  for (int time = 0; time < 3; ++time) {
    const std::vector<std::byte> canary(own.size(), std::byte{0xcd});
    rig.to_gpu(0, canary.data(), canary.size());
    (void)rig.client.get(items, results, {});
    std::vector<std::byte> seen(own.size());
    rig.from_gpu(seen.data(), 0, seen.size());
    is_fine &= is_all_there() && seen == own;
  }
  const double get_s = best_seconds([&] {
    (void)rig.client.get(items, results, {});
    is_fine &= is_all_there();
  });
  row("get 64 x 2048 KiB out of the tier",
      text("%.2f GB/s", static_cast<double>(own.size()) / 1e9 / get_s), is_fine);
}

// Gets all its objects again and again, one batch after the other.
class Reader {
public:
  static constexpr std::uint64_t kBytes = 1 << 20;
  static constexpr std::uint64_t kCount = 48;

  Reader(const char* socket, int number) : client_(connect(socket)) {
    void* const memory = simm_gpu_malloc(kBytes * kCount, 0, nullptr);
    if (memory == nullptr) give_up(simm_last_error());
    auto region = client_.register_region(memory, kBytes * kCount);
    if (!region) give_up(region.error().context);
    region_ = std::move(*region);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      keys_.push_back("reader/" + std::to_string(number) + "/" + std::to_string(i));
    }
    for (std::uint64_t i = 0; i < kCount; ++i) {
      items_.push_back({keys_[i], View(region_, i * kBytes, kBytes), 0, 0});
    }
    results_.resize(kCount);
    (void)client_.put(items_, results_, {});
  }
  void read_until(const std::atomic<bool>& stop, std::atomic<std::uint64_t>& bytes,
                  std::atomic<std::uint64_t>& failed) {
    while (!stop) {
      (void)client_.get(items_, results_, {});
      for (const PageResult& result : results_) {
        (result.ok() ? bytes : failed) += result.ok() ? kBytes : 1;
      }
    }
  }

private:
  Client client_;
  Region region_;
  std::vector<std::string> keys_;
  std::vector<Item> items_;
  std::vector<PageResult> results_;
};

// How long a reclaim takes while clients get as much as they can, out of the tier and past it.
void measure_revocation(Rig& rig, const char* socket) {
  constexpr std::uint64_t kLent = 128 << 20;
  constexpr int kReaders = 4;
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < kReaders; ++i) readers.push_back(std::make_unique<Reader>(socket, i));
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> failed{0};
  std::vector<std::thread> threads;
  for (auto& reader : readers) {
    threads.emplace_back([&] { reader->read_until(stop, bytes, failed); });
  }
  std::vector<double> times;
  bool is_fine = true;
  const auto began = Clock::now();
  for (int round = 0; round < 100 * rounds(); ++round) {
    auto lease = rig.client.lend_gpu("0", kLent, 10'000);
    if (!lease) give_up(lease.error().context);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the tier fills
    const auto asked = Clock::now();
    is_fine &= lease->reclaim().has_value();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - asked).count());
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::sort(times.begin(), times.end());
  const auto at = [&](std::size_t percent) { return times[(times.size() - 1) * percent / 100]; };
  row("reclaims of 128 MiB beside 4 readers",
      std::to_string(times.size()) + ", of " + std::to_string(std::thread::hardware_concurrency()) +
          " CPUs",
      is_fine && failed == 0);
  row("  a reclaim took", text("p50 %.2f ms, p90 %.2f ms", at(50), at(90)), true);
  row("  and at most", text("p99 %.2f ms, %.2f ms", at(99), at(100)), true);
  row("  the readers got meanwhile", text("%.2f GB/s", static_cast<double>(bytes) / 1e9 / seconds),
      bytes > 0);
}

void measure_short_get(Rig& rig) {
  bool is_fine = rig.client.put("short", View(rig.gpu, 0, 4096)).status == Status::ok;
  std::vector<double> times;
  const int gets = 400 * rounds();
  for (int i = 0; i < gets; ++i) {
    const auto began = Clock::now();
    is_fine &= rig.client.get("short", View(rig.gpu, 0, 4096)).status == Status::ok;
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  std::sort(times.begin(), times.end());
  row("get 1 x 4 KiB",
      text("p50 %.0f us, p99 %.0f us", times[times.size() / 2], times[times.size() * 99 / 100]),
      is_fine);
}

// What the driver takes to pin memory, in the pieces in which a helper pins the pool.
void measure_pinning() {
  constexpr std::uint64_t kBytes = 256 << 20;
  std::vector<std::byte> memory(kBytes, std::byte{1});
  const auto began = Clock::now();
  const bool is_fine =
      driver->host_register(memory.data(), kBytes, cuda::kHostRegisterPortable) == 0;
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  row("pinning of host memory", text("%.3f s/GiB", seconds * 4), is_fine);
  std::fflush(stdout);
}

void refuse_cuda_malloc(Rig& rig) {
  using Allocate = cuda::Result(cuda::DevicePointer*, std::size_t);
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto* const allocate = reinterpret_cast<Allocate*>(::dlsym(library, "cuMemAlloc_v2"));
  cuda::DevicePointer legacy = 0;
  if (allocate == nullptr || allocate(&legacy, 4 << 20) != 0) {
    return row("cudaMalloc memory", "can not be had", false);
  }
  const auto region = rig.client.register_region(reinterpret_cast<void*>(legacy), 4 << 20);
  row("cudaMalloc memory", region ? "taken" : std::string(status_name(region.status())),
      region.status() == Status::unsupported);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: gpu_real SOCKET [--stay|--tier|--revoke]\n");
    return 2;
  }
  Rig rig = make_rig(argv[1]);
  if (argc > 2 && std::string(argv[2]) == "--tier") {
    measure_tier(rig);
    std::fflush(stdout);
    std::_Exit(all_fine ? 0 : 1);
  }
  if (argc > 2 && std::string(argv[2]) == "--revoke") {
    measure_revocation(rig, argv[1]);
    std::fflush(stdout);
    std::_Exit(all_fine ? 0 : 1);
  }
  if (argc > 2) {
    (void)rig.client.put("stay", View(rig.gpu, 0, 1 << 20));
    std::printf("ready\n");
    std::fflush(stdout);
    ::pause();
    return 0;
  }
  compare(rig);
  refuse_cuda_malloc(rig);
  measure_short_get(rig);
  for (const auto& [bytes, count] : std::initializer_list<std::pair<std::uint64_t, std::uint64_t>>{
           {1 << 10, 4096}, {16 << 10, 160}, {64 << 10, 512}, {2 << 20, 1}, {2 << 20, 64}}) {
    measure(rig, bytes, count);
  }
  measure_pinning();
  std::_Exit(all_fine ? 0 : 1);  // pinned memory is the driver's until then
}
