// Numbers of the frontend's user errors; docs/errors.md has a section on each.
#pragma once

namespace braid::frontend {

inline constexpr int kFileNotReadable = 1;

// The model: format, graph, operators, types, shapes.
inline constexpr int kNotOnnx = 101;
inline constexpr int kIrVersion = 102;
inline constexpr int kOpset = 103;
inline constexpr int kCyclicGraph = 104;
inline constexpr int kNotSorted = 105;
inline constexpr int kUndefinedValue = 106;
inline constexpr int kDuplicateName = 107;
inline constexpr int kRecursiveFunction = 108;
inline constexpr int kUnsupportedOperators = 109;
inline constexpr int kUnknownDomain = 110;
inline constexpr int kInvalidAttribute = 111;
inline constexpr int kInvalidNode = 112;
inline constexpr int kTypeMismatch = 113;
inline constexpr int kShapeMismatch = 114;
inline constexpr int kUnsupportedType = 115;
inline constexpr int kDataDependentSize = 116;
inline constexpr int kUnknownShape = 117;
inline constexpr int kInitializerSize = 118;
inline constexpr int kUnsupportedForm = 119;
inline constexpr int kIndexOutOfRange = 120;
inline constexpr int kFunctionExpansion = 121;
inline constexpr int kVersionConversion = 122;
inline constexpr int kQuantisationScale = 130;

// External data and per-rank files.
inline constexpr int kExternalDataMissing = 201;
inline constexpr int kExternalDataShort = 202;
inline constexpr int kExternalDataEntry = 203;
inline constexpr int kExternalDataPath = 204;
inline constexpr int kRankFileMissing = 205;
inline constexpr int kRanksDiffer = 206;
inline constexpr int kRankWeightDecidesShape = 207;

// Dimensions. kSizeOverflow and kSizeTooLong are raised by size arithmetic (ir/expr.cc) too.
inline constexpr int kSizeOverflow = 301;
inline constexpr int kSizeTooLong = 304;
inline constexpr int kUnboundedDimension = 310;
inline constexpr int kInvalidDimension = 311;
inline constexpr int kAlias = 312;

// Collectives and ranks.
inline constexpr int kRankCount = 401;
inline constexpr int kInvalidGroup = 402;
inline constexpr int kPlanSyntax = 481;
inline constexpr int kPlanMismatch = 482;
inline constexpr int kCannotSplit = 483;

// Splitting a model over devices (frontend/sharding).
inline constexpr int kSplitCost = 480;
inline constexpr int kSplitRequest = 484;
inline constexpr int kIndivisible = 487;
inline constexpr int kSplitMemory = 488;
inline constexpr int kNotStrict = 489;

// Traces of other tools (frontend/traces).
inline constexpr int kNotATrace = 560;
inline constexpr int kTraceSyntax = 561;
inline constexpr int kBadTraceEvent = 562;
inline constexpr int kTraceDependency = 563;
inline constexpr int kEmptyTrace = 564;

}  // namespace braid::frontend
