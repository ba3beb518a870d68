#include "runtime/emulated/kernel_watch.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <mutex>

#include "runtime/emulated/block.h"
#include "runtime/emulated/kernel.h"
#include "runtime/emulated/kernel_memory.h"
#include "runtime/emulated/options.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid  // glibc has no name for it
#endif

namespace braid::emulated {
namespace {

// The handler changes where the interrupted code continues. The real thread sanitizer calls handlers too late
// for that.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_THREAD__)
constexpr bool kDiverts = true;
#else
constexpr bool kDiverts = false;
#endif

struct FaultSignal {
  int number;
  const char* name;
};
constexpr FaultSignal kFaults[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},
                                   {SIGFPE, "SIGFPE"},   {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}};
constexpr size_t kHandlerStackBytes = 64 * 1024;
constexpr long kTickNs = 20'000'000;

int tick_signal() { return SIGRTMAX - 2; }

struct sigaction handled_before[std::size(kFaults)];

// The one of the kernel that runs on this host thread; null outside kernels.
__thread KernelWatch* current_watch __attribute__((tls_model("initial-exec"))) = nullptr;

std::chrono::nanoseconds processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

uintptr_t program_counter(const void* context) {
  [[maybe_unused]] const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine.pc;
#else
  return 0;
#endif
}

// The interrupted code goes on at `function`, which returns to nowhere.
void go_on([[maybe_unused]] void* context, [[maybe_unused]] void (*function)(),
           [[maybe_unused]] uintptr_t stack) {
  [[maybe_unused]] auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  machine.gregs[REG_RSP] = static_cast<greg_t>(stack - 8);  // as after a call
  machine.gregs[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(function));
#elif defined(__aarch64__)
  machine.sp = stack;
  machine.pc = reinterpret_cast<uintptr_t>(function);
#endif
}

size_t row_of(int signal) {
  size_t k = 0;
  while (kFaults[k].number != signal) ++k;
  return k;
}

// Lets the signal do what it did before.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = handled_before[row_of(signal)];
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  const bool sent = info->si_code <= 0;  // by kill, raise and the like, not by an instruction
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  if (before.sa_handler == SIG_IGN && sent) return;
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  if (sent) raise(signal);  // once this handler has returned
}

// Async-signal-safe.
void say(std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) return;
}

}  // namespace

void KernelWatch::install() {
  if (!kDiverts) return;
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  action.sa_sigaction = on_fault;
  for (size_t k = 0; k < std::size(kFaults); ++k) sigaction(kFaults[k].number, &action, &handled_before[k]);
  action.sa_sigaction = on_tick;
  sigaction(tick_signal(), &action, nullptr);
}

