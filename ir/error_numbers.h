// The numbers of all user errors of the compiler, the command line and the Python package; docs/errors.md has
// a section on each. A number keeps its meaning forever. runtime/program.h has the numbers of compiled
// programs, which do not need the compiler.
#pragma once

namespace braid::errors {

// Command line, environment, files.
inline constexpr int kFileNotReadable = 1;
inline constexpr int kBadOption = 3;
inline constexpr int kNoInputFile = 4;
inline constexpr int kBadNpy = 5;
inline constexpr int kMissingInput = 6;
inline constexpr int kRankFailed = 7;
inline constexpr int kNoProgram = 8;
inline constexpr int kNoTestCase = 9;
inline constexpr int kCannotWrite = 10;
inline constexpr int kLaunchedRanks = 11;
inline constexpr int kBadVariable = 12;
inline constexpr int kNoGpu = 13;
inline constexpr int kNotUnderstood = 14;
inline constexpr int kForeignFile = 15;
inline constexpr int kUnfinishedProgram = 16;
inline constexpr int kNoArchives = 17;
inline constexpr int kNoReference = 18;
inline constexpr int kNoMemory = 19;

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
inline constexpr int kInvalidTree = 140;

// External data and per-rank files.
inline constexpr int kExternalDataMissing = 201;
inline constexpr int kExternalDataShort = 202;
inline constexpr int kExternalDataEntry = 203;
inline constexpr int kExternalDataPath = 204;
inline constexpr int kRankFileMissing = 205;
inline constexpr int kRanksDiffer = 206;
inline constexpr int kRankWeightDecidesShape = 207;

// Dimensions.
inline constexpr int kSizeOverflow = 301;
inline constexpr int kSizeOutOfBounds = 302;
inline constexpr int kGuardViolated = 303;
inline constexpr int kSizeTooLong = 304;
inline constexpr int kSizesDiffer = 305;
inline constexpr int kUnboundedDimension = 310;
inline constexpr int kInvalidDimension = 311;
inline constexpr int kAlias = 312;
inline constexpr int kFixedInput = 313;

// Collectives, ranks, and splits of models.
inline constexpr int kRankCount = 401;
inline constexpr int kInvalidGroup = 402;
inline constexpr int kCollectivesDiffer = 410;  // as the interpreter finds them
inline constexpr int kSplitCost = 480;
inline constexpr int kPlanSyntax = 481;
inline constexpr int kPlanMismatch = 482;
inline constexpr int kCannotSplit = 483;
inline constexpr int kSplitRequest = 484;
inline constexpr int kIndivisible = 487;
inline constexpr int kSplitMemory = 488;
inline constexpr int kNotStrict = 489;
inline constexpr int kCollectiveForm = 490;
inline constexpr int kAnnotation = 491;
inline constexpr int kAnnotationForm = 492;
inline constexpr int kStages = 493;
inline constexpr int kSplitWith = 494;

// IR text.
inline constexpr int kSyntaxError = 501;  // unexpected token
inline constexpr int kBadLiteral = 502;   // a number or string that is malformed or out of range
inline constexpr int kUnknownName = 503;  // not declared before
inline constexpr int kDeclaredTwice = 504;
inline constexpr int kWrongType = 505;      // of an operand or result
inline constexpr int kWrongCount = 506;     // of operands, results, sizes or constants
inline constexpr int kBadExpression = 507;  // a divisor that may not be positive, overflow, unbounded growth
inline constexpr int kBadIndex = 508;       // unknown loop index, value that cannot be an index
inline constexpr int kNestingTooDeep = 509;
inline constexpr int kBadConstant = 510;    // data that does not fit the constant's type and sizes
inline constexpr int kBadStructure = 511;   // parts that do not fit together: a wait without a collective
inline constexpr int kOperandShapes = 512;  // operands whose sizes cannot agree
inline constexpr int kIllegalProgram = 513;

// Passes, memory, plug-ins.
inline constexpr int kUnknownPass = 540;
inline constexpr int kUnknownPassOption = 541;
inline constexpr int kBadPassOption = 542;
inline constexpr int kBadPlugin = 543;
inline constexpr int kPassListSyntax = 544;
inline constexpr int kUnboundedTensor = 545;
inline constexpr int kMemoryTooLarge = 546;
inline constexpr int kNoPlan = 547;

// Machine descriptions, cost files, timelines, kernel cards.
inline constexpr int kCardsNotJson = 548;
inline constexpr int kBadCards = 549;
inline constexpr int kMachineNotJson = 550;
inline constexpr int kBadMachine = 551;
inline constexpr int kNoUpperBound = 552;
inline constexpr int kUnknownMachine = 553;
inline constexpr int kOutsideOfMachine = 554;
inline constexpr int kBadTime = 555;
inline constexpr int kCostFileNotJson = 556;
inline constexpr int kBadCostFile = 557;
inline constexpr int kTimelineNotJson = 558;
inline constexpr int kBadTimeline = 559;

// Traces of other tools.
inline constexpr int kNotATrace = 560;
inline constexpr int kTraceSyntax = 561;
inline constexpr int kBadTraceEvent = 562;
inline constexpr int kTraceDependency = 563;
inline constexpr int kEmptyTrace = 564;

// Collectives in passes.
inline constexpr int kStorageInUse = 570;
inline constexpr int kCollectivePieces = 571;
inline constexpr int kCollectivePieceCount = 572;
inline constexpr int kInPlaceMemory = 580;
inline constexpr int kBadKernelOption = 585;
inline constexpr int kBadForcedKernel = 586;
inline constexpr int kNoSuchCollective = 587;
inline constexpr int kNoSuchKernel = 588;

// Code generation, host compiler, CUDA toolkit.
inline constexpr int kNotInCpp = 601;
inline constexpr int kConstantWithoutData = 602;
inline constexpr int kCompilerFailed = 603;
inline constexpr int kNoRuntime = 604;
inline constexpr int kNotInCuda = 640;
inline constexpr int kCudaReduction = 641;  // one that NCCL does not have
inline constexpr int kCudaChannelPolicy = 642;
inline constexpr int kNoNvcc = 643;
inline constexpr int kNvccFailed = 644;
inline constexpr int kCudaCollectiveKernel = 645;

// Steps of programs, as the interpreter says it; runtime/program.h has those of compiled programs.
inline constexpr int kWrongInputs = 701;
inline constexpr int kConstantUnknown = 702;
inline constexpr int kExternKernel = 703;
inline constexpr int kStepUndefined = 711;

// The Python package.
inline constexpr int kNotATensor = 730;
inline constexpr int kNotPassable = 731;
inline constexpr int kInUse = 732;
inline constexpr int kClosed = 733;
inline constexpr int kOnlyLaunched = 734;
inline constexpr int kWrongStream = 735;

// Pipeline schedules: language and published schedules.
inline constexpr int kBadCell = 800;          // not an action
inline constexpr int kNumberTooLarge = 801;   // a stage or micro-batch that does not fit
inline constexpr int kBadContainer = 802;     // members that are missing, nested or of a wrong kind
inline constexpr int kWrongDialect = 803;     // transfers in a compute-only file, idle cells in a lowered one
inline constexpr int kStageOnTwoRanks = 804;  // rows that imply no single placement
inline constexpr int kMissingStage = 805;     // gaps in the numbers of stages or micro-batches
inline constexpr int kBadPlacementText = 806;  // neither loop, nor v, nor a rank for every stage
inline constexpr int kBadChannelPolicy = 807;
inline constexpr int kUnknownSchedule = 808;
inline constexpr int kScheduleSizes = 809;  // sizes for which a schedule is not defined
inline constexpr int kScheduleTooLarge = 810;
inline constexpr int kNoActions = 811;  // a file without a single action

// Pipeline schedules: checking, lowering, proving.
inline constexpr int kBadAction = 830;       // unknown stage or micro-batch, or a wrong place
inline constexpr int kBadPlacement = 831;    // more ranks than stages, or a stage without a rank
inline constexpr int kTooManyActions = 832;  // stages * micro-batches out of range
inline constexpr int kWrongRank = 833;       // a stage that the rank does not own
inline constexpr int kActionTwice = 834;
inline constexpr int kActionMissing = 835;
inline constexpr int kWrongOrder = 836;       // done before what it needs on the same rank
inline constexpr int kNoProgress = 837;       // ranks wait for each other
inline constexpr int kChannelMismatch = 838;  // SENDs and RECVs of a channel in different orders
inline constexpr int kRendezvousCycle = 839;  // transfers wait for each other
inline constexpr int kBadLoweringOption = 840;
inline constexpr int kBadLifetime = 841;  // a row that does not make or release its activations

// Pipeline schedules: costs, simulation, search.
inline constexpr int kCostsNotJson = 860;
inline constexpr int kBadCosts = 861;
inline constexpr int kSimulationStuck = 862;  // ranks wait for each other
inline constexpr int kTimesTooLarge = 863;
inline constexpr int kBadSearch = 880;
inline constexpr int kCapTooSmall = 881;   // below one micro-batch
inline constexpr int kCapsTooSmall = 882;  // no order keeps them
inline constexpr int kSearchBudget = 883;

// Agreement of ranks.
inline constexpr int kRanksDisagree = 900;
inline constexpr int kDeadlock = 901;
inline constexpr int kNotOneProgram = 902;

}  // namespace braid::errors
