// abi_step FOLDER NAME STEPS: prints the median time of a step through the C ABI, in nanoseconds, of the
// program NAME in FOLDER. For programs without weights and arena, with one input and one output of at most
// 4096 bytes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/program.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  using Clock = std::chrono::steady_clock;
  const std::string folder = argv[1];
  const BraidProgram* table = braid::rt::load_program(folder + "/" + argv[2] + ".so");
  BraidCreateInfo info = {.abi_version = BRAID_ABI_VERSION, .struct_size = sizeof(BraidCreateInfo)};
  BraidInstance* instance = nullptr;
  if (table->create(&info, &instance) != BRAID_OK || table->prepare(instance, nullptr) != BRAID_OK) return 1;
  alignas(64) static char input[4096], output[4096];
  const void* in[] = {input};
  void* out[] = {output};
  std::vector<std::int64_t> times;
  for (int step = 0; step < std::atoi(argv[3]); ++step) {
    const auto begin = Clock::now();
    if (table->run(instance, in, out) != BRAID_OK) return 1;
    times.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  std::printf("%lld\n", static_cast<long long>(times[times.size() / 2]));
  table->destroy(instance);
}
