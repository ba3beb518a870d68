#include "tests/frontend/operator_mutations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "frontend/tensor.h"
#include "ir/element.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::ModelProto;
using onnx::TensorProto;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max(),
                       kSmallest = std::numeric_limits<std::int64_t>::min(),
                       kBeyond31 = std::int64_t{1} << 31, kBeyond32 = std::int64_t{1} << 32,
                       kBeyond62 = std::int64_t{1} << 62;
constexpr std::int64_t kSizes[] = {0,         1,         2,         7,       -1, -4, kBeyond31 - 1,
                                   kBeyond31, kBeyond32, kBeyond62, kLargest};
constexpr std::int64_t kIntegers[] = {0,          1,         -1,       2,         kBeyond31 - 1, kBeyond31,
                                      -kBeyond31, kBeyond32, kLargest, -kLargest, kSmallest};
const double kFloats[] = {0, -0.0, 1, -1, 0.5, 1e30, -1e30, 1e-40, INFINITY, -INFINITY, NAN};
const char* const kTexts[] = {"",   ".", "....",      "i....",      "...i...", "i.j->ij",
                              "->", ",", "ij,jk->ik", "SAME_UPPER", "nearest", "\xff"};
constexpr int kTypes[] = {TensorProto::FLOAT,    TensorProto::DOUBLE, TensorProto::FLOAT16,
                          TensorProto::BFLOAT16, TensorProto::INT8,   TensorProto::INT64,
                          TensorProto::UINT64,   TensorProto::INT32,  TensorProto::BOOL,
                          TensorProto::INT4,     TensorProto::STRING, TensorProto::FLOAT8E4M3FN,
                          TensorProto::UINT8};

class Collector {
 public:
  Collector(const ModelProto& model, const std::vector<ir::Tensor>& inputs)
      : model_(model), inputs_(inputs) {}

  std::vector<Mutation> run() {
    add("as it is", [](ModelProto&) {});
    for (int k = 0; k < model_.graph().input_size(); ++k) change_input(k);
    for (int k = 0; k < model_.graph().initializer_size(); ++k) change_initializer(k);
    for (int n = 0; n < model_.graph().node_size(); ++n) change_node(n);
    for (int k = 0; k < model_.graph().output_size(); ++k) change_output(k);
    for (const int version : {1, 6, 7, 9, 10, 11, 12, 13, 14, 16, 18, 19, 20, 22, 23, 25, 28}) {
      add(fmt::format("operator set {}", version), [=](ModelProto& m) {
        for (auto& import : *m.mutable_opset_import()) {
          if (import.domain().empty()) import.set_version(version);
        }
      });
    }
    return std::move(all_);
  }

 private:
  void add(std::string what, std::function<void(ModelProto&)> apply) {
    all_.push_back({std::move(what), std::move(apply)});
  }

  static onnx::TypeProto_Tensor* type_of(onnx::ValueInfoProto& value) {
    return value.type().has_tensor_type() ? value.mutable_type()->mutable_tensor_type() : nullptr;
  }

