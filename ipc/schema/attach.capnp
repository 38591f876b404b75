@0x91dc1c5d763c4242;
# Control messages between a client process and the daemon: one message is one SEQPACKET packet.
# ipc/ATTACH.md tells the sequence. Evolution: add fields at the end, never renumber; what the other
# side does not know it ignores, and a message that it does not know ends the session.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("simm::ipc::schema");

struct ClientMessage {
  union {
    none @0 :Void;
    hello @1 :Hello;
    mapped @2 :Void;
    openNamespace @3 :OpenNamespace;
    registerRegion @4 :RegisterRegion;
    deregisterRegion @5 :DeregisterRegion;
    goodbye @6 :Void;
    gpuLend @7 :GpuLend;        # only where Welcome grants the extension for it
    gpuReclaim @8 :GpuReclaim;
    followKeys @9 :FollowKeys;
  }
}

struct Hello {
  layoutVersion @0 :UInt32;   # first and for ever: the oldest that the library speaks
  featureBits @1 :UInt32;
  libraryVersion @2 :Text;
  clientName @3 :Text;
  laneCount @4 :UInt32;       # wanted; 0 = the daemon's default
  managerAddress @5 :Text;    # empty: whatever the daemon has
  extensions @6 :UInt32;      # bits that the library understands; a daemon ignores others
  layoutVersionMax @7 :UInt32;  # the newest; 0: layoutVersion is the only one
}

struct OpenNamespace {
  requestId @0 :UInt64;
  name @1 :Text;
  exactSize @2 :Bool;
  shared @3 :Bool;
  immutable @4 :Bool;         # a daemon that does not know it takes the namespace for a mutable one
}

struct RegisterRegion {
  requestId @0 :UInt64;
  kind @1 :UInt16;            # RegionRequestKind
  address @2 :UInt64;         # where the client sees byte 0
  length @3 :UInt64;          # bytes
  fdOffset @4 :UInt64;        # of byte 0 in the descriptor that comes with the message
  hasFd @5 :Bool;
  name @6 :Text;
  gpuUuid @7 :Data;           # kind gpu: of the device, 16 bytes; else empty
  gpuAllocationBytes @8 :UInt64;  # kind gpu: of the allocation that the descriptor is of
}

struct DeregisterRegion {
  requestId @0 :UInt64;
  handle @1 :UInt32;
}

struct GpuLend {
  requestId @0 :UInt64;
  uuid @1 :Data;              # of the GPU, 16 bytes
  bytes @2 :UInt64;           # of its memory
  noticeMs @3 :UInt32;        # how long the answer to a reclaim may take
}

struct GpuReclaim {
  requestId @0 :UInt64;
  lease @1 :UInt64;           # of LeaseReply
}

struct FollowKeys {
  requestId @0 :UInt64;
  follower @1 :UInt64;        # 0: a new one
  nameSpace @2 :Text;         # of a new one; empty: the default namespace
  since @3 :UInt64;           # the last event that was read
  presents @4 :UInt64;        # how many present keys were read
  begins @5 :Bool;            # tell all keys that are present, from the first one
  ends @6 :Bool;              # it follows no more
}

struct DaemonMessage {
  union {
    none @0 :Void;
    welcome @1 :Welcome;
    opened @2 :Void;
    refused @3 :Refused;
    namespaceReply @4 :NamespaceReply;
    regionReply @5 :RegionReply;
    deregisterReply @6 :DeregisterReply;
    poisoned @7 :Poisoned;
    leaseReply @8 :LeaseReply;
    keyEventsReply @9 :KeyEventsReply;
  }
}

struct Welcome {
  layoutVersion @0 :UInt32;   # the newest one that both speak: that of the session
  featureBits @1 :UInt32;
  daemonVersion @2 :Text;
  sessionId @3 :UInt64;
  tenant @4 :Text;
  sessionBytes @5 :UInt64;
  laneCount @6 :UInt32;
  limits @7 :Limits;
  extensions @8 :UInt32;      # those of the client's that hold for this session
}

struct Limits {
  valueBytesMax @0 :UInt64;
  keyBytesMax @1 :UInt32;
  regionsMax @2 :UInt32;
  defaultTimeoutNs @3 :UInt64;
  leaseDefaultMs @4 :UInt32;
  leaseMaxMs @5 :UInt32;
}

struct Refused {
  status @0 :Int32;
  reason @1 :Text;
}

struct NamespaceReply {
  requestId @0 :UInt64;
  status @1 :Int32;
  id @2 :UInt16;
  reason @3 :Text;
}

struct RegionReply {
  requestId @0 :UInt64;
  status @1 :Int32;
  handle @2 :UInt32;
  kind @3 :UInt16;            # the kind that was chosen
  reason @4 :Text;            # which kind and why
}

struct DeregisterReply {
  requestId @0 :UInt64;
  status @1 :Int32;
}

struct LeaseReply {
  requestId @0 :UInt64;
  status @1 :Int32;
  lease @2 :UInt64;           # to GpuLend, when status is ok
  reason @3 :Text;
}

struct Poisoned {
  reason @0 :UInt32;          # PoisonReason
}

struct KeyEventsReply {
  requestId @0 :UInt64;
  status @1 :Int32;
  reason @2 :Text;
  follower @3 :UInt64;
  salt @4 :UInt64;            # of the tokens
  next @5 :UInt64;            # the question's `since`, next time
  presents @6 :UInt64;        # the same
  missed @7 :UInt64;          # events that were overwritten before these
  isLast @8 :Bool;            # nothing more is there now
  isComplete @9 :Bool;        # all keys that were present have been told
  events @10 :Data;           # of 32 bytes each: key_news.h
}
