#include "frontend/schemas.h"

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <mutex>

#include "frontend/microsoft_schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;

const std::vector<std::string>& value_types() {
  static const std::vector<std::string> types = {
      "tensor(float)",  "tensor(double)", "tensor(float16)", "tensor(bfloat16)", "tensor(int8)",
      "tensor(int16)",  "tensor(int32)",  "tensor(int64)",   "tensor(uint8)",    "tensor(uint16)",
      "tensor(uint32)", "tensor(uint64)", "tensor(bool)"};
  return types;
}

std::int64_t int_attribute(InferenceContext& ctx, const char* name, std::int64_t fallback) {
  const AttributeProto* attribute = ctx.getAttribute(name);
  return attribute ? attribute->i() : fallback;
}

// The number of ranks of ai.braid's `group`, or of each of its `groups`; -1: the whole world, whose size is not known here.
std::int64_t group_ranks(InferenceContext& ctx) {
  const AttributeProto *group = ctx.getAttribute("group"), *groups = ctx.getAttribute("groups");
  if (groups && groups->ints_size() > 0)
    return std::max<std::int64_t>(-1, int_attribute(ctx, "group_size", -1));
  return group && group->ints_size() > 0 ? group->ints_size() : -1;
}

// Shape of output k is that of input k.
void infer_same(InferenceContext& ctx) {
  for (std::size_t k = 0; k < std::min(ctx.getNumInputs(), ctx.getNumOutputs()); ++k) {
    onnx::propagateElemTypeFromInputToOutput(ctx, k, k);
    if (onnx::hasInputShape(ctx, k)) onnx::propagateShapeFromInputToOutput(ctx, k, k);
  }
}

// Shape of output k is that of input k with `axis` multiplied (divided) by the number of ranks.
void infer_scaled(InferenceContext& ctx, std::int64_t ranks, bool divide) {
  const std::int64_t axis_given = int_attribute(ctx, "axis", 0);
  for (std::size_t k = 0; k < std::min(ctx.getNumInputs(), ctx.getNumOutputs()); ++k) {
    onnx::propagateElemTypeFromInputToOutput(ctx, k, k);
    if (!onnx::hasInputShape(ctx, k)) continue;
    onnx::TensorShapeProto shape = ctx.getInputType(k)->tensor_type().shape();
    const std::int64_t axis = axis_given < 0 ? axis_given + shape.dim_size() : axis_given;
    if (axis < 0 || axis >= shape.dim_size()) {
      fail_shape_inference("attribute 'axis' is ", axis_given, " for a tensor of rank ", shape.dim_size());
    }
    onnx::TensorShapeProto::Dimension& dim = *shape.mutable_dim(static_cast<int>(axis));
    std::int64_t size = 0;
    if (!dim.has_dim_value() || ranks < 0) {
      dim.Clear();
    } else if (divide) {
      if (dim.dim_value() % ranks != 0)
        fail_shape_inference("size ", dim.dim_value(), " is not divisible by ", ranks, " ranks");
      dim.set_dim_value(dim.dim_value() / ranks);
    } else {
      if (__builtin_mul_overflow(dim.dim_value(), ranks, &size)) fail_shape_inference("the size overflows");
      dim.set_dim_value(size);
    }
    *ctx.getOutputType(k)->mutable_tensor_type()->mutable_shape() = shape;
  }
}

std::int64_t group_size(InferenceContext& ctx) {
  const std::int64_t ranks = int_attribute(ctx, "group_size", 1);
  if (ranks < 1) fail_shape_inference("attribute 'group_size' is ", ranks, "; a group has at least one rank");
  return ranks;
}

OpSchema variadic(const char* name, const char* domain) {
  OpSchema schema(name, __FILE__, __LINE__);
  schema.SetDomain(domain).SinceVersion(1);
  schema.Input(0, "inputs", "tensors of this rank", "T", OpSchema::Variadic, false, 1);
  schema.Output(0, "outputs", "results", "T", OpSchema::Variadic, false, 1);
  schema.TypeConstraint("T", value_types(), "element types");
  return schema;
}

void add_group(OpSchema& schema) {
  schema.Attr("group", "ranks that take part, in order; absent: all", AttributeProto::INTS, false);
  schema.Attr("groups", "ranks of several groups, group after group, each on its own", AttributeProto::INTS,
              false);
  schema.Attr("group_size", "number of ranks in the group; checked. With groups: in each of them",
              AttributeProto::INT, false);
}

OpSchema grouped(const char* name) {
  OpSchema schema = variadic(name, kBraidDomain);
  add_group(schema);
  return schema;
}

