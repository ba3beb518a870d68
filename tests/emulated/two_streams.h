// Entry points of two_streams.cu, for its two builds.
#pragma once

enum class TwoStreamsPlant {
  kNone,
  kNoEventBeforeCollective,
  kNoEventAfterCollective,
  kOverwriteInputDuringCollective,
};

struct TwoStreams {
  int rank = 0, ranks = 1;
  int rows = 8, columns = 64, steps = 1;
  const char* id = nullptr;  // 128 bytes, the same on all ranks
  float* output = nullptr;   // rows * columns
  TwoStreamsPlant plant = TwoStreamsPlant::kNone;
};

// Null, or what went wrong.
const char* two_streams_id(char id[128]);
const char* two_streams_run(const TwoStreams& run);
