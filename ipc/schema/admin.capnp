@0xc50d117be73fe4d5;
# Questions of simmctl to a daemon. A reply is text (JSON), cut into pages that fit one packet.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("simm::ipc::schema");

struct AdminRequest {
  requestId @0 :UInt64;
  command @1 :Text;
  argument @2 :Text;
  cursor @3 :UInt64;          # 0 = from the start, else nextCursor of the page before
}

struct AdminReply {
  requestId @0 :UInt64;
  status @1 :Int32;
  text @2 :Text;
  nextCursor @3 :UInt64;      # 0 = this was the last page
}