// Output k has input k's shape with axis `gathered` multiplied and axis `cut` divided by the number of ranks.
void infer_moved(InferenceContext& ctx, const char* cut_name, const char* gathered_name) {
  const std::int64_t ranks = group_ranks(ctx);
  for (std::size_t k = 0; k < std::min(ctx.getNumInputs(), ctx.getNumOutputs()); ++k) {
    onnx::propagateElemTypeFromInputToOutput(ctx, k, k);
    if (!onnx::hasInputShape(ctx, k)) continue;
    onnx::TensorShapeProto shape = ctx.getInputType(k)->tensor_type().shape();
    const auto axis_of = [&](const char* name) {
      const std::int64_t given = int_attribute(ctx, name, 0);
      const std::int64_t axis = given < 0 ? given + shape.dim_size() : given;
      if (axis < 0 || axis >= shape.dim_size())
        fail_shape_inference("attribute '", name, "' is ", given, " for a tensor of rank ", shape.dim_size());
      return static_cast<int>(axis);
    };
    const int cut = axis_of(cut_name), gathered = axis_of(gathered_name);
    if (cut != gathered) {
      for (const int axis : {cut, gathered}) {
        onnx::TensorShapeProto::Dimension& dim = *shape.mutable_dim(axis);
        std::int64_t size = 0;
        const bool known = dim.has_dim_value() && ranks > 0;
        if (known && axis == cut && dim.dim_value() % ranks != 0)
          fail_shape_inference("size ", dim.dim_value(), " is not divisible by ", ranks, " ranks");
        if (known && axis == gathered && __builtin_mul_overflow(dim.dim_value(), ranks, &size))
          fail_shape_inference("the size overflows");
        if (!known) {
          dim.Clear();
        } else {
          dim.set_dim_value(axis == cut ? dim.dim_value() / ranks : size);
        }
      }
    }
    *ctx.getOutputType(k)->mutable_tensor_type()->mutable_shape() = shape;
  }
}

void register_microsoft() {
  RegisterSchema(variadic("AllReduce", kMicrosoftDomain).TypeAndShapeInferenceFunction(infer_same));
  RegisterSchema(
      variadic("AllGather", kMicrosoftDomain)
          .Attr("axis", "axis along which ranks follow each other", AttributeProto::INT, std::int64_t{0})
          .Attr("group_size", "number of ranks", AttributeProto::INT, std::int64_t{1})
          .TypeAndShapeInferenceFunction(
              [](InferenceContext& ctx) { infer_scaled(ctx, group_size(ctx), false); }));
  RegisterSchema(variadic("AllToAll", kMicrosoftDomain)
                     .Attr("group_size", "number of ranks", AttributeProto::INT, std::int64_t{1})
                     .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
                       group_size(ctx);
                       infer_same(ctx);
                     }));
}

