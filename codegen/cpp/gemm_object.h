// The matrix kernels with which programs are linked, built once for all programs of a user.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace braid::codegen::cpp {

// Compiles runtime/host/gemm_kernels.cc of `headers` to `object`, or copies it from the user's cache if that
// holds one made by the same compiler for the same processor from the same flags and headers, all compared by
// content. `fail` is that of run_compiler.
void make_gemm_object(const std::string& compiler, const std::string& flags,
                      const std::filesystem::path& headers, const std::filesystem::path& object, bool verbose,
                      const std::function<void(const std::string& lines)>& fail);

}  // namespace braid::codegen::cpp
