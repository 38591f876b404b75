#include "daemon/store/space/hash_index.h"

#include <algorithm>
#include <bit>

#include "simm/check.h"

namespace simm::store {

void HashIndex::append(Line* line, std::uint32_t tag, std::uint32_t number) noexcept {
  while (line->next != kNone) line = &overflow_[line->next];
  if (line->count == Line::kEntries) {
    line->next = overflow_.allocate();
    SIMM_CHECK(line->next != kNone);
    line = &overflow_[line->next];
  }
  line->tags[line->count] = tag;
  line->numbers[line->count] = number;
  ++line->count;
}

void HashIndex::take_out(Line* bucket, Place place) noexcept {
  Line* before = nullptr;
  Line* last = bucket;
  for (; last->next != kNone; last = &overflow_[last->next]) before = last;
  --last->count;
  place.line->tags[place.at] = last->tags[last->count];
  place.line->numbers[place.at] = last->numbers[last->count];
  last->tags[last->count] = 0;
  last->numbers[last->count] = kNone;
  if (last->count > 0 || before == nullptr) return;
  overflow_.release(before->next);
  before->next = kNone;
}

void HashIndex::split_one() noexcept {
  Line* const from = &buckets_[split_];
  Line* const to = &buckets_[split_ + round_];
  Place place{from, 0};
  while (true) {
    if (place.at == place.line->count) {
      if (place.line->next == kNone) break;
      place = {&overflow_[place.line->next], 0};
      continue;
    }
    const std::uint32_t tag = place.line->tags[place.at];
    if ((tag & round_) == 0) {
      ++place.at;
      continue;
    }
    append(to, tag, place.line->numbers[place.at]);
    // When this empties the line of the place, it was the last one and is gone.
    const bool goes = place.line != from && place.line->count == 1;
    take_out(from, place);
    if (goes) break;
  }
  if (++split_ < round_) return;
  split_ = 0;
  round_ *= 2;
}

void HashIndex::insert(std::uint64_t hash, std::uint32_t number) noexcept {
  const auto tag = static_cast<std::uint32_t>(hash);
  append(&buckets_[bucket_of(tag)], tag, number);
  ++entries_;
  if (entries_ * 2 > bucket_count() * kFill && bucket_count() < buckets_max_) split_one();
}

void HashIndex::prepare(std::uint64_t entries) noexcept {
  SIMM_CHECK(entries_ == 0 && split_ == 0 && round_ == kFirstBuckets);
  const std::uint64_t buckets =
      std::clamp((entries * 2 + kFill - 1) / kFill, kFirstBuckets, buckets_max_);
  round_ = std::bit_floor(buckets);
  split_ = buckets - round_;
}

bool HashIndex::place(std::uint64_t hash, std::uint32_t number) noexcept {
  const auto tag = static_cast<std::uint32_t>(hash);
  Line& line = buckets_[bucket_of(tag)];
  if (line.count == Line::kEntries) return false;
  line.tags[line.count] = tag;
  line.numbers[line.count] = number;
  ++line.count;
  return true;
}

HashIndex::Place HashIndex::place_of(std::uint64_t hash, std::uint32_t number) noexcept {
  Line* line = &buckets_[bucket_of(static_cast<std::uint32_t>(hash))];
  while (true) {
    for (std::uint32_t i = 0; i < line->count; ++i) {
      if (line->numbers[i] == number) return {line, i};
    }
    SIMM_CHECK(line->next != kNone);
    line = &overflow_[line->next];
  }
}

void HashIndex::replace(std::uint64_t hash, std::uint32_t old_number,
                        std::uint32_t new_number) noexcept {
  const Place place = place_of(hash, old_number);
  place.line->numbers[place.at] = new_number;
}

void HashIndex::remove(std::uint64_t hash, std::uint32_t number) noexcept {
  const Place place = place_of(hash, number);
  take_out(&buckets_[bucket_of(static_cast<std::uint32_t>(hash))], place);
  --entries_;
}

const char* HashIndex::audit() const noexcept {
  std::uint64_t entries = 0;
  std::uint32_t lines = 0;
  for (std::uint64_t bucket = 0; bucket < bucket_count(); ++bucket) {
    for (const Line* line = &buckets_[bucket];; line = &overflow_[line->next]) {
      if (line->count > Line::kEntries) return "an index line is overfull";
      if (line->next != kNone && line->count < Line::kEntries) return "an index line has a gap";
      for (std::uint32_t i = 0; i < line->count; ++i) {
        if (bucket_of(line->tags[i]) != bucket) return "an index entry is in the wrong bucket";
        if (line->numbers[i] == kNone) return "an index entry names nothing";
      }
      entries += line->count;
      if (line->next == kNone) break;
      if (overflow_[line->next].count == 0) return "an overflow line is empty";
      ++lines;
    }
  }
  if (lines != overflow_.used()) return "overflow lines are lost";
  return entries == entries_ ? nullptr : "index entries do not add up";
}

}  // namespace simm::store
