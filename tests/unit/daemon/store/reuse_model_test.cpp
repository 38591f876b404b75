#include "daemon/store/eviction/reuse_model.h"

#include <doctest/doctest.h>

#include <memory>

namespace simm::store::testing {

namespace {

constexpr base::TimeNs kReuseSecond = base::kNsPerSecond;

struct ModelInMemory {
  std::unique_ptr<ReuseModel::Memory> memory = std::make_unique<ReuseModel::Memory>();
  ReuseModel model{*memory};
  ReuseModel* operator->() { return &model; }

  // New groups come, so many a second; of one in `part` each is used once more after `delay_s`.
  void teach(std::uint64_t from_s, std::uint64_t until_s, std::uint64_t per_second,
             std::uint64_t delay_s, std::uint64_t part) {
    for (std::uint64_t second = from_s; second < until_s; ++second) {
      for (std::uint64_t i = 0; i < per_second; ++i) {
        const std::uint64_t made = second * per_second + i;
        model.note(made * 7919, 1, 1000, second * kReuseSecond);
        const std::uint64_t before = made - delay_s * per_second;
        if (second >= from_s + delay_s && before % part == 0) {
          model.note(before * 7919, 2, 1000, second * kReuseSecond);
        }
      }
    }
  }
};

// Groups come at 20 a second. Of those with an even number each is used a second time 100 s later;
// those never again, the odd ones not at all.
ModelInMemory model_of_returning_groups() {
  ModelInMemory model;
  model.teach(1000, 4000, 20, 100, 2);
  return model;
}

}  // namespace

TEST_CASE("buckets of age follow each other without a gap, four to the octave") {
  std::uint32_t last = ReuseModel::bucket_of(0);
  CHECK(last == 0);
  for (base::TimeNs age = 0; age < 10'000 * kReuseSecond; age += kReuseSecond / 40) {
    const std::uint32_t bucket = ReuseModel::bucket_of(age);
    CHECK((bucket == last || bucket == last + 1));
    const double seconds = static_cast<double>(age) * 1e-9;
    CHECK(ReuseModel::start_s(bucket) <= seconds + 1e-9);
    CHECK(ReuseModel::start_s(bucket + 1) > seconds - 1e-9);
    last = bucket;
  }
  CHECK(ReuseModel::bucket_of(~base::TimeNs{0} / 8) == ReuseModel::kBuckets - 1);
}

TEST_CASE("classes: one use, two, three, then by octaves") {
  const std::uint32_t firsts[] = {1, 2, 3, 4, 8, 16};
  for (std::uint32_t uses = 0; uses <= 255; ++uses) {
    std::uint32_t expected = 0;
    while (expected + 1 < std::size(firsts) && firsts[expected + 1] <= uses) ++expected;
    CHECK(ReuseModel::class_of(static_cast<std::uint8_t>(uses)) == expected);
  }
  CHECK(ReuseModel::class_of(255) == ReuseModel::kClasses - 1);
}

TEST_CASE("before anything is known, worth falls with age: least recently used") {
  ModelInMemory made;
  const ReuseModel& model = made.model;
  for (std::uint32_t c = 0; c < ReuseModel::kClasses; ++c) {
    float last = model.worth(c, 0);
    for (base::TimeNs age = kReuseSecond; age < 10'000 * kReuseSecond; age *= 2) {
      const float worth = model.worth(c, age);
      CHECK(worth < last);
      CHECK(worth > 0);
      last = worth;
    }
  }
}

TEST_CASE("worth rises until the usual time of the next use, and is lost after it") {
  auto model = model_of_returning_groups();
  const float young = model->worth(0, 5 * kReuseSecond);
  const float due = model->worth(0, 90 * kReuseSecond);
  const float late = model->worth(0, 200 * kReuseSecond);
  CHECK(due > 2 * young);
  CHECK(young > 4 * late);
  // One group in two is used after 100 s, so waiting from the start is worth about 1 in 150 s.
  CHECK(young > 1 / 250.0f);
  CHECK(young < 1 / 80.0f);
}

TEST_CASE("ages that no group has reached are rated: not as if the group were sure to be dead") {
  // All come back after 10 s, and never again.
  ModelInMemory model;
  model.teach(1000, 8000, 20, 10, 1);
  // Once used and 60 s old: nobody knows. Twice used and an hour old: it has been seen to be dead.
  const float unknown = model->worth(0, 60 * kReuseSecond);
  CHECK(unknown > 0);
  CHECK(unknown > model->worth(1, 3600 * kReuseSecond));
  CHECK(unknown >= model->worth(0, 600 * kReuseSecond));
}

TEST_CASE("time between two looks counts for the ages in which it passed") {
  // A group comes every 10 s, so a set of watched groups is looked at after hours.
  ModelInMemory model;
  std::uint64_t now = 1000;
  for (std::uint64_t i = 0; i < 200'000; ++i, now += 10) {
    model->note(i * 7919, 1, 1000, now * kReuseSecond);
    if (i >= 2 && i % 4 == 0) model->note((i - 2) * 7919, 2, 1000, now * kReuseSecond);
  }
  // A quarter comes back after 20 s, in a bucket of some four seconds: when due, one in 15 s.
  const float due = model->worth(0, 20 * kReuseSecond);
  CHECK(due > 1 / 25.0f);
  CHECK(due < 1 / 8.0f);
  CHECK(model->worth(0, 0) < 1 / 50.0f);
}

TEST_CASE("more uses are never worth less at the same age") {
  auto model = model_of_returning_groups();
  for (base::TimeNs age = 0; age < 1000 * kReuseSecond; age += kReuseSecond) {
    for (std::uint32_t c = 1; c < ReuseModel::kClasses; ++c) {
      CHECK(model->worth(c, age) >= model->worth(c - 1, age));
    }
  }
}

TEST_CASE("a habit that is over is forgotten after as many uses as a large store sees in minutes") {
  ModelInMemory model;
  model.teach(1000, 11'000, 100, 10, 1);
  CHECK(model->worth(0, 5 * kReuseSecond) > 1 / 30.0f);
  model.teach(11'000, 16'000, 100, 100, 1);
  CHECK(model->worth(0, 5 * kReuseSecond) < 1 / 50.0f);
  CHECK(model->worth(0, 90 * kReuseSecond) > model->worth(0, 5 * kReuseSecond));
}

TEST_CASE("after a flood of tiny groups few groups are learned as quickly as before it") {
  ModelInMemory model;
  for (std::uint64_t i = 0; i < 6'000'000; ++i) {
    model->note(i * 7919, 1, 8'000'000, 500 * kReuseSecond + i * 10'000);
  }
  model.teach(1000, 4000, 20, 100, 2);
  const float young = model->worth(0, 5 * kReuseSecond);
  CHECK(model->worth(0, 90 * kReuseSecond) > 2 * young);
  CHECK(young > 1 / 250.0f);
}

}  // namespace simm::store::testing
