// The attention kernels of every instruction set that this processor has, against sums in double written out
// here.
#include "runtime/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/attention_isa.h"
#include "runtime/processor.h"
#include "tests/support/compute_threads.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// One attention of f32 with everything optional there or not.
struct Problem {
  AttentionShape s;
  std::vector<float> query, key, value, added;
  std::vector<uint8_t> chosen;
  std::vector<int32_t> valid, positions;

  explicit Problem(std::uint64_t seed) : random(seed) {
    s.batch = from(1, 2);
    s.key_heads = from(1, 2);
    s.heads = s.key_heads * from(1, 4);
    s.queries = from(0, 2) ? from(1, 9) : from(10, 140);
    s.keys = from(0, 3) ? from(1, 40) : from(41, 700);
    s.head_size = from(0, 1) ? 16 * from(1, 4) : from(1, 40);
    s.value_size = from(0, 1) ? 16 * from(1, 4) : from(1, 40);
    fill(query, layout(s.query, s.heads, s.queries, s.head_size));
    fill(key, layout(s.key, s.key_heads, s.keys, s.head_size));
    fill(value, layout(s.value, s.key_heads, s.keys, s.value_size));
    layout(s.out, s.heads, s.queries, s.value_size);
    s.scale = 1 / std::sqrt(static_cast<double>(s.head_size));
    if (from(0, 3) == 0) s.softcap = 2;
    s.has_mask = from(0, 3) != 0;
    if (s.has_mask) {
      const int64_t count = layout(s.mask, s.heads, s.queries, s.keys);
      if (from(0, 1)) s.mask[1] = s.mask[2] = 0;
      if (from(0, 1)) {
        fill(added, count);
        for (float& x : added) x = from(0, 3) ? x : static_cast<float>(kNone);
      } else {
        s.mask_type = DType::boolean;
        for (int64_t k = 0; k < count; ++k) chosen.push_back(from(0, 2) != 0);
        if (from(0, 2) == 0) s.fill = -3.4e38;
      }
    }
    s.has_valid_keys = from(0, 3) == 0;
    s.valid_keys_type = s.positions_type = DType::i32;
    s.valid_keys = s.positions = 1;
    s.has_after = from(0, 1);
    s.after = from(0, 3) ? 0 : from(-2, 3);
    s.has_before = from(0, 2) == 0;
    s.before = from(0, static_cast<int>(s.keys));
    s.has_positions = from(0, 2) == 0;
    s.first_position = from(0, 1) ? 0 : s.keys - s.queries;
    for (int64_t b = 0; b < s.batch; ++b) {
      valid.push_back(from(-1, static_cast<int>(s.keys) + 2));
      positions.push_back(from(-3, static_cast<int>(s.keys)));
    }
  }

  AttentionArgs args(std::vector<float>& out) const {
    AttentionArgs a{query.data(), key.data(), value.data()};
    a.mask = added.empty() ? static_cast<const void*>(chosen.data()) : added.data();
    a.valid_keys = valid.data();
    a.positions = positions.data();
    out.assign(static_cast<std::size_t>(s.batch * s.heads * s.queries * s.value_size), 99.0f);
    a.out = out.data();
    return a;
  }

  std::vector<double> want() const {
    std::vector<double> out(static_cast<std::size_t>(s.batch * s.heads * s.queries * s.value_size));
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t i = 0; i < s.queries; ++i) row(b, h, i, out);
      }
    }
    return out;
  }

 private:
  int from(int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  }
  void fill(std::vector<float>& x, int64_t count) {
    std::normal_distribution<float> normal;
    for (int64_t k = 0; k < count; ++k) x.push_back(normal(random));
  }
  // Heads or positions outside, or the elements of a position apart.
  int64_t layout(std::array<int64_t, 4>& strides, int64_t heads, int64_t positions, int64_t size) {
    const int64_t batch = heads * positions * size;
    const int form = from(0, 2);
    if (form == 0) strides = {batch, positions * size, size, 1};
    if (form == 1) strides = {batch, size, heads * size, 1};
    if (form == 2) strides = {batch, positions * size, 1, positions};
    return s.batch * batch;
  }
  static int64_t at(const std::array<int64_t, 4>& strides, int64_t b, int64_t h, int64_t i, int64_t k) {
    return b * strides[0] + h * strides[1] + i * strides[2] + k * strides[3];
  }
  void row(int64_t b, int64_t h, int64_t i, std::vector<double>& out) const {
    const int64_t key_head = h / (s.heads / s.key_heads);
    const int64_t p = (s.has_positions ? positions[static_cast<size_t>(b)] : s.first_position) + i;
    std::vector<double> scores;
    double most = kNone;
    for (int64_t j = 0; j < s.keys; ++j) {
      double x = 0;
      for (int64_t d = 0; d < s.head_size; ++d)
        x += static_cast<double>(query[at(s.query, b, h, i, d)]) *
             static_cast<double>(key[at(s.key, b, key_head, j, d)]);
      x *= s.scale;
      if (s.softcap != 0) x = std::tanh(x / s.softcap) * s.softcap;
      if (s.has_mask && s.mask_type == DType::f32) x += static_cast<double>(added[at(s.mask, b, h, i, j)]);
      if (s.has_mask && s.mask_type == DType::boolean && chosen[at(s.mask, b, h, i, j)] == 0) x = s.fill;
      if (s.has_valid_keys && j >= valid[static_cast<size_t>(b)]) x = kNone;
      if (s.has_after && j > p + s.after) x = kNone;
      if (s.has_before && j < p - s.before) x = kNone;
      scores.push_back(x);
      most = std::max(most, x);
    }
    double total = 0;
    for (double& x : scores) total += x = x == kNone ? 0 : std::exp(x - most);
    for (int64_t e = 0; e < s.value_size; ++e) {
      double sum = 0;
      for (int64_t j = 0; j < s.keys; ++j) {
        const double weight = scores[static_cast<size_t>(j)];
        if (weight != 0) sum += weight / total * static_cast<double>(value[at(s.value, b, key_head, j, e)]);
      }
      out[at(s.out, b, h, i, e)] = sum;
    }
  }

  std::mt19937_64 random;
};

