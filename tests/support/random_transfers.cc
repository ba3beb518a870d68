#include "tests/support/random_transfers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "tests/frontend/models.h"
#include "tests/support/random_choice.h"

namespace braid::test {
namespace {

constexpr int kColumns = 4;

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed), ranks_(random_.from(2, 4)) {
    line("low = Constant <value = float {{-4.0}}> ()");
    line("high = Constant <value = float {{4.0}}> ()");
    for (const int rows : {2 * ranks_, 2 * ranks_, ranks_, 2, kColumns}) {
      inputs_.push_back({fmt::format("x{}", inputs_.size()), rows});
      values_.push_back(inputs_.back());
    }
    used_.assign(values_.size(), false);
  }

  RandomProgram write(int steps) {
    for (int k = 0; k < steps; ++k) step();
    std::vector<std::string> in, out;
    for (const Value& v : inputs_) in.push_back(type_of(v));
    for (std::size_t k = 0; k < values_.size(); ++k) {
      if (!used_[k]) out.push_back(type_of(values_[k]));
    }
    // An input that nothing reads would be an output itself.
    std::erase_if(out, [](const std::string& o) { return o.find(" x") != std::string::npos; });
    if (out.empty()) {
      line("y = Relu (x0)");
      out.push_back(type_of({"y", inputs_[0].rows}));
    }
    const std::string text =
        fmt::format("g ({}) => ({}) {{\n{}}}", fmt::join(in, ", "), fmt::join(out, ", "), nodes_);
    onnx::ModelProto model = frontend::parse_model(text);
    for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
      if (node.op_type() == "Send") node.clear_output();  // ONNX text has no nodes without outputs
    }
    RandomProgram program{frontend::import_proto(model, {.ranks = ranks_}), {}, {}};
    constexpr ir::ChannelPolicy kPolicies[] = {ir::ChannelPolicy::global, ir::ChannelPolicy::communicator};
    program.schedule.channels = kPolicies[random_.below(2)];
    for (int rank = 0; rank < ranks_; ++rank) {
      program.inputs.emplace_back();
      for (const Value& v : inputs_) {
        std::vector<float> numbers(static_cast<std::size_t>(v.rows * kColumns));
        for (float& x : numbers) x = static_cast<float>(random_.from(-4, 4));
        program.inputs.back().push_back(ir::make_tensor(ir::DType::f32, {v.rows, kColumns}, numbers));
      }
    }
    return program;
  }

 private:
  struct Value {
    std::string name;
    int rows = 0;
  };

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    nodes_ += "  " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  static std::string type_of(const Value& v) {
    return fmt::format("float[{}, {}] {}", v.rows, kColumns, v.name);
  }
  std::string fresh() { return fmt::format("v{}", names_++); }

  // One of the values, mostly a late one.
  Value any() {
    const int count = static_cast<int>(values_.size());
    const int k = random_.flip() ? random_.below(count) : random_.from(std::max(0, count - 3), count - 1);
    used_[static_cast<std::size_t>(k)] = true;
    return values_[static_cast<std::size_t>(k)];
  }
  void add(const std::string& name, int rows) {
    values_.push_back({name, rows});
    used_.push_back(false);
  }
  // Sums and products grow; kept small, they are exact.
  void add_small(const std::string& name, int rows) {
    const std::string small = fresh();
    line("{} = Clip ({}, low, high)", small, name);
    add(small, rows);
  }

  void step() {
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return batch();
      case 4:
      case 5:
        return message();
      case 6:
        return scatter();
      case 7:
        return gather();
      case 8:
        return reduce();
      case 9:
        return product();
      default:
        return pointwise();
    }
  }

  // Each target has one source; a ring, an exchange, or whatever comes.
  void batch() {
    std::vector<int> targets(static_cast<std::size_t>(ranks_)), pairs;
    std::iota(targets.begin(), targets.end(), 0);
    for (const int target : targets) {
      const int source = random_.below(ranks_);
      if (random_.below(4) != 0 && source != target) pairs.insert(pairs.end(), {source, target});
    }
    if (pairs.empty()) pairs = {0, 1};
    const Value x = any();
    const std::string y = fresh();
    line("{} = ai.braid.BatchSendRecv <pairs = [{}]> ({})", y, fmt::join(pairs, ", "), x.name);
    add(y, x.rows);
  }

  // From one rank to another; all others have what they had.
  void message() {
    const int source = random_.below(ranks_);
    const int target = (source + random_.from(1, ranks_ - 1)) % ranks_;
    const Value x = any();
    const std::string size = fresh(), got = fresh(), table = fresh(), here = fresh(), mask = fresh(),
                      y = fresh();
    line("{} = ai.braid.Send <group = [{}, {}], peer = 1> ({})", fresh(), source, target, x.name);
    line("{} = Constant <value = int64[2] {{{}, {}}}> ()", size, x.rows, kColumns);
    line("{} = ai.braid.Recv <group = [{}, {}], peer = 0, dtype = 1> ({})", got, source, target, size);
    std::vector<int> is_target(static_cast<std::size_t>(ranks_), 0);
    is_target[static_cast<std::size_t>(target)] = 1;
    line("{} = Constant <value = int64[{}, 1] {{{}}}> ()", table, ranks_, fmt::join(is_target, ", "));
    line("{} = ai.braid.OfRank ({})", here, table);
    line("{} = Cast <to = 9> ({})", mask, here);
    line("{} = Where ({}, {}, {})", y, mask, got, x.name);
    add(y, x.rows);
  }

  void scatter() {
    const Value x = any();
    if (x.rows % ranks_ != 0) return pointwise();
    const std::string y = fresh();
    line("{} = ai.braid.ReduceScatter ({})", y, x.name);
    add_small(y, x.rows / ranks_);
  }

  void gather() {
    const Value x = any();
    if (x.rows > 4) return pointwise();
    const std::string y = fresh();
    line("{} = ai.braid.AllGather ({})", y, x.name);
    add(y, x.rows * ranks_);
  }

  void reduce() {
    const Value x = any();
    const std::string y = fresh();
    line("{} = ai.braid.AllReduce ({})", y, x.name);
    add_small(y, x.rows);
  }

  void product() {
    const Value x = any();
    const std::string y = fresh();
    line("{} = MatMul ({}, {})", y, x.name, inputs_.back().name);
    used_[inputs_.size() - 1] = true;
    add_small(y, x.rows);
  }

  void pointwise() {
    const Value x = any(), other = any();
    const std::string y = fresh();
    if (x.rows == other.rows) {
      line("{} = Add ({}, {})", y, x.name, other.name);
    } else {
      line("{} = Neg ({})", y, x.name);
    }
    add_small(y, x.rows);
  }

  Random random_;
  int ranks_;
  std::string nodes_;
  std::vector<Value> inputs_, values_;
  std::vector<bool> used_;
  int names_ = 0;
};

}  // namespace

RandomProgram random_transfers(std::uint64_t seed, int steps) { return Writer(seed).write(steps); }

}  // namespace braid::test
