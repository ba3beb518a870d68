// braid pipeline lower and check: rows with transfers, and the proof that they cannot deadlock.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/pipeline_commands.h"
#include "cli/pipeline_input.h"
#include "cli/report.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/csv.h"
#include "pipeline/lower.h"
#include "pipeline/validate.h"

namespace braid::cli {
namespace {

struct LowerOptions {
  PipelineInput input;
  std::string channels = "edge";
  bool merge_backward = false, unshard = false, reduce_grad = false, waits = false, defer_recv = false,
       if_safe = false;
  int residency = 3;
  std::string lookahead = "full";
  std::string output;
};

pipeline::UnshardOptions unshard_options(const LowerOptions& o) {
  using Lookahead = pipeline::UnshardOptions::Lookahead;
  pipeline::UnshardOptions options{.residency = o.residency};
  if (o.lookahead == "full") return options;
  options.lookahead = o.lookahead == "auto" ? Lookahead::automatic : Lookahead::per_rank;
  if (o.lookahead == "auto") return options;
  const char* at = o.lookahead.data();
  const char* const end = at + o.lookahead.size();
  while (true) {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next != end && *next != ',')) {
      ir::user_error(errors::kBadOption, {}, fmt::format("--lookahead {}: malformed", o.lookahead),
                     "give full, auto, or a number for each rank: 1,2,2,3");
    }
    options.per_rank.push_back(value);
    if (next == end) return options;
    at = next + 1;
  }
}

pipeline::LowerOptions lower_options(const LowerOptions& o) {
  pipeline::LowerOptions options;
  options.merge_backward = o.merge_backward;
  if (o.unshard) options.unshard = unshard_options(o);
  options.reduce_grad = o.reduce_grad;
  options.waits = o.waits;
  options.defer_recv = o.defer_recv || o.if_safe;
  if (o.if_safe) options.unsafe_deferral = pipeline::LowerOptions::UnsafeDeferral::leave_out;
  options.channels = pipeline::parse_queue_policy(o.channels);
  return options;
}

int lower_schedule(const LowerOptions& o, Report& report) {
  const pipeline::LowerOptions options = lower_options(o);
  const pipeline::PipelineSchedule schedule = o.input.read();
  if (has_transfers(schedule)) {
    ir::user_error(errors::kBadOption, {.file = o.input.file}, "the schedule already has transfers",
                   "braid pipeline check proves it, braid pipeline simulate runs it");
  }
  const pipeline::Lowered lowered = lower(schedule, options);
  if (!lowered.deferral_left_out.empty()) {
    report.json()["deferral_left_out"] = lowered.deferral_left_out;
    fmt::print(stderr, "RECVs are not moved: deferral is not safe\n{}", lowered.deferral_left_out);
    if (lowered.deferral_left_out.back() != '\n') fmt::print(stderr, "\n");
  }
  write_output(report, "csv", o.output, pipeline::print(lowered.schedule));
  return 0;
}

// Checks a file with transfers as it is, and one with computations alone as lowered.
int check(const LowerOptions& o, Report& report) {
  const pipeline::QueuePolicy policy = pipeline::parse_queue_policy(o.channels);
  const pipeline::PipelineSchedule input = o.input.read();
  const bool lowered = has_transfers(input);
  if (lowered) validate(input, {.transfers = true});
  const pipeline::PipelineSchedule schedule = lowered ? input : lower(input, {.channels = policy}).schedule;
  const pipeline::PassingOrder certificate = require_deadlock_free(schedule, policy);
  const std::string contradiction = check_certificate(schedule, certificate);
  ir::internal_check(contradiction.empty(), "the certificate does not hold: {}", contradiction);
  std::string text = to_text(schedule, pipeline::Proof(certificate));
  while (text.ends_with('\n')) text.pop_back();
  report.json() = {{"deadlock_free", true}, {"lowered_first", !lowered}, {"proof", text}};
  report.print("{}{}\n", lowered ? "" : "lowered: ", text);
  return 0;
}

}  // namespace

void add_pipeline_lower(Command pipeline, Invocation& chosen) {
  auto o = std::make_shared<LowerOptions>();
  const Command command = pipeline.subcommand(
      "lower", "Add transfers and the requested actions, and prove that nothing can deadlock");
  command.footer(
      "Example: braid pipeline lower --schedule Interleaved1F1B --ranks 4 --stages 8 --microbatches 8 "
      "--unshard --reduce-grad -o lowered.csv");
  o->input.add_file(command);
  o->input.add_generator(command);
  command.option("--channels", o->channels,
                 "Queues: rank, pair or edge, with :K for K buffered messages (default edge)");
  command.flag("--merge-backward", o->merge_backward, "Merge an I directly followed by its W into one B");
  const Argument unshard =
      command.flag("--unshard", o->unshard, "Gather and free the parameters of stages (FSDP)");
  command.option("--residency", o->residency, "Stages whose parameters a rank holds at once (default 3)")
      .needs(unshard);
  command
      .option("--lookahead", o->lookahead, "How many are gathered ahead: full, auto, or one number per rank")
      .needs(unshard);
  command.flag("--reduce-grad", o->reduce_grad, "Reduce the gradients of a stage after its last backward");
  command.flag("--waits", o->waits, "Wait for every SEND and REDUCE_GRAD, as rows that PyTorch loads do");
  command.flag("--defer-recv", o->defer_recv, "Move RECVs to their consumers; an error if that is not safe");
  command.flag("--defer-recv-if-safe", o->if_safe, "The same, but leave them in place if that is not safe");
  command.option("-o,--output", o->output, "CSV file to write (default: the terminal)");
  command.callback([o, &chosen] {
    chosen = [o](Report& report) { return o->input.naming_file([&] { return lower_schedule(*o, report); }); };
  });
}

void add_pipeline_check(Command pipeline, Invocation& chosen) {
  auto o = std::make_shared<LowerOptions>();
  const Command command =
      pipeline.subcommand("check", "Prove that a schedule cannot deadlock, or show what waits for what");
  command.footer("Example: braid pipeline check lowered.csv --channels pair");
  o->input.add_file(command);
  o->input.add_generator(command);
  command.option("--channels", o->channels,
                 "Queues: rank, pair or edge, with :K for K buffered messages (default edge)");
  command.callback([o, &chosen] {
    chosen = [o](Report& report) { return o->input.naming_file([&] { return check(*o, report); }); };
  });
}

}  // namespace braid::cli
