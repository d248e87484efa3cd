#include "tensor/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "tensor/error.h"

namespace clearhead {
namespace {

thread_local bool inside_chunk = false;

// Waits a moment: a few cycles at first, then by letting others run, who may be what we are waiting for.
void wait_a_moment(int spin) {
  if (spin > 2'000) return std::this_thread::yield();
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Workers spin for a moment before they sleep: the ops of a training step follow each other within microseconds, and
// waking a sleeping thread costs more than most of them.
class Pool {
 public:
  explicit Pool(int workers) {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      generation_.fetch_add(1);
    }
    wake_.notify_all();
    for (auto& t : threads_) t.join();
  }

  void run(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
    n_ = n;
    grain_ = grain;
    body_ = &body;
    error_ = nullptr;
    next_.store(0);
    busy_.store(int(threads_.size()));
    {
      std::lock_guard lock(mutex_);
      generation_.fetch_add(1);
    }
    wake_.notify_all();
    chunks();
    for (int spin = 0; busy_.load(std::memory_order_acquire) > 0; ++spin) wait_a_moment(spin);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < 4'000 && generation_.load(std::memory_order_acquire) == seen; ++spin)
        wait_a_moment(spin);
      if (generation_.load(std::memory_order_acquire) == seen) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load() != seen; });
      }
      seen = generation_.load();
      if (stop_) return;
      chunks();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  void chunks() {
    inside_chunk = true;
    for (int64_t begin; (begin = next_.fetch_add(grain_)) < n_;) try {
        (*body_)(begin, std::min(begin + grain_, n_));
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    inside_chunk = false;
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int64_t> next_{0};
  std::atomic<int> busy_{0};
  bool stop_ = false;
  int64_t n_ = 0, grain_ = 1;
  const std::function<void(int64_t, int64_t)>* body_ = nullptr;
  std::exception_ptr error_;
};

int threads_wanted = std::max(1, int(std::thread::hardware_concurrency()));
std::unique_ptr<Pool> pool;

}  // namespace

void set_num_threads(int n) {
  require(n >= 1, "threads", "at least 1, got ", n);
  if (n != threads_wanted) pool.reset();
  threads_wanted = n;
}

int num_threads() { return threads_wanted; }

void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  require(grain >= 1, "parallel_for", "grain must be at least 1, got ", grain);
  if (inside_chunk || threads_wanted == 1 || n <= grain) {
    for (int64_t begin = 0; begin < n; begin += grain) body(begin, std::min(begin + grain, n));
    return;
  }
  if (!pool) pool = std::make_unique<Pool>(threads_wanted - 1);
  pool->run(n, grain, body);
}

double parallel_sum(int64_t n, int64_t grain, const std::function<double(int64_t, int64_t)>& body) {
  std::vector<double> part(size_t((n + grain - 1) / grain));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) { part[size_t(begin / grain)] = body(begin, end); });
  double sum = 0;
  for (double p : part) sum += p;
  return sum;
}

}  // namespace clearhead
