# Finds what a CUDA program is built with, and builds one: for GPUs by nvcc, or for the emulated device by the host compiler.
# Used by Braid's own build (cmake/BraidCuda.cmake), and copied into folders that build alone (braid compile --standalone).
#
#   BRAID_CUDA_FOUND                                       nvcc, cudart, cuBLASLt and NCCL are there
#   braid_cuda_objects(<variable> <folder> file.cu...)     only then: objects built by nvcc for BRAID_CUDA_ARCHITECTURES
#   braid_cuda_libraries                                   only then: what they are linked with
#   BRAID_EMULATED_FLAGS                                   the host compiler's flags for the emulated device
#   BRAID_EMULATED_LINK_FLAGS                              the linker's
#   BRAID_CUDA_RUNTIME_SOURCES                             what every program is linked with: built once, by the host compiler,
#   BRAID_CUDA_RUNTIME_KERNELS                             and these by nvcc
#
# Where CUDA and NCCL are looked for, in this order: BRAID_CUDA_ROOT and BRAID_NCCL_ROOT, the environment's CUDA_HOME, CUDA_PATH,
# NCCL_ROOT and NCCL_HOME, nvcc on the PATH, usual places, and the site-packages folders in BRAID_PYTHON_SITE, where the wheels
# nvidia-*-cu13 unpack into nvidia/cu13 and nvidia/nccl, those for CUDA 12 into a folder each.
#
# nvcc is called by hand: enable_language(CUDA) would make its absence, or an odd installation, an error of the whole
# configuration.

# -fsanitize=thread only makes the compiler call a function at each access; the emulated device has those functions, so libtsan
# is not linked. A kernel whose stack overflows touches each of its pages, so that the overflow is found.
set(BRAID_EMULATED_FLAGS -x c++ -std=c++20 -O2 -fPIC -g1 -fsanitize=thread,signed-integer-overflow -fstack-clash-protection
    -DBRAID_EMULATED_DEVICE)
# The emulated device knows the locks that a host thread holds: these functions call it.
set(BRAID_EMULATED_LINK_FLAGS LINKER:--wrap=pthread_mutex_lock,--wrap=pthread_mutex_trylock,--wrap=pthread_mutex_unlock)

