#include "frontend/schemas.h"

#include <onnx/defs/schema.h>

#include <mutex>

#include "frontend/microsoft_schemas.h"
#include "frontend/schema_text.h"

namespace braid::frontend {
namespace {

// `group`: ranks that take part, in order; absent: all. `groups`: those of several groups of `group_size`,
// one after another. `root`, `peer` and `pairs` (source, target, source, ...) are positions in the group.
constexpr const char* kBraidSchemas = R"(
AllGather: T* inputs -> T* outputs
  with algorithm = "automatic", axis = 0, group ints?, group_size int?, groups ints?
  where T = values
AllReduce: T* inputs -> T* outputs
  with algorithm = "automatic", group ints?, group_size int?, groups ints?, reduce_op = "sum"
  where T = values
AllToAll: T* inputs -> T* outputs
  with concat_axis = 0, group ints?, group_size int?, groups ints?, split_axis = 0, split_sizes ints?
  where T = values
BatchSendRecv: T* inputs -> T* outputs
  with group ints?, group_size int?, groups ints?, pairs ints
  where T = values
Broadcast: T* inputs -> T* outputs
  with group ints?, group_size int?, groups ints?, root = 0
  where T = values
OfRank: T table -> T row
  where T = values
Recv: tensor(int64) shape -> T output
  with dtype int, group ints?, group_size int?, groups ints?, peer int
  where T = values
ReduceScatter: T* inputs -> T* outputs
  with algorithm = "automatic", axis = 0, group ints?, group_size int?, groups ints?, reduce_op = "sum"
  where T = values
Send: T input ->
  with group ints?, group_size int?, groups ints?, peer int
  where T = values
ShardDimAllToAll: T* inputs -> T* outputs
  with gather_dim int, group ints?, group_size int?, groups ints?, shard_dim int
  where T = values
WaitTensor: T input -> T output
  where T = values
)";

// In ONNX's own domain: TensorRT's collective, and normalisations that ONNX Runtime's optimiser writes into
// models of any operator set. ONNX defines LayerNormalization from 17 on.
constexpr const char* kSchemas = R"(
DistCollective: T input -> T output
  with collective_operation string, group_size = -1, groups ints?, nb_rank = -1, reduce_op = "none",
    root = -1
  where T = values
LayerNormalization: T X, T Scale, T? B -> T Y, U? Mean, U? InvStdDev
  with axis = -1, epsilon = 1e-5, stash_type = 1
  where T = floats; U = float double
SimplifiedLayerNormalization: T X, V scale -> V Y, U? inv_std_var
  with axis = -1, epsilon = 1e-5, stash_type = 1
  where T = floats; V = floats; U = float double
)";

// ONNX marks version 18 as deprecated since version 21 gives scale and bias one number per channel instead of
// per group. Models of operator sets 18 to 20 have it all the same, and other runtimes accept them.
void restore_group_normalization() {
  const char* name = "GroupNormalization";
  constexpr int kVersion = 18;
  const onnx::OpSchema* old = onnx::OpSchemaRegistry::Schema(name, kVersion, "");
  if (old == nullptr || !old->Deprecated()) return;
  onnx::DeregisterSchema(name, kVersion, "");
  register_schemas("", R"(GroupNormalization: T X, T scale, T bias -> T Y
  with epsilon = 1e-5, num_groups int
  where T = float16 float double bfloat16)",
                   kVersion);
}

}  // namespace

void register_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& domains = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    for (const char* domain : {kBraidDomain, kMicrosoftDomain}) {
      if (!domains.Map().count(domain)) domains.AddDomainToVersion(domain, 1, 1);
    }
    register_schemas(kMicrosoftDomain, kMicrosoftSchemas);
    register_schemas(kBraidDomain, kBraidSchemas);
    register_schemas(onnx::ONNX_DOMAIN, kSchemas);
    restore_group_normalization();
  });
}

}  // namespace braid::frontend
