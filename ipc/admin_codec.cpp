#include "ipc/admin_codec.h"

#include <string>

#include "admin.capnp.h"
#include "ipc/capnp_packet.h"

namespace simm::ipc {

Expected<std::vector<std::byte>> encode(const AdminRequest& request) {
  return packet::guarded([&] {
    capnp::MallocMessageBuilder builder;
    auto to = builder.initRoot<schema::AdminRequest>();
    to.setRequestId(request.request_id);
    to.setCommand(packet::text_of("command", request.command, kNameBytesMax));
    to.setArgument(packet::text_of("argument", request.argument, kAdminArgumentBytesMax));
    to.setCursor(request.cursor);
    return packet::bytes_of(builder, kControlMessageBytesMax);
  });
}

Expected<std::vector<std::byte>> encode(const AdminReply& reply) {
  return packet::guarded([&] {
    capnp::MallocMessageBuilder builder;
    auto to = builder.initRoot<schema::AdminReply>();
    to.setRequestId(reply.request_id);
    to.setStatus(static_cast<std::int32_t>(reply.status));
    to.setText(packet::text_of("text", reply.text, kAdminPageBytesMax));
    to.setNextCursor(reply.next_cursor);
    return packet::bytes_of(builder, kControlMessageBytesMax);
  });
}

Expected<AdminRequest> decode_admin_request(std::span<const std::byte> bytes) {
  return packet::guarded([&] {
    const auto words = packet::words_of(bytes, kControlMessageBytesMax);
    capnp::FlatArrayMessageReader reader(kj::arrayPtr(words.data(), words.size()),
                                         packet::reader_limits());
    const auto from = reader.getRoot<schema::AdminRequest>();
    AdminRequest request;
    request.request_id = from.getRequestId();
    request.command = packet::line_of("command", from.getCommand(), kNameBytesMax);
    request.argument = packet::line_of("argument", from.getArgument(), kAdminArgumentBytesMax);
    request.cursor = from.getCursor();
    return request;
  });
}

Expected<AdminReply> decode_admin_reply(std::span<const std::byte> bytes) {
  return packet::guarded([&] {
    const auto words = packet::words_of(bytes, kControlMessageBytesMax);
    capnp::FlatArrayMessageReader reader(kj::arrayPtr(words.data(), words.size()),
                                         packet::reader_limits());
    const auto from = reader.getRoot<schema::AdminReply>();
    const auto text = from.getText();
    AdminReply reply;
    reply.request_id = from.getRequestId();
    reply.status = packet::status_of(from.getStatus());
    // JSON may be indented: unlike a line it is parsed, not logged.
    reply.text =
        std::string(packet::checked("text", {text.begin(), text.size()}, kAdminPageBytesMax));
    reply.next_cursor = from.getNextCursor();
    return reply;
  });
}

}  // namespace simm::ipc
