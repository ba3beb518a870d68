// Conversions between states: which collectives they take, and their nodes in the rank-local model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/sharding/local.h"
#include "frontend/sharding/mesh.h"

namespace braid::frontend::sharding {

// One step of a conversion. `slice` and `permute` move no data between ranks.
enum class StepKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, slice, permute };
const char* to_string(StepKind kind);

struct ConversionStep {
  StepKind kind = StepKind::slice;
  std::int64_t bytes = 0;  // what one rank has before the step
  ir::DType dtype = ir::DType::f32;
  int axis = 0;    // of the mesh
  int stride = 1;  // between the ranks of a group along it
};

// The steps from one state to another; empty if they are equal. nullopt: impossible (R -> P, P -> another P, element types
// that no collective takes). `bytes` are those of the whole tensor.
std::optional<std::vector<ConversionStep>> conversion_steps(const Spec& from, const Spec& to, ir::DType dtype,
                                                            std::int64_t bytes, int ranks);

// The cheapest steps from one state on a mesh to another, each on one axis; empty if they are equal. Between them an axis is in its first
// state, whole, in its last one or, of a pending tensor, scattered; an axis moves only while no later axis cuts its parts of a dimension further, or is pending with
// another reduction. nullopt: impossible. `bytes` and `sizes` are those of the whole tensor, `cost` that of a step on so many ranks.
std::optional<std::vector<ConversionStep>> mesh_conversion_steps(
    const MeshSpec& from, const MeshSpec& to, ir::DType dtype, std::int64_t bytes,
    const std::vector<ir::Expr>& sizes, const Mesh& mesh,
    const std::function<std::int64_t(const ConversionStep& step, int ranks)>& cost);

// Emits the nodes that convert `name`, a tensor of these whole sizes, into `result`. Requires a possible conversion between
// different states.
void emit_conversion(LocalModel& model, const std::string& name, const Spec& from, const Spec& to,
                     const std::vector<ir::Expr>& sizes, const std::string& result);

// Whether a program has its weights, or is made to be priced: then parts of large ones have their sizes, and any bytes.
enum class Weights : std::uint8_t { cut, any_bytes };
// Whether parts of a tensor may have any bytes then.
bool is_large(const Tensor& tensor);
// What each rank has of a constant of `before` ranks: rank q * ranks + r has part r of what rank q had. Pending sums: the whole tensor
// in part 0 and zeros elsewhere.
Tensor shard(const Tensor& tensor, const Spec& spec, int ranks, int before = 1,
             Weights weights = Weights::cut);
// Whether shard() can.
bool can_shard(const Tensor& tensor, const Spec& spec);

}  // namespace braid::frontend::sharding
