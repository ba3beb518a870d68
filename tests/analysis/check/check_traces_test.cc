// Planted mismatches and deadlocks: each is found, and told with ranks, collectives and ONNX nodes.
#include "analysis/check/check_traces.h"

#include <gmock/gmock.h>

#include <sstream>

#include "ir/parser.h"
#include "tests/support/user_error.h"

namespace braid::check {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A program of one operation per word: "tp:a" starts all-reduce a of group tp, "tp:a/8" of 8 elements, "-a"
// waits for it, "pp>1:m" sends m to member 1 of pp, "pp<0:m" receives it from member 0.
ir::CollectiveTrace program(
    const std::string& words, int ranks = 2, const std::string& channels = "global",
    const std::string& groups = "group @tp = [0, 1]\ngroup @dp = [0, 1]\ngroup @pp = [0, 1]\n") {
  std::string text = "graph g\nranks " + std::to_string(ranks) + "\nchannels " + channels + "\n" + groups;
  text += "input %x: f32[4]\ninput %y: f32[8]\n";
  std::istringstream in(words);
  for (std::string w; in >> w;) {
    if (w[0] == '-') {
      const std::string name = w.substr(1);
      text +=
          (text.find("send @") != std::string::npos && text.find(" as " + name + " ") != std::string::npos)
              ? "wait " + name + "\n"
              : "%" + name + ".1 mutates %" + name + " = wait " + name + "\n";
      continue;
    }
    const std::size_t colon = w.find(':'), peer = w.find_first_of("<>");
    std::string name = w.substr(colon + 1), size = "4", group = w.substr(0, std::min(colon, peer));
    if (const std::size_t slash = name.find('/'); slash != std::string::npos) {
      size = name.substr(slash + 1);
      name = name.substr(0, slash);
    }
    const std::string from = " from \"/node_" + name + "\"\n";
    const std::string operand = size == "4" ? "(%x)" : "(%y)";
    if (peer == std::string::npos || peer > colon) {
      text += "%" + name + ": f32[" + size + "] = all_reduce sum @" + group + " " + operand + from;
    } else if (w[peer] == '>') {
      text += "send @" + group + " " + operand + " peer " + w.substr(peer + 1, colon - peer - 1) + " as " +
              name + from;
    } else {
      text += "%" + name + ": f32[" + size + "] = recv @" + group + " peer " +
              w.substr(peer + 1, colon - peer - 1) + from;
    }
  }
  text += "output %x\n";
  return ir::collective_trace(ir::parse_schedule(text), words);
}

std::string error_of(const std::vector<ir::CollectiveTrace>& traces) {
  return test::error_of([&] { check_traces(traces); });
}

TEST(CheckTraces, EqualTracesGiveACertificateWithAnOrder) {
  const Certificate c = check_traces({program("tp:a dp:b -b -a"), program("tp:a dp:b -a -b")});
  EXPECT_THAT(c.order, ElementsAre("a", "b"));
  EXPECT_THAT(to_string(c),
              AllOf(HasSubstr("certificate: 2 ranks agree and cannot deadlock (channels global)"),
                    HasSubstr("group 'tp' (ranks 0 1): 1 collective, trace ")));
}

TEST(CheckTraces, OneProgramStandsForAllRanks) {
  const std::string groups = "group @tp = [0, 1]\ngroup @dp = [2, 3]\ngroup @pp = [1, 2]\n";
  const Certificate c = check_traces({program("tp:a dp:b pp:c -c -b -a", 4, "global", groups)});
  EXPECT_EQ(c.ranks, 4);
  EXPECT_EQ(c.lines.size(), 3u);
}

constexpr const char* kMesh = "mesh [dp=2, tp=2]\ngroup @tp = axis tp\ngroup @dp = axis dp\n";

TEST(CheckTraces, EveryPartOfAGroupHasALineOfItsOwn) {
  const Certificate c = check_traces({program("tp:a dp:b -b -a", 4, "global", kMesh)});
  std::vector<std::string> parts;
  for (const Certificate::Line& line : c.lines) parts.push_back(line.what);
  EXPECT_THAT(parts, ElementsAre("group 'tp' (ranks 0 1)", "group 'dp' (ranks 0 2)", "group 'dp' (ranks 1 3)",
                                 "group 'tp' (ranks 2 3)"));
  EXPECT_EQ(c.order.size(), 4u);
}

// Ranks of different parts need not agree; those of one part must.
TEST(CheckTraces, PartsAgreeAmongThemselves) {
  const auto rank = [&](const std::string& words) { return program(words, 4, "communicator", kMesh); };
  EXPECT_EQ(
      check_traces({rank("tp:a -a"), rank("tp:a -a"), rank("tp:a/8 -a tp:b -b"), rank("tp:a/8 -a tp:b -b")})
          .lines.size(),
      2u);
  EXPECT_THAT(error_of({rank("tp:a -a"), rank("tp:a/8 -a"), rank("tp:a -a"), rank("tp:a/8 -a")}),
              AllOf(HasSubstr("BR0900"), HasSubstr("number 0 of group 'tp' (ranks 0 1)")));
}

TEST(CheckTraces, ADeadlockThroughPartsOfTwoGroups) {
  const auto rank = [&](const std::string& words) { return program(words, 4, "communicator", kMesh); };
  EXPECT_THAT(error_of({rank("tp:a -a dp:b -b"), rank("dp:b -b tp:a -a"), rank("dp:b -b tp:a -a"),
                        rank("tp:a -a dp:b -b")}),
              AllOf(HasSubstr("BR0901"), HasSubstr("rank 0 "), HasSubstr("rank 3 ")));
}

// Member 0 of each part sends to member 1.
TEST(CheckTraces, TransfersStayWithinAPart) {
  const Certificate c = check_traces({program("tp>1:m tp<0:n -m -n", 4, "pair", kMesh)});
  std::vector<std::string> lines;
  for (const Certificate::Line& line : c.lines) lines.push_back(line.what);
  EXPECT_THAT(lines, ElementsAre("sends 0 -> 1 of group 'tp'", "sends 2 -> 3 of group 'tp'"));
}

TEST(CheckTraces, OnePartAndSeveralOfOneNameAreRefused) {
  EXPECT_THAT(error_of({program("tp:a -a", 4, "global", kMesh),
                        program("tp:a -a", 4, "global", "group @tp = [0, 1]\n"),
                        program("tp:a -a", 4, "global", kMesh), program("tp:a -a", 4, "global", kMesh)}),
              AllOf(HasSubstr("the ranks mean different groups by 'tp'"), HasSubstr("ranks 0 1 | 2 3")));
}

TEST(CheckTraces, AnOrderSwappedBetweenTwoCommunicatorsDeadlocksInOneQueue) {
  const std::string text = error_of({program("tp:a dp:b -a -b"), program("dp:b tp:a -a -b")});
  EXPECT_THAT(text,
              AllOf(HasSubstr("BR0901"), HasSubstr("channels global"), HasSubstr("rank 0 has in its queue"),
                    HasSubstr("rank 1 has in its queue"), HasSubstr("(ONNX node /node_a)"),
                    HasSubstr("(ONNX node /node_b)"), HasSubstr("group 'tp' (ranks 0 1)")));
}

TEST(CheckTraces, AnOrderSwappedBetweenTwoCommunicatorsIsFineInQueuesOfTheirOwn) {
  EXPECT_THAT(to_string(check_traces({program("tp:a dp:b -a -b", 2, "communicator"),
                                      program("dp:b tp:a -a -b", 2, "communicator")})),
              HasSubstr("cannot deadlock (channels communicator)"));
}

TEST(CheckTraces, WaitsBetweenSwappedStartsDeadlockWhateverTheQueues) {
  for (const char* channels : {"global", "communicator", "pair", "edge"}) {
    const std::string text =
        error_of({program("tp:a -a dp:b -b", 2, channels), program("dp:b -b tp:a -a", 2, channels)});
    EXPECT_THAT(text, HasSubstr("BR0901"));
  }
  EXPECT_THAT(error_of({program("tp:a -a dp:b -b", 2, "edge"), program("dp:b -b tp:a -a", 2, "edge")}),
              AllOf(HasSubstr("rank 0 waits for all_reduce sum f32 x 4 'a'"), HasSubstr("rank 1 waits for")));
}

TEST(CheckTraces, ThreeRanksInACircleOfGroupsDeadlock) {
  const std::string groups = "group @ab = [0, 1]\ngroup @bc = [1, 2]\ngroup @ca = [2, 0]\n";
  const auto rank = [&](const std::string& words) { return program(words, 3, "communicator", groups); };
  const std::string text =
      error_of({rank("ab:u -u ca:w -w"), rank("bc:v -v ab:u -u"), rank("ca:w -w bc:v -v")});
  EXPECT_THAT(text,
              AllOf(HasSubstr("BR0901"), HasSubstr("rank 0 "), HasSubstr("rank 1 "), HasSubstr("rank 2 ")));
}

TEST(CheckTraces, AnOrderSwappedInOneCommunicatorIsAMismatch) {
  const std::string text = error_of({program("tp:a tp:b/8 -a -b"), program("tp:b/8 tp:a -a -b")});
  EXPECT_THAT(text, AllOf(HasSubstr("BR0900"), HasSubstr("number 0 of group 'tp'"), HasSubstr("f32 x 4 'a'"),
                          HasSubstr("f32 x 8 'b'"), HasSubstr("/node_a"), HasSubstr("/node_b")));
}

TEST(CheckTraces, DifferentSizesAreAMismatchThatNamesAllRanksOfBothSides) {
  const std::string groups = "group @tp = [0, 1, 2]\n";
  const auto rank = [&](const std::string& words) { return program(words, 3, "global", groups); };
  const std::string text =
      error_of({rank("tp:a -a tp:b -b"), rank("tp:a -a tp:b/8 -b"), rank("tp:a -a tp:b -b")});
  EXPECT_THAT(text, AllOf(HasSubstr("BR0900"), HasSubstr("number 1 of group 'tp' (ranks 0 1 2)"),
                          HasSubstr("ranks 0 2 ("), HasSubstr("rank 1 ("), HasSubstr("f32 x 8")));
}

TEST(CheckTraces, AMissingCollectiveIsAMismatch) {
  EXPECT_THAT(error_of({program("tp:a -a tp:b -b"), program("tp:a -a")}),
              AllOf(HasSubstr("BR0900"), HasSubstr("rank 1 (tp:a -a): nothing: stops after number 0"),
                    HasSubstr("'b' (ONNX node /node_b)")));
  EXPECT_THAT(error_of({program("tp:a -a"), program("dp:b -b")}), HasSubstr("nothing: never uses it"));
}

TEST(CheckTraces, SendsMeetTheirReceives) {
  const Certificate c = check_traces({program("pp>1:m pp>1:k -m -k"), program("pp<0:m -m pp<0:k -k")});
  EXPECT_THAT(to_string(c), HasSubstr("sends 0 -> 1 of group 'pp': 2 collectives"));
}

TEST(CheckTraces, AReceiveOfAnotherSizeIsAMismatch) {
  EXPECT_THAT(error_of({program("pp>1:m -m"), program("pp<0:m/8 -m")}),
              AllOf(HasSubstr("BR0900"), HasSubstr("sends 0 -> 1"), HasSubstr("f32 x 8")));
}

TEST(CheckTraces, ASendWithoutReceiveIsAMismatch) {
  EXPECT_THAT(error_of({program("pp>1:m -m"), program("")}),
              AllOf(HasSubstr("BR0900"), HasSubstr("rank 1 ")));
}

TEST(CheckTraces, BothSendFirstDeadlocksButForAChannelPerDirection) {
  const auto both = [](const std::string& channels) {
    return std::vector{program("pp>1:m pp<1:k -m -k", 2, channels),
                       program("pp>0:k pp<0:m -m -k", 2, channels)};
  };
  for (const char* channels : {"global", "communicator", "pair"})
    EXPECT_THAT(error_of(both(channels)), AllOf(HasSubstr("BR0901"), HasSubstr("send peer 1"))) << channels;
  EXPECT_THAT(to_string(check_traces(both("edge"))), HasSubstr("cannot deadlock"));
}

TEST(CheckTraces, SendsThatAreWaitedForInACircleDeadlockOnEveryChannel) {
  const std::vector traces = {program("pp>1:m -m pp<1:k -k", 2, "edge"),
                              program("pp>0:k -k pp<0:m -m", 2, "edge")};
  EXPECT_THAT(error_of(traces), AllOf(HasSubstr("BR0901"), HasSubstr("rank 0 waits for send"),
                                      HasSubstr("rank 1 waits for send")));
}

TEST(CheckTraces, MoreCollectivesInFlightThanTheEngineHoldsCanDeadlock) {
  const auto traces = [](int in_flight) {
    std::string many, waits;
    for (int k = 0; k < in_flight; ++k) {
      many += "tp:a" + std::to_string(k) + " ";
      waits += " -a" + std::to_string(k);
    }
    return std::vector{program(many + "dp:b -b" + waits, 2, "communicator"),
                       program("dp:b -b " + many + waits, 2, "communicator")};
  };
  EXPECT_EQ(check_traces(traces(kInFlight)).order.size(), kInFlight + 1u);
  EXPECT_THAT(error_of(traces(kInFlight + 1)), HasSubstr("BR0901"));
}

TEST(CheckTraces, WorldsPoliciesAndNumbersThatDoNotFitAreRefused) {
  EXPECT_THAT(error_of({program("tp:a -a", 2), program("tp:a -a", 3)}),
              AllOf(HasSubstr("BR0902"), HasSubstr("3 ranks")));
  EXPECT_THAT(error_of({program("", 2, "pair"), program("", 2, "edge")}),
              AllOf(HasSubstr("BR0902"), HasSubstr("pair")));
  EXPECT_THAT(error_of({program("", 3), program("", 3)}),
              AllOf(HasSubstr("BR0902"), HasSubstr("2 programs")));
}

TEST(CheckTraces, OneNameForTwoGroupsIsAMismatch) {
  const auto rank = [](const std::string& list) {
    return program("tp:a -a", 3, "global", "group @tp = [" + list + "]\n");
  };
  EXPECT_THAT(
      error_of({rank("0, 1"), rank("0, 1"), rank("0, 1, 2")}),
      AllOf(HasSubstr("BR0900"), HasSubstr("different groups by 'tp'"), HasSubstr("rank 2: ranks 0 1 2")));
}

}  // namespace
}  // namespace braid::check
