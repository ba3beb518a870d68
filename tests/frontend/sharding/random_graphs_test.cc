// Random graphs of operators on integers, which wrap and so have no rounding: split by plans of random costs
// they must equal the plain graph bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/annotated.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/emitted.h"
#include "tests/frontend/sharding/proof.h"
#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

using Sizes = std::vector<std::int64_t>;

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    const int inputs = 2 + pick(2);
    for (int k = 0; k < inputs; ++k) values_.push_back({fmt::format("x{}", k), random_sizes()});
    for (const Value& v : values_)
      inputs_ += fmt::format("{}int64[{}] {}", inputs_.empty() ? "" : ", ", fmt::join(v.sizes, ", "), v.name);
    given_ = values_.size();
    const int nodes = 4 + pick(10);
    while (count_ < nodes) add();
  }

  onnx::ModelProto model() {
    std::string outputs;
    for (std::size_t k = given_; k < values_.size(); ++k) {
      if (k + 2 < values_.size() && pick(3) != 0) continue;
      const std::string sizes =
          values_[k].sizes.empty() ? "" : fmt::format("[{}]", fmt::join(values_[k].sizes, ", "));
      outputs += fmt::format("{}int64{} {}", outputs.empty() ? "" : ", ", sizes, values_[k].name);
    }
    onnx::ModelProto model = parse_model(fmt::format("g ({}) => ({}) {{ {} }}", inputs_, outputs, text_), 18);
    for (const auto& [name, sizes] : weights_) {
      onnx::TensorProto& weight = *model.mutable_graph()->add_initializer();
      weight.set_name(name);
      weight.set_data_type(onnx::TensorProto::INT64);
      for (const std::int64_t size : sizes) weight.add_dims(size);
      const ir::Tensor values = random_tensor(ir::DType::i64, sizes, -9, 9, false, random_());
      weight.set_raw_data(values.bytes.data(), values.bytes.size());
    }
    return model;
  }

  std::vector<ir::Tensor> inputs(unsigned seed) const {
    std::vector<ir::Tensor> result;
    for (std::size_t k = 0; k < given_; ++k)
      result.push_back(random_tensor(ir::DType::i64, values_[k].sizes, -9, 9, false, seed++));
    return result;
  }

 private:
  struct Value {
    std::string name;
    Sizes sizes;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::int64_t any_size() {
    constexpr std::int64_t kSizes[] = {12, 24, 24, 4, 6, 1, 5, 36, 8, 16};
    return kSizes[pick(10)];
  }
  static constexpr std::int64_t kMostElements = 20000;  // of what a node reads
  static std::int64_t count(const Sizes& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  }
  Sizes random_sizes() {
    Sizes sizes;
    for (int d = 1 + pick(3); d > 0; --d) sizes.push_back(any_size());
    return count(sizes) > kMostElements ? random_sizes() : sizes;
  }
  const Value& any() { return values_[static_cast<std::size_t>(pick(static_cast<int>(values_.size())))]; }

  std::string vector(const Sizes& values) {
    const std::string name = fmt::format("c{}", constants_++);
    text_ += fmt::format("{} = Constant <value = int64[{}] {{{}}}> () ", name, values.size(),
                         fmt::join(values, ", "));
    return name;
  }
  std::string weight(Sizes sizes) {
    const std::string name = fmt::format("w{}", weights_.size());
    weights_.emplace_back(name, std::move(sizes));
    return name;
  }
  std::string result(Sizes sizes) {
    values_.push_back({fmt::format("v{}", count_++), std::move(sizes)});
    return values_.back().name;
  }
  void node(const std::string& call, Sizes sizes) {
    const std::string name = fmt::format("v{}", count_);
    text_ += fmt::format("{} = {} ", name, call);
    result(std::move(sizes));
  }

  void add() {
    const Value a = any();
    const int rank = static_cast<int>(a.sizes.size());
    if (count(a.sizes) > kMostElements) return;
    const int axis = rank == 0 ? 0 : pick(rank);
    const std::int64_t size = rank == 0 ? 1 : a.sizes[static_cast<std::size_t>(axis)];
    switch (pick(19)) {
      case 0:
      case 1: {  // with another value that is broadcast, or with a weight
        const char* ops[] = {"Add", "Sub", "Mul", "Max", "Min"};
        const char* op = ops[pick(5)];
        if (pick(2) == 0)
          return node(fmt::format("{}({}, {})", op, a.name,
                                  weight(pick(2) == 0 || rank == 0 ? a.sizes : Sizes{a.sizes.back()})),
                      a.sizes);
        for (const Value& b : values_) {
          if (b.sizes == a.sizes && b.name != a.name)
            return node(fmt::format("{}({}, {})", op, a.name, b.name), a.sizes);
        }
        return;
      }
      case 2:
      case 3:
      case 4: {
        if (rank == 0) return;
        const std::int64_t n = any_size();
        Sizes sizes = a.sizes;
        const std::string w = weight({sizes.back(), n});
        sizes.back() = n;
        return node(fmt::format("MatMul({}, {})", a.name, w), sizes);
      }
      case 5:
        return node(fmt::format("{}({})", pick(2) == 0 ? "Relu" : "Neg", a.name), a.sizes);
      case 6: {
        if (rank < 2) return;
        Sizes order(a.sizes.size()), sizes;
        for (int d = 0; d < rank; ++d) order[static_cast<std::size_t>(d)] = d;
        std::shuffle(order.begin(), order.end(), random_);
        for (const std::int64_t d : order) sizes.push_back(a.sizes[static_cast<std::size_t>(d)]);
        return node(fmt::format("Transpose <perm = [{}]> ({})", fmt::join(order, ", "), a.name), sizes);
      }
      case 7: {  // a dimension in two, or two in one
        Sizes sizes = a.sizes;
        if (rank >= 2 && pick(2) == 0) {
          const auto d = static_cast<std::size_t>(pick(rank - 1));
          sizes[d] *= sizes[d + 1];
          sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1);
        } else if (rank >= 1 && rank < 4 && size % 2 == 0) {
          const std::int64_t part = size % 3 == 0 && pick(2) == 0 ? 3 : 2;
          sizes[static_cast<std::size_t>(axis)] = part;
          sizes.insert(sizes.begin() + axis + 1, size / part);
          if (pick(2) == 0)
            std::swap(sizes[static_cast<std::size_t>(axis)], sizes[static_cast<std::size_t>(axis) + 1]);
        } else {
          return;
        }
        return node(fmt::format("Reshape({}, {})", a.name, vector(sizes)), sizes);
      }
      case 8: {
        if (rank == 0) return;
        Sizes sizes = a.sizes, other = a.sizes;
        other[static_cast<std::size_t>(axis)] = any_size();
        sizes[static_cast<std::size_t>(axis)] += other[static_cast<std::size_t>(axis)];
        return node(fmt::format("Concat <axis = {}> ({}, {})", axis, a.name, weight(other)), sizes);
      }
      case 9:
      case 10: {  // equal or unequal pieces
        if (rank == 0 || size < 3) return;
        Sizes pieces = size % 3 == 0 && pick(2) == 0 ? Sizes{size / 3, size / 3, size / 3}
                                                     : Sizes{size / 3, size - size / 3};
        if (size % 2 == 0 && pick(2) == 0) pieces = {size / 2, size / 2};
        const std::string sizes_name = vector(pieces);
        std::string names;
        for (const std::int64_t piece : pieces) {
          Sizes sizes = a.sizes;
          sizes[static_cast<std::size_t>(axis)] = piece;
          names += (names.empty() ? "" : ", ") + result(sizes);
        }
        text_ += fmt::format("{} = Split <axis = {}> ({}, {}) ", names, axis, a.name, sizes_name);
        return;
      }
      case 11: {
        if (rank == 0 || size < 2) return;
        const std::int64_t start = pick(static_cast<int>(size)),
                           end = start + 1 + pick(static_cast<int>(size - start));
        Sizes sizes = a.sizes;
        sizes[static_cast<std::size_t>(axis)] = end - start;
        const std::string from = vector({start}), to = vector({end}), along = vector({axis});
        return node(fmt::format("Slice({}, {}, {}, {})", a.name, from, to, along), sizes);
      }
      case 12: {
        if (rank == 0) return;
        const char* ops[] = {"ReduceSum", "ReduceMax", "ReduceMin"};
        const bool keep = pick(2) == 0;
        Sizes sizes = a.sizes;
        sizes[static_cast<std::size_t>(axis)] = 1;
        if (!keep) sizes.erase(sizes.begin() + axis);
        const std::string along = vector({axis});
        return node(fmt::format("{} <keepdims = {}> ({}, {})", ops[pick(3)], keep ? 1 : 0, a.name, along),
                    sizes);
      }
      case 13: {  // rows of a table, by what was computed
        const std::int64_t rows = 12;
        const Sizes table = pick(2) == 0 ? Sizes{rows} : Sizes{rows, any_size()};
        if (a.sizes.size() + table.size() > 5) return;
        const std::string limit = fmt::format("m{}", constants_++), index = fmt::format("i{}", constants_++);
        text_ += fmt::format("{} = Constant <value = int64 {{{}}}> () {} = Mod({}, {}) ", limit, rows, index,
                             a.name, limit);
        Sizes sizes = a.sizes;
        sizes.insert(sizes.end(), table.begin() + 1, table.end());
        return node(fmt::format("Gather({}, {})", weight(table), index), sizes);
      }
      case 14: {
        if (rank > 3) return;
        const std::int64_t n = any_size();
        Sizes sizes = a.sizes;
        sizes.insert(sizes.begin(), n);
        return node(fmt::format("Expand({}, {})", a.name, vector(sizes)), sizes);
      }
      case 15: {
        const std::string less = fmt::format("l{}", constants_++);
        const std::string w = weight(a.sizes);
        text_ += fmt::format("{} = Less({}, {}) ", less, a.name, w);
        return node(fmt::format("Where({}, {}, {})", less, a.name, w), a.sizes);
      }
      case 16: {
        if (rank == 0) return;
        const std::string along = fmt::format("a{}", constants_++);
        text_ += fmt::format("{} = Constant <value = int64 {{{}}}> () ", along, axis);
        return node(fmt::format("CumSum({}, {})", a.name, along), a.sizes);
      }
      case 17: {  // shape code, which computes with the sizes of the whole tensor
        if (rank == 0) return;
        const std::string shape = fmt::format("s{}", constants_++);
        text_ += fmt::format("{} = Shape({}) ", shape, a.name);
        return node(fmt::format("Reshape({}, {})", a.name, shape), a.sizes);
      }
      default: {
        if (rank < 2) return;
        Sizes sizes(a.sizes.begin() + 1, a.sizes.end());
        sizes[0] *= a.sizes[0];
        return node(fmt::format("Reshape({}, {})", a.name, vector(sizes)), sizes);
      }
    }
  }

  std::mt19937 random_;
  std::string inputs_, text_;
  std::vector<Value> values_;
  std::vector<std::pair<std::string, Sizes>> weights_;
  std::size_t given_ = 0;
  int count_ = 0, constants_ = 0;
};

