// Imports traces of other tools as schedules. A recorded PyTorch run becomes a program of opaque kernels with
// the recorded times as costs, so that measurement, bounds and passes show how much communication was
// exposed, how much must be, and what a better order saves.
//
//   Kineto   Chrome trace of the PyTorch profiler, one GPU of one process (the one with the lowest number
//            that ran kernels)
//   Chakra   MLCommons execution trace of one rank: binary (.et), the text of its jsonizer, or the
//            simulator's JSON
//
// The schedule has one compute stream and one channel per process group. Its order is the recorded one: a
// collective starts after the kernels that had ended when it began, and its wait precedes the first kernel
// that depends on it. `assumptions` states which dependencies were recorded and which had to be assumed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::frontend {

// One recorded kernel or collective; times in ns from the start of the trace.
struct RecordedInterval {
  ir::OpId op;  // the kernel, or the start of the collective
  double begin_ns = 0, end_ns = 0;
  int stream = 0;
  bool collective = false;
};

// Sums over the recorded timeline (ns). Time in which several run at once counts once.
struct RecordedTimes {
  double makespan = 0;       // from the first begin to the last end
  double compute = 0;        // at least one kernel runs
  double communication = 0;  // at least one collective runs
  double exposed = 0;        // a collective runs and no kernel does
  double idle = 0;           // nothing runs: the host was late
};

struct ImportedTrace {
  ir::Schedule schedule;
  std::string format;                      // "Kineto", "Chakra"
  std::vector<RecordedInterval> recorded;  // by begin; empty if the trace has no times (a synthetic one)
  RecordedTimes times;
  int kernels = 0, collectives = 0;
  // The machine (analysis/costs) that provides the costs: "recorded" (explicit times, including the
  // contention of the recording), or empty if the user must choose one.
  std::string machine;
  std::vector<std::string> assumptions;
};

// Whether the file looks like a trace rather than an ONNX model or IR text. Reads only its beginning; false
// if it cannot be read.
bool looks_like_trace(const std::string& path);

// User errors: 1 (not readable), 560 to 564.
ImportedTrace import_trace(const std::string& path);

}  // namespace braid::frontend
