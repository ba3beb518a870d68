// braid verify: compares the compiled program with a reference on the same inputs, and names the first node
// that differs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/exit_codes.h"
#include "cli/given_inputs.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/status_line.h"
#include "codegen/temp_dir.h"
#include "harness/compare.h"
#include "harness/fixed_inputs.h"
#include "harness/inner_values.h"
#include "harness/launched.h"
#include "harness/parts.h"
#include "harness/precision.h"
#include "harness/program.h"
#include "harness/reference.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/kernel_parts.h"

namespace braid::cli {
namespace {

struct VerifyOptions {
  ModelOptions model;
  harness::InputOptions inputs;
  harness::ExecuteOptions execute;
  std::string reference;  // empty: the interpreter
  harness::Tolerance tolerance;
  bool tolerant = false;  // --rtol or --atol is given
  double limit = 1e-5;
  bool limited = false;  // --limit is given
};

// The program that is verified, and what its outputs come from.
struct Verified {
  std::shared_ptr<const harness::Program> program;
  std::optional<ir::Schedule>
      lowered;                  // before any pass: what the interpreter runs; none of a compiled program
  std::optional<double> limit;  // that its roundings need: the passes have left some out
};

bool is_in_tf32(const ir::Operation& op) {
  const ir::Product* const product = ir::as_product(op.kernel);
  const auto* const attention = op.as<ir::Attention>();
  return (product != nullptr && product->tf32) || (attention != nullptr && attention->tf32);
}

Verified open_verified(const VerifyOptions& o, const codegen::TempDir& temporary, const Report& report) {
  const auto open = [&](const std::string& dir, const std::string& shown) {
    return harness::load_program(harness::find_program(dir, o.execute.device, shown));
  };
  if (harness::is_program_dir(o.model.model)) return {open(o.model.model, o.model.model), {}, {}};
  CompileOptions options = compile_options(o.model, report);
  ir::Schedule lowered = lower(options);
  ir::Schedule schedule = lowered;
  // A split program must compute the same as the plain model.
  if (options.split.wanted()) {
    CompileOptions plain = options;
    plain.split = {};
    plain.import.note = nullptr;
    lowered = lower(plain);
  }
  passes::PassContext context = pass_context(options);
  optimise(schedule, options, context);
  // So that a search for the pass that is wrong may stop in the middle of the list.
  if (!schedule.plan && options.run.bisect) complete(schedule, options, context);
  options.output_dir = temporary.path();
  emit_program(schedule, options);
  StatusLine status;
  status.show(fmt::format("compiling {}", options.model));
  Verified verified{open(temporary.path(), options.model), std::move(lowered), {}};
  if (context.dropped_roundings > 0) {
    const auto& buffers = verified.lowered->graph.buffers;
    const bool bf16 = std::any_of(buffers.begin(), buffers.end(),
                                  [](const ir::Buffer& b) { return b.dtype == ir::DType::bf16; });
    verified.limit = harness::default_limit(bf16 ? "bf16" : "f16");
  }
  // A text may say tf32 by itself; the interpreter rounds and the C++ target does not.
  if (std::ranges::any_of(verified.lowered->graph.ops, is_in_tf32))
    verified.limit = std::max(verified.limit.value_or(0), harness::default_limit("tf32"));
  return verified;
}

// Whether a plain model is compared with a program that Braid has made of it for several ranks.
bool is_split(const Verified& verified, const harness::ProgramInterface& table) {
  return verified.lowered && verified.lowered->graph.ranks != table.ranks;
}

// Returns the inputs of the plain model.
std::vector<ir::Tensor> whole_inputs(const harness::ProgramInterface& table,
                                     const harness::GivenInputs& inputs) {
  std::vector<ir::Tensor> all = inputs.ranks[0];
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::optional<harness::TensorPart>& part = table.inputs[k].part;
    if (!part) continue;
    const auto whole = inputs.whole.find(k);
    if (whole == inputs.whole.end()) {
      ir::user_error(
          errors::kBadOption, {},
          fmt::format("'{}' is given rank by rank, and the plain model takes one whole tensor",
                      table.inputs[k].name),
          fmt::format("each rank has {}: give the whole tensor without @RANK, or the same one for every rank",
                      part->text()));
    }
    all[k] = whole->second;
  }
  return all;
}

// The plain model's results say nothing of terms of a sum.
void require_no_terms(const VerifyOptions& o, const harness::ProgramInterface& table) {
  const auto require = [&](const auto& all, const char* what) {
    for (const auto& tensor : all) {
      if (tensor.part && tensor.part->is_term())
        ir::user_error(
            errors::kSplitRequest, {.file = o.model.model},
            fmt::format("each rank has a term of the {} '{}', but it is compared with the plain model", what,
                        tensor.name),
            "let the plan keep it whole, or split a dimension of it");
    }
  };
  require(table.inputs, "input");
  require(table.outputs, "output");
}

harness::RankTensors reference_outputs(const VerifyOptions& o, const Verified& verified,
                                       const harness::ProgramInterface& table,
                                       const harness::GivenInputs& inputs) {
  const bool onnxruntime = o.reference == "onnxruntime";
  const frontend::FixedInputs fixed = harness::read_fixed_inputs(o.model.binds);
  if (!o.reference.empty() && !onnxruntime) {
    harness::StoredOutputs stored = harness::stored_outputs(o.reference, table);
    if (stored.plain) require_no_terms(o, table);
    return std::move(stored.outputs);
  }
  if (is_split(verified, table)) {
    require_no_terms(o, table);
    harness::ProgramInterface plain = table;
    plain.ranks = 1;
    const std::vector<std::vector<ir::Tensor>> whole = {whole_inputs(table, inputs)};
    return harness::RankTensors(
        static_cast<std::size_t>(table.ranks),
        (onnxruntime ? harness::onnxruntime_outputs(o.model.model, fixed, plain, whole)
                     : ir::run(*verified.lowered, whole).outputs)[0]);
  }
  if (onnxruntime) return harness::onnxruntime_outputs(o.model.model, fixed, table, inputs.ranks);
  if (!verified.lowered) {
    ir::user_error(errors::kBadOption, {.file = o.model.model},
                   "the interpreter needs the model, and this is a compiled program",
                   "verify the model, or give --reference DIR with results to compare with");
  }
  return ir::run(*verified.lowered, inputs.ranks).outputs;
}

// The ONNX node whose result an output is; empty if that is not known.
std::string node_of(const Verified& verified, std::size_t output) {
  if (!verified.lowered) return {};
  const ir::Graph& graph = verified.lowered->graph;
  const ir::StorageId storage = root_storage(graph, graph.outputs[output].buffer);
  std::string node;
  for (const ir::OpId id : execution_order(*verified.lowered)) {
    for (const ir::BufferId b : graph[id].outputs) {
      if (root_storage(graph, b) == storage && !graph[id].origins.empty()) node = graph[id].origins.back();
    }
  }
  return node;
}

bool agrees(const VerifyOptions& o, const ir::Tensor& result, const harness::Difference& d) {
  if (!o.reference.empty() || o.tolerant) return d.ok();
  return d.same_type && d.max_relative <= o.limit && (ir::is_float(result.dtype) || d.mismatches == 0);
}

harness::Difference compare_with(const VerifyOptions& o, const ir::Tensor& result,
                                 const ir::Tensor& expected) {
  return harness::compare(result, expected,
                          !o.reference.empty() || o.tolerant
                              ? harness::tolerance_for(o.tolerance, expected.dtype)
                              : harness::Tolerance{.relative = o.limit, .absolute = o.limit});
}

// After outputs that differ: which node is the first that does.
void tell_first_deviation(const VerifyOptions& o, const std::vector<std::vector<ir::Tensor>>& inputs,
                          Report& report) {
  const harness::InnerReference reference{
      .onnxruntime = o.reference == "onnxruntime",
      .compare = [&](const ir::Tensor& a, const ir::Tensor& b) { return compare_with(o, a, b); },
      .agrees = [&](const ir::Tensor& a, const harness::Difference& d) { return agrees(o, a, d); }};
  nlohmann::ordered_json& json = report.json();
  harness::InnerComparison inner;
  try {
    StatusLine status;
    status.show("comparing every node");
    inner = harness::compare_inner_values(compile_options(o.model, report), o.execute, inputs, reference);
  } catch (const ir::UserError& error) {
    report.print("the inner values cannot be compared: {}\n", error.what());
    return;
  }
  json["inner_values"] = inner.compared;
  if (!inner.first) {
    json["first_deviation"] = nullptr;
    report.print(
        "none of {} inner values differs in a program that stores them all: the nodes are right alone, "
        "or together with others than in this program\n",
        inner.compared);
    return;
  }
  const harness::InnerDeviation& first = *inner.first;
  json["first_deviation"] = {{"node", first.node},
                             {"op", first.op},
                             {"value", first.value},
                             {"rank", first.rank},
                             {"worst", first.worst},
                             {"max_relative", first.difference.max_relative},
                             {"max_absolute", first.difference.max_absolute},
                             {"mismatches", first.difference.mismatches},
                             {"elements", first.difference.elements}};
  report.print("first node that differs: '{}'{}, rank {}, value '{}': {}\n", first.node,
               first.op.empty() ? "" : fmt::format(" ({})", first.op), first.rank, first.value,
               to_string(first.difference));
  if (!first.worst.empty()) report.print("  worst at {}\n", first.worst);
}

int run(VerifyOptions o, Report& report) {
  const codegen::TempDir temporary;
  const Verified verified = open_verified(o, temporary, report);
  if (!o.limited && verified.limit) o.limit = std::max(o.limit, *verified.limit);
  const harness::ProgramInterface& table = verified.program->interface();
  const std::string other = o.reference.empty() ? "the interpreter" : o.reference;
  // Stored results belong to given inputs.
  const bool stored = !o.reference.empty() && o.reference != "onnxruntime";
  harness::InputOptions given = o.inputs;
  if (!given.random && !stored) given.random = harness::kDefaultSeed;
  const harness::GivenInputs inputs = make_inputs(table, o.model, given, report);
  std::vector<harness::RankResult> results = harness::execute(*verified.program, inputs.ranks, o.execute);
  const harness::RankTensors expected = reference_outputs(o, verified, table, inputs);

  bool good = true;
  for (harness::RankResult& result : results) {
    const auto r = static_cast<std::size_t>(result.rank);
    for (std::size_t k = 0; k < table.outputs.size(); ++k) {
      // If the reference is whole, the rank's part of it is compared; otherwise both are compared without
      // their padding.
      const std::optional<harness::TensorPart>& part = table.outputs[k].part;
      ir::Tensor reference = expected[r][k];
      if (part && !part->is_term() && part->is_whole(reference)) {
        reference = part->expected(reference, result.rank, result.outputs[k]);
      } else if (part) {
        reference = part->without_padding(std::move(reference), result.rank);
        result.outputs[k] = part->without_padding(std::move(result.outputs[k]), result.rank);
      }
      const harness::Difference d = compare_with(o, result.outputs[k], reference);
      const bool ok = agrees(o, result.outputs[k], d);
      good &= ok;
      report.print("{} rank {} {}: {}\n", ok ? "equal " : "DIFFERS", r, table.outputs[k].name, to_string(d));
      nlohmann::ordered_json& json = report.json()["outputs"].emplace_back();
      json = {{"rank", r},
              {"name", table.outputs[k].name},
              {"equal", ok},
              {"max_relative", d.max_relative},
              {"max_absolute", d.max_absolute},
              {"max_ulp", d.max_ulp},
              {"mismatches", d.mismatches},
              {"elements", d.elements}};
      if (!d.same_type) json["types"] = d.types;
      if (ok || d.worst < 0) continue;
      const std::string node = node_of(verified, k);
      report.print("  worst at {}{}\n", harness::worst_text(result.outputs[k], reference, d),
                   node.empty() ? "" : fmt::format(", from node '{}'", node));
      json["worst"] = harness::worst_text(result.outputs[k], reference, d);
      if (!node.empty()) json["node"] = node;
    }
  }
  // A rank of a launcher does not know whether the others look for it, too.
  if (!good && verified.lowered && !is_split(verified, table) && !stored && !harness::launched())
    tell_first_deviation(o, inputs.ranks, report);
  report.json()["agree"] = good;
  report.json()["reference"] = other;
  report.print("{}the program and {} {}\n", harness::rank_prefix(), other, good ? "agree" : "differ");
  return good ? kSuccess : kNegative;
}

}  // namespace

