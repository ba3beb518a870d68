# Builds CUDA programs in a folder that holds all it needs of Braid (braid compile --target cuda --emit source --standalone):
#
#   cmake -S . -B build && cmake --build build       by nvcc, with cuBLASLt and NCCL of the toolkit, the system or Python's wheels
#   cmake -S . -B build -DBRAID_EMULATED=ON && ...   by the host compiler, for the emulated device: needs no toolkit and no GPU
#
#   braid_cuda_program(<target> file.cu...)   a shared library with these programs
#   braid_cuda_runtime                        what they and host code that runs them link to: one shared library for all of a process
#                                             with the rest of an instance, braid_cuda_host_run and runtime/cuda_gemm.h
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
get_filename_component(BRAID_STANDALONE_ROOT "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
find_package(Threads REQUIRED)

option(BRAID_EMULATED "Build for the emulated device, without nvcc" OFF)
set(BRAID_EMULATED_LIBRARY "" CACHE FILEPATH "With BRAID_EMULATED: libbraid_emulated_device.so; empty: built here")
set(BRAID_PROGRAM_SUFFIX ".cuda.so")  # as braid compile names libraries
if(BRAID_EMULATED)
  set(BRAID_CUDA OFF)
  set(BRAID_PROGRAM_SUFFIX ".emulated.so")
elseif(NOT BRAID_PYTHON_SITE)
  find_program(BRAID_PYTHON NAMES python3 python)
  if(BRAID_PYTHON)
    execute_process(COMMAND "${BRAID_PYTHON}" -c "import sys; print(';'.join(p for p in sys.path if p.endswith('-packages')))"
                    OUTPUT_VARIABLE BRAID_PYTHON_SITE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
include("${CMAKE_CURRENT_LIST_DIR}/cuda_toolkit.cmake")

if(BRAID_EMULATED_LIBRARY)  # one that is built already
  add_library(braid_emulated_device SHARED IMPORTED)
  set_target_properties(braid_emulated_device PROPERTIES IMPORTED_LOCATION "${BRAID_EMULATED_LIBRARY}"
                        INTERFACE_COMPILE_DEFINITIONS BRAID_EMULATED_DEVICE
                        INTERFACE_LINK_OPTIONS "${BRAID_EMULATED_LINK_FLAGS}")
elseif(BRAID_EMULATED)
  file(GLOB sources "${CMAKE_CURRENT_LIST_DIR}/emulated/*.cc")
  add_library(braid_emulated_device SHARED ${sources})
  target_include_directories(braid_emulated_device PUBLIC "${BRAID_STANDALONE_ROOT}")
  target_compile_definitions(braid_emulated_device PUBLIC BRAID_EMULATED_DEVICE PRIVATE BRAID_EMULATED_LIBRARY)
  target_link_options(braid_emulated_device PRIVATE -Wl,-z,nodelete  # as runtime/emulated/CMakeLists.txt
                      INTERFACE ${BRAID_EMULATED_LINK_FLAGS})
  target_link_libraries(braid_emulated_device PUBLIC Threads::Threads)
elseif(NOT BRAID_CUDA_FOUND)
  message(FATAL_ERROR "missing:${BRAID_CUDA_MISSING}. Set BRAID_CUDA_ROOT (with bin/nvcc) and BRAID_NCCL_ROOT (with "
                      "include/nccl.h), or install the wheels nvidia-cuda-nvcc, nvidia-cublas and nvidia-nccl-cu13; "
                      "-DBRAID_EMULATED=ON builds for the emulated device, which needs none of it.")
endif()

# Sets <variable> to what is compiled or linked for these .cu.
function(braid_cuda_sources variable)
  if(BRAID_EMULATED)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
    set(${variable} "${ARGN}" PARENT_SCOPE)
  else()
    braid_cuda_objects(${variable} "${BRAID_STANDALONE_ROOT}" ${ARGN})
    set(${variable} "${${variable}}" PARENT_SCOPE)
  endif()
endfunction()

braid_cuda_sources(kernels ${BRAID_CUDA_RUNTIME_KERNELS})
add_library(braid_cuda_runtime SHARED ${BRAID_CUDA_RUNTIME_SOURCES} ${kernels})
target_include_directories(braid_cuda_runtime PUBLIC "${BRAID_STANDALONE_ROOT}")
target_link_libraries(braid_cuda_runtime PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
if(BRAID_EMULATED)
  target_compile_options(braid_cuda_runtime PRIVATE ${BRAID_EMULATED_FLAGS})
  target_link_libraries(braid_cuda_runtime PUBLIC braid_emulated_device)
else()
  target_link_libraries(braid_cuda_runtime PUBLIC braid_cuda_libraries)
endif()

function(braid_cuda_program target)
  braid_cuda_sources(${target}_sources ${ARGN})
  add_library(${target} SHARED ${${target}_sources})
  if(BRAID_EMULATED)
    target_compile_options(${target} PRIVATE ${BRAID_EMULATED_FLAGS})
  else()
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
  target_link_libraries(${target} PUBLIC braid_cuda_runtime)
  target_include_directories(${target} PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
endfunction()