void expect_near(const std::vector<float>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t k = 0; k < want.size(); ++k)
    ASSERT_NEAR(static_cast<double>(got[k]), want[k], 1e-5 * std::max(1.0, std::abs(want[k])))
        << "element " << k;
}

// Head by head, in blocks of queries, with the keys in two parts.
void run_set(const AttentionKernels& kernels, const AttentionShape& s, const AttentionArgs& args) {
  std::vector<float> work(static_cast<std::size_t>(attention_work_floats(s))),
      first(static_cast<std::size_t>(attention_part_floats(s))), second = first;
  const AttentionPart a = attention_part(s, first.data()), b = attention_part(s, second.data());
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t q = 0; q < s.queries; q += kAttentionRows) {
        AttentionTask task{
            n, h / (s.heads / s.key_heads), h, 1, q, std::min(kAttentionRows, s.queries - q), 0, s.keys / 2};
        kernels.attend(s, args, task, work.data(), a);
        task.key_begin = task.key_end;
        task.key_end = s.keys;
        kernels.attend(s, args, task, work.data(), b);
        kernels.combine(s, task.rows(), b, a);
        kernels.finish(s, args, task, a);
      }
    }
  }
}

TEST(AttentionKernels, EveryInstructionSetComputesTheDefinition) {
  for (int k = 0; k < test::random_cases(120); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem p(seed);
    const std::vector<double> want = p.want();
    std::vector<std::pair<const char*, const AttentionKernels*>> sets = {
        {"baseline", &baseline::kAttentionKernels}};
#ifdef __x86_64__
    if (instruction_set() != InstructionSet::baseline) sets.emplace_back("avx2", &avx2::kAttentionKernels);
    if (instruction_set() == InstructionSet::avx512) sets.emplace_back("avx512", &avx512::kAttentionKernels);
#endif
    for (const auto& [name, set] : sets) {
      SCOPED_TRACE(name);
      std::vector<float> out;
      run_set(*set, p.s, p.args(out));
      ASSERT_NO_FATAL_FAILURE(expect_near(out, want));
    }
  }
}

TEST(AttentionKernels, ThreadsDoNotChangeABit) {
  for (int k = 0; k < test::random_cases(120); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem p(seed);
    std::vector<float> results[2];
    for (int n = 0; n < 2; ++n) {
      const test::ComputeThreads threads_of_case(1 + 4 * n);
      AttentionLibrary library;
      library.kernel(p.s)->run(p.args(results[n]));
    }
    ASSERT_NO_FATAL_FAILURE(expect_near(results[0], p.want()));
    ASSERT_EQ(0, std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)));
  }
}

// Memory after the valid keys of a cache may hold anything.
TEST(AttentionKernels, KeysThatAreNotValidAreNotRead) {
  AttentionShape s;
  s.batch = 2, s.heads = 2, s.key_heads = 1, s.queries = 1, s.keys = 600, s.head_size = s.value_size = 16;
  s.query = s.out = {32, 16, 16, 1};
  s.key = s.value = {9600, 9600, 16, 1};
  s.has_valid_keys = true;
  s.valid_keys = 1;
  const std::vector<int64_t> valid = {3, 0};
  const float nan = std::nanf("");
  std::vector<float> query(64, 0.5f), key(19200, nan), value(19200, nan), out(64, nan);
  std::fill(key.begin(), key.begin() + 48, 1.0f);
  std::fill(value.begin(), value.begin() + 48, 7.0f);
  AttentionArgs args{query.data(), key.data(), value.data(), nullptr, valid.data(), nullptr, out.data()};
  AttentionLibrary library;
  library.kernel(s)->run(args);
  for (int k = 0; k < 32; ++k) EXPECT_FLOAT_EQ(out[k], 7.0f);
  for (int k = 32; k < 64; ++k) EXPECT_EQ(out[k], 0.0f);
}

}  // namespace
}  // namespace braid::rt
