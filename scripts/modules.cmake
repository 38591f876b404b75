# simm_module(NAME DIR deps...): a static library of all sources directly in DIR.
# Sources are globbed so that adding a file is adding a file, and nothing else.
function(simm_module name dir)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "module ${name}: no *.cpp in ${dir}")
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC simm_flags ${ARGN})
endfunction()

# What has to be there before a checker can read all headers.
add_custom_target(generated)

# simm_schema(NAME DIR): the generated code of all Cap'n Proto schemas directly in DIR. It is
# compiled apart, without our warnings, and its headers are system headers. No schema, no target.
function(simm_schema name dir)
  file(GLOB schemas CONFIGURE_DEPENDS ${dir}/*.capnp)
  if(NOT schemas)
    return()
  endif()
  set(CAPNPC_OUTPUT_DIR ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(CAPNPC_SRC_PREFIX ${dir})
  file(MAKE_DIRECTORY ${CAPNPC_OUTPUT_DIR})
  capnp_generate_cpp(schema_sources schema_headers ${schemas})
  add_library(${name} STATIC ${schema_sources})
  target_include_directories(${name} SYSTEM PUBLIC ${CAPNPC_OUTPUT_DIR})
  target_link_libraries(${name} PUBLIC CapnProto::capnp)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  add_dependencies(generated ${name})
endfunction()

# simm_grpc(NAME DIR): the generated code of all gRPC services directly in DIR, compiled apart as
# above.
function(simm_grpc name dir)
  file(GLOB protos CONFIGURE_DEPENDS ${dir}/*.proto)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name})
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(proto ${protos})
    get_filename_component(stem ${proto} NAME_WE)
    set(made ${out}/${stem}.pb.cc ${out}/${stem}.grpc.pb.cc)
    add_custom_command(OUTPUT ${made} ${out}/${stem}.pb.h ${out}/${stem}.grpc.pb.h
      COMMAND ${PROTOC} --proto_path=${dir} --cpp_out=${out} --grpc_out=${out}
        --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN} ${proto}
      DEPENDS ${proto})
    list(APPEND sources ${made})
  endforeach()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} SYSTEM PUBLIC ${out})
  target_link_libraries(${name} PUBLIC ${grpc_libraries} Threads::Threads)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  add_dependencies(generated ${name})
endfunction()

# simm_test(NAME DIR deps...): a doctest program of all sources directly in DIR and a ctest.
function(simm_test name dir)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  if(NOT sources)
    message(FATAL_ERROR "test ${name}: no *.cpp in ${dir}")
  endif()
  simm_doctest(${name} "${sources}" ${ARGN})
endfunction()

# simm_doctest(NAME SOURCES deps...): a doctest program of these sources and a ctest.
function(simm_doctest name sources)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE simm_flags doctest simm_doctest_main ${ARGN})
  add_test(NAME ${name} COMMAND ${name} ${${name}_arguments})
endfunction()