void add_verify(Command app, Invocation& chosen) {
  auto o = std::make_shared<VerifyOptions>();
  const Command command =
      app.subcommand("verify", "Compare a program with the interpreter, ONNX Runtime or stored results");
  command.footer(
      "Example: braid verify small.onnx --dim batch=1..2 --dim sequence=1..16\n"
      "         braid verify model.onnx --default-dim 8 --reference onnxruntime\n"
      "         braid verify out --input inputs.npz --reference results --rtol 1e-4");
  command.option("MODEL", o->model.model, "ONNX model, IR text, or folder of a compiled program").required();
  command
      .option("--limit", o->limit,
              "Largest error against the interpreter, relative to the largest element of the output (default "
              "1e-5; with --precision, which it then measures against float32, bf16 2e-2, f16 and tf32 5e-3, "
              "int8 1e-1; of texts that say tf32, and of models in bf16 or f16 whose roundings "
              "drop_roundings leaves out, the same)")
      .check(finite_not_negative());
  command.option("--reference", o->reference,
                 "onnxruntime (of python3), or a folder or FILE.npz as braid run -o writes it (default: the "
                 "interpreter)");
  add_tolerance(command, o->tolerance);
  add_execution(command, o->execute);
  add_inputs(command, o->inputs);
  add_options(command, o->model);
  command.callback([o, command, &chosen] {
    o->limited = command.count("--limit") > 0;
    if (!o->limited) o->limit = harness::default_limit(o->model.precision);
    o->tolerant = command.count("--rtol") + command.count("--atol") > 0;
    chosen = [o](Report& report) { return run(*o, report); };
  });
}

}  // namespace braid::cli
