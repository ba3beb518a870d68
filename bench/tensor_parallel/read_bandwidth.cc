// How fast one core reads memory, and two at once: what bounds a step that reads every weight once, however
// many ranks share the work. Prints gigabytes per second, "ONE TWO": medians over alternating rounds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kBytes = std::size_t{512} << 20;  // per reader: far beyond any cache
constexpr int kRounds = 9;

using Words = std::vector<std::uint64_t>;

// Four streams side by side, a cache line of each in turn: one alone does not keep enough lines on their way.
std::uint64_t read(const Words& words) {
  const std::size_t quarter = words.size() / 4;
  const std::uint64_t* const at = words.data();
  std::uint64_t a = 0, b = 0, c = 0, d = 0;
  for (std::size_t k = 0; k < quarter; k += 8) {
    for (std::size_t j = k; j < k + 8; ++j) {
      a += at[j];
      b += at[quarter + j];
      c += at[2 * quarter + j];
      d += at[3 * quarter + j];
    }
  }
  return a + b + c + d;
}

// Of all readers together.
double gigabytes_per_second(const std::vector<Words>& memory, std::size_t readers) {
  std::vector<std::uint64_t> results(readers);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < readers; ++r) threads.emplace_back([&, r] { results[r] = read(memory[r]); });
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const std::uint64_t result : results) {
    if (result != kBytes / sizeof(std::uint64_t)) std::abort();  // every word is 1; also keeps the loads
  }
  return static_cast<double>(kBytes) * static_cast<double>(readers) / seconds / 1e9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  const std::vector<Words> memory(2, Words(kBytes / sizeof(std::uint64_t), 1));
  std::vector<double> one, two;
  for (int round = 0; round < kRounds; ++round) {
    one.push_back(gigabytes_per_second(memory, 1));
    two.push_back(gigabytes_per_second(memory, 2));
  }
  std::printf("%.1f %.1f\n", median(one), median(two));
}
