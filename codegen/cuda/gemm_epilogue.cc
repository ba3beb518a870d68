// Recognises epilogues that the matrix library has.
#include <algorithm>
#include <array>
#include <cmath>

#include "codegen/cuda/gemm.h"

namespace braid::codegen::cuda {
namespace {

using ir::Instr;
using ir::OpCode;

// The body's value in double for given acc and bias. Only for bodies of the opcodes that `arithmetic_only`
// lets pass.
double evaluate(const ir::LoopBody& body, double acc, double bias) {
  std::vector<double> v;
  for (const Instr& instr : body.instrs) {
    const auto at = [&](std::size_t k) { return v[static_cast<std::size_t>(instr.operands[k].index)]; };
    switch (instr.code) {
      case OpCode::acc:
        v.push_back(acc);
        break;
      case OpCode::load:
        v.push_back(bias);
        break;
      case OpCode::constant:
        v.push_back(std::holds_alternative<double>(instr.literal)
                        ? std::get<double>(instr.literal)
                        : static_cast<double>(std::get<std::int64_t>(instr.literal)));
        break;
      case OpCode::cast:
        v.push_back(at(0));
        break;
      case OpCode::neg:
        v.push_back(-at(0));
        break;
      case OpCode::tanh:
        v.push_back(std::tanh(at(0)));
        break;
      case OpCode::add:
        v.push_back(at(0) + at(1));
        break;
      case OpCode::sub:
        v.push_back(at(0) - at(1));
        break;
      case OpCode::mul:
        v.push_back(at(0) * at(1));
        break;
      case OpCode::div:
        v.push_back(at(0) / at(1));
        break;
      case OpCode::pow:
        v.push_back(std::pow(at(0), at(1)));
        break;
      case OpCode::max:
        v.push_back(std::max(at(0), at(1)));
        break;
      default:
        return NAN;
    }
  }
  return v[static_cast<std::size_t>(body.result.index)];
}

// Smooth arithmetic and max only: with these, agreeing at the points below is agreeing everywhere.
bool arithmetic_only(const ir::LoopBody& body) {
  return std::all_of(body.instrs.begin(), body.instrs.end(), [](const Instr& instr) {
    switch (instr.code) {
      case OpCode::acc:
      case OpCode::load:
      case OpCode::constant:
      case OpCode::neg:
      case OpCode::tanh:
      case OpCode::add:
      case OpCode::sub:
      case OpCode::mul:
      case OpCode::div:
      case OpCode::pow:
      case OpCode::max:
        return ir::is_float(instr.dtype);
      case OpCode::cast:
        return ir::is_float(instr.dtype);
      default:
        return false;
    }
  });
}

double relu(double x) { return std::max(x, 0.0); }
double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)) + 1e-9; }

}  // namespace

std::optional<LibraryEpilogue> match_epilogue(const ir::Graph& graph, const ir::Gemm& gemm) {
  const ir::LoopBody& body = *gemm.epilogue;
  if (body.instrs.size() > 24 || !arithmetic_only(body)) return std::nullopt;
  LibraryEpilogue out;
  bool has_acc = false;
  for (const Instr& instr : body.instrs) {
    has_acc |= instr.code == OpCode::acc;
    if (instr.code != OpCode::load) continue;
    if (out.bias || !instr.operands.empty()) return std::nullopt;
    out.bias = instr;
    const ir::Expr column = graph.pool->index(static_cast<int>(gemm.out.sizes.size()) - 1);
    out.bias_offset = instr.index - column;
    // Nothing but the column may move it, and the library wants it in the type of the output.
    bool moves = false;
    ir::for_each_symbol(out.bias_offset, [&](ir::Expr s) { moves |= !s.is_symbol(ir::SymbolKind::dim); });
    if (moves || graph[instr.buffer].dtype != graph[gemm.out.buffer].dtype) return std::nullopt;
  }
  if (!has_acc) return std::nullopt;
  struct Candidate {
    const char* name;
    double (*function)(double);
  };
  constexpr std::array<Candidate, 3> kCandidates = {
      {{"kNone", [](double x) { return x; }}, {"kRelu", relu}, {"kGelu", gelu_tanh}}};
  constexpr std::array<double, 19> kPoints = {-1e30, -1e6, -100, -7.3, -3.1, -1.7, -1.0, -0.51, -0.1, 0.0,
                                              0.13,  0.37, 0.77, 1.0,  1.9,  3.3,  8.1,  200,   1e30};
  for (const Candidate& candidate : kCandidates) {
    bool same = true;
    for (double acc : kPoints) {
      for (double bias : {0.0, 0.25, -1.5, 2.75}) {
        if (!out.bias && bias != 0.0) continue;
        same = same && close(evaluate(body, acc, bias), candidate.function(acc + bias));
      }
    }
    if (same) {
      out.activation = candidate.name;
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace braid::codegen::cuda
