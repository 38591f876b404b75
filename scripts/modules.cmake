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
