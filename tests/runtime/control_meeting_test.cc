// Ranks that meet over TCP while others connect, listen and say what they like.
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <chrono>
#include <random>
#include <thread>

#include "runtime/comm/futex.h"
#include "tests/runtime/control_cases.h"
#include "tests/support/random.h"

namespace braid::rt::testing {
namespace {

using MessageKind = control::Kind;
using control::Link;
using control::Writer;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

MATCHER(IsOk, "") { return *result_listener << arg.message, arg.ok(); }

int64_t in_ms(int64_t ms) { return monotonic_ns() + ms * 1'000'000; }

Socket connect_to(const Door& door) {
  std::string why;
  Socket socket = control::connect_to(door.address(), in_ms(5000), &why);
  EXPECT_GE(socket.fd(), 0) << why;
  return socket;
}

std::string frame(MessageKind kind, const std::string& fields) {
  return Writer()
      .number(control::kMagic, 4)
      .number(static_cast<uint64_t>(kind), 4)
      .number(fields.size(), 4)
      .raw(fields)
      .done();
}

std::string random_bytes(std::mt19937_64& random, size_t most) {
  std::string bytes(random() % (most + 1), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Returns the bytes that one hostile connection sends, before it closes or stays.
std::string hostile(std::mt19937_64& random) {
  const std::string noise = random_bytes(random, 300);
  switch (random() % 6) {
    case 0:
      return noise;
    case 1:
      return "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    case 2:  // a message of any kind, whole
      return frame(static_cast<MessageKind>(random() % 9), noise);
    case 3: {  // a part of one
      const std::string whole = frame(MessageKind::hello, noise);
      return whole.substr(0, random() % whole.size());
    }
    case 4:  // of a length that it does not have
      return Writer().number(control::kMagic, 4).number(1, 4).number(random(), 4).raw(noise).done();
    default:
      return {};
  }
}

TEST(ControlMeeting, RanksMeetAndLearnFromRankZero) {
  for (const int size : {1, 2, 5}) {
    const Door door;
    std::vector<ControlOptions> ranks;
    for (int r = size; r-- > 0;) ranks.push_back(control_options(r, size));
    EXPECT_THAT(meet_as_threads(door, ranks,
                                [](ControlChannel& channel) {
                                  std::array<std::byte, 4> data{};
                                  if (channel.rank() == 0) data.fill(std::byte{7});
                                  EXPECT_TRUE(channel.broadcast(data).ok());
                                  EXPECT_EQ(data[3], std::byte{7});
                                }),
                Each(IsOk()));
  }
}

TEST(ControlMeeting, WhateverOthersSendTheRanksMeet) {
  const uint64_t first = test::first_seed();
  for (int k = 0; k < test::random_cases(20); ++k) {
    const uint64_t seed = first + static_cast<uint64_t>(k);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const Door door;
    std::vector<Socket> open;
    for (int n = 0; n < 12; ++n) {
      Socket socket = connect_to(door);
      const std::string bytes = hostile(random);
      (void)!::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (random() % 2 == 0) open.push_back(std::move(socket));
    }
    EXPECT_THAT(meet_as_threads(door, {control_options(0, 3), control_options(1, 3), control_options(2, 3)}),
                Each(IsOk()));
  }
}

TEST(ControlMeeting, ConnectionsThatSayNothingAreNotWaitedFor) {
  const Door door;
  std::vector<Socket> silent;
  for (int n = 0; n < 300; ++n) silent.push_back(connect_to(door));
  const int64_t begin = monotonic_ns();
  EXPECT_THAT(meet_as_threads(door, {control_options(0, 2), control_options(1, 2)}), Each(IsOk()));
  EXPECT_LT(monotonic_ns() - begin, 4'000'000'000) << "less than one of them has time to speak";
}

TEST(ControlMeeting, RanksThatDoNotComeAreNamedOnAllOthers) {
  const Door door;
  const std::vector<Status> met =
      meet_as_threads(door, {control_options(0, 4, 300), control_options(2, 4, 300)});
  for (const Status& each : met) {
    EXPECT_EQ(each.code, StatusCode::timed_out);
    EXPECT_THAT(each.message, HasSubstr("have not arrived within 300 ms: 1, 3"));
  }
}

TEST(ControlMeeting, WhatDiffersFailsAllAndBothSidesAreNamed) {
  ControlOptions other_program = control_options(1, 3), other_size = control_options(1, 4),
                 beyond = control_options(3, 3);
  other_program.subject = "another program";
  const struct {
    ControlOptions odd;
    std::vector<std::string> text;
  } kCases[] = {
      {other_program, {"rank 1 (process ", "runs another program, rank 0 (process ", "runs a program"}},
      {other_size, {"rank 1 (process ", "is one of 4 ranks, rank 0 (process ", "is one of 3"}},
      {beyond, {"rank 3 (process ", "is not one of the 3 ranks"}},
      {control_options(2, 3), {"there are two ranks 2: rank 2 (process ", " and rank 2 (process "}},
  };
  for (const auto& each : kCases) {
    const Door door;
    const std::vector<Status> met =
        meet_as_threads(door, {control_options(0, 3, 5'000), control_options(2, 3, 5'000), each.odd});
    // A rank may also come when all is over.
    EXPECT_EQ(met[0].code, StatusCode::disagreement);
    for (const std::string& text : each.text) EXPECT_THAT(met[0].message, HasSubstr(text));
    for (const size_t k : {1, 2}) EXPECT_FALSE(met[k].ok());
  }
}

TEST(ControlMeeting, ARankWithAnotherSecretIsRefusedAndTheRightOneTaken) {
  const Door door;
  const auto with = [](int rank, const char* secret, int64_t timeout_ms) {
    ControlOptions options = control_options(rank, 2, timeout_ms);
    options.secret = secret;
    return options;
  };
  std::future<Status> host = std::async(std::launch::async, [&] {
    std::unique_ptr<ControlChannel> channel;
    return open_control(door, with(0, "open sesame", 10'000), &channel);
  });
  for (const char* wrong : {"", "open sesam", "open sesame ", "Open sesame"}) {
    std::unique_ptr<ControlChannel> channel;
    const Status met = open_control(door, with(1, wrong, 10'000), &channel);
    EXPECT_EQ(met.code, StatusCode::disagreement);
    EXPECT_THAT(met.message,
                AllOf(HasSubstr("rank 1"), HasSubstr("do not have the same secret"), Not(HasSubstr("esam"))));
  }
  std::unique_ptr<ControlChannel> channel;
  EXPECT_THAT(open_control(door, with(1, "open sesame", 10'000), &channel), IsOk());
  channel.reset();
  EXPECT_THAT(host.get(), IsOk());
}

TEST(ControlMeeting, ARankWithAnotherSecretIsMentionedAtTheTimeOut) {
  const Door door;
  ControlOptions wrong = control_options(1, 2, 500);
  wrong.secret = "guess";
  const std::vector<Status> met = meet_as_threads(door, {control_options(0, 2, 500), wrong});
  EXPECT_THAT(met[0].message,
              AllOf(HasSubstr("have not arrived within 500 ms: 1"),
                    HasSubstr("has not proved that it knows the secret"), Not(HasSubstr("guess"))));
}

// Listens at rank 0's address: sends `bytes`, then closes or stays. Returns the bytes that it has received.
std::string impostor(const Door& door, const std::string& bytes, bool stays) {
  std::string heard;
  if (!wait_readable(door.listener.fd(), in_ms(5000))) return heard;
  const Socket peer(accept(door.listener.fd(), nullptr, nullptr));
  (void)!::send(peer.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  const int64_t until = in_ms(stays ? 400 : 50);
  for (char buffer[4096]; wait_readable(peer.fd(), until);) {
    const ssize_t got = recv(peer.fd(), buffer, sizeof buffer, 0);
    if (got <= 0) break;
    heard.append(buffer, static_cast<size_t>(got));
  }
  return heard;
}

TEST(ControlMeeting, WhateverListensAtRankZerosAddressTheOthersEndInTime) {
  const uint64_t first = test::first_seed();
  for (int k = 0; k < test::random_cases(10); ++k) {
    const uint64_t seed = first + static_cast<uint64_t>(k);
    SCOPED_TRACE("BRAID_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const Door door;
    const std::string bytes = hostile(random);
    const bool stays = random() % 2 == 0;
    std::future<std::string> other =
        std::async(std::launch::async, [&] { return impostor(door, bytes, stays); });
    std::unique_ptr<ControlChannel> channel;
    const Status met = open_control(door, control_options(1, 2, 200), &channel);
    EXPECT_FALSE(met.ok());
    EXPECT_THAT(met.message, HasSubstr("rendezvous: rank 1"));
    (void)other.get();
  }
}

TEST(ControlMeeting, TheSecretIsNotSentToWhoeverListens) {
  const Door door;
  const std::string challenge =
      frame(MessageKind::challenge, Writer().number(control::kVersion, 4).raw(std::string(16, 'n')).done());
  std::future<std::string> other =
      std::async(std::launch::async, [&] { return impostor(door, challenge, true); });
  ControlOptions options = control_options(1, 2, 300);
  options.secret = "open sesame";
  std::unique_ptr<ControlChannel> channel;
  EXPECT_FALSE(open_control(door, options, &channel).ok());
  EXPECT_THAT(other.get(), AllOf(HasSubstr("a program"), Not(HasSubstr("sesame"))));
}

TEST(ControlMeeting, AnotherVersionIsNamed) {
  const Door door;
  const std::string challenge = frame(
      MessageKind::challenge, Writer().number(control::kVersion + 1, 4).raw(std::string(16, 'n')).done());
  std::future<std::string> other =
      std::async(std::launch::async, [&] { return impostor(door, challenge, false); });
  std::unique_ptr<ControlChannel> channel;
  EXPECT_THAT(open_control(door, control_options(1, 2), &channel).message,
              HasSubstr("rank 0 has version " + std::to_string(control::kVersion + 1) +
                        " of the protocol, rank 1 has version " + std::to_string(control::kVersion)));
  (void)other.get();
}

// A listener at rank 0's address before rank 0 that is silent, of another version, or without the secret
// costs only a moment.
TEST(ControlMeeting, WhoeverListensBeforeRankZeroIsGivenUp) {
  const std::string mine =
      frame(MessageKind::challenge, Writer().number(control::kVersion, 4).raw(std::string(16, 'n')).done());
  const std::string theirs = frame(
      MessageKind::challenge, Writer().number(control::kVersion + 1, 4).raw(std::string(16, 'n')).done());
  for (const std::string& bytes :
       {std::string(), theirs, mine + frame(MessageKind::welcome, std::string(64, 'w'))}) {
    const Door door;
    std::unique_ptr<ControlChannel> first, second;
    std::future<Status> visitor =
        std::async(std::launch::async, [&] { return open_control(door, control_options(1, 2), &second); });
    // Until the visitor has gone.
    ASSERT_TRUE(wait_readable(door.listener.fd(), in_ms(5000)));
    {
      const Socket peer(accept(door.listener.fd(), nullptr, nullptr));
      (void)!::send(peer.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      const int64_t until = in_ms(15'000);
      ssize_t got = 1;
      for (char buffer[4096]; got > 0 && wait_readable(peer.fd(), until);)
        got = recv(peer.fd(), buffer, sizeof buffer, 0);
      EXPECT_LE(got, 0) << "the visitor stays";
    }
    EXPECT_THAT(open_control(door, control_options(0, 2), &first), IsOk());
    EXPECT_THAT(visitor.get(), IsOk());
  }
}

TEST(ControlMeeting, RanksOfAnotherRunAreNotTaken) {
  const Door door;
  ControlOptions other = control_options(1, 2, 1000);
  other.run = "another run";
  const std::vector<Status> met = meet_as_threads(door, {control_options(0, 2, 1500), other});
  EXPECT_THAT(met[0].message, HasSubstr("have not arrived"));
  EXPECT_THAT(met[1].message, HasSubstr("does not take this run's ranks"));
}

TEST(ControlMeeting, WhereNobodyListensTheErrorSaysSoInTime) {
  control::Address address;
  {
    const Door door;
    address = door.address();
  }
  std::unique_ptr<ControlChannel> channel;
  const Status met = ControlChannel::join(control_options(1, 2, 200), address, &channel);
  EXPECT_EQ(met.code, StatusCode::timed_out);
  EXPECT_THAT(met.message, AllOf(HasSubstr(address.text()), HasSubstr("Connection refused")));
  EXPECT_THAT(ControlChannel::join(control_options(1, 2, 100), {"no.such.host.invalid", 1}, &channel).message,
              HasSubstr("is no known host"));
}

TEST(ControlMeeting, APortInUseIsAnError) {
  const Door door;
  Socket second;
  EXPECT_THAT(control::listen_at(door.address(), &second).message, HasSubstr("Address already in use"));
}

TEST(ControlMeeting, ARankThatSendsNonsenseLaterCountsAsEnded) {
  const Door door;
  std::future<std::string> host = std::async(std::launch::async, [&] {
    std::unique_ptr<ControlChannel> channel;
    std::string text;
    EXPECT_THAT(open_control(door, control_options(0, 2), &channel), IsOk());
    EXPECT_EQ(channel->missing(false, &text), 1);
    return text;
  });
  std::vector<Link> links;
  std::vector<control::Member> members;
  ASSERT_THAT(control::meet_rank_0(control_options(1, 2), door.address(), &links, &members), IsOk());
  const std::string bytes(100, 'x');
  (void)!::send(links[0].fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  EXPECT_THAT(host.get(), AllOf(HasSubstr("rank 1 (process "), HasSubstr("has ended")));
}

}  // namespace
}  // namespace braid::rt::testing
