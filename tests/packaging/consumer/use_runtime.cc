// What braid::runtime brings along: OpenMP and threads.
#include <omp.h>

#include <thread>

int main() {
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  threads += 1;
  std::thread([] {}).join();
  return threads > 0 ? 0 : 1;
}
