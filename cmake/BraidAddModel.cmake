# braid_add_model(<target> MODEL <file.onnx>
#                 [TARGET cpu|cuda|cuda:sm_80,...] [EMULATED] [RANKS <n>] [NAME <name>]
#                 [DIMS <dim>=<size> <dim>=<min>..<max> ...]
#                 [OPTIONS <more options of braid compile> ...] [DEPENDS <file> ...])
#
# Compiles the model at build time and makes a static library of the generated program. Who links <target> can include
# "<name>.h" (NAME defaults to the model's file name without its endings) and finds the folder with the weights and the
# manifest in the macro BRAID_<NAME>_DIR, as a string; the target's property BRAID_PROGRAM_DIR holds the same.
# With RANKS, MODEL may hold {rank}: one file per rank. The program is made again when a model file changes; weights
# beside a model count through DEPENDS <files>.
#
# TARGET cuda needs enable_language(CUDA) and NCCL. With EMULATED the CUDA source is built by the host compiler for the
# emulated device, where ranks are threads and every access is checked; it needs neither. Both hold braid_cuda_host_run
# (runtime/cuda_host.h).
include_guard(GLOBAL)

function(braid_add_model target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EMULATED" "MODEL;TARGET;RANKS;NAME" "DIMS;OPTIONS;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "braid_add_model(${target}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_MODEL)
    message(FATAL_ERROR "braid_add_model(${target}): MODEL is missing")
  endif()
  if(NOT arg_TARGET)
    set(arg_TARGET cpu)
  endif()
  if(NOT arg_RANKS)
    set(arg_RANKS 1)
  endif()
  if(NOT arg_RANKS MATCHES "^[1-9][0-9]*$")
    message(FATAL_ERROR "braid_add_model(${target}): RANKS must be a positive number, not '${arg_RANKS}'")
  endif()
  cmake_path(ABSOLUTE_PATH arg_MODEL BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE OUTPUT_VARIABLE model)
  if(arg_NAME)
    list(APPEND arg_OPTIONS --name "${arg_NAME}")
  else()
    cmake_path(GET model FILENAME arg_NAME)
    string(REGEX REPLACE "(\\.rank\\{rank\\})?\\.onnx$" "" arg_NAME "${arg_NAME}")
    string(MAKE_C_IDENTIFIER "${arg_NAME}" arg_NAME)
  endif()

  set(model_files "${model}")
  if(model MATCHES "{rank}")
    set(model_files)
    math(EXPR last "${arg_RANKS} - 1")
    foreach(rank RANGE ${last})
      string(REPLACE "{rank}" "${rank}" file "${model}")
      list(APPEND model_files "${file}")
    endforeach()
  endif()

  if(arg_TARGET STREQUAL "cpu")
    set(extension cc)
  elseif(arg_TARGET MATCHES "^cuda")
    set(extension cu)
    if(NOT arg_EMULATED AND NOT CMAKE_CUDA_COMPILER)
      message(FATAL_ERROR "braid_add_model(${target}): TARGET cuda needs enable_language(CUDA), or EMULATED")
    endif()
  else()
    message(FATAL_ERROR "braid_add_model(${target}): TARGET must be cpu or cuda, not '${arg_TARGET}'")
  endif()

  set(dir "${CMAKE_CURRENT_BINARY_DIR}/${target}")
  set(command braid::braid compile "${model}" --target "${arg_TARGET}" --emit source -o "${dir}")
  if(arg_RANKS GREATER 1)
    list(APPEND command --ranks "${arg_RANKS}")
  endif()
  foreach(dim IN LISTS arg_DIMS)
    list(APPEND command --dim "${dim}")
  endforeach()
  list(APPEND command ${arg_OPTIONS})
  add_custom_command(
    OUTPUT "${dir}/${arg_NAME}.${extension}" "${dir}/${arg_NAME}.h" "${dir}/manifest.json"
    COMMAND ${command}
    DEPENDS ${model_files} ${arg_DEPENDS} braid::braid
    COMMENT "braid compile ${arg_NAME}"
    VERBATIM)

  add_library(${target} STATIC "${dir}/${arg_NAME}.${extension}")
  target_include_directories(${target} PUBLIC "${dir}")
  string(TOUPPER "${arg_NAME}" upper_name)
  target_compile_definitions(${target} INTERFACE BRAID_${upper_name}_DIR="${dir}")
  set_target_properties(${target} PROPERTIES BRAID_PROGRAM_DIR "${dir}" POSITION_INDEPENDENT_CODE ON
                        CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  if(extension STREQUAL "cc")
    # The generated loops are written to be vectorised for the machine that builds them, as braid compile does itself.
    target_compile_options(${target} PRIVATE -O3 -march=native -fno-math-errno -fno-trapping-math -ffp-contract=fast)
    target_link_libraries(${target} PUBLIC braid::runtime)
    return()
  endif()

  _braid_cuda_runtime(runtime "${arg_EMULATED}")
  target_link_libraries(${target} PUBLIC ${runtime})
  if(arg_EMULATED)
    set_source_files_properties("${dir}/${arg_NAME}.cu" PROPERTIES LANGUAGE CXX)
    target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:${runtime},COMPILE_OPTIONS>)
  else()
    set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  endif()
endfunction()

# What every CUDA program is linked with: source, as it depends on the toolkit, built once for all targets.
function(_braid_cuda_runtime out emulated)
  set(name braid_cuda_program_runtime)
  if(emulated)
    string(APPEND name _emulated)
  endif()
  set(${out} ${name} PARENT_SCOPE)
  if(TARGET ${name})
    return()
  endif()
  get_target_property(include_dirs braid::emulated_device INTERFACE_INCLUDE_DIRECTORIES)
  find_path(BRAID_CUDA_RUNTIME_DIR runtime/cuda/core.h HINTS ${include_dirs} "${PROJECT_SOURCE_DIR}" REQUIRED NO_DEFAULT_PATH)
  mark_as_advanced(BRAID_CUDA_RUNTIME_DIR)
  set(folder "${BRAID_CUDA_RUNTIME_DIR}/runtime")
  file(GLOB sources "${folder}/cuda/*.cc" "${folder}/cuda/*.cu")
  add_library(${name} STATIC ${sources})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  if(emulated)
    set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX)
    # -fsanitize only makes the compiler call functions at accesses and overflows; the emulated device has them.
    target_compile_options(${name} PRIVATE -x c++ -O2 -g1 -fsanitize=thread,signed-integer-overflow -fstack-clash-protection)
    target_link_libraries(${name} PUBLIC braid::emulated_device)
    return()
  endif()
  find_package(CUDAToolkit REQUIRED)
  find_library(BRAID_NCCL_LIBRARY nccl HINTS "${CUDAToolkit_LIBRARY_DIR}" "$ENV{NCCL_ROOT}/lib")
  find_path(BRAID_NCCL_INCLUDE_DIR nccl.h HINTS "${CUDAToolkit_INCLUDE_DIRS}" "$ENV{NCCL_ROOT}/include")
  if(NOT BRAID_NCCL_LIBRARY OR NOT BRAID_NCCL_INCLUDE_DIR)
    message(FATAL_ERROR "braid_add_model: TARGET cuda needs NCCL; set BRAID_NCCL_LIBRARY and BRAID_NCCL_INCLUDE_DIR")
  endif()
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
  target_include_directories(${name} PUBLIC "${BRAID_CUDA_RUNTIME_DIR}" "${BRAID_NCCL_INCLUDE_DIR}")
  target_link_libraries(${name} PUBLIC CUDA::cudart CUDA::cublasLt CUDA::cublas "${BRAID_NCCL_LIBRARY}")
endfunction()
