// Which way steps take, on a simulated machine: both ways have given durations, and the team loses time where
// another process competes.
#include "runtime/thread_choice.h"

#include <gtest/gtest.h>

namespace braid::rt {
namespace {

struct Machine {
  int64_t team, alone;  // durations
  int64_t lost;         // of a step on the team
};

// Returns how many of the steps take the team.
int steps_on_team(ThreadChoice& choice, const Machine& machine, int steps) {
  int on_team = 0;
  for (int k = 0; k < steps; ++k) {
    const bool team = choice.team();
    on_team += team;
    choice.took(team ? machine.team : machine.alone, team ? machine.lost : 0);
  }
  return on_team;
}

constexpr Machine kIdle = {100, 180, 2}, kLosing = {250, 180, 90}, kStillBetter = {150, 180, 40};

TEST(ThreadChoice, TriesNothingOnAnIdleMachine) {
  ThreadChoice choice;
  EXPECT_EQ(steps_on_team(choice, kIdle, 1000), 1000);
}

TEST(ThreadChoice, WorksAloneWhileTheTeamIsSlower) {
  ThreadChoice choice;
  steps_on_team(choice, kLosing, 20);
  EXPECT_LT(steps_on_team(choice, kLosing, 1000), 30);
}

TEST(ThreadChoice, KeepsTheTeamWhereItIsFasterAlthoughItLosesTime) {
  ThreadChoice choice;
  EXPECT_GT(steps_on_team(choice, kStillBetter, 1000), 970);
}

TEST(ThreadChoice, ComesBackToTheTeamWhenTheMachineIsIdleAgain) {
  ThreadChoice choice;
  steps_on_team(choice, kLosing, 1000);
  EXPECT_FALSE(choice.team());
  steps_on_team(choice, kIdle, 129);
  EXPECT_EQ(steps_on_team(choice, kIdle, 1000), 1000);
}

// Single steps that lose time, as when the system does its own work, are no reason; most steps are.
TEST(ThreadChoice, TriesIfMostStepsLose) {
  ThreadChoice choice;
  for (int k = 0; k < 100; ++k) {
    EXPECT_EQ(steps_on_team(choice, kLosing, 3), 3);
    EXPECT_EQ(steps_on_team(choice, kIdle, 4), 4);
  }
  int on_team = 0;
  for (int k = 0; k < 10; ++k) on_team += steps_on_team(choice, kLosing, 6) + steps_on_team(choice, kIdle, 1);
  EXPECT_LT(on_team, 70);
}

// Where a step alone takes 64 times as long, tries take less than two in a hundred of the time.
TEST(ThreadChoice, ManyThreadsTrySeldom) {
  ThreadChoice choice(64);
  constexpr Machine kUneven = {100, 6400, 30};
  EXPECT_GT(steps_on_team(choice, kUneven, 100000), 99960);
}

// A step that meets no other process decides nothing for good.
TEST(ThreadChoice, OneLuckyStepIsFollowedByAnotherTry) {
  ThreadChoice choice;
  steps_on_team(choice, kLosing, 40);
  while (!choice.team()) choice.took(180, 0);
  choice.took(100, 0);  // the try
  EXPECT_TRUE(choice.team());
  EXPECT_LT(steps_on_team(choice, kLosing, 1000), 60);
}

}  // namespace
}  // namespace braid::rt
