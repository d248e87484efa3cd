#include "experiments/common/progress.h"

#include <fmt/core.h>
#include <unistd.h>

namespace clearhead {

ProgressBar::ProgressBar(std::string label, int64_t done, int64_t total, bool quiet)
    : label_(std::move(label)), first_(done), total_(total), quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressBar::update(int64_t done, double loss, int64_t tokens_per_step) {
  const auto now = Clock::now();
  const std::chrono::duration<double> elapsed = now - start_, since = now - shown_;
  if (quiet_ || since.count() < (terminal_ ? 0.1 : 5.0)) return;
  shown_ = now;
  const double rate = double(done - first_) / elapsed.count(), left = double(total_ - done) / rate;
  const std::string line = fmt::format("{:<22} step {:>6}/{}  loss {:.4f}  {:>7.0f} tokens/s  {:>5.0f} s left", label_,
                                       done, total_, loss, rate * double(tokens_per_step), left);
  if (terminal_) {
    constexpr int width = 20;
    const int filled = int(width * done / total_);
    fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}\033[K", "", filled, "", width - filled, line);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::finish() {
  if (drawn_ && terminal_) fmt::print(stderr, "\r\033[K");
}

}  // namespace clearhead
