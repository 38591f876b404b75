#include "daemon/peers/link_keys.h"

#include <doctest/doctest.h>

#include <cstring>

namespace link_keys_test {

using namespace simm;
using control::link_keys;
using transport::FrameKey;

// What both ends of one hello know.
cluster::HelloResult dialer() {
  cluster::HelloResult hello;
  hello.features = cluster::kFeatureQueuePairs | cluster::kFeatureFrameTags;
  hello.keys.send.fill(std::byte{1});
  hello.keys.receive.fill(std::byte{2});
  return hello;
}
cluster::HelloResult acceptor() {
  cluster::HelloResult hello = dialer();
  std::swap(hello.keys.send, hello.keys.receive);
  return hello;
}
cluster::ClusterSecret a_secret() {
  return std::move(cluster::ClusterSecret::from_text("0123456789abcdefghijklmnopqrstuv").value());
}
bool same(const FrameKey& a, const FrameKey& b) {
  return a.tag.low == b.tag.low && a.tag.high == b.tag.high && a.digest_seed == b.digest_seed;
}

TEST_CASE("link keys: both ends have the same, one for each direction") {
  const transport::LinkKeys left = link_keys(dialer(), a_secret());
  const transport::LinkKeys right = link_keys(acceptor(), a_secret());
  CHECK(left.send.is_set());
  CHECK(left.receive.is_set());
  CHECK(same(left.send, right.receive));
  CHECK(same(left.receive, right.send));
  CHECK_FALSE(same(left.send, left.receive));
}

TEST_CASE("link keys: they are not those of frames that the same hello makes") {
  const cluster::HelloResult hello = dialer();
  const transport::LinkKeys keys = link_keys(hello, a_secret());
  CHECK(std::memcmp(&keys.send.tag, hello.keys.send.data(), sizeof keys.send.tag) != 0);
}

TEST_CASE("link keys: none for a peer that knows no tags, and none without a secret") {
  cluster::HelloResult old = dialer();
  old.features = cluster::kFeatureQueuePairs;
  CHECK_FALSE(link_keys(old, a_secret()).send.is_set());
  CHECK_FALSE(link_keys(old, a_secret()).receive.is_set());
  CHECK_FALSE(link_keys(dialer(), cluster::ClusterSecret::none()).send.is_set());
  CHECK_FALSE(link_keys(dialer(), cluster::ClusterSecret::none()).receive.is_set());
}

}  // namespace link_keys_test
