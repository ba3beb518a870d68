# The two builds of a CUDA program: for the emulated device (always), and by nvcc where a toolkit is found.
#
#   braid_add_emulated_cuda(<target> file.cu...)   an OBJECT library; link it, and braid::emulated_device follows
#   BRAID_CUDA_FOUND                               nvcc, cudart, cuBLASLt and NCCL are there
#   braid_add_cuda(<target> file.cu...)            only then: a static library built by nvcc for
#                                                  BRAID_CUDA_ARCHITECTURES; what it needs follows as well
#
# Where CUDA and NCCL are looked for, in this order: BRAID_CUDA_ROOT and BRAID_NCCL_ROOT, the environment's
# CUDA_HOME, CUDA_PATH, NCCL_ROOT and NCCL_HOME, nvcc on the PATH, usual places, and the site-packages folders in
# BRAID_PYTHON_SITE, where the wheels nvidia-*-cu13 unpack into nvidia/cu13 and nvidia/nccl.

# The flags of runtime/emulated/README.md. -fsanitize only makes the compiler call a function at each access, and where an
# integer overflows; braid_emulated_device has those functions, so neither libtsan nor libubsan is linked.
set(BRAID_EMULATED_FLAGS -x c++ -std=c++20 -O2 -fPIC -fsanitize=thread,signed-integer-overflow -DBRAID_EMULATED_DEVICE)

function(braid_add_emulated_cuda target)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
  add_library(${target} OBJECT ${ARGN})
  target_compile_options(${target} PRIVATE ${BRAID_EMULATED_FLAGS} -Wall -Wextra)
  if(BRAID_SANITIZE MATCHES "thread")
    # libtsan is there and has the functions: it checks the emulated device, and no access is recorded.
    target_link_options(${target} INTERFACE -fsanitize=thread)
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PUBLIC braid::emulated_device)
endfunction()

option(BRAID_CUDA "Look for the CUDA toolkit and NCCL" ON)
set(BRAID_CUDA_ROOT "" CACHE PATH "CUDA toolkit (with bin/nvcc); empty: searched")
set(BRAID_NCCL_ROOT "" CACHE PATH "NCCL (with include/nccl.h); empty: searched, in the toolkit as well")
set(BRAID_PYTHON_SITE "" CACHE STRING "site-packages folders with the wheels nvidia-*-cu13")
set(BRAID_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPU architectures of CUDA programs")

set(BRAID_CUDA_FOUND FALSE)
if(BRAID_CUDA)
  set(site_cuda "")
  set(site_nccl "")
  foreach(site IN LISTS BRAID_PYTHON_SITE)
    list(APPEND site_cuda "${site}/nvidia/cu13" "${site}/nvidia/cuda_nvcc")
    list(APPEND site_nccl "${site}/nvidia/nccl")
  endforeach()
  file(GLOB usual_places LIST_DIRECTORIES true /usr/local/cuda /usr/local/cuda-1[3-9]* /opt/cuda)
  find_program(BRAID_NVCC nvcc NO_DEFAULT_PATH PATH_SUFFIXES bin
               PATHS "${BRAID_CUDA_ROOT}" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}")
  find_program(BRAID_NVCC nvcc PATH_SUFFIXES bin HINTS ${usual_places} ${site_cuda})
  if(BRAID_NVCC)
    get_filename_component(nvcc_real "${BRAID_NVCC}" REALPATH)
    get_filename_component(nvcc_bin "${nvcc_real}" DIRECTORY)
    get_filename_component(nvcc_root "${nvcc_bin}" DIRECTORY)
  endif()
  set(places "${BRAID_CUDA_ROOT}" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" "${nvcc_root}" ${usual_places} ${site_cuda})
  find_path(BRAID_CUDA_INCLUDE cuda_runtime.h HINTS ${places} PATH_SUFFIXES include)
  find_library(BRAID_CUDART NAMES cudart libcudart.so.13 HINTS ${places} PATH_SUFFIXES lib64 lib)
  find_library(BRAID_CUBLASLT NAMES cublasLt libcublasLt.so.13 HINTS ${places} PATH_SUFFIXES lib64 lib)
  set(places "${BRAID_NCCL_ROOT}" "$ENV{NCCL_ROOT}" "$ENV{NCCL_HOME}" ${site_nccl} ${places})
  find_path(BRAID_NCCL_INCLUDE nccl.h HINTS ${places} PATH_SUFFIXES include)
  find_library(BRAID_NCCL NAMES nccl libnccl.so.2 HINTS ${places} PATH_SUFFIXES lib64 lib)
  mark_as_advanced(BRAID_NVCC BRAID_CUDA_INCLUDE BRAID_CUDART BRAID_CUBLASLT BRAID_NCCL_INCLUDE BRAID_NCCL)
  set(missing "")
  foreach(part NVCC CUDA_INCLUDE CUDART CUBLASLT NCCL_INCLUDE NCCL)
    if(NOT BRAID_${part})
      string(APPEND missing " ${part}")
    endif()
  endforeach()
  if(missing)
    message(STATUS "CUDA: not built with nvcc, missing:${missing} (the emulated device needs none of it)")
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
  target_include_directories(braid_cuda_libraries SYSTEM INTERFACE "${BRAID_CUDA_INCLUDE}" "${BRAID_NCCL_INCLUDE}")
  target_link_libraries(braid_cuda_libraries INTERFACE "${BRAID_CUDART}" "${BRAID_CUBLASLT}" "${BRAID_NCCL}")
  set(BRAID_NVCC_GENCODE "")
  foreach(arch IN LISTS BRAID_CUDA_ARCHITECTURES)
    list(APPEND BRAID_NVCC_GENCODE "-gencode=arch=compute_${arch},code=sm_${arch}")
  endforeach()
endif()

# nvcc is called by hand: enable_language(CUDA) would make its absence, or an odd installation, an error of the
# whole configuration.
function(braid_add_cuda target)
  set(objects "")
  foreach(source IN LISTS ARGN)
    get_filename_component(source "${source}" ABSOLUTE)
    get_filename_component(name "${source}" NAME)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}.dir/${name}.o")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/${target}.dir"
      COMMAND "${BRAID_NVCC}" -std=c++20 -O2 -ccbin "${CMAKE_CXX_COMPILER}" ${BRAID_NVCC_GENCODE} -Xcompiler=-fPIC
              -I "${PROJECT_SOURCE_DIR}" -I "${BRAID_NCCL_INCLUDE}" -MD -MF "${object}.d" -c "${source}" -o "${object}"
      DEPENDS "${source}" DEPFILE "${object}.d" VERBATIM
      COMMENT "nvcc ${name}")
    list(APPEND objects "${object}")
  endforeach()
  add_library(${target} STATIC ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${target} PUBLIC braid_cuda_libraries)
endfunction()

# What a program built by nvcc links to of ours.
if(BRAID_CUDA_FOUND)
  add_library(braid_cuda_gemm STATIC "${PROJECT_SOURCE_DIR}/runtime/device/cuda_gemm_cublaslt.cc")
  target_include_directories(braid_cuda_gemm PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(braid_cuda_gemm PUBLIC braid_cuda_libraries)
endif()
