// A progress bar with an ETA, on stderr: one line that redraws itself on a terminal, a plain line every few seconds
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace clearhead {

class ProgressBar {
 public:
  ProgressBar(std::string label, int64_t done, int64_t total, bool quiet);
  void update(int64_t done, double loss, int64_t tokens_per_step);
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  int64_t first_, total_;
  bool quiet_, terminal_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), shown_ = start_;
};

}  // namespace clearhead
