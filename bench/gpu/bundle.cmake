# Builds a GPU bundle: every source of programs/ as a library, and the program that runs their cases.
#   cmake -S . -B build && cmake --build build                      by nvcc, for this machine's GPU
#   cmake -S . -B build -DBRAID_EMULATED=ON && cmake --build build  for the emulated device: needs no toolkit and no GPU
cmake_minimum_required(VERSION 3.18)
project(gpu_bundle LANGUAGES CXX)

# This machine's GPU, unless told otherwise; without one, those of the data centre.
find_program(NVIDIA_SMI nvidia-smi)
if(NVIDIA_SMI AND NOT BRAID_CUDA_ARCHITECTURES)
  execute_process(COMMAND "${NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE capability
                  RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND capability MATCHES "^([0-9]+)\\.([0-9]+)")
    set(BRAID_CUDA_ARCHITECTURES "${CMAKE_MATCH_1}${CMAKE_MATCH_2}" CACHE STRING "GPU architectures of CUDA programs")
  endif()
endif()
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
include("${CMAKE_CURRENT_SOURCE_DIR}/runtime/cuda_standalone.cmake")

# Nothing is computed by it yet; the report says whether it is there.
set(wheels "")
foreach(site IN LISTS BRAID_PYTHON_SITE)
  list(APPEND wheels "${site}/nvidia/cudnn" "${site}/nvidia/cu13")
endforeach()
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS "${BRAID_CUDA_ROOT}" /usr/local/cuda ${wheels} PATH_SUFFIXES lib64 lib)
message(STATUS "cuDNN: ${CUDNN_LIBRARY}")

set(harness "${CMAKE_CURRENT_SOURCE_DIR}/harness")
add_executable(gpu_check "${harness}/gpu_check.cc" "${harness}/rank_run.cc" "${harness}/processes.cc" "${harness}/machine.cc"
               "${harness}/device_properties.cc")
target_link_libraries(gpu_check PRIVATE braid_cuda_runtime)
set(BUNDLE_PROGRAMS "*" CACHE STRING "Patterns of names: only these sources of programs/ are built")
list(TRANSFORM BUNDLE_PROGRAMS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/programs/\\1.cu" OUTPUT_VARIABLE patterns)
file(GLOB sources ${patterns})
foreach(source IN LISTS sources)
  get_filename_component(name "${source}" NAME_WE)
  braid_cuda_program(${name} "${source}")
  if(BRAID_EMULATED)
    target_compile_options(${name} PRIVATE -O1)  # twice as fast to compile, and run once
  endif()
endforeach()

if(NOT BRAID_EMULATED)
  braid_cuda_objects(peer_check_objects "${CMAKE_CURRENT_SOURCE_DIR}" "${harness}/peer_check.cu")
  add_executable(peer_check ${peer_check_objects})
  set_target_properties(peer_check PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(peer_check PRIVATE braid_cuda_runtime)
endif()
