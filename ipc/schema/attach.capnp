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

struct Poisoned {
  reason @0 :UInt32;          # PoisonReason
}
