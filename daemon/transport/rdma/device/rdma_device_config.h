// RdmaDeviceConfig: which port is opened, and how its connections behave on the wire. Both ends of
// a connection bring their own; what has to agree travels in the QueuePairAddress.
// Thread: any (plain values).
#pragma once

#include <cstdint>
#include <string>

namespace simm::transport {

struct RdmaDeviceConfig {
  std::string device;                     // "mlx5_0"
  std::uint32_t port = 1;                 // from 1
  int gid_index = -1;                     // -1: chosen, see gid_choice.h
  std::uint16_t partition_key = 0;        // with or without the bit of full members; 0: by index
  std::uint16_t partition_key_index = 0;  // of the port's table
  std::uint8_t service_level = 0;
  // The byte of the IP header that RoCE switches choose a queue by. 0 works everywhere; only those
  // who run the network know which of its classes loses nothing (106, DSCP 26 with ECN, is usual).
  std::uint8_t traffic_class = 0;
  // 4.096 us * 2^14 = 67 ms without an answer, seven times: a dead peer is known after half a
  // second to two (devices may wait up to four times as long), and a switch may drop some packets
  // in a row before a connection is given up. Not 7 repeats, the most: soft RoCE takes that for
  // "for ever".
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 6;
  // What a message without a receive does. 7: it is repeated for ever. Credits keep that from
  // happening but for a moment after connecting; who is stuck for long is found by deadlines.
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;  // 0.64 ms between such repeats
  std::uint16_t mtu_bytes = 0;      // 0: the port's active one
  // Lets the bytes of a WRITE or READ reach memory in any order. Their completion is still last,
  // and nobody here looks at memory before it.
  bool relaxed_ordering = true;
  // Memory that can not be locked is registered all the same, and paged in when it is used.
  bool on_demand_paging = false;
};

}  // namespace simm::transport