  // Sizes, number of dimensions and type of a declared value, which `value` finds in a model.
  template <class Find>
  void change_declaration(const std::string& name, const onnx::ValueInfoProto& given, const Find& value) {
    if (!given.type().has_tensor_type()) return;
    const int rank = given.type().tensor_type().shape().dim_size();
    const auto edit = [&](const std::string& what, std::function<void(onnx::TypeProto_Tensor&)> f) {
      add(fmt::format("{}: {}", name, what), [value, f = std::move(f)](ModelProto& m) {
        if (onnx::TypeProto_Tensor* type = type_of(*value(m))) f(*type);
      });
    };
    for (int d = 0; d < rank; ++d) {
      for (const std::int64_t size : kSizes) {
        edit(fmt::format("size {} along {}", size, d),
             [=](auto& t) { t.mutable_shape()->mutable_dim(d)->set_dim_value(size); });
      }
      edit(fmt::format("a name along {}", d),
           [=](auto& t) { t.mutable_shape()->mutable_dim(d)->set_dim_param("named"); });
    }
    for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}})
      edit(fmt::format("one more dimension of {}", size),
           [=](auto& t) { t.mutable_shape()->add_dim()->set_dim_value(size); });
    if (rank > 0) edit("one dimension less", [](auto& t) { t.mutable_shape()->mutable_dim()->RemoveLast(); });
    if (rank > 0) edit("no dimension", [](auto& t) { t.mutable_shape()->clear_dim(); });
    edit("every size 0", [](auto& t) {
      for (auto& dim : *t.mutable_shape()->mutable_dim()) dim.set_dim_value(0);
    });
    edit("every size 1", [](auto& t) {
      for (auto& dim : *t.mutable_shape()->mutable_dim()) dim.set_dim_value(1);
    });
    edit("every size a name of its own", [](auto& t) {
      for (int d = 0; d < t.shape().dim_size(); ++d)
        t.mutable_shape()->mutable_dim(d)->set_dim_param(fmt::format("n{}", d));
    });
    edit("no shape", [](auto& t) { t.clear_shape(); });
    for (const int type : kTypes)
      edit(TensorProto::DataType_Name(type), [=](auto& t) { t.set_elem_type(type); });
  }

  void change_input(int k) {
    const onnx::ValueInfoProto& input = model_.graph().input(k);
    change_declaration(input.name(), input,
                       [k](ModelProto& m) { return m.mutable_graph()->mutable_input(k); });
    if (static_cast<std::size_t>(k) >= inputs_.size()) return;
    // As a constant. Those that are integers often decide sizes.
    const TensorProto tensor =
        proto_of(input.name(), input.type().tensor_type().elem_type(), inputs_[static_cast<std::size_t>(k)]);
    const auto as_constant = [this, k](const std::string& what, const TensorProto& value) {
      add(fmt::format("{} is a constant: {}", value.name(), what), [k, value](ModelProto& m) {
        m.mutable_graph()->mutable_input()->DeleteSubrange(k, 1);
        *m.mutable_graph()->add_initializer() = value;
      });
    };
    as_constant("its value", tensor);
    for (auto& [what, value] : changed(tensor)) as_constant(what, value);
  }

  void change_initializer(int k) {
    const TensorProto& given = model_.graph().initializer(k);
    for (auto& [what, value] : changed(given)) {
      add(fmt::format("{}: {}", given.name(), what),
          [k, value = value](ModelProto& m) { *m.mutable_graph()->mutable_initializer(k) = value; });
    }
  }

  void change_output(int k) {
    const onnx::ValueInfoProto& output = model_.graph().output(k);
    change_declaration(output.name(), output,
                       [k](ModelProto& m) { return m.mutable_graph()->mutable_output(k); });
  }

  static TensorProto proto_of(const std::string& name, int type, const ir::Tensor& tensor) {
    TensorProto proto;
    proto.set_name(name);
    proto.set_data_type(type);
    for (const std::int64_t size : tensor.sizes) proto.add_dims(size);
    proto.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
    return proto;
  }

  // The number written into one element of raw data, as its type has it.
  static void write(TensorProto& proto, ir::DType dtype, std::int64_t at, double real, std::int64_t integer) {
    std::string raw = proto.raw_data();
    auto* const to = reinterpret_cast<std::byte*>(raw.data()) + at * ir::size_of(dtype);
    ir::write_element(dtype, to, is_float(dtype) ? ir::Literal(real) : ir::Literal(integer));
    proto.set_raw_data(std::move(raw));
  }

  // Other values and sizes of a constant with raw data of a type of whole bytes.
  static std::vector<std::pair<std::string, TensorProto>> changed(const TensorProto& given) {
    std::vector<std::pair<std::string, TensorProto>> all;
    const auto copy = [&](std::string what) -> TensorProto& {
      return all.emplace_back(std::move(what), given).second;
    };
    const std::optional<ir::DType> dtype = dtype_of_onnx(given.data_type());
    if (dtype && !is_storage(*dtype) && !given.raw_data().empty()) {
      const auto item = ir::size_of(*dtype);
      const auto count = static_cast<std::int64_t>(given.raw_data().size()) / item;
      const std::size_t values = is_float(*dtype) ? std::size(kFloats) : std::size(kIntegers);
      for (std::size_t v = 0; v < values; ++v) {
        const double real = is_float(*dtype) ? kFloats[v] : 0;
        const std::int64_t integer = is_float(*dtype) ? 0 : kIntegers[v];
        const std::string text = is_float(*dtype) ? fmt::format("{}", real) : fmt::format("{}", integer);
        TensorProto& every = copy("every element " + text);
        for (std::int64_t k = 0; k < std::min<std::int64_t>(count, 64); ++k)
          write(every, *dtype, k, real, integer);
        if (count < 2) continue;
        write(copy("the first element " + text), *dtype, 0, real, integer);
        write(copy("the last element " + text), *dtype, count - 1, real, integer);
      }
      if (given.dims_size() == 1 && count > 0) {
        TensorProto& shorter = copy("one element less");
        shorter.set_dims(0, count - 1);
        shorter.set_raw_data(given.raw_data().substr(0, static_cast<std::size_t>((count - 1) * item)));
        TensorProto& longer = copy("one element more");
        longer.set_dims(0, count + 1);
        longer.set_raw_data(given.raw_data() + given.raw_data().substr(0, static_cast<std::size_t>(item)));
      }
    }
    TensorProto& none = copy("no element");
    none.clear_dims();
    none.add_dims(0);
    none.clear_raw_data();
    TensorProto& empty = copy("sizes of 0");
    for (int d = 0; d < empty.dims_size(); ++d) empty.set_dims(d, 0);
    if (empty.dims_size() > 0) empty.clear_raw_data();
    copy("another dimension").add_dims(1);
    TensorProto& negative = copy("a negative size");
    negative.add_dims(-1);
    TensorProto& huge = copy("a huge size");
    huge.add_dims(kBeyond62);
    return all;
  }

  void change_node(int n) {
    const onnx::NodeProto& node = model_.graph().node(n);
    const auto edit = [&](const std::string& what, std::function<void(onnx::NodeProto&)> f) {
      add(fmt::format("{}: {}", node.op_type(), what),
          [n, f = std::move(f)](ModelProto& m) { f(*m.mutable_graph()->mutable_node(n)); });
    };
    for (int k = 0; k < node.input_size(); ++k) {
      edit(fmt::format("input {} is absent", k), [=](auto& x) { x.set_input(k, ""); });
      if (k > 0) edit(fmt::format("input {} is input 0", k), [=](auto& x) { x.set_input(k, x.input(0)); });
    }
    if (node.input_size() > 0) {
      edit("the last input is left out", [](auto& x) { x.mutable_input()->RemoveLast(); });
      edit("input 0 once more", [](auto& x) { x.add_input(x.input(0)); });
    }
    edit("one more output", [](auto& x) { x.add_output("another"); });
    for (int a = 0; a < node.attribute_size(); ++a) change_attribute(n, a, node.attribute(a));
  }

  void change_attribute(int n, int a, const AttributeProto& given) {
    const auto edit = [&](const std::string& what, std::function<void(AttributeProto&)> f) {
      add(fmt::format("{}: {}", given.name(), what), [n, a, f = std::move(f)](ModelProto& m) {
        f(*m.mutable_graph()->mutable_node(n)->mutable_attribute(a));
      });
    };
    add(given.name() + " is left out", [n, a](ModelProto& m) {
      m.mutable_graph()->mutable_node(n)->mutable_attribute()->DeleteSubrange(a, 1);
    });
    for (const std::int64_t v : kIntegers) {
      if (given.type() == AttributeProto::INT) edit(std::to_string(v), [=](auto& x) { x.set_i(v); });
      if (given.type() != AttributeProto::INTS) continue;
      edit(fmt::format("every element {}", v), [=](auto& x) {
        for (std::int64_t& i : *x.mutable_ints()) i = v;
      });
      if (given.ints_size() > 1) {
        edit(fmt::format("the first element {}", v), [=](auto& x) { x.set_ints(0, v); });
        edit(fmt::format("the last element {}", v), [=](auto& x) { x.set_ints(x.ints_size() - 1, v); });
      }
    }
    if (given.type() == AttributeProto::INTS) {
      edit("empty", [](auto& x) { x.clear_ints(); });
      edit("one element more", [](auto& x) { x.add_ints(1); });
      edit("one element less", [](auto& x) {
        if (x.ints_size() > 0) x.mutable_ints()->RemoveLast();
      });
    }
    for (const double v : kFloats) {
      if (given.type() == AttributeProto::FLOAT)
        edit(fmt::format("{}", v), [=](auto& x) { x.set_f(static_cast<float>(v)); });
      if (given.type() == AttributeProto::FLOATS)
        edit(fmt::format("every element {}", v), [=](auto& x) {
          for (float& f : *x.mutable_floats()) f = static_cast<float>(v);
        });
    }
    for (const char* text : kTexts) {
      if (given.type() == AttributeProto::STRING)
        edit(fmt::format("'{}'", text), [=](auto& x) { x.set_s(text); });
      if (given.type() == AttributeProto::STRINGS)
        edit(fmt::format("every element '{}'", text), [=](auto& x) {
          for (std::string& s : *x.mutable_strings()) s = text;
        });
    }
    if (given.type() == AttributeProto::TENSOR) {
      for (auto& [what, value] : changed(given.t()))
        edit(what, [value = value](auto& x) { *x.mutable_t() = value; });
      for (const int type : kTypes)
        edit(TensorProto::DataType_Name(type), [=](auto& x) { x.mutable_t()->set_data_type(type); });
    }
    edit("another type", [](auto& x) {
      x.set_type(x.type() == AttributeProto::STRING ? AttributeProto::INT : AttributeProto::STRING);
    });
  }

  const ModelProto& model_;
  const std::vector<ir::Tensor>& inputs_;
  std::vector<Mutation> all_;
};

}  // namespace

std::vector<Mutation> mutations_of(const ModelProto& model, const std::vector<ir::Tensor>& inputs) {
  return Collector(model, inputs).run();
}

}  // namespace braid::frontend
