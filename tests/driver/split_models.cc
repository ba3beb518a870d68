#include "tests/driver/split_models.h"

#include <fmt/format.h>

#include <cstring>

namespace braid::test {

std::string weight(const std::string& name, int rows, int columns) {
  std::string values;
  for (int i = 0; i < rows * columns; ++i) values += (i ? ", " : "") + std::to_string((i * 7 + 3) % 5 - 2);
  return fmt::format("float[{},{}] {} = {{{}}}", rows, columns, name, values);
}

std::string network(int layers, int rows, int hidden) {
  std::string weights, nodes, x = "x";
  for (int l = 0; l < layers; ++l) {
    weights += (l ? ", " : "") + weight(fmt::format("up{}", l), hidden, 2 * hidden) + ", " +
               weight(fmt::format("down{}", l), 2 * hidden, hidden);
    nodes += fmt::format(
        "u{0} = MatMul({1}, up{0})\n r{0} = Relu(u{0})\n d{0} = MatMul(r{0}, down{0})\n y{0} = Add({1}, "
        "d{0})\n",
        l, x);
    x = fmt::format("y{}", l);
  }
  return fmt::format("g (float[{0},{1}] x) => (float[{0},{1}] y) <{2}> {{\n{3}y = Neg({4}) }}", rows, hidden,
                     weights, nodes, x);
}

std::string layer(int sequence, int hidden, int heads) {
  std::string weights = fmt::format(
      "int64[1] last = {{-1}}, int64[4] apart = {{1, {}, {}, {}}}, int64[3] together = {{1, {}, {}}}",
      sequence, heads, hidden / heads, sequence, hidden);
  for (const char* name : {"wq", "wk", "wv", "wo"}) weights += ", " + weight(name, hidden, hidden);
  weights += ", " + weight("up", hidden, 2 * hidden) + ", " + weight("down", 2 * hidden, hidden);
  return fmt::format(
      "g (float[1,{0},{1}] x) => (float[1,{0},{1}] y) <{2}> {{\n"
      "m = ReduceMean(x, last)\n n = Sub(x, m)\n"
      "q = MatMul(n, wq)\n k = MatMul(n, wk)\n v = MatMul(n, wv)\n"
      "q4 = Reshape(q, apart)\n k4 = Reshape(k, apart)\n v4 = Reshape(v, apart)\n"
      "qt = Transpose<perm = [0, 2, 1, 3]>(q4)\n kt = Transpose<perm = [0, 2, 3, 1]>(k4)\n"
      "vt = Transpose<perm = [0, 2, 1, 3]>(v4)\n"
      "s = MatMul(qt, kt)\n p = Softmax<axis = -1>(s)\n c = MatMul(p, vt)\n"
      "ct = Transpose<perm = [0, 2, 1, 3]>(c)\n c3 = Reshape(ct, together)\n a = MatMul(c3, wo)\n"
      "r = Add(x, a)\n m2 = ReduceMean(r, last)\n n2 = Sub(r, m2)\n u = MatMul(n2, up)\n g = Relu(u)\n"
      "d = MatMul(g, down)\n y = Add(r, d) }}",
      sequence, hidden, weights);
}

std::vector<ir::Tensor> outputs_of(const ir::Schedule& schedule, const ir::Tensor& x) {
  const std::vector<std::vector<ir::Tensor>> inputs(static_cast<std::size_t>(schedule.graph.ranks), {x});
  std::vector<ir::Tensor> all;
  for (std::vector<ir::Tensor>& outputs : ir::run(schedule, inputs).outputs) all.push_back(outputs.at(0));
  return all;
}

ir::Tensor numbers(std::vector<std::int64_t> sizes) {
  ir::Tensor tensor = ir::make_tensor(ir::DType::f32, std::move(sizes));
  std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = static_cast<float>(static_cast<int>(k * 5 % 7) - 3);
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

}  // namespace braid::test
