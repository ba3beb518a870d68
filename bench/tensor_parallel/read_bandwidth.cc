// Measures how fast one core, and two at once, read memory: the bound of a step that reads every weight once,
// however many ranks share the work. Prints gigabytes per second, "ONE TWO": the fastest way of reading for
// one core, and the fastest for two; medians over alternating rounds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kBytes = std::size_t{512} << 20;  // per reader: far beyond any cache
constexpr int kRounds = 3;

using Words = std::vector<std::uint64_t>;

// Reads kStreams streams side by side, a cache line of each in turn, prefetching kAhead bytes ahead (0: no
// prefetch). Both numbers decide how many lines a core keeps in flight, and the best ones depend on the
// processor. The fastest pair counts, since no program may read faster than the limit that is printed.
template <std::size_t kStreams, std::size_t kAhead>
std::uint64_t read(const Words& words) {
  constexpr std::size_t kLine = 64 / sizeof(std::uint64_t);
  const std::size_t part = words.size() / kStreams;
  std::uint64_t sums[kStreams][kLine] = {};
  for (std::size_t k = 0; k < part; k += kLine) {
    for (std::size_t s = 0; s < kStreams; ++s) {
      const std::uint64_t* const line = words.data() + s * part + k;
      if constexpr (kAhead > 0) __builtin_prefetch(line + kAhead / sizeof(std::uint64_t));
      for (std::size_t j = 0; j < kLine; ++j) sums[s][j] += line[j];
    }
  }
  std::uint64_t sum = 0;
  for (const auto& line : sums) {
    for (const std::uint64_t own : line) sum += own;
  }
  return sum;
}

using Read = std::uint64_t (*)(const Words&);
constexpr Read kWays[] = {read<1, 0>, read<1, 1024>, read<1, 2048>, read<2, 0>, read<2, 1024>, read<2, 2048>,
                          read<4, 0>, read<4, 1024>, read<4, 2048>, read<8, 0>, read<8, 1024>, read<8, 2048>};

// The bandwidth of all readers together.
double gigabytes_per_second(Read read, const std::vector<Words>& memory, std::size_t readers) {
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
  double one = 0, two = 0;
  for (const Read read : kWays) {
    std::vector<double> of_one, of_two;
    for (int round = 0; round < kRounds; ++round) {
      of_one.push_back(gigabytes_per_second(read, memory, 1));
      of_two.push_back(gigabytes_per_second(read, memory, 2));
    }
    one = std::max(one, median(of_one));
    two = std::max(two, median(of_two));
  }
  std::printf("%.1f %.1f\n", one, two);
}
