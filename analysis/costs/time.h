// Time on the modelled machine, in whole picoseconds, so that sums do not depend on their order and all ranks
// make the same decisions.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace braid::analysis {

struct Time {
  std::int64_t ps = 0;

  static constexpr Time from_ns(double ns) { return {static_cast<std::int64_t>(ns * 1e3 + 0.5)}; }  // ns >= 0
  static constexpr Time from_us(double us) { return from_ns(us * 1e3); }
  static constexpr Time from_ms(double ms) { return from_ns(ms * 1e6); }
  static constexpr Time max() { return {INT64_MAX}; }
  constexpr double ns() const { return static_cast<double>(ps) * 1e-3; }
  constexpr double us() const { return static_cast<double>(ps) * 1e-6; }
  constexpr double ms() const { return static_cast<double>(ps) * 1e-9; }

  friend constexpr auto operator<=>(const Time&, const Time&) = default;
  friend constexpr Time operator+(Time a, Time b) { return {a.ps + b.ps}; }
  friend constexpr Time operator-(Time a, Time b) { return {a.ps - b.ps}; }
  constexpr Time& operator+=(Time b) { return ps += b.ps, *this; }
  constexpr Time& operator-=(Time b) { return ps -= b.ps, *this; }
};

// How much longer an activity takes while another one runs beside it, in thousandths; 1000 means no
// slow-down.
using Permille = std::int32_t;

// The rates of the event engine (event_engine.h): the time that `work` takes at a factor, rounded up, and the
// work done in a time, rounded down. The factor is in thousandths; it may be a slow-down times the number of
// sharers. So the work done in stretched(w, f) is never less than w. 128-bit division is used only if the
// product needs it.
constexpr std::int64_t kSmallPs = std::int64_t{1} << 46;

constexpr Time stretched(Time work, std::int64_t factor) {
  if (factor == 1000) return work;
  if (work.ps < kSmallPs && factor < (1 << 16)) return {(work.ps * factor + 999) / 1000};
  return {static_cast<std::int64_t>((static_cast<__int128>(work.ps) * factor + 999) / 1000)};
}
constexpr Time done_in(Time elapsed, std::int64_t factor) {
  if (factor == 1000) return elapsed;
  if (elapsed.ps < kSmallPs) return {elapsed.ps * 1000 / factor};
  return {static_cast<std::int64_t>(static_cast<__int128>(elapsed.ps) * 1000 / factor)};
}

}  // namespace braid::analysis
