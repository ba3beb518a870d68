// Runs a function on all ranks, as threads or as processes, and brings home the tensors that it returns.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "runtime/comm/bootstrap.h"

namespace braid::test {

enum class RanksAs { threads, processes };
inline const char* to_string(RanksAs ranks) { return ranks == RanksAs::threads ? "threads" : "processes"; }

// Types and sizes of what each rank returns are those of `like`. Fills `*error` with what went wrong, which
// each rank may say by an exception.
inline std::vector<std::vector<ir::Tensor>> run_on_ranks(
    RanksAs ranks, const rt::LaunchOptions& options, std::vector<std::vector<ir::Tensor>> like,
    const std::function<std::vector<ir::Tensor>(rt::World&)>& function, std::string* error) {
  constexpr std::size_t kMessage = 1024;
  std::size_t bytes = 0;
  std::vector<std::size_t> begins;  // of each rank: a message, then its tensors
  for (const auto& tensors : like) {
    begins.push_back(bytes);
    bytes += kMessage;
    for (const ir::Tensor& t : tensors) bytes += t.bytes.size();
  }
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    *error = "no memory shared with the ranks";
    return like;
  }
  auto* shared = static_cast<char*>(map);
  const rt::RankFunction body = [&](rt::World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    char* message = shared + begins[rank];
    try {
      const std::vector<ir::Tensor> got = function(world);
      auto* at = reinterpret_cast<std::byte*>(message + kMessage);
      for (std::size_t k = 0; k < like[rank].size(); ++k) {
        if (got.at(k).bytes.size() != like[rank][k].bytes.size())
          throw std::runtime_error("output " + std::to_string(k) + " has another size");
        at = std::copy(got[k].bytes.begin(), got[k].bytes.end(), at);
      }
      return 0;
    } catch (const std::exception& e) {
      std::strncpy(message, e.what(), kMessage - 1);
      world.abort(e.what());
      return 1;
    }
  };
  const int n = static_cast<int>(like.size());
  const rt::Status status = ranks == RanksAs::threads ? rt::launch_threads(n, options, body)
                                                      : rt::launch_processes(n, options, body);
  if (!status.ok()) *error = status.message;
  for (std::size_t r = 0; r < like.size(); ++r) {
    const char* message = shared + begins[r];
    if (*message != 0) *error += "\n  rank " + std::to_string(r) + ": " + message;
    const auto* at = reinterpret_cast<const std::byte*>(message + kMessage);
    for (ir::Tensor& t : like[r]) {
      std::copy_n(at, t.bytes.size(), t.bytes.begin());
      at += t.bytes.size();
    }
  }
  ::munmap(map, bytes);
  return like;
}

}  // namespace braid::test
