// Uses the dependencies that braid::runtime brings along: OpenMP and threads, and a World of as many ranks as
// the argument says.
#include <omp.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "runtime/comm/bootstrap.h"

int main(int argc, char** argv) {
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  std::thread([] {}).join();

  std::unique_ptr<braid::rt::World> world;
  const braid::rt::Status joined = braid::rt::join_world_from_environment({.segment_bytes = 4096}, &world);
  if (!joined.ok()) {
    std::fprintf(stderr, "%s\n", joined.message.c_str());
    return 1;
  }
  std::printf("rank %d of %d, %d threads\n", world->rank(), world->size(), threads);
  return threads > 0 && argc == 2 && world->size() == std::atoi(argv[1]) ? 0 : 1;
}