file(GLOB BRAID_CUDA_RUNTIME_SOURCES CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/cuda/*.cc")
file(GLOB BRAID_CUDA_RUNTIME_KERNELS CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/cuda/*.cu")

option(BRAID_CUDA "Look for the CUDA toolkit and NCCL" ON)
set(BRAID_CUDA_ROOT "" CACHE PATH "CUDA toolkit (with bin/nvcc); empty: searched")
set(BRAID_NCCL_ROOT "" CACHE PATH "NCCL (with include/nccl.h); empty: searched, in the toolkit as well")
set(BRAID_PYTHON_SITE "" CACHE STRING "site-packages folders with the wheels nvidia-*")
set(BRAID_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPU architectures of CUDA programs; native: of this machine's GPU")

function(braid_cuda_root out)
  set(root "")
  if(BRAID_NVCC)
    get_filename_component(root "${BRAID_NVCC}" REALPATH)
    get_filename_component(root "${root}" DIRECTORY)
    get_filename_component(root "${root}" DIRECTORY)
  endif()
  set(${out} "${root}" PARENT_SCOPE)
endfunction()

set(BRAID_CUDA_FOUND FALSE)
if(BRAID_CUDA)
  set(site_cuda "")
  set(site_nccl "")
  foreach(site IN LISTS BRAID_PYTHON_SITE)
    file(GLOB site_parts LIST_DIRECTORIES true "${site}/nvidia/cu1[0-9]" "${site}/nvidia/cuda_*" "${site}/nvidia/cublas")
    list(APPEND site_cuda ${site_parts})
    list(APPEND site_nccl "${site}/nvidia/nccl")
  endforeach()
  file(GLOB usual_places LIST_DIRECTORIES true /usr/local/cuda /usr/local/cuda-1[2-9]* /opt/cuda)
  find_program(BRAID_NVCC nvcc NO_DEFAULT_PATH PATH_SUFFIXES bin
               PATHS "${BRAID_CUDA_ROOT}" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}")
  find_program(BRAID_NVCC nvcc PATH_SUFFIXES bin HINTS ${usual_places} ${site_cuda})
  braid_cuda_root(nvcc_root)
  set(places "${BRAID_CUDA_ROOT}" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" "${nvcc_root}" ${usual_places} ${site_cuda})
  find_path(BRAID_CUDA_INCLUDE cuda_runtime.h HINTS ${places} PATH_SUFFIXES include)
  find_library(BRAID_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 HINTS ${places} PATH_SUFFIXES lib64 lib)
  find_path(BRAID_CUBLASLT_INCLUDE cublasLt.h HINTS ${places} PATH_SUFFIXES include)
  find_library(BRAID_CUBLASLT NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12 HINTS ${places} PATH_SUFFIXES lib64 lib)
  find_library(BRAID_CUBLAS NAMES cublas libcublas.so.13 libcublas.so.12 HINTS ${places} PATH_SUFFIXES lib64 lib)
  set(places "${BRAID_NCCL_ROOT}" "$ENV{NCCL_ROOT}" "$ENV{NCCL_HOME}" ${places} ${site_nccl})
  find_path(BRAID_NCCL_INCLUDE nccl.h HINTS ${places} PATH_SUFFIXES include)
  find_library(BRAID_NCCL NAMES nccl libnccl.so.2 HINTS ${places} PATH_SUFFIXES lib64 lib)
  mark_as_advanced(BRAID_NVCC BRAID_CUDA_INCLUDE BRAID_CUDART BRAID_CUBLASLT_INCLUDE BRAID_CUBLASLT BRAID_CUBLAS BRAID_NCCL_INCLUDE
                   BRAID_NCCL)
  set(BRAID_CUDA_MISSING "")
  foreach(part NVCC CUDA_INCLUDE CUDART CUBLASLT_INCLUDE CUBLASLT CUBLAS NCCL_INCLUDE NCCL)
    if(NOT BRAID_${part})
      string(APPEND BRAID_CUDA_MISSING " ${part}")
    endif()
  endforeach()
  if(BRAID_CUDA_MISSING)
    message(STATUS "CUDA: not built with nvcc, missing:${BRAID_CUDA_MISSING} (the emulated device needs none of it)")
  else()
    set(BRAID_CUDA_FOUND TRUE)
    file(STRINGS "${BRAID_NCCL_INCLUDE}/nccl.h" nccl_version REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" nccl_version "${nccl_version}")
    string(REPLACE ";" "." nccl_version "${nccl_version}")
    message(STATUS "CUDA: ${BRAID_NVCC}, NCCL ${nccl_version}, architectures ${BRAID_CUDA_ARCHITECTURES}")
  endif()
endif()

if(BRAID_CUDA_FOUND)
  add_library(braid_cuda_libraries INTERFACE)
  target_include_directories(braid_cuda_libraries SYSTEM INTERFACE "${BRAID_CUDA_INCLUDE}" "${BRAID_CUBLASLT_INCLUDE}"
                             "${BRAID_NCCL_INCLUDE}")
  target_link_libraries(braid_cuda_libraries INTERFACE "${BRAID_CUDART}" "${BRAID_CUBLAS}" "${BRAID_CUBLASLT}" "${BRAID_NCCL}")
  set(BRAID_NVCC_GENCODE "")
  foreach(arch IN LISTS BRAID_CUDA_ARCHITECTURES)
    if(arch STREQUAL "native")
      list(APPEND BRAID_NVCC_GENCODE -arch=native)
    else()
      list(APPEND BRAID_NVCC_GENCODE "-gencode=arch=compute_${arch},code=sm_${arch}")
    endif()
  endforeach()
  list(GET BRAID_CUDA_ARCHITECTURES -1 arch)
  if(NOT arch STREQUAL "native")
    # PTX of the last one, for later GPUs.
    list(APPEND BRAID_NVCC_GENCODE "-gencode=arch=compute_${arch},code=compute_${arch}")
  endif()
endif()

# `folder` holds runtime/.
function(braid_cuda_objects variable folder)
  set(objects "")
  foreach(source IN LISTS ARGN)
    get_filename_component(source "${source}" ABSOLUTE)
    get_filename_component(name "${source}" NAME)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${variable}.dir/${name}.o")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/${variable}.dir"
      COMMAND "${BRAID_NVCC}" -std=c++20 -O2 -ccbin "${CMAKE_CXX_COMPILER}" ${BRAID_NVCC_GENCODE} -Xcompiler=-fPIC -I "${folder}"
              -I "${BRAID_CUDA_INCLUDE}" -I "${BRAID_NCCL_INCLUDE}" -MD -MF "${object}.d" -c "${source}" -o "${object}"
      DEPENDS "${source}" DEPFILE "${object}.d" VERBATIM
      COMMENT "nvcc ${name}")
    list(APPEND objects "${object}")
  endforeach()
  set(${variable} "${objects}" PARENT_SCOPE)
endfunction()
