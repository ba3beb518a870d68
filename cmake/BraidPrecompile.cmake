# Headers of other people that most files include, parsed once: a third of the time of a file of the compiler, half of that of a test. Files still include what they use
# (the preset `alone` builds without this). Never a header of ours, so that a change of one builds no more than its users.
option(BRAID_PRECOMPILE "Precompile the headers of the standard library, fmt, ONNX, CLI11 and GoogleTest" ON)

set(BRAID_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <span> <string>
    <string_view> <unordered_map> <utility> <vector> <fmt/format.h> <fmt/ranges.h>)
set(BRAID_TEST_HEADERS ${BRAID_COMMON_HEADERS} <fstream> <sstream> <gmock/gmock.h> <gtest/gtest.h>)

# An object library or a program with headers of its own.
function(braid_precompile target)
  if(BRAID_PRECOMPILE)
    list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# One with those of `owner`, which must be compiled with the same options.
function(braid_reuse_precompiled target owner)
  if(BRAID_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# Owners, which have nothing but their headers. Programs and libraries are position-independent in different ways, so each kind has its own.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/empty_main.cc" CONTENT "int main() {}\n")
function(braid_add_headers name kind)
  if(kind STREQUAL "program")
    add_executable(${name} EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/empty_main.cc")
  else()
    add_library(${name} OBJECT EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/empty_main.cc")
  endif()
  target_link_libraries(${name} PRIVATE braid_options ${ARGN})
endfunction()
