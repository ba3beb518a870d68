# ONNX's C++ library, from its source distribution, as a subdirectory in one unity build.
set(BRAID_ONNX_VERSION 1.22.0)
set(ONNX_SOURCE_DIR "" CACHE PATH "ONNX ${BRAID_ONNX_VERSION} sources; empty: fetched once by scripts/fetch_onnx.sh")
if(NOT ONNX_SOURCE_DIR)
  execute_process(COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/scripts/fetch_onnx.sh"
                  OUTPUT_VARIABLE braid_onnx_dir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
else()
  set(braid_onnx_dir "${ONNX_SOURCE_DIR}")
endif()
set(BRAID_ONNX_DIR "${braid_onnx_dir}" CACHE INTERNAL "where ONNX's sources and test data lie")

function(braid_add_onnx)
  set(ONNX_ML ON)
  set(ONNX_USE_PROTOBUF_SHARED_LIBS ON CACHE BOOL "" FORCE)
  set(ONNX_INSTALL OFF CACHE BOOL "" FORCE)
  set(ONNX_BUILD_TESTS OFF CACHE BOOL "" FORCE)
  set(ONNX_USE_UNITY_BUILD ON CACHE BOOL "" FORCE)
  set(BUILD_SHARED_LIBS OFF)
  # The same flags in every preset: one compilation serves all of them through ccache.
  set(CMAKE_BUILD_TYPE Release)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
  add_subdirectory("${BRAID_ONNX_DIR}" "${CMAKE_BINARY_DIR}/onnx" EXCLUDE_FROM_ALL SYSTEM)
endfunction()
braid_add_onnx()