// One to three axes of one to eight ranks.
const std::vector<Mesh>& meshes() {
  static const std::vector<Mesh> all = [] {
    std::vector<Mesh> meshes;
    for (const int ranks : {2, 3, 4, 8}) meshes.push_back(Mesh::line(ranks));
    for (const char* text : {"a=2,b=2", "a=2,b=3", "a=3,b=2", "a=4,b=2", "a=2,b=4", "a=2,b=2,c=2",
                             "a=2,b=1,c=3", "a=1,b=2", "a=2,b=2,c=2"})
      meshes.push_back(parse_mesh(text, "test"));
    return meshes;
  }();
  return all;
}

TEST(RandomGraphs, SplitEqualPlainBitForBit) {
  const int graphs = test::random_cases(300);
  int split = 0, several = 0, joint = 0;
  for (int k = 0; k < graphs; ++k) {
    const auto seed = static_cast<unsigned>(test::first_seed(1000)) + static_cast<unsigned>(k);
    RandomGraph graph(seed);
    const onnx::ModelProto model = graph.model();
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, model.graph().node_size()));
    const std::vector<ir::Tensor> inputs = graph.inputs(seed);
    const std::vector<std::vector<ir::Tensor>> one{inputs};
    std::vector<ir::Tensor> expected;
    try {
      expected = ir::run(import_proto(model), one).outputs[0];
    } catch (const std::exception& error) {
      ADD_FAILURE() << "plain: " << error.what();
      continue;
    }
    // One axis and several.
    const std::size_t line = seed % 4, mesh = 4 + seed % (meshes().size() - 4);
    for (const Mesh& on : {meshes()[line], meshes()[mesh]}) {
      Chosen chosen;
      ImportOptions options;
      options.ranks = on.ranks();
      options.split = chosen_request(chosen, seed * 7 + static_cast<unsigned>(on.ranks()), Caches::whole, on);
      const std::string where = fmt::format("on {}", to_string(on));
      try {
        const ir::Schedule schedule = import_proto(model, options);
        const std::vector<std::vector<ir::Tensor>> all(static_cast<std::size_t>(on.ranks()), inputs);
        const auto outputs = ir::run(schedule, all).outputs;
        split += chosen.split_nodes > 0 ? 1 : 0;
        several += on.size() > 1 && chosen.split_nodes > 0 ? 1 : 0;
        joint += on.size() > 1 && chosen.joint ? 1 : 0;
        EXPECT_EQ(parse_mesh_plan(to_string(chosen.plan), "plan"), chosen.plan) << where;
        // Where axes are chosen in turn a tensor may be converted into more states than are read.
        EXPECT_GE(chosen.found, chosen.priced) << where << "\n" << to_string(chosen.plan);
        if (chosen.joint) EXPECT_EQ(chosen.found, chosen.priced) << where << "\n" << to_string(chosen.plan);
        for (const auto& of_rank : outputs) {
          for (std::size_t o = 0; o < expected.size(); ++o)
            EXPECT_TRUE(of_rank[o] == expected[o])
                << where << ": " << difference(of_rank[o], expected[o], 0) << "\n"
                << to_string(chosen.plan);
        }
      } catch (const std::exception& error) {
        ADD_FAILURE() << where << ": " << error.what() << "\n" << to_string(chosen.plan);
      }
    }
  }
  fmt::print(
      "{} graphs, {} splits of some node, {} on several axes, {} of them chosen for all axes at once\n",
      graphs, split, several, joint);
  EXPECT_GT(split, graphs);
  EXPECT_GT(several, graphs / 2);
}

