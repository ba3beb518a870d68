// The matrix kernels that programs are linked with, built once for all programs of a user.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace braid::codegen::cpp {

// Writes runtime/host/gemm_kernels.cc of `headers`, compiled by `compiler` with `flags`, to `object`: from
// the user's cache where it holds one that the same compiler made for the same processor of the same flags
// and headers, all of them by content. `fail` as for run_compiler.
void make_gemm_object(const std::string& compiler, const std::string& flags,
                      const std::filesystem::path& headers, const std::filesystem::path& object, bool verbose,
                      const std::function<void(const std::string& lines)>& fail);

}  // namespace braid::codegen::cpp
