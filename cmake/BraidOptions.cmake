# Options and the flags that every target of ours (and none of other people's) is built with.
option(BRAID_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(BRAID_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(BRAID_COVERAGE "Instrument for coverage" OFF)
set(BRAID_SANITIZE "" CACHE STRING "Sanitizers for our own code: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# One folder for what runs and one for what is linked, in the build tree as in an installed one.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

find_program(BRAID_CCACHE ccache)
if(BRAID_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${BRAID_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${BRAID_CCACHE}")
endif()

# Everything of ours links braid_options; third-party code does not, so a sanitizer or a warning
# level never forces it to be built again.
add_library(braid_options INTERFACE)
target_compile_options(braid_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
if(BRAID_SANITIZE)
  target_compile_options(braid_options INTERFACE -fsanitize=${BRAID_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(braid_options INTERFACE -fsanitize=${BRAID_SANITIZE})
endif()
if(BRAID_COVERAGE)
  target_compile_options(braid_options INTERFACE --coverage)
  target_link_options(braid_options INTERFACE --coverage)
endif()