void register_braid() {
  const char* reduce_doc = "sum, prod, max, min or avg";
  const char* algorithm_doc =
      "kernel: automatic, one_shot (peers' inputs are read in place), ring or library";
  const char* all_reduce_doc =
      "kernel: automatic, one_shot (peers' inputs are read in place), two_shot (slabs), ring or library";
  const std::string automatic = "automatic";
  RegisterSchema(grouped("AllReduce")
                     .Attr("algorithm", all_reduce_doc, AttributeProto::STRING, automatic)
                     .Attr("reduce_op", reduce_doc, AttributeProto::STRING, std::string("sum"))
                     .TypeAndShapeInferenceFunction(infer_same));
  RegisterSchema(
      grouped("AllGather")
          .Attr("algorithm", algorithm_doc, AttributeProto::STRING, automatic)
          .Attr("axis", "axis along which ranks follow each other", AttributeProto::INT, std::int64_t{0})
          .TypeAndShapeInferenceFunction(
              [](InferenceContext& ctx) { infer_scaled(ctx, group_ranks(ctx), false); }));
  RegisterSchema(grouped("ReduceScatter")
                     .Attr("algorithm", algorithm_doc, AttributeProto::STRING, automatic)
                     .Attr("axis", "axis that is scattered", AttributeProto::INT, std::int64_t{0})
                     .Attr("reduce_op", reduce_doc, AttributeProto::STRING, std::string("sum"))
                     .TypeAndShapeInferenceFunction(
                         [](InferenceContext& ctx) { infer_scaled(ctx, group_ranks(ctx), true); }));
  RegisterSchema(grouped("Broadcast")
                     .Attr("root", "rank whose tensor all ranks get, as a position in the group",
                           AttributeProto::INT, std::int64_t{0})
                     .TypeAndShapeInferenceFunction(infer_same));
  RegisterSchema(
      grouped("AllToAll")
          .Attr("split_axis", "axis of which slab k goes to rank k", AttributeProto::INT, std::int64_t{0})
          .Attr("concat_axis", "axis along which received slabs are concatenated", AttributeProto::INT,
                std::int64_t{0})
          .Attr("split_sizes", "rows of axis 0 from each position of the group to each, row by row",
                AttributeProto::INTS, false)
          .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
            const AttributeProto* split = ctx.getAttribute("split_sizes");
            if (split == nullptr || split->ints_size() == 0) {
              return infer_moved(ctx, "split_axis", "concat_axis");
            }
            infer_same(ctx);  // rows and columns of the matrix have one sum
          }));
  RegisterSchema(grouped("ShardDimAllToAll")
                     .Attr("gather_dim", "axis that is gathered", AttributeProto::INT, true)
                     .Attr("shard_dim", "axis that is sharded", AttributeProto::INT, true)
                     .TypeAndShapeInferenceFunction(
                         [](InferenceContext& ctx) { infer_moved(ctx, "shard_dim", "gather_dim"); }));
  RegisterSchema(grouped("BatchSendRecv")
                     .Attr("pairs", "source, target, source, target, ... as positions in the group",
                           AttributeProto::INTS, true)
                     .TypeAndShapeInferenceFunction(infer_same));

  OpSchema wait("WaitTensor", __FILE__, __LINE__);
  wait.SetDomain(kBraidDomain).SinceVersion(1);
  wait.Input(0, "input", "result of a collective", "T")
      .Output(0, "output", "the same", "T")
      .TypeConstraint("T", value_types(), "element types")
      .TypeAndShapeInferenceFunction(infer_same);
  RegisterSchema(std::move(wait));

  OpSchema of_rank("OfRank", __FILE__, __LINE__);
  of_rank.SetDomain(kBraidDomain).SinceVersion(1);
  of_rank.Input(0, "table", "a constant with one row per rank", "T")
      .Output(0, "row", "the row of this rank", "T")
      .TypeConstraint("T", value_types(), "element types")
      .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
        onnx::propagateElemTypeFromInputToOutput(ctx, 0, 0);
        if (!onnx::hasInputShape(ctx, 0)) return;
        const onnx::TensorShapeProto& table = ctx.getInputType(0)->tensor_type().shape();
        if (table.dim_size() == 0) fail_shape_inference("the table has no rows");
        onnx::TensorShapeProto& row = *ctx.getOutputType(0)->mutable_tensor_type()->mutable_shape();
        for (int k = 1; k < table.dim_size(); ++k) *row.add_dim() = table.dim(k);
      });
  RegisterSchema(std::move(of_rank));

  OpSchema send("Send", __FILE__, __LINE__);
  send.SetDomain(kBraidDomain).SinceVersion(1);
  add_group(send);
  send.Attr("peer", "receiving rank, as a position in the group", AttributeProto::INT, true)
      .Input(0, "input", "tensor to send", "T")
      .TypeConstraint("T", value_types(), "element types");
  RegisterSchema(std::move(send));

  OpSchema recv("Recv", __FILE__, __LINE__);
  recv.SetDomain(kBraidDomain).SinceVersion(1);
  add_group(recv);
  recv.Attr("peer", "sending rank, as a position in the group", AttributeProto::INT, true)
      .Attr("dtype", "element type, as in TensorProto", AttributeProto::INT, true)
      .Input(0, "shape", "sizes of the tensor to receive", "tensor(int64)")
      .Output(0, "output", "tensor received", "T")
      .TypeConstraint("T", value_types(), "element types")
      .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
        onnx::propagateElemTypeFromAttributeToOutput(ctx, "dtype", 0);
        bool found = false;
        const onnx::TensorShapeProto shape = onnx::getShapeInput(ctx, 0, found);
        if (found) *ctx.getOutputType(0)->mutable_tensor_type()->mutable_shape() = shape;
      });
  RegisterSchema(std::move(recv));
}

// TensorRT's, in ONNX's own domain.
void register_dist_collective() {
  OpSchema schema("DistCollective", __FILE__, __LINE__);
  schema.SetDomain(onnx::ONNX_DOMAIN).SinceVersion(1);
  schema
      .Attr("collective_operation", "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or reduce",
            AttributeProto::STRING, true)
      .Attr("reduce_op", "sum, prod, max, min, avg or none", AttributeProto::STRING, std::string("none"))
      .Attr("root", "rank that broadcasts", AttributeProto::INT, std::int64_t{-1})
      .Attr("nb_rank", "number of ranks", AttributeProto::INT, std::int64_t{-1})
      .Attr("group_size", "number of ranks in each group", AttributeProto::INT, std::int64_t{-1})
      .Attr("groups", "ranks, group after group; absent: all in one", AttributeProto::INTS, false)
      .Input(0, "input", "tensor of this rank", "T")
      .Output(0, "output", "result", "T")
      .TypeConstraint("T", value_types(), "element types")
      .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
        onnx::propagateElemTypeFromInputToOutput(ctx, 0, 0);
        if (!onnx::hasInputShape(ctx, 0)) return;
        const AttributeProto* operation = ctx.getAttribute("collective_operation");
        const bool gather = operation != nullptr && operation->s() == "all_gather";
        if (!gather && (operation == nullptr || operation->s() != "reduce_scatter")) {
          return onnx::propagateShapeFromInputToOutput(ctx, 0, 0);
        }
        const AttributeProto* groups = ctx.getAttribute("groups");
        std::int64_t ranks = int_attribute(ctx, "group_size", -1);
        if (ranks < 1 && groups != nullptr && groups->ints_size() > 0) ranks = groups->ints_size();
        if (ranks < 1) ranks = int_attribute(ctx, "nb_rank", -1);
        infer_scaled(ctx, ranks < 1 ? -1 : ranks, !gather);
      });
  RegisterSchema(std::move(schema));
}

