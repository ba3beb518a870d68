// Given to the host compiler with -include: a compiled program with one rank that fails.
//
// BRAID_TEST_FAULT=kill:R:MS:FILE or stop:R:MS:FILE: rank R is killed or stopped MS milliseconds after it has
// begun, wherever it is then, and makes FILE just before; the others do not begin until FILE is there. So the
// rank never gets beyond the first collective, however busy the machine is.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

namespace braid_test_fault {

inline char kind[8], file[4096];
inline int victim = -1, delay_ms = 0, forks = 0;

inline void strike(int) {
  close(open(file, O_WRONLY | O_CREAT, 0600));
  raise(strcmp(kind, "kill") == 0 ? SIGKILL : SIGSTOP);
}

inline void begin(int rank) {
  if (rank == victim) {
    signal(SIGALRM, strike);
    itimerval timer{};
    timer.it_value.tv_usec = 1 + 1000 * delay_ms;
    setitimer(ITIMER_REAL, &timer, nullptr);
  } else {
    while (access(file, F_OK) != 0) usleep(1000);
  }
}

// When the library is loaded: in the process that makes the ranks by fork, or in a rank of a launcher.
__attribute__((constructor)) inline void arm() {
  const char* fault = getenv("BRAID_TEST_FAULT");
  if (victim >= 0 || fault == nullptr) return;
  if (sscanf(fault, "%7[a-z]:%d:%d:%4095s", kind, &victim, &delay_ms, file) != 4) abort();
  if (const char* rank = getenv("RANK")) {
    begin(atoi(rank));
  } else {
    pthread_atfork([] { ++forks; }, nullptr, [] { begin(forks - 1); });
  }
}

}  // namespace braid_test_fault
