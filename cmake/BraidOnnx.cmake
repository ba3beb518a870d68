# ONNX's C++ library, from its source distribution, as a subdirectory in one unity build.
set(BRAID_ONNX_VERSION 1.23.2)
set(ONNX_SOURCE_DIR "" CACHE PATH "ONNX ${BRAID_ONNX_VERSION} sources; empty: fetched once by scripts/fetch_onnx.sh")
if(NOT ONNX_SOURCE_DIR)
  execute_process(COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/scripts/fetch_onnx.sh"
                  OUTPUT_VARIABLE braid_onnx_dir OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
else()
  set(braid_onnx_dir "${ONNX_SOURCE_DIR}")
  file(STRINGS "${braid_onnx_dir}/VERSION_NUMBER" found_version LIMIT_COUNT 1)
  if(NOT found_version VERSION_EQUAL BRAID_ONNX_VERSION)
    message(FATAL_ERROR "ONNX_SOURCE_DIR=${braid_onnx_dir} holds ONNX ${found_version}; Braid needs ${BRAID_ONNX_VERSION}")
  endif()
endif()
set(BRAID_ONNX_DIR "${braid_onnx_dir}" CACHE INTERNAL "where ONNX's sources lie")

# A function: what is set in here reaches ONNX's own directory and nothing else.
function(braid_add_onnx)
  set(ONNX_ML ON)
  set(ONNX_USE_PROTOBUF_SHARED_LIBS ON CACHE BOOL "" FORCE)
  set(ONNX_INSTALL OFF CACHE BOOL "" FORCE)
  set(ONNX_BUILD_TESTS OFF CACHE BOOL "" FORCE)
  set(ONNX_USE_UNITY_BUILD ON CACHE BOOL "" FORCE)
  set(BUILD_SHARED_LIBS OFF)
  # The same flags in every preset and build folder: one compilation serves all of them through ccache.
  set(CMAKE_BUILD_TYPE Release)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
  set(CMAKE_CXX_STANDARD 17)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  add_subdirectory("${BRAID_ONNX_DIR}" "${CMAKE_BINARY_DIR}/onnx" EXCLUDE_FROM_ALL SYSTEM)
  foreach(target onnx onnx_proto)
    # Its assertions say where they stand: not on the machine that has built it.
    target_compile_options(${target} PRIVATE -w "-ffile-prefix-map=${BRAID_ONNX_DIR}=onnx-${BRAID_ONNX_VERSION}")
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default)
  endforeach()
  # The namespace ONNX::, whether or not ONNX itself declared it in subproject mode.
  foreach(target onnx onnx_proto)
    if(NOT TARGET ONNX::${target})
      add_library(ONNX::${target} ALIAS ${target})
    endif()
  endforeach()
endfunction()
braid_add_onnx()

# For our code that includes ONNX's headers: directories, definitions and libprotobuf. ONNX's functions come from braid_compiler.
add_library(braid_onnx INTERFACE)
target_include_directories(braid_onnx SYSTEM INTERFACE "${BRAID_ONNX_DIR}" "${CMAKE_BINARY_DIR}/onnx")
target_compile_definitions(braid_onnx INTERFACE ONNX_NAMESPACE=onnx ONNX_ML=1)
target_link_libraries(braid_onnx INTERFACE protobuf::libprotobuf)
add_dependencies(braid_onnx onnx_proto)
