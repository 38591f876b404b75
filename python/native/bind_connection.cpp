#include <pybind11/pybind11.h>

#include "python/native/arguments.h"
#include "python/native/connection.h"
#include "python/native/gil_release.h"
#include "python/native/registration.h"

namespace simm::python {

namespace py = pybind11;

namespace {

CallOptions call_options(py::handle timeout_ms, bool if_absent, py::handle ttl_ms,
                         py::handle lease_ms, bool ranged, bool shared) {
  CallOptions options;
  options.timeout_ms = milliseconds(timeout_ms, "timeout_ms");
  options.mode = if_absent ? PutMode::if_absent : PutMode::replace;
  options.ttl_ms = milliseconds(ttl_ms, "ttl_ms");
  options.lease_ms = milliseconds(lease_ms, "lease_ms");
  options.ranged = ranged;
  options.shared = shared;
  return options;
}

std::shared_ptr<Connection> open(const std::string& socket, const std::string& manager,
                                 const std::string& name_space, bool exact_size, bool immutable,
                                 std::uint32_t sync_timeout_ms, std::uint32_t async_timeout_ms,
                                 std::uint64_t floor_bytes_per_s, py::object report,
                                 py::object warn_taken_back) {
  ClientOptions options;
  options.socket_path = socket;
  options.manager_address = manager;
  options.sync_timeout_ms = sync_timeout_ms;
  options.async_timeout_ms = async_timeout_ms;
  options.floor_bytes_per_s = floor_bytes_per_s;
  return std::make_shared<Connection>(options, name_space, exact_size, immutable, std::move(report),
                                      std::move(warn_taken_back));
}

std::shared_ptr<Registration> allocate(Connection& self, std::uint64_t bytes, bool huge_pages,
                                       int numa_node, bool prefault, bool wait_if_stopped) {
  AllocateOptions options;
  options.huge_pages = huge_pages;
  options.numa_node = numa_node;
  options.prefault = prefault;
  if (wait_if_stopped) options.stopped_daemon = StoppedDaemon::wait;
  return self.allocate(bytes, options);
}

void reclaim(GpuLease& lease) {
  Outcome over = Done{};
  {
    const GilRelease released;
    over = lease.reclaim();
  }
  if (!over) throw std::runtime_error(over.error().context);
}

// run() of a Connection and start() of a Channel take the same arguments; start() has more.
template <typename Class, typename... More, typename Method>
auto call(Method method) {
  return [method](Class& self, Operation operation, const py::object& keys, const py::object& views,
                  const py::object& offsets, const py::object& timeout_ms, bool if_absent,
                  const py::object& ttl_ms, const py::object& lease_ms, bool ranged, bool shared,
                  More... more) {
    return (self.*method)(operation, keys, views, offsets,
                          call_options(timeout_ms, if_absent, ttl_ms, lease_ms, ranged, shared),
                          more...);
  };
}

}  // namespace

void bind_connection(py::module_& module) {
  py::enum_<Operation>(module, "Operation")
      .value("put", Operation::put)
      .value("get", Operation::get)
      .value("exists", Operation::exists)
      .value("length", Operation::length)
      .value("delete", Operation::remove)
      .value("pin", Operation::pin)
      .value("unpin", Operation::unpin);
  const auto bind_call = [](auto& type, const char* name, auto function, auto... more) {
    type.def(name, function, py::arg("operation"), py::arg("keys"), py::arg("views") = py::none(),
             py::arg("offsets") = py::none(), py::kw_only(), py::arg("timeout_ms") = 0,
             py::arg("if_absent") = false, py::arg("ttl_ms") = 0, py::arg("lease_ms") = 0,
             py::arg("ranged") = false, py::arg("shared") = false, more...);
  };
  py::class_<Connection, std::shared_ptr<Connection>> connection(module, "Connection");
  connection
      .def(py::init(&open), py::kw_only(), py::arg("socket"), py::arg("manager"),
           py::arg("name_space"), py::arg("exact_size"), py::arg("immutable"),
           py::arg("sync_timeout_ms"), py::arg("async_timeout_ms"), py::arg("floor_bytes_per_s"),
           py::arg("report"), py::arg("warn_taken_back"))
      .def("open_channel", &Connection::open_channel)
      .def("follow_keys", &Connection::follow_keys, py::arg("present") = false)
      .def("allocate", &allocate, py::arg("bytes"), py::kw_only(), py::arg("huge_pages") = false,
           py::arg("numa_node") = -1, py::arg("prefault") = false,
           py::arg("wait_if_stopped") = false)
      .def(
          "ping",
          [](Connection& self, const py::object& timeout_ms) {
            return self.ping(milliseconds(timeout_ms, "timeout_ms"));
          },
          py::arg("timeout_ms") = 0)
      .def("lend_gpu", &Connection::lend_gpu, py::arg("gpu"), py::arg("bytes"),
           py::arg("notice_ms"))
      .def("facts", &Connection::facts)
      .def("close", &Connection::close)
      .def_property_readonly("attached", &Connection::attached)
      .def_property_readonly("closed", &Connection::closed);
  bind_call(connection, "run", call<Connection>(&Connection::run));
  py::class_<GpuLease, HeldLease>(module, "GpuLease")
      .def("reclaim", &reclaim)
      .def_property_readonly("bytes", &GpuLease::bytes);
  py::class_<Channel, std::shared_ptr<Channel>> channel(module, "Channel");
  channel.def("drain", &Channel::drain)
      .def("take_completed", &Channel::take_completed)
      .def("take_pages", &Channel::take_pages)
      .def("finish", &Channel::finish)
      .def("fileno", &Channel::fileno)
      .def("close", &Channel::close)
      .def_property_readonly("pending", &Channel::pending);
  bind_call(channel, "start", call<Channel, bool>(&Channel::start), py::arg("tells_pages") = false);
}

}  // namespace simm::python
