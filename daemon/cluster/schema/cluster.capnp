@0xe3b1f0a96cd2477b;
# What a daemon and the manager tell each other over an authenticated control connection, and what
# the manager keeps in its state file. Who the other one is has been settled by the hello.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("simm::cluster::schema");

struct Incarnation {
  high @0 :UInt64;
  low @1 :UInt64;
}

struct Lineage {
  high @0 :UInt64;
  low @1 :UInt64;
}

struct Ancestor {
  lineage @0 :Lineage;
  epoch @1 :UInt64;                # its last map that is known
}

struct Member {
  incarnation @0 :Incarnation;
  name @1 :Text;
  role @2 :UInt8;
  address @3 :Text;
  port @4 :UInt16;
  shards @5 :UInt16;
  weightBytes @6 :UInt64;
  graceMs @7 :UInt32;              # how long it may be away, if the manager waits less
  backSince @8 :UInt64;            # the first map behind its last absence; 0: never away
}

# A member has owned slots since an epoch. Slots point to tenures: there are few of them.
struct Tenure {
  member @0 :UInt16;
  since @1 :UInt64;
}

struct SlotMap {
  epoch @0 :UInt64;
  members @1 :List(Member);
  tenures @2 :List(Tenure);
  slots @3 :List(UInt16);          # index into tenures; 0xffff: nobody owns it
  lineage @4 :Lineage;             # zero: unknown
  ancestors @5 :List(Ancestor);    # latest first
  follows @6 :UInt64;              # digest of the map before it, without a gap; 0: not said
}

# What a map has that the one before it has not. Slots are those whose tenure differs.
struct MapDelta {
  baseEpoch @0 :UInt64;
  baseDigest @1 :UInt64;
  epoch @2 :UInt64;
  digest @3 :UInt64;
  lineage @4 :Lineage;
  ancestors @5 :List(Ancestor);
  members @6 :List(UInt16);        # index in the base; 0xffff: the next one of fresh
  fresh @7 :List(Member);
  tenures @8 :List(Tenure);        # with indices of the new map
  slots @9 :List(UInt16);          # their numbers, and beside them:
  owners @10 :List(UInt16);        # index into tenures; 0xffff: nobody owns it
  follows @11 :UInt64;             # as in SlotMap
}

struct Retired {
  name @0 :Text;
  role @1 :UInt8;
  incarnation @2 :Incarnation;
}

struct ManagerState {
  map @0 :SlotMap;
  retired @1 :List(Retired);
}

struct Question {
  id @0 :UInt64;
  kind @1 :UInt8;
  target @2 :Text;                 # name of a daemon; empty: the manager
  deadlineMs @3 :UInt32;           # of a drain; 0: none
  isNamed @4 :Bool;                # a person has named the daemon that shall drain
  isForced @5 :Bool;               # it shall drain beside another one
}

struct Answer {
  id @0 :UInt64;
  status @1 :Int32;
  text @2 :Text;                   # JSON; of an error: what is wrong
}

struct Join {
  address @0 :Text;
  port @1 :UInt16;
  shards @2 :UInt16;
  weightBytes @3 :UInt64;          # 0: owns no slots
  mapEpoch @4 :UInt64;             # of the newest map that it knows; 0: none
  draining @5 :Bool;
  recovering @6 :Bool;             # it serves nothing yet
  graceMs @7 :UInt32;
  lineage @8 :Lineage;             # of that map; zero: unknown
  mapDigest @9 :UInt64;            # 0: not said
}

struct Heartbeat {
  sequence @0 :UInt64;
  mapEpoch @1 :UInt64;
  objects @2 :UInt64;
  usedBytes @3 :UInt64;
  recovering @4 :Bool;
  reached @5 :Data;                # bit i: member i of that map; empty: it does not say
  mapDigest @6 :UInt64;            # 0: not said
  wantsMap @7 :Bool;               # it could not use the last mapDelta
  loadMs @8 :UInt64;               # when load was so, by the member's clock; 0: not said
  load @9 :List(UInt64);           # as kLoadFields of base/load.h; what is left out is 0
  batchNs @10 :List(UInt64);       # batches by log2 of their ns; without the zeros at the end
  draining @11 :Bool;               # it hands its slots over, step by step
}

struct Joined {
  heartbeatNs @0 :UInt64;
  epoch @1 :UInt64;
  clusterVersion @2 :UInt16;       # that all daemons speak; 0: not said, by a manager of version 5
}

struct Refused {
  final @0 :Bool;                  # asking again changes nothing
  reason @1 :Text;
  standsBy @2 :Bool;               # another manager leads: this one knows of no member
}

struct HeartbeatAck {
  sequence @0 :UInt64;
  epoch @1 :UInt64;
  clusterVersion @2 :UInt16;       # as in Joined
  heartbeatNs @3 :UInt64;          # as in Joined, from now on; 0: as before
}

struct MemberMessage {
  union {
    none @0 :Void;
    join @1 :Join;
    heartbeat @2 :Heartbeat;
    mapReport @3 :SlotMap;
    leave @4 :Void;
    question @5 :Question;
    answer @6 :Answer;
  }
}

struct ManagerMessage {
  union {
    none @0 :Void;
    joined @1 :Joined;
    refused @2 :Refused;
    heartbeatAck @3 :HeartbeatAck;
    mapPush @4 :SlotMap;
    mapWanted @5 :Void;
    question @6 :Question;
    answer @7 :Answer;
    mapDelta @8 :MapDelta;
  }
}