KernelWatch::KernelWatch() {
  static std::once_flag installed;
  std::call_once(installed, install);
  if (!kDiverts) return;
  stack_ = mmap(nullptr, kHandlerStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack_ == MAP_FAILED) stack_ = nullptr;
  if (stack_ != nullptr) {
    stack_t handlers{};
    handlers.ss_sp = stack_;
    handlers.ss_size = kHandlerStackBytes;
    sigaltstack(&handlers, &stack_before_);
  }
  sigset_t tick;
  sigemptyset(&tick);
  sigaddset(&tick, tick_signal());
  pthread_sigmask(SIG_UNBLOCK, &tick, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = tick_signal();
  event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
  has_timer_ = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
  const itimerspec ticks = {{0, kTickNs}, {0, kTickNs}};
  if (has_timer_) timer_settime(timer_, 0, &ticks, nullptr);
}

KernelWatch::~KernelWatch() {
  if (has_timer_) timer_delete(timer_);
  if (stack_ == nullptr) return;
  sigaltstack(&stack_before_, nullptr);
  munmap(stack_, kHandlerStackBytes);
}

void KernelWatch::begin_launch(const void* function, const char* kernel) {
  kernel_ = kernel;
  if (function != function_) {
    function_ = function;
    code_ = code_at(reinterpret_cast<uintptr_t>(function));
  }
  thread_limit_ = options().time_out;
  block_limit_ = std::max(options().hang, options().time_out);
  overdue_ = Overdue::kNot;
  run_thread();
  begin_block();
  current_watch = this;
}

void KernelWatch::end_launch() {
  current_watch = nullptr;
  fiber_ = nullptr;
}

void KernelWatch::on_fault(int signal, siginfo_t* info, void* context) {
  KernelWatch* watch = current_watch;
  if (watch != nullptr && current_kernel_thread != nullptr && watch->takes(signal, *info, context)) return;
  pass_on(signal, info, context);
}

void KernelWatch::on_tick(int, siginfo_t*, void* context) {
  if (current_watch != nullptr) current_watch->tick(context);
}

bool KernelWatch::takes(int signal, const siginfo_t& info, void* context) {
  const uintptr_t at = program_counter(context);
  if (info.si_code <= 0) {  // sent: by the kernel's own call of abort, or from elsewhere
    if (signal != SIGABRT || info.si_pid != getpid()) return false;
  } else {
    call_ = at == reinterpret_cast<uintptr_t>(info.si_addr);
    if (!code_.holds(at, 1) && (signal != SIGSEGV || !call_)) {
      say({"emulated device: ", kernel_, ": ", kFaults[row_of(signal)].name,
           " in a library that the kernel calls\n"});
      return false;
    }
  }
  signal_ = signal;
  // The processor tells nothing of an address that no memory can have.
  address_ = info.si_code == SI_KERNEL ? UINTPTR_MAX : reinterpret_cast<uintptr_t>(info.si_addr);
  overflow_ = signal == SIGSEGV && fiber_->stack_begin() - address_ - 1 < Fiber::kGuardBytes;
  divert(context);
  return true;
}

void KernelWatch::tick(void* context) {
  const std::chrono::nanoseconds now = processor_time();
  if (seen_turns_ != turns_) {
    seen_turns_ = turns_;
    turn_began_ = now;
  }
  if (seen_blocks_ != blocks_) {
    seen_blocks_ = blocks_;
    block_began_ = now;
  }
  if (now - turn_began_ > thread_limit_)
    overdue_ = Overdue::kThread;
  else if (now - block_began_ > block_limit_)
    overdue_ = Overdue::kBlock;
  if (!overdue() || current_kernel_thread == nullptr) return;
  if (!code_.holds(program_counter(context), 1)) {
    BlockRunner::current()->refuse_accesses();
    return;
  }
  signal_ = 0;
  divert(context);
}

void KernelWatch::divert(void* context) { go_on(context, give_up, fiber_->abandoned_stack()); }

void KernelWatch::give_up() {
  const KernelWatch& watch = *current_watch;
  if (watch.signal_ == 0) BlockRunner::current()->fail_overdue();
  if (watch.overflow_ && watch.signal_ == SIGSEGV) fail_stack_overflow();
  BlockRunner::current()->fail(watch.kind_of_fault(), [&] { return watch.text_of_fault(); });
}

FindingKind KernelWatch::kind_of_fault() const {
  switch (signal_) {
    case SIGSEGV:
    case SIGBUS:
      return FindingKind::kIllegalAccess;
    default:
      return FindingKind::kKernelFault;
  }
}

std::string KernelWatch::text_of_fault() const {
  switch (signal_) {
    case SIGFPE:
      return "an integer is divided by zero, or the quotient overflows";
    case SIGABRT:
      return "abort, as of an assertion that does not hold";
    case SIGSEGV:
    case SIGBUS:
      if (call_) return "a call of what is no function";
      return address_ < kNullBytes ? "access through a null pointer"
                                   : "access to an address at which there is no memory";
    default:
      return "a trap";
  }
}

std::string KernelWatch::overdue_text() const {
  const auto ms = [](std::chrono::nanoseconds time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
           " ms of processor time";
  };
  if (overdue_ == Overdue::kBlock)
    return "the kernel does not end: the threads of the block have taken " + ms(block_limit_) +
           " (BRAID_EMULATED_HANG_MS)";
  return "the kernel does not end: the thread has taken " + ms(thread_limit_) +
         " since its beginning or its last barrier (BRAID_EMULATED_TIMEOUT_MS)";
}

}  // namespace braid::emulated
