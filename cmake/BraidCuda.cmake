# The two builds of a CUDA program: for the emulated device (always), and by nvcc where a toolkit is found.
#
#   braid_add_emulated_cuda(<target> file.cu...)   an OBJECT library; link it, and braid::emulated_device follows
#   braid_add_cuda(<target> file.cu...)            if BRAID_CUDA_FOUND: a static library built by nvcc for
#                                                  BRAID_CUDA_ARCHITECTURES; what it needs follows as well
include("${PROJECT_SOURCE_DIR}/runtime/cuda_toolkit.cmake")

function(braid_add_emulated_cuda target)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
  add_library(${target} OBJECT ${ARGN})
  target_compile_options(${target} PRIVATE ${BRAID_EMULATED_FLAGS} -Wall -Wextra -Wno-unknown-pragmas)
  if(BRAID_SANITIZE MATCHES "thread")
    # libtsan is there and has the functions: it checks the emulated device, and no access is recorded.
    target_link_options(${target} INTERFACE -fsanitize=thread)
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PUBLIC braid::emulated_device)
endfunction()

function(braid_add_cuda target)
  braid_cuda_objects(${target} "${PROJECT_SOURCE_DIR}" ${ARGN})
  add_library(${target} STATIC ${${target}})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${target} PUBLIC braid_cuda_libraries)
endfunction()

# What a program built by nvcc links to of ours.
if(BRAID_CUDA_FOUND)
  braid_cuda_objects(braid_cuda_kernels "${PROJECT_SOURCE_DIR}" ${BRAID_CUDA_RUNTIME_KERNELS})
  add_library(braid_cuda_runtime STATIC ${BRAID_CUDA_RUNTIME_SOURCES} ${braid_cuda_kernels})
  target_include_directories(braid_cuda_runtime PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(braid_cuda_runtime PUBLIC braid_cuda_libraries Threads::Threads)
endif()
