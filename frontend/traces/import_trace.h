// Traces of other tools as schedules: what a PyTorch user recorded becomes a program of opaque kernels with
// the recorded times as costs, so that measurement, bounds and passes say how much communication was exposed,
// what would be possible, and what a better order gives.
//
//   Kineto   Chrome trace of the PyTorch profiler, one GPU of one process (the one with the lowest number
//            that ran kernels)
//   Chakra   MLCommons execution trace of one rank: binary (.et), the text of its jsonizer, or the
//            simulator's JSON
//
// The schedule has one compute stream and one channel per process group. Its order is the recorded one: a
// collective starts behind the kernels that had ended when it began, and is waited for by the first kernel
// that depends on it. What of the dependencies was recorded and what had to be assumed is in `assumptions`,
// for people to read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace braid::frontend {

// One kernel or collective as recorded; times in ns from the beginning of the trace.
struct RecordedInterval {
  ir::OpId op;  // the kernel, or the start of the collective
  double begin_ns = 0, end_ns = 0;
  int stream = 0;
  bool collective = false;
};

// The recorded timeline in figures (ns). Times in which several run at once count once.
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
  std::vector<RecordedInterval> recorded;  // by begin; empty: the trace has no times (a synthetic one)
  RecordedTimes times;
  int kernels = 0, collectives = 0;
  // The machine (analysis/costs) that prices it: "recorded" (explicit times, which contain the contention of
  // the recording), or empty where costs have to come from a machine of the user's choice.
  std::string machine;
  std::vector<std::string> assumptions;
};

// True if the file looks like a trace rather than like an ONNX model or IR text; reads its beginning only.
// False if it cannot be read.
bool looks_like_trace(const std::string& path);

// User errors 1 (not readable), 560 to 564.
ImportedTrace import_trace(const std::string& path);

}  // namespace braid::frontend
