#include <dlfcn.h>
#include <unistd.h>

#include <climits>

#include "runtime/comm/mpi_world.h"

namespace braid::rt {
namespace {

// Returns the folder of the file that contains this code. folder_of_program() returns that of the program,
// which may have been started by a bare name.
std::string folder_of_this_code() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&folder_of_this_code), &info) == 0 || info.dli_fname == nullptr)
    return {};
  const std::string file = info.dli_fname;
  return file.substr(0, file.rfind('/') + 1);
}
std::string folder_of_program() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string file(path, length > 0 ? static_cast<size_t>(length) : 0);
  return file.substr(0, file.rfind('/') + 1);
}

// Loads the engine. Returns null, and the system's reason, if there is none. MPI's own plug-ins look for its
// symbols among the global ones.
void* load_engine(std::string* why) {
  for (const std::string& folder : {folder_of_this_code(), folder_of_program()}) {
    for (const char* below : {"", "lib/", "../lib/"}) {
      const std::string path = folder + below + kMpiEngine;
      if (folder.empty() || ::access(path.c_str(), F_OK) != 0) continue;
      if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
      *why = ::dlerror();
      return nullptr;
    }
  }
  void* library = ::dlopen(kMpiEngine, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) *why = ::dlerror();
  return library;
}

}  // namespace

Status join_mpi_world(const WorldOptions& options, std::unique_ptr<World>* out) {
  std::string why;
  void* library = load_engine(&why);
  if (library == nullptr) return Status::error(StatusCode::system, "the MPI engine cannot be loaded: " + why);
  const auto join = reinterpret_cast<JoinMpi>(::dlsym(library, kJoinMpi));
  if (join == nullptr) {
    return Status::error(StatusCode::system,
                         std::string(kMpiEngine) + " is of another version: it has no function " + kJoinMpi);
  }
  Status status;
  join(options, out, &status);
  return status;
}

}  // namespace braid::rt