// RMSNormalization of ONNX, and ONNX Runtime's name of it, in ONNX's own domain, which may also return the statistics. The result has the
// type of the scale; ONNX's own inference gives it the input's, and refuses models whose two types differ.
void register_rms_normalization(const char* name, int version) {
  OpSchema schema(name, __FILE__, __LINE__);
  schema.SetDomain(onnx::ONNX_DOMAIN).SinceVersion(version);
  const std::vector<std::string> floats = {"tensor(float)", "tensor(double)", "tensor(float16)",
                                           "tensor(bfloat16)"};
  schema.Attr("axis", "first normalised axis", AttributeProto::INT, std::int64_t{-1})
      .Attr("epsilon", "added to the mean of squares", AttributeProto::FLOAT, 1e-5f)
      .Attr("stash_type", "type in which the statistics are computed", AttributeProto::INT, std::int64_t{1})
      .Input(0, "X", "input", "T")
      .Input(1, "scale", "scale", "V")
      .Output(0, "Y", "output", "V")
      .TypeConstraint("T", floats, "input type")
      .TypeConstraint("V", floats, "output type")
      .TypeAndShapeInferenceFunction([](InferenceContext& ctx) {
        onnx::propagateElemTypeFromInputToOutput(ctx, 1, 0);
        if (onnx::hasInputShape(ctx, 0)) onnx::propagateShapeFromInputToOutput(ctx, 0, 0);
        if (ctx.getNumOutputs() > 1)
          ctx.getOutputType(1)->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
      });
  if (onnx::OpSchemaRegistry::Schema(name, version, "") != nullptr) {
    onnx::DeregisterSchema(name, version, "");
  } else {
    schema.Output(1, "inv_std_var", "reciprocal of the root of the mean of squares", "U", OpSchema::Optional)
        .TypeConstraint("U", {"tensor(float)", "tensor(double)"}, "statistics type");
  }
  RegisterSchema(std::move(schema));
}

// ONNX marks version 18 as deprecated since version 21 gives scale and bias one number per channel instead of per
// group. Models of operator sets 18 to 20 have it all the same, and other runtimes accept them.
void restore_group_normalization() {
  const char* name = "GroupNormalization";
  constexpr int kVersion = 18;
  const OpSchema* old = onnx::OpSchemaRegistry::Schema(name, kVersion, "");
  if (old == nullptr || !old->Deprecated()) return;
  OpSchema schema(name, __FILE__, __LINE__);
  schema.SetDomain("").SinceVersion(kVersion);
  schema.Attr("epsilon", "added to the variance", AttributeProto::FLOAT, 1e-5f);
  schema.Attr("num_groups", "divides the number of channels", AttributeProto::INT, true);
  schema.Input(0, "X", "(N, C, ...)", "T")
      .Input(1, "scale", "(num_groups)", "T")
      .Input(2, "bias", "(num_groups)", "T");
  schema.Output(0, "Y", "of the same shape as X", "T");
  schema.TypeConstraint("T", old->typeConstraintParams().front().allowed_type_strs, "floating-point types");
  schema.TypeAndShapeInferenceFunction(onnx::propagateShapeAndTypeFromFirstInput);
  onnx::DeregisterSchema(name, kVersion, "");
  RegisterSchema(std::move(schema));
}

}  // namespace

void register_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& domains = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    for (const char* domain : {kBraidDomain, kMicrosoftDomain}) {
      if (!domains.Map().count(domain)) domains.AddDomainToVersion(domain, 1, 1);
    }
    register_microsoft();
    register_microsoft_attention();
    register_microsoft_normalizations();
    register_microsoft_products();
    register_microsoft_quantised();
    register_braid();
    register_dist_collective();
    register_rms_normalization("SimplifiedLayerNormalization", 1);
    register_rms_normalization("RMSNormalization", 23);
    restore_group_normalization();
  });
}

}  // namespace braid::frontend
