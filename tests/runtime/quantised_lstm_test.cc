// The extern kernel `quantised_lstm` on the host beside plain loops. Each step of these begins with the state
// that the kernel itself has returned, so that a state between two integers cannot make them differ.
#include "runtime/host/quantised_lstm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/runtime/between.h"
#include "tests/support/random.h"

namespace braid::rt {
namespace {

struct Layer {
  int64_t steps, batch, hidden;
  bool reverse, each_column, is_unsigned;
  std::vector<float> gates, scale, first_h, first_c;
  std::vector<uint8_t> weights;
  std::vector<int32_t> zero, lengths;
  std::vector<float> y, h, c;

  explicit Layer(Random& random)
      : steps(between(random, 0, 5)),
        batch(between(random, 1, 9)),
        hidden(random() % 8 == 0 ? between(random, 64, 200) : between(random, 1, 40)),
        reverse(random() % 2 == 0),
        each_column(hidden * 4 > 1 && random() % 2 == 0),
        is_unsigned(random() % 2 == 0) {
    const auto size = [](int64_t n) { return static_cast<size_t>(n); };
    const auto numbers = [&](int64_t n, float most) {
      std::vector<float> all(size(n));
      for (float& v : all) v = most * (static_cast<float>(between(random, 0, 2000)) / 1000 - 1);
      return all;
    };
    gates = numbers(steps * batch * 4 * hidden, 2);
    first_h = numbers(batch * hidden, 1);
    first_c = numbers(batch * hidden, 1);
    const int64_t parameters = each_column ? 4 * hidden : 1;
    for (int64_t k = 0; k < parameters; ++k) {
      scale.push_back(static_cast<float>(between(random, 1, 20)) / 1000);
      zero.push_back(
          static_cast<int32_t>(is_unsigned ? between(random, 0, 255) : between(random, -128, 127)));
    }
    for (int64_t k = 0; k < hidden * 4 * hidden; ++k) weights.push_back(static_cast<uint8_t>(random()));
    for (int64_t b = 0; b < batch; ++b)
      lengths.push_back(static_cast<int32_t>(random() % 3 == 0 ? between(random, 0, steps) : steps));
    y.resize(size(steps * batch * hidden));
    h.resize(size(batch * hidden));
    c.resize(h.size());
  }

  void run() {
    const int64_t depth = lstm_depth(hidden), columns = 64 * lstm_panels(hidden),
                  parameters = static_cast<int64_t>(scale.size());
    std::vector<int8_t> packed(static_cast<size_t>(depth * columns));
    std::vector<int32_t> sums(static_cast<size_t>(columns));
    std::vector<uint8_t> codes(static_cast<size_t>(batch * depth));
    const BraidDType type = is_unsigned ? BRAID_U8 : BRAID_I8;
    const auto states = [&](BraidDType t, const void* data) {
      return tensor_view(t, data, {batch, hidden}, {hidden, 1});
    };
    ASSERT_EQ(call_extern(
                  quantised_lstm,
                  {tensor_view(BRAID_F32, gates.data(), {steps, batch, 4 * hidden},
                               {batch * 4 * hidden, 4 * hidden, 1}),
                   tensor_view(type, weights.data(), {hidden, 4 * hidden}, {4 * hidden, 1}),
                   tensor_view(BRAID_F32, scale.data(), {parameters}, {1}),
                   tensor_view(BRAID_I32, zero.data(), {parameters}, {1}), states(BRAID_F32, first_h.data()),
                   states(BRAID_F32, first_c.data()), tensor_view(BRAID_I32, lengths.data(), {batch}, {1})},
                  {tensor_view(BRAID_F32, y.data(), {steps, batch, hidden}, {batch * hidden, hidden, 1}),
                   states(BRAID_F32, h.data()), states(BRAID_F32, c.data()),
                   tensor_view(BRAID_I8, packed.data(), {depth, columns}, {columns, 1}),
                   tensor_view(BRAID_I32, sums.data(), {columns}, {1}),
                   tensor_view(BRAID_U8, codes.data(), {batch, depth}, {depth, 1})},
                  {attribute("reverse", int64_t{reverse})}, nullptr),
              nullptr);
  }

  int64_t position(int64_t step, int64_t b) const {
    const int64_t length = lengths[static_cast<size_t>(b)];
    return reverse ? length - 1 - step : step;
  }
  bool runs(int64_t step, int64_t b) const { return step < lengths[static_cast<size_t>(b)]; }

  void expect_plain() const {
    const auto at = [](int64_t k) { return static_cast<size_t>(k); };
    std::vector<float> state = first_h;
    std::vector<double> cells(first_c.begin(), first_c.end());
    std::vector<char> written(y.size());
    const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    for (int64_t step = 0; step < steps; ++step) {
      const float least = std::min(0.0f, *std::ranges::min_element(state)),
                  most = std::max(0.0f, *std::ranges::max_element(state));
      const float own = (least == most ? 1.0f : most - least) / 255.0f;
      const float own_zero = std::clamp(std::nearbyint(0.0f - least / own), 0.0f, 255.0f);
      std::vector<int64_t> codes;
      for (const float v : state)
        codes.push_back(
            static_cast<int64_t>(std::clamp(std::nearbyint(v / own) + own_zero, 0.0f, 255.0f) - own_zero));
      for (int64_t b = 0; b < batch; ++b) {
        if (!runs(step, b)) continue;
        const int64_t row = (position(step, b) * batch + b) * hidden;
        const auto gate = [&](int64_t column) {
          const size_t p = each_column ? at(column) : 0;
          int64_t sum = 0;
          for (int64_t k = 0; k < hidden; ++k) {
            const uint8_t byte = weights[at(k * 4 * hidden + column)];
            sum += codes[at(b * hidden + k)] * ((is_unsigned ? byte : static_cast<int8_t>(byte)) - zero[p]);
          }
          return static_cast<double>(gates[at(row * 4 + column)]) +
                 static_cast<double>(sum) * static_cast<double>(own) * static_cast<double>(scale[p]);
        };
        for (int64_t u = 0; u < hidden; ++u) {
          double& cell = cells[at(b * hidden + u)];
          cell = sigmoid(gate(2 * hidden + u)) * cell + sigmoid(gate(u)) * std::tanh(gate(3 * hidden + u));
          ASSERT_NEAR(y[at(row + u)], sigmoid(gate(hidden + u)) * std::tanh(cell), 2e-5)
              << "step " << step << ", sequence " << b << ", unit " << u;
          state[at(b * hidden + u)] = y[at(row + u)];
          written[at(row + u)] = 1;
        }
      }
    }
    for (size_t k = 0; k < y.size(); ++k) ASSERT_TRUE(written[k] != 0 || y[k] == 0);
    ASSERT_EQ(h, state);
    for (size_t k = 0; k < c.size(); ++k) ASSERT_NEAR(c[k], cells[k], 2e-5);
  }
};

TEST(QuantisedLstm, AgreesWithPlainLoopsOnAnyNumberOfThreads) {
  Team team(3);
  for (int i = 0; i < test::random_cases(200); ++i) {
    const uint64_t seed = test::first_seed() + static_cast<uint64_t>(i);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    Layer layer(random);
    layer.run();
    layer.expect_plain();
    Layer shared = layer;
    const TeamScope scope(&team);
    shared.run();
    ASSERT_EQ(shared.y, layer.y);
    ASSERT_EQ(shared.c, layer.c);
  }
}

}  // namespace
}  // namespace braid::rt
