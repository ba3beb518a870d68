#include "runtime/cuda_library.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>

#include "runtime/library_file.h"
#include "runtime/program.h"

namespace braid::rt {

CudaLibrary::CudaLibrary(const std::string& path, const std::string& name, uint64_t id) : path_(path) {
  check_library(path, SealNeed::required, id);
  const std::string entry = "braid_cuda_program_" + name;
  open_library(std::filesystem::absolute(path).string(), [&](void* handle) {
    handle_ = handle;
    table_ = reinterpret_cast<BraidCudaProgramFunction>(symbol(entry))();
    return table_->compilation_id == id;
  });
  if (table_->abi_version != BRAID_CUDA_ABI_VERSION || table_->struct_size != sizeof(BraidCudaProgram))
    throw ProgramError(kCannotOpen, path + " was built for another version of the interface");
}

void* CudaLibrary::find(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

void* CudaLibrary::symbol(const std::string& name) const {
  void* found = find(name);
  if (found == nullptr) throw ProgramError(kCannotOpen, path_ + " has no function " + name);
  return found;
}

decltype(&braid_cuda_host_run) CudaLibrary::host_run() const {
  return reinterpret_cast<decltype(&braid_cuda_host_run)>(symbol("braid_cuda_host_run"));
}

const BraidCudaSessionCalls& CudaLibrary::session_calls() const {
  const auto& calls =
      *reinterpret_cast<decltype(&braid_cuda_session_calls)>(symbol("braid_cuda_session_calls"))();
  if (calls.struct_size != sizeof(BraidCudaSessionCalls))
    throw ProgramError(kCannotOpen, path_ + " was built for another version of the interface");
  return calls;
}

void CudaLibrary::count_kernels(const std::function<void()>& steps,
                                const std::function<void(const BraidKernelCounts&)>& visit) const {
  const auto count = reinterpret_cast<BraidCountAccesses>(symbol("braid_emulated_count_accesses"));
  const auto take = reinterpret_cast<BraidTakeKernelCounts>(symbol("braid_emulated_take_kernel_counts"));
  struct Counting {
    BraidCountAccesses count;
    explicit Counting(BraidCountAccesses function) : count(function) { count(1); }
    ~Counting() { count(0); }
  };
  {
    const Counting counting(count);
    steps();
  }
  using Visit = std::function<void(const BraidKernelCounts&)>;
  take(const_cast<Visit*>(&visit), [](void* self, const BraidKernelCounts* counts) {
    if (counts->struct_size == sizeof(BraidKernelCounts)) (*static_cast<Visit*>(self))(*counts);
  });
}

void CudaLibrary::report_leaks() const {
  if (const auto report = reinterpret_cast<void (*)()>(find("braid_emulated_report_leaks"))) report();
}

std::string CudaLibrary::take_findings() const {
  using Findings = int (*)(char*, unsigned long, int);
  const auto findings = reinterpret_cast<Findings>(find("braid_emulated_findings"));
  if (findings == nullptr) return {};
  std::string text(1 << 16, '\0');
  if (findings(text.data(), text.size(), 1) == 0) return {};
  text.resize(std::strlen(text.c_str()));
  return text;
}

}  // namespace braid::rt