// Graphs that are written as one ONNX file per rank and read again are the same program. In other forms of
// collectives they have the same results, or a collective is refused by name.
TEST(RandomGraphs, EmittedAreTheSameProgram) {
  const int graphs = test::random_cases(60);
  int other_forms = 0;
  for (int k = 0; k < graphs; ++k) {
    const auto seed = static_cast<unsigned>(test::first_seed(5000)) + static_cast<unsigned>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomGraph graph(seed);
    const TemporaryFolder folder;
    const std::string path = folder.write("model.onnx", graph.model());
    const std::vector<ir::Tensor> inputs = graph.inputs(seed);
    const Mesh mesh = k % 4 == 3 ? meshes_of(4, 2)[0] : Mesh::line(2 + k % 3);
    const int ranks = mesh.ranks();
    Chosen chosen;
    ImportOptions options;
    options.ranks = ranks;
    options.split = chosen_request(chosen, seed * 7, Caches::whole, mesh);
    ir::Schedule direct;
    try {
      direct = import_model(path, options);
      // The plan that was chosen.
      auto request = std::make_shared<SplitRequest>();
      request->plan = to_string(chosen.plan);
      options.split = request;
      EXPECT_EQ(difference_of_texts(read_again(emitted(path, options, {}), options), direct), "");
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    const std::vector<std::vector<ir::Tensor>> all(static_cast<std::size_t>(ranks), inputs);
    for (const CollectiveForm form : {CollectiveForm::microsoft, CollectiveForm::dist}) {
      try {
        const ir::Schedule again = read_again(emitted(path, options, {.form = form}), options);
        EXPECT_EQ(ir::run(again, all).outputs, ir::run(direct, all).outputs) << to_string(form);
        ++other_forms;
      } catch (const ir::UserError& error) {
        EXPECT_EQ(error.code(), errors::kCollectiveForm) << error.what();
        EXPECT_EQ(form, CollectiveForm::microsoft) << error.what();
      }
    }
  }
  EXPECT_GE(other_forms, graphs);
}

// Plans that are written as ONNX's annotations and obeyed again are the same programs, if these can express
// them. Returns how many did and split a node.
int annotated_again(int graphs, unsigned first_seed, const std::vector<Mesh>& meshes) {
  int same = 0, split = 0;
  for (int k = 0; k < graphs; ++k) {
    const auto seed = first_seed + static_cast<unsigned>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomGraph graph(seed);
    const TemporaryFolder folder;
    const std::string path = folder.write("model.onnx", graph.model());
    Chosen chosen;
    ImportOptions options;
    const Mesh& mesh = meshes[static_cast<std::size_t>(k) % meshes.size()];
    options.ranks = mesh.ranks();
    options.split = chosen_request(chosen, seed * 7, Caches::whole, mesh);
    try {
      const ir::Schedule direct = import_model(path, options);
      auto request = std::make_shared<SplitRequest>();
      request->plan = to_string(chosen.plan);
      options.split = request;
      Files files;
      emit_annotated(path, options, {.name = "m", .external_bytes = 1 << 30},
                     [&](const std::string& name, std::span<const std::string_view> parts) {
                       for (const std::string_view part : parts) files[name] += part;
                     });
      onnx::ModelProto annotated;
      EXPECT_TRUE(annotated.ParseFromString(files.at("m.onnx")));
      const Obeyed obeyed = obey(annotated, "", seed);
      EXPECT_EQ(obeyed.plan.mesh, mesh);
      EXPECT_EQ(difference_of_texts(obeyed.schedule, direct), "")
          << to_string(chosen.plan) << "\nwas obeyed as\n"
          << to_string(obeyed.plan);
      ++same;
      split += chosen.split_nodes > 0 ? 1 : 0;
    } catch (const ir::UserError& error) {
      EXPECT_EQ(error.code(), errors::kAnnotationForm) << error.what() << "\n" << to_string(chosen.plan);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << to_string(chosen.plan);
    }
  }
  fmt::print("{} of {} plans can be annotated, {} split some node\n", same, graphs, split);
  return split;
}

TEST(RandomGraphs, AnnotatedAreTheSameProgram) {
  const int graphs = test::random_cases(60);
  EXPECT_GT(annotated_again(graphs, static_cast<unsigned>(test::first_seed(7000)),
                            {Mesh::line(2), Mesh::line(3), Mesh::line(4)}),
            graphs / 4);
}

TEST(RandomGraphs, AnnotatedOnMeshesAreTheSameProgram) {
  const auto mesh = [](const char* text) { return parse_mesh(text, "the test"); };
  const int graphs = test::random_cases(60);
  EXPECT_GT(annotated_again(graphs, static_cast<unsigned>(test::first_seed(9000)),
                            {mesh("dp=2,tp=2"), mesh("dp=2,tp=3"), mesh("a=3,b=2"), mesh("dp=2,ep=2,tp=2")}),
            graphs / 6);
}

}  // namespace
}  // namespace braid::frontend::sharding
