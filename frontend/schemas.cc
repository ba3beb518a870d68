#include "frontend/schemas.h"

#include <onnx/defs/schema.h>

#include <mutex>

#include "frontend/microsoft_schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

const std::vector<std::string>& value_types() {
  static const std::vector<std::string> types = {
      "tensor(float)",  "tensor(double)", "tensor(float16)", "tensor(bfloat16)", "tensor(int8)",
      "tensor(int16)",  "tensor(int32)",  "tensor(int64)",   "tensor(uint8)",    "tensor(uint16)",
      "tensor(uint32)", "tensor(uint64)", "tensor(bool)"};
  return types;
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

void register_microsoft() {
  RegisterSchema(variadic("AllReduce", kMicrosoftDomain));
  RegisterSchema(
      variadic("AllGather", kMicrosoftDomain)
          .Attr("axis", "axis along which ranks follow each other", AttributeProto::INT, std::int64_t{0})
          .Attr("group_size", "number of ranks", AttributeProto::INT, std::int64_t{1}));
  RegisterSchema(variadic("AllToAll", kMicrosoftDomain)
                     .Attr("group_size", "number of ranks", AttributeProto::INT, std::int64_t{1}));
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
                     .Attr("reduce_op", reduce_doc, AttributeProto::STRING, std::string("sum")));
  RegisterSchema(
      grouped("AllGather")
          .Attr("algorithm", algorithm_doc, AttributeProto::STRING, automatic)
          .Attr("axis", "axis along which ranks follow each other", AttributeProto::INT, std::int64_t{0}));
  RegisterSchema(grouped("ReduceScatter")
                     .Attr("algorithm", algorithm_doc, AttributeProto::STRING, automatic)
                     .Attr("axis", "axis that is scattered", AttributeProto::INT, std::int64_t{0})
                     .Attr("reduce_op", reduce_doc, AttributeProto::STRING, std::string("sum")));
  RegisterSchema(grouped("Broadcast")
                     .Attr("root", "rank whose tensor all ranks get, as a position in the group",
                           AttributeProto::INT, std::int64_t{0}));
  RegisterSchema(
      grouped("AllToAll")
          .Attr("split_axis", "axis of which slab k goes to rank k", AttributeProto::INT, std::int64_t{0})
          .Attr("concat_axis", "axis along which received slabs are concatenated", AttributeProto::INT,
                std::int64_t{0})
          .Attr("split_sizes", "rows of axis 0 from each position of the group to each, row by row",
                AttributeProto::INTS, false));
  RegisterSchema(grouped("ShardDimAllToAll")
                     .Attr("gather_dim", "axis that is gathered", AttributeProto::INT, true)
                     .Attr("shard_dim", "axis that is sharded", AttributeProto::INT, true));
  RegisterSchema(grouped("BatchSendRecv")
                     .Attr("pairs", "source, target, source, target, ... as positions in the group",
                           AttributeProto::INTS, true));

  OpSchema wait("WaitTensor", __FILE__, __LINE__);
  wait.SetDomain(kBraidDomain).SinceVersion(1);
  wait.Input(0, "input", "result of a collective", "T")
      .Output(0, "output", "the same", "T")
      .TypeConstraint("T", value_types(), "element types");
  RegisterSchema(std::move(wait));

  OpSchema of_rank("OfRank", __FILE__, __LINE__);
  of_rank.SetDomain(kBraidDomain).SinceVersion(1);
  of_rank.Input(0, "table", "a constant with one row per rank", "T")
      .Output(0, "row", "the row of this rank", "T")
      .TypeConstraint("T", value_types(), "element types");
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
      .TypeConstraint("T", value_types(), "element types");
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
      .TypeConstraint("T", value_types(), "element types");
  RegisterSchema(std::move(schema));
}

// ONNX Runtime's name of RMSNormalization, in ONNX's own domain, which may also return the statistics.
void register_simplified_layer_normalization() {
  OpSchema schema("SimplifiedLayerNormalization", __FILE__, __LINE__);
  const std::vector<std::string> floats = {"tensor(float)", "tensor(double)", "tensor(float16)",
                                           "tensor(bfloat16)"};
  schema.SetDomain(onnx::ONNX_DOMAIN)
      .SinceVersion(1)
      .Attr("axis", "first normalised axis", AttributeProto::INT, std::int64_t{-1})
      .Attr("epsilon", "added to the mean of squares", AttributeProto::FLOAT, 1e-5f)
      .Attr("stash_type", "type in which the statistics are computed", AttributeProto::INT, std::int64_t{1})
      .Input(0, "X", "input", "T")
      .Input(1, "scale", "scale", "V")
      .Output(0, "Y", "output", "V")
      .Output(1, "inv_std_var", "reciprocal of the root of the mean of squares", "U", OpSchema::Optional)
      .TypeConstraint("T", floats, "input type")
      .TypeConstraint("V", floats, "output type")
      .TypeConstraint("U", {"tensor(float)", "tensor(double)"}, "statistics type");
  RegisterSchema(std::move(schema));
}

// ONNX marks version 18 as deprecated since version 21 gives scale and bias one number per channel instead of
// per group. Models of operator sets 18 to 20 have it all the same, and other runtimes accept them.
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
    register_simplified_layer_normalization();
    restore_group_normalization();
  });
}

}  // namespace braid::frontend
