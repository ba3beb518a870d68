#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/comm/bootstrap.h"

namespace braid::rt {

Status launch_threads(int n, const LaunchOptions& options, const RankFunction& function) {
  SharedMemory memory;
  if (Status made = SharedMemory::create(n, options.world, &memory); !made.ok()) return made;
  std::vector<std::unique_ptr<World>> worlds(n);
  for (int rank = 0; rank < n; ++rank) {
    if (Status attached = memory.attach(rank, &worlds[rank], options.pacing); !attached.ok()) return attached;
  }
  std::vector<int> codes(n, 0);
  std::vector<std::thread> threads;
  threads.reserve(n);
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      codes[rank] = function(*worlds[rank]);
      worlds[rank].reset();  // peers that still wait for this rank learn that it left
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < n; ++rank) {
    if (codes[rank] != 0) {
      return Status::error(StatusCode::system,
                           "rank " + std::to_string(rank) + " returned " + std::to_string(codes[rank]));
    }
  }
  return {};
}

}  // namespace braid::rt
